"""GridCounter: visit counts over a dataset, which show what a log covers."""

from typing import Literal

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridcount.counts.auto import auto_bins, auto_pessimism
from gridcount.counts.grid import DEFAULT_RESOLUTION, Grid, StateCells, StateResolution, fit_states
from gridcount.counts.tables import Table, empty_table, visit_rows
from gridcount.losses import count_uncertainty
from gridcount.transitions import Transitions


class GridCounter:
    """Visit counts of (state cell, action cell) pairs over a dataset, and the uncertainty they give.

    >>> counter = GridCounter.fit(data)
    >>> counter.count(observation, action)         # visits per row; 0 where the log never went
    >>> counter.uncertainty(observation, action)   # u of Eq. 4.3; largest where the log never went
    """

    def __init__(self, cells: StateCells, grid: Grid, table: Table, pessimism: float):
        self.cells, self.grid, self.table, self.pessimism = cells, grid, table, pessimism

    @classmethod
    def fit(
        cls,
        data: Transitions,
        *,
        bins: int | Literal["auto"] = "auto",
        state_bins: int | None = None,
        state_resolution: StateResolution = DEFAULT_RESOLUTION,
        margin: float = 3.0,
        pessimism: float | Literal["auto"] = "auto",
        megabytes: float = 512,
        prior: Literal["none", "dataset"] = "dataset",
    ) -> "GridCounter":
        """Map a dataset to the grid and count its own actions (or, with `prior="none"`, only prepare to
        count).

        "auto" takes the paper's rules, and states are distinguished as in training on a user's own dataset.
        """
        if bins == "auto":
            bins, _ = auto_bins(data.action_dim)
        if pessimism == "auto":
            pessimism, _ = auto_pessimism(
                float(data.reward.min()), float(data.reward.max()), float(data.reward.mean())
            )
        cells, (rank, _) = fit_states(
            data.observation, data.next_observation, bins, state_bins, state_resolution
        )
        grid = Grid.fit(data.action, bins, margin, limit=1.0)
        table = empty_table(cells.n_cells, grid.sizes, megabytes)
        if prior == "dataset":
            table = visit_rows(table, grid, rank, data.action)
        return cls(cells, grid, table, pessimism)

    def count(self, observation: ArrayLike, action: ArrayLike) -> NDArray[np.int64]:
        """How often each (observation, action) cell was visited; 0 where the state cell is not in the
        dataset."""
        states = np.atleast_2d(np.asarray(observation, np.float32))
        actions = jnp.atleast_2d(jnp.asarray(action, jnp.float32))
        if (
            len(states) != len(actions)
            or states.shape[1] != len(self.cells.low)
            or actions.shape[1] != len(self.grid.first)
        ):
            raise ValueError(
                f"observations {states.shape} and actions {actions.shape} do not fit a counter of "
                f"{len(self.cells.low)} observation and {len(self.grid.first)} action dimensions, or differ"
                " in rows"
            )
        rank = self.cells.rank(states)
        visits = np.asarray(
            self.table.read(jnp.asarray(np.maximum(rank, 0)), self.grid.offset(actions)), np.int64
        )
        return np.where(rank >= 0, visits, 0)

    def uncertainty(self, observation: ArrayLike, action: ArrayLike, epoch: int = 1) -> NDArray[np.float32]:
        """u = pessimism * sqrt(ln T / n), as an update would see it: the pair counts itself, so n = count
        + 1."""
        count = jnp.asarray(self.count(observation, action) + 1, jnp.float32)
        return np.asarray(count_uncertainty(count, jnp.asarray(epoch), self.pessimism))
