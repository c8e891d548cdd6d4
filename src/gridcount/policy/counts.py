"""What is saved of the log with a policy: how often it has an action in a state's cell, and what a guard
needs."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridcount.counts.adaptive import LEAF, ActionCounts, AdaptiveCells
from gridcount.files.archive import Arrays
from gridcount.policy.log_guard import LogGuard
from gridcount.transitions import Transitions

ROWS_PER_CELL = 128  # of the log, at least
BINS = 20  # partitions of each action dimension
TREE = ("column", "threshold", "below", "above")


class LogCounts(NamedTuple):
    """State cells that follow the log, and its counts of actions in them; small, whatever the size of the
    log."""

    cells: AdaptiveCells
    actions: ActionCounts
    guard: LogGuard | None = None  # None: written by a version that had no guards

    @classmethod
    def fit(cls, data: Transitions) -> "LogCounts":
        """Count a log, whose columns may be memory-mapped."""
        cells = AdaptiveCells.fit(data.observation, data.action, ROWS_PER_CELL)
        cell = cells.rank(data.observation)
        actions = ActionCounts.fit(cell, cells.n_cells, data.action, BINS)
        guard, actions = LogGuard.fit(data, cell, actions)
        return cls(cells, actions, guard)

    def __call__(self, observation: NDArray[np.float32], action: NDArray[Any]) -> NDArray[np.int64]:
        """[rows] how often the log has actions in [-1, 1] at these observations; 0 where it has not seen the
        state.

        The smallest of the action dimensions' counts is given.
        """
        count: NDArray[np.int64] = self.actions(self.cells.rank(observation), action).astype(np.int64)
        if self.guard is not None:
            count[self.guard.seen.resolution(observation) < self.guard.resolution] = 0
        return count

    def arrays(self) -> Arrays:
        """The arrays for a file."""
        tree = {name: np.asarray(getattr(self.cells, name)) for name in TREE}
        return tree | self.actions._asdict() | ({} if self.guard is None else self.guard.arrays())

    @classmethod
    def of(cls, arrays: Arrays, observation_dim: int, action_dim: int) -> "LogCounts":
        """From a file's arrays; raises ValueError if they are not valid for these dimensions."""
        column, threshold, below, above = (arrays[name] for name in TREE)
        counts, edges = arrays["counts"], arrays["edges"]
        nodes = np.arange(len(column))
        cell = column == LEAF
        whole = (
            all(array.dtype == np.int32 for array in (column, below, above, counts))
            and threshold.dtype == edges.dtype == np.float32
        )
        if (
            not whole
            or any(array.shape != column.shape for array in (threshold, below, above))
            or not cell.any()
        ):
            raise ValueError("its tree of cells is not valid")
        if not ((column >= LEAF) & (column < observation_dim)).all():
            raise ValueError(f"its tree cuts a column that {observation_dim} observations do not have")
        down = ~cell & ((below <= nodes) | (above <= nodes) | (below >= len(nodes)) | (above >= len(nodes)))
        if down.any() or sorted(below[cell]) != list(range(int(cell.sum()))):
            raise ValueError("the nodes of its tree do not lead to its cells")
        n_cells = int(cell.sum())
        if counts.ndim != 3 or counts.shape[:2] != (n_cells, action_dim) or not counts.shape[2]:
            raise ValueError(
                f"its counts have shape {counts.shape}, for {n_cells} cells and {action_dim} actions"
            )
        if edges.shape != (action_dim, counts.shape[2] - 1):
            raise ValueError(
                f"its edges have shape {edges.shape}, for {action_dim} actions in {counts.shape[2]} bins"
            )
        known = "logged" in arrays  # older files hold counts alone
        guard = LogGuard.of(arrays, observation_dim, action_dim, n_cells) if known else None
        return cls(
            AdaptiveCells(column, threshold, below, above, n_cells), ActionCounts(counts, edges), guard
        )
