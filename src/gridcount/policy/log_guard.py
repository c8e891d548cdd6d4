"""What a guard needs to know of the log: the states it has seen, some of its actions, and defaults
measured on held-out episodes."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridcount.counts.adaptive import ActionCounts
from gridcount.counts.seen import MOST_BINS, SeenStates, sampled_rows
from gridcount.files.archive import Arrays
from gridcount.transitions import ACTION_SLACK, Transitions, chunks

LOGGED = 32  # actions of the log that are kept for each cell
HELD_BACK = 0.02  # of held-out rows, at most: for their state, and again for their action
HELD_OUT = 0.1  # share of the rows from which the defaults are measured, in whole episodes
HELD_OUT_ROWS = 1 << 18  # and no more rows than this
LEAST_PARTS = 20  # a log of fewer episodes is cut into this many parts instead
COLUMNS = (
    "low",
    "high",
    "origin",
    "scale",
)  # of the seen states: a number for each column of the observation

WHOLE = ("window", "resolution", "min_count")  # whole numbers of a guard


class LogGuard(NamedTuple):
    """Seen states and logged actions, and how much support the log's own decisions have."""

    seen: SeenStates
    logged: NDArray[
        np.float32
    ]  # [cells, LOGGED, action_dim] some of the log's actions in each cell, in [-1, 1]
    rows: NDArray[np.int32]  # [cells] rows of the log in each cell
    window: int  # bins on either side of an action that were counted with its own
    resolution: int  # the default: a state must be seen at this many bins per column,
    min_count: int  # and an action must be counted this often
    held_back: (
        float  # share of held-out rows that the defaults hold back; NaN: the log is too small to measure it
    )

    @classmethod
    def fit(
        cls, data: Transitions, cell: NDArray[np.int32], actions: ActionCounts
    ) -> tuple["LogGuard", ActionCounts]:
        """Look at a log's states, and measure the defaults; returns the counts with their window, too.

        They are the strictest that hold back at most 2 % of the decisions of held-out episodes for their
        state, and 2 % for their action.
        """
        rows, held_out = sampled_rows(len(data)), held_out_rows(data)
        seen = SeenStates.over(data.observation).visited(data.observation, np.setdiff1d(rows, held_out))
        resolution, window, min_count, held_back = 1, 0, 1, np.nan
        if len(held_out):
            at = seen.resolution(np.asarray(data.observation[held_out], np.float32))
            resolution = _finest(at, seen.levels)
            window, count = _narrowest(actions, cell[held_out], np.asarray(data.action[held_out]))
            counted = count[at >= resolution]
            min_count = max(1, int(np.quantile(counted, HELD_BACK, method="lower"))) if len(counted) else 1
            held_back = float(np.mean((at < resolution) | (count < min_count)))
        seen, actions = seen.visited(data.observation, held_out), actions.widened(window)
        logged = _logged_actions(data, cell, actions, min_count)
        counted_rows = np.bincount(cell, minlength=len(logged)).astype(np.int32)
        return cls(seen, logged, counted_rows, window, resolution, min_count, held_back), actions

    def nearest(self, cell: NDArray[np.int32], action: NDArray[np.float32]) -> NDArray[np.float32]:
        """[rows, action_dim] of the kept actions of each cell, the one whose largest difference in any
        dimension is smallest."""
        logged = self.logged[cell]
        best = np.abs(logged - action[:, None]).max(axis=2).argmin(axis=1)
        found: NDArray[np.float32] = logged[np.arange(len(cell)), best]
        return found

    def arrays(self) -> Arrays:
        """The arrays for a file."""
        whole = {"seen_bins": self.seen.bins} | {name: getattr(self, name) for name in WHOLE}
        return (
            {f"seen_{name}": getattr(self.seen, name) for name in (*COLUMNS, "groups", "finest")}
            | {name: np.array(value, np.int64) for name, value in whole.items()}
            | {"logged": self.logged, "rows": self.rows, "held_back": np.array(self.held_back)}
        )

    @classmethod
    def of(cls, arrays: Arrays, observation_dim: int, action_dim: int, n_cells: int) -> "LogGuard":
        """From a file's arrays; raises ValueError if they are not valid for these dimensions."""
        bins, window, resolution, min_count = (
            int(arrays[name]) if arrays[name].shape == () and arrays[name].dtype.kind == "i" else -1
            for name in ("seen_bins", *WHOLE)
        )
        if not (1 < bins <= MOST_BINS and bins.bit_count() == 1):
            raise ValueError(f"its finest grid has {bins} bins per column")
        if not (1 <= resolution <= bins and resolution.bit_count() == 1 and min_count >= 1 and window >= 0):
            raise ValueError(f"its guard asks for {resolution} bins and a count of {min_count}")
        low, high, origin, scale = columns = [arrays[f"seen_{name}"] for name in COLUMNS]
        _validate_columns(columns, observation_dim)
        groups, finest, logged = arrays["seen_groups"], arrays["seen_finest"], arrays["logged"]
        if (
            groups.ndim != 2
            or groups.dtype != np.int32
            or not ((groups >= 0) & (groups < observation_dim)).all()
        ):
            raise ValueError(f"its groups are not columns of {observation_dim} observations")
        cells = bins ** min(groups.shape[1], 32)  # in Python's numbers, which do not overflow
        if (
            finest.dtype != np.uint8
            or finest.shape != (len(groups), cells)
            or (finest >= bins.bit_length()).any()
        ):
            raise ValueError(
                f"its seen states have shape {finest.shape}, for {len(groups)} groups of {cells} cells"
            )
        if (
            logged.dtype != np.float32
            or logged.ndim != 3
            or (logged.shape[0], logged.shape[2]) != (n_cells, action_dim)
            or not logged.shape[1]
            or not (np.abs(logged) <= 1 + ACTION_SLACK).all()
        ):
            raise ValueError(f"its logged actions, of shape {logged.shape}, are not those of {n_cells} cells")
        if arrays["held_back"].shape != ():
            raise ValueError("its share of decisions that are held back is not a number")
        rows = arrays["rows"]
        if rows.dtype != np.int32 or rows.shape != (n_cells,) or not (rows >= 0).all() or not rows.any():
            raise ValueError(f"its rows per cell, of shape {rows.shape}, are not those of {n_cells} cells")
        seen = SeenStates(low, high, origin, scale, groups, finest, bins)
        return cls(seen, logged, rows, window, resolution, min_count, float(arrays["held_back"]))


