"""Adaptive cells: a partition of the states that follows the log, so that counts are useful in any number of
dimensions.

On a regular grid over 40 columns, every row has its own cell. Here a regression tree cuts the states, one
column at a time, where the log's actions on the two sides differ most, until a cell holds about
`rows_per_cell` rows. Columns that matter little to the actions are cut last, and the unit of a column does
not matter.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridcount.transitions import chunks

# rows that the tree is fitted to, at most: bounded memory and time, whatever the size of the log
SAMPLE_ROWS = 1 << 18
SPLIT_ROWS = 1024  # rows of a cell from which its best cut is chosen, at most
CUTS = 16  # places where each column may be cut, at quantiles
BEYOND = 2.0  # an edge that no action in [-1, 1] reaches
LEAST_STEPS = 3  # different values of a dimension, before their distances say anything
OFF_STEP = 0.05  # of a step: how far from its place a value may lie
LEAF = -1  # in `column`: a node that is not cut


class AdaptiveCells(NamedTuple):
    """A tree of cuts over states; its leaves are the cells, numbered from 0."""

    column: NDArray[np.int32]  # [nodes] the column that a node is cut in; LEAF where it is a cell
    threshold: NDArray[np.float32]  # [nodes] values up to this go below
    below: NDArray[np.int32]  # [nodes] the node of smaller values; of a cell, its number
    above: NDArray[np.int32]  # [nodes] the node of larger values
    n_cells: int

    @classmethod
    def fit(cls, observation: Any, action: Any, rows_per_cell: int, seed: int = 0) -> "AdaptiveCells":
        """Cut the states of a log where its actions differ most. Columns may be memory-mapped: only a
        sample is read."""
        rng = np.random.default_rng(seed)
        rows = len(observation)
        sample = (
            np.sort(rng.choice(rows, SAMPLE_ROWS, replace=False)) if rows > SAMPLE_ROWS else np.arange(rows)
        )
        x, y = np.asarray(observation[sample], np.float32), np.asarray(action[sample], np.float32)
        nodes: list[list[float]] = [[LEAF, 0.0, 0, 0]]
        waiting, n_cells = [(0, np.arange(len(sample)))], 0
        while waiting:
            node, members = waiting.pop()
            cut = _best_cut(x, y, members, rows_per_cell, rng)
            if cut is None:
                nodes[node][2] = n_cells
                n_cells += 1
                continue
            column, threshold = cut
            goes_below = x[members, column] <= threshold
            nodes[node] = [column, float(threshold), len(nodes), len(nodes) + 1]
            waiting += [(len(nodes), members[goes_below]), (len(nodes) + 1, members[~goes_below])]
            nodes += [[LEAF, 0.0, 0, 0], [LEAF, 0.0, 0, 0]]
        columns, thresholds, belows, aboves = zip(*nodes, strict=True)
        return cls(
            np.array(columns, np.int32),
            np.array(thresholds, np.float32),
            np.array(belows, np.int32),
            np.array(aboves, np.int32),
            n_cells,
        )

    def rank(self, observation: Any) -> NDArray[np.int32]:
        """The number of each observation's cell. Every observation has one: cells at the edge reach to
        infinity."""
        if len(observation) == 1:
            return np.array([self._walk(observation[0])], np.int32)
        cell = np.empty(len(observation), np.int32)
        for rows in chunks(len(observation), 4 * observation.shape[1]):
            x = np.asarray(observation[rows], np.float32)
            node, going = np.zeros(len(x), np.int32), np.arange(len(x))
            while len(going):
                at = node[going]
                going, at = going[self.column[at] != LEAF], at[self.column[at] != LEAF]
                goes_below = x[going, self.column[at]] <= self.threshold[at]
                node[going] = np.where(goes_below, self.below[at], self.above[at])
            cell[rows] = self.below[node]
        return cell

    def _walk(self, observation: Any) -> int:
        """The number of one observation's cell, much faster than through arrays."""
        node = 0
        while (column := self.column[node]) != LEAF:
            node = self.below[node] if observation[column] <= self.threshold[node] else self.above[node]
        return int(self.below[node])

    def in_words(self, names: Sequence[str]) -> str:
        """Which columns are cut, the most often cut first."""
        cuts = Counter(int(column) for column in self.column if column != LEAF)
        return ", ".join(names[column] for column, _ in cuts.most_common()) or "no column"


def _best_cut(
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    members: NDArray[np.int64],
    least: int,
    rng: np.random.Generator,
) -> tuple[int, np.float32] | None:
    """The column and value that split a cell's rows into two whose mean actions differ most; None: no cut
    leaves `least` on both sides."""
    if len(members) < 2 * least:
        return None
    some = members if len(members) <= SPLIT_ROWS else rng.choice(members, SPLIT_ROWS, replace=False)
    states, actions = x[some], y[some] - y[some].mean(axis=0)
    count, share = len(some), least / len(members)
    places = np.linspace(share * count, (1 - share) * count, CUTS + 2)[1:-1].astype(np.int64)
    ordered = np.sort(states, axis=0)
    thresholds = (ordered[places - 1] + ordered[np.minimum(places, count - 1)]) / 2  # [cuts, columns]
    second = np.where(ordered < ordered[-1], ordered, -np.inf).max(
        axis=0
    )  # a cut above it would leave nothing above
    thresholds = np.minimum(thresholds, second)
    below = states[:, None, :] <= thresholds
    n_below = below.sum(axis=0)
    # [cuts * columns, action_dim]; those above have the opposite sum, because the mean is 0
    sums = below.reshape(count, -1).T.astype(np.float32) @ actions
    with np.errstate(divide="ignore", invalid="ignore"):  # how much less the actions vary within the halves:
        gain = (sums**2).sum(axis=1).reshape(n_below.shape) * (1 / n_below + 1 / (count - n_below))
    enough = least if count == len(members) else 1
    gain = np.where((n_below >= enough) & (count - n_below >= enough), gain, -np.inf)
    best = gain.argmax(axis=0)  # [columns] the best cut of each
    for column in np.argsort(-gain.max(axis=0), kind="stable"):
        if not gain[best[column], column] > 0:
            return None
        threshold = thresholds[best[column], column]
        n_members_below = np.count_nonzero(x[members, column] <= threshold)
        if least <= n_members_below <= len(members) - least:
            return int(column), threshold
    return None


