"""Support of a policy's actions in the log: whether it has them, and the distance to the nearest, at a
fixed sample of states."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridcount.counts.grid import (
    CHUNK,
    DEFAULT_RESOLUTION,
    StateCells,
    StateResolution,
    distinct_codes,
    fit_states,
)
from gridcount.transitions import Transitions

STATES = 2_000  # states of the log at which a policy is evaluated
# logged actions of a state's cell among which the nearest is looked for; of more, a fixed sample
NEAREST_OF = 2_000
EXPECTED = "{}_expected"  # a figure of the log's own actions, beside the policy's


class Support(NamedTuple):
    """How well the log supports some actions, on average over states."""

    in_log: float  # share whose action cell the log has in the state's cell
    # to the nearest logged action in the state's cell: the largest over dimensions, in shares of the range
    action_distance: float


class LogSupport:
    """The log's actions near some of its states, with which a policy's actions are compared.

    Only the log is counted, never the policy, so the results are comparable between algorithms and during
    training.
    """

    def __init__(
        self,
        rows: NDArray[np.int64],
        observation: NDArray[np.float32],
        actions: StateCells,
        state: NDArray[np.int64],
        pairs: NDArray[np.int64],
        nearby: list[NDArray[np.float32]],
        itself: Support,
    ):
        self.rows, self.observation, self.itself = rows, observation, itself
        self._actions, self._state, self._pairs, self._nearby = actions, state, pairs, nearby

    @classmethod
    def fit(
        cls,
        data: Transitions,
        *,
        bins: int,
        state_bins: int | None = None,
        state_resolution: StateResolution = DEFAULT_RESOLUTION,
        states: int = STATES,
    ) -> "LogSupport":
        """Read a log once, whose columns may be memory-mapped; this needs 12 bytes per row."""
        observation, action = data.observation, data.action
        rng = np.random.default_rng(0)
        rows = np.sort(rng.choice(len(observation), min(states, len(observation)), replace=False))
        _, (cell, _) = fit_states(observation, data.next_observation, bins, state_bins, state_resolution)
        actions, (action_cell,) = StateCells.fit(action, bins=bins)
        near, state = np.unique(
            cell[rows], return_inverse=True
        )  # the sample's cells, and which of them each state is in
        own = state * actions.n_cells + action_cell[rows].astype(np.int64)
        pairs, own_visits, kept = _near_rows(cell, action_cell, near, actions.n_cells, own, rng)
        logged = np.union1d(kept, rows)  # a state's own action is always among them
        place = np.searchsorted(near, cell[logged])
        order = np.argsort(place, kind="stable")
        logged, ends = logged[order], np.cumsum(np.bincount(place, minlength=len(near)))
        nearby = np.split(_in_ranges(np.asarray(action[logged]), actions), ends[:-1])
        support = cls(rows, np.asarray(observation[rows]), actions, state, pairs, nearby, Support(0, 0))
        own_distances = support._distances(np.asarray(action[rows]), but=np.split(logged, ends[:-1]))
        support.itself = Support(float(np.mean(own_visits > 1)), _mean(own_distances))
        return support

    def measure(self, action: NDArray[np.float32]) -> Support:
        """The support of a policy's actions at `observation`, in [-1, 1]."""
        rank = self._actions.rank(np.asarray(action, np.float32)).astype(np.int64)
        pair = self._state * self._actions.n_cells + rank
        place = np.minimum(np.searchsorted(self._pairs, pair), len(self._pairs) - 1)
        known = (rank >= 0) & (self._pairs[place] == pair)
        return Support(float(known.mean()), _mean(self._distances(np.asarray(action, np.float32))))

    def _distances(
        self, action: NDArray[np.float32], but: list[NDArray[np.int64]] | None = None
    ) -> NDArray[np.float32]:
        """[states] to the nearest logged action of the state's cell; with `but`, the state's own row is
        excluded."""
        scaled = _in_ranges(action, self._actions)
        nearest = np.full(len(action), np.nan, np.float32)
        order = np.argsort(self._state, kind="stable")
        for place, members in enumerate(np.split(order, np.flatnonzero(np.diff(self._state[order])) + 1)):
            logged = self._nearby[place]
            distance = np.zeros((len(members), len(logged)), np.float32)
            for d in range(scaled.shape[1]):
                np.maximum(distance, np.abs(scaled[members, d][:, None] - logged[None, :, d]), out=distance)
            if but is not None:
                distance[self.rows[members][:, None] == but[place][None]] = np.inf
            nearest[members] = distance.min(axis=1, initial=np.inf)
        return nearest


def _near_rows(
    cell: NDArray[Any],
    action_cell: NDArray[Any],
    near: NDArray[Any],
    action_cells: int,
    own: NDArray[np.int64],
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Of the rows in the state cells `near`: the pairs of state and action cell, the visits of the pairs
    `own`, and a sample of about `NEAREST_OF` rows per state cell."""
    share = NEAREST_OF / np.bincount(np.searchsorted(near, cell[np.isin(cell, near)]), minlength=len(near))
    own_pairs, which = np.unique(own, return_inverse=True)
    own_visits = np.zeros(len(own_pairs), np.int64)
    kept: list[NDArray[np.int64]] = []

    def pairs() -> Iterator[NDArray[np.uint64]]:
        for start in range(0, len(cell), CHUNK):
            place = np.minimum(np.searchsorted(near, cell[start : start + CHUNK]), len(near) - 1)
            mine = np.flatnonzero(near[place] == cell[start : start + CHUNK])
            pair = place[mine] * action_cells + action_cell[start + mine].astype(np.int64)
            known = np.minimum(np.searchsorted(own_pairs, pair), len(own_pairs) - 1)
            own_visits[:] += np.bincount(known[own_pairs[known] == pair], minlength=len(own_pairs))
            kept.append(start + mine[rng.random(len(mine)) < share[place[mine]]])
            yield pair.astype(np.uint64)

    logged_pairs = distinct_codes(pairs()).astype(np.int64)
    return logged_pairs, own_visits[which], np.concatenate(kept)


def _in_ranges(action: NDArray[np.float32], cells: StateCells) -> NDArray[np.float32]:
    """Actions relative to the range of the log's actions; relative to [-1, 1] if they are constant."""
    width = np.where(cells.high > cells.low, cells.high - cells.low, np.float32(2))
    scaled: NDArray[np.float32] = ((action - cells.low) / width).astype(np.float32)
    return scaled


def _mean(distances: NDArray[np.float32]) -> float:
    """The mean over states with a distance; NaN if there is none."""
    known = distances[np.isfinite(distances)]
    return float(known.mean(dtype=np.float64)) if len(known) else float("nan")