def held_out_rows(data: Transitions, seed: int = 0) -> NDArray[np.int64]:
    """Rows of a tenth of the episodes, at random; a log of few episodes is cut into equal parts, and a
    tiny one gives none."""
    lengths, rows = data.episode_lengths, len(data)
    if len(lengths) < LEAST_PARTS:
        lengths = np.diff(np.arange(LEAST_PARTS + 1) * rows // LEAST_PARTS)
    if lengths.min() < 1:
        return np.empty(0, np.int64)
    order = np.random.default_rng(seed).permutation(len(lengths))
    most = min(HELD_OUT * rows, HELD_OUT_ROWS)
    chosen = order[: max(1, int(np.searchsorted(np.cumsum(lengths[order]), most, side="right")))]
    starts = np.cumsum(lengths) - lengths
    found = np.concatenate(
        [np.arange(starts[part], starts[part] + lengths[part]) for part in np.sort(chosen)]
    )
    return found[:HELD_OUT_ROWS]


def _finest(at: NDArray[np.int64], levels: int) -> int:
    """The most bins per column at which almost all states were seen; 1 if there is no other."""
    bins = (1 << level for level in range(levels, 0, -1))
    return next((each for each in bins if np.mean(at < each) <= HELD_BACK), 1)


def _narrowest(
    actions: ActionCounts, cell: NDArray[np.int32], action: NDArray[np.float32]
) -> tuple[int, NDArray[np.int64]]:
    """The least window with which almost all held-out actions have been seen in their cell, and their counts
    with it.

    In a cell of 128 rows, one of 24 action dimensions is often new to the log when bins are narrow.
    """
    known = actions.without(cell, action)
    bins = actions.counts.shape[2]
    counts = ((window, known.widened(window)(cell, action)) for window in range(bins))
    return next(each for each in counts if each[0] == bins - 1 or np.mean(each[1] < 1) <= HELD_BACK)


def _logged_actions(
    data: Transitions, cell: NDArray[np.int32], actions: ActionCounts, min_count: int
) -> NDArray[np.float32]:
    """[cells, LOGGED, action_dim] actions of the log in each cell, at random; rare ones only where a cell
    has no other."""
    rows = np.random.default_rng(0).permutation(sampled_rows(len(data)))
    rare = np.empty(len(rows), np.bool_)
    for part in chunks(len(rows), actions.edges.size):
        rare[part] = actions(cell[rows[part]], np.asarray(data.action[rows[part]])) < min_count
    order = np.lexsort((rare, cell[rows]))
    rows, rare = rows[order], rare[order]
    cells = np.arange(len(actions.counts))
    first, end = (np.searchsorted(cell[rows], cells, side) for side in ("left", "right"))
    common = end - first - np.add.reduceat(rare, first)
    places = first[:, None] + np.arange(LOGGED) % np.where(common > 0, common, end - first)[:, None]
    return np.asarray(data.action[rows[places.reshape(-1)]], np.float32).reshape(*places.shape, -1)


def _validate_columns(columns: list[NDArray[Any]], observation_dim: int) -> None:
    """Raise ValueError if the grid over the columns of an observation is not valid."""
    low, high, origin, scale = columns
    fits = all(array.shape == (observation_dim,) and array.dtype == np.float32 for array in columns)
    if not fits or not (low <= high).all() or not np.isfinite([origin, scale]).all() or (scale < 0).any():
        raise ValueError(f"its grid does not fit {observation_dim} observations")