class ActionCounts(NamedTuple):
    """Counts of the log's actions in a cell, for each action dimension by itself: few numbers, whatever the
    dimensions.

    The arrays are NumPy's or JAX's.
    """

    counts: Any  # [cells, action_dim, bins]
    edges: Any  # [action_dim, bins - 1] where one bin ends and the next begins

    @classmethod
    def fit(cls, cell: Any, n_cells: int, action: Any, bins: int) -> "ActionCounts":
        """Count the log's actions, read a chunk at a time."""
        edges = action_edges(action, bins)
        return cls(_counted(cell, n_cells, action, edges), edges)

    def without(self, cell: Any, action: Any) -> "ActionCounts":
        """As if these rows were not in the log."""
        return self._replace(counts=self.counts - _counted(cell, len(self.counts), action, self.edges))

    def widened(self, window: int) -> "ActionCounts":
        """Each bin counts the actions of up to `window` bins on either side as well."""
        bins = self.counts.shape[2]
        total = np.pad(self.counts.cumsum(axis=2), ((0, 0), (0, 0), (1, 0)))  # [cells, action_dim, bins + 1]
        first, end = (np.clip(np.arange(bins) + shift, 0, bins) for shift in (-window, window + 1))
        return self._replace(counts=(total[..., end] - total[..., first]).astype(np.int32))

    def __call__(self, cell: Any, action: Any) -> Any:
        """[rows] the smallest of the dimensions' counts: an action is only as well covered as its least
        visited part."""
        return self.each(cell, action).min(axis=1)

    def usual_uncertainty(self, cell: Any, action: Any) -> NDArray[np.float32]:
        """[cells] the mean of 1 / sqrt(n + 1) over a cell's rows, n being the count of a row's own action.

        A cell without rows has the mean of the whole log.
        """
        cells = len(self.counts)
        total, rows_in = np.zeros(cells), np.zeros(cells)
        for rows in chunks(len(cell), self.counts.shape[1]):
            here = np.asarray(cell[rows])
            uncertainty = 1 / np.sqrt(self(here, np.asarray(action[rows])) + 1)
            total += np.bincount(here, uncertainty, minlength=cells)
            rows_in += np.bincount(here, minlength=cells)
        mean = total.sum() / rows_in.sum()
        return np.where(rows_in > 0, total / np.maximum(rows_in, 1), mean).astype(np.float32)

    def each(self, cell: Any, action: Any) -> Any:
        """[rows, action_dim] each dimension's count."""
        dims = self.counts.shape[1]
        return self.counts[cell[:, None], action.__array_namespace__().arange(dims), _bin(action, self.edges)]


def _counted(cell: Any, n_cells: int, action: Any, edges: NDArray[np.float32]) -> NDArray[np.int32]:
    """[cells, action_dim, bins] how often the actions lie in each bin of each cell."""
    dims, bins = edges.shape[0], edges.shape[1] + 1
    counts = np.zeros(n_cells * dims * bins, np.int64)
    for rows in chunks(len(cell), dims * bins):
        place = np.asarray(cell[rows], np.int64)[:, None] * dims + np.arange(dims)
        counts += np.bincount(
            (place * bins + _bin(np.asarray(action[rows]), edges)).reshape(-1), minlength=len(counts)
        )
    return counts.reshape(n_cells, dims, bins).astype(np.int32)


def action_edges(action: Any, bins: int) -> NDArray[np.float32]:
    """[action_dim, bins - 1] the edges of the bins of each dimension.

    A dimension whose values lie on a grid of few steps, such as one of whole numbers, has a bin for each
    step, so that a number between two steps counts as the nearer one. Other dimensions have bins of equal
    width.
    """
    stride = max(1, len(action) // SAMPLE_ROWS)
    columns = (
        np.unique(np.asarray(action[::stride, dimension], np.float64)) for dimension in range(action.shape[1])
    )
    equal = np.linspace(-1, 1, bins + 1)[1:-1]
    found = [equal if (steps := _step_edges(values, bins)) is None else steps for values in columns]
    return np.array(
        [np.pad(edges, (0, bins - 1 - len(edges)), constant_values=BEYOND) for edges in found], np.float32
    )


def _step_edges(values: NDArray[np.float64], bins: int) -> NDArray[np.float64] | None:
    """The edges half a step around each place of a grid that all values lie on; None if there is no such
    grid of few places."""
    if len(values) < LEAST_STEPS:
        return None
    step = np.diff(values).min()
    places = (values - values[0]) / step
    count = round(places[-1]) + 1
    if count + 2 > bins or np.abs(places - np.round(places)).max() > OFF_STEP:
        return None
    edges: NDArray[np.float64] = values[0] + (np.arange(count + 1) - 0.5) * step
    return edges


def _bin(action: Any, edges: Any) -> Any:
    """[rows, action_dim] the bin that each number lies in."""
    return (action[..., None] >= edges).sum(axis=-1)
