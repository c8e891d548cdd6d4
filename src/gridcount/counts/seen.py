"""Seen states: at which resolution a log has visited a state, coarse to fine. NumPy alone.

On a grid over all of 40 columns every state has a cell of its own, so no new state would count as seen. Here
a state is looked up in small groups of columns: all of them together where there are at most four, else every
four, three or two of them. A state is seen at 8 bins if, for every group, the log has a row in the same cell
of a grid with 8 bins per column.
"""

from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridcount.transitions import chunks

LEAST_BINS, MOST_BINS = 8, 64  # of the finest grid
LARGEST = 4  # columns of a group, at most: in larger ones, new states would be seen at few bins only
MOST_CELLS = (1 << 20) - 1  # in all groups together
MOST_GROUPS = 1024  # a decision looks into each
# share of a column's values at each end; those farther from the others than these span are glitches
TAILS = 0.001
SAMPLE = 1 << 18  # rows from which a column's grid is fitted
MOST_ROWS = 1 << 22  # rows that are looked at, evenly over the log


class SeenStates(NamedTuple):
    """For every cell of every group, the finest grid on which the log visited it."""

    low: NDArray[np.float32]  # [observation_dim] the log's range without glitches, and half a cell more
    high: NDArray[np.float32]  # [observation_dim]
    origin: NDArray[np.float32]  # [observation_dim] where the first cell begins
    scale: NDArray[np.float32]  # [observation_dim] cells per unit; 0: the column has one cell
    groups: NDArray[np.int32]  # [groups, columns of each]
    finest: NDArray[
        np.uint8
    ]  # [groups, bins ** columns of each] e: the log visited the cell's surroundings on a grid of 2**e bins
    bins: int  # per column, of the finest grid: a power of two

    @classmethod
    def over(cls, observation: Any) -> "SeenStates":
        """The grids of a log, of which no cell has been visited yet."""
        low, high = observation[0].astype(np.float64), observation[0].astype(np.float64)
        for rows in chunks(len(observation), 4 * observation.shape[1]):
            part = np.asarray(observation[rows])
            low, high = np.minimum(low, part.min(axis=0)), np.maximum(high, part.max(axis=0))
        sample = np.asarray(observation[:: max(1, len(observation) // SAMPLE)], np.float64)
        inner = np.quantile(sample, [TAILS, 1 - TAILS], axis=0)
        reach = np.where(inner[1] > inner[0], inner[1] - inner[0], np.inf)
        low, high = np.maximum(low, inner[0] - reach), np.minimum(high, inner[1] + reach)
        varying = np.flatnonzero(high - low > 2 * MOST_BINS / np.finfo(np.float32).max)
        groups, bins = _grouped(sample[:, varying])
        step = np.zeros(len(low))
        step[varying] = (high - low)[varying] / (bins - 1)
        origin, scale = low - step / 2, np.divide(1, step, out=np.zeros_like(step), where=step > 0)
        slack = np.maximum(step / 2, 1e-6 * np.maximum(np.abs(low), np.abs(high)))  # rounding is not news
        with np.errstate(over="ignore"):  # a log may hold numbers near the largest one
            columns = np.array([low - slack, high + slack, origin, scale], np.float32)
        finest = np.zeros((len(groups), bins ** groups.shape[1]), np.uint8)
        low, high, origin, scale = columns
        return cls(low, high, origin, scale, varying[groups].astype(np.int32), finest, bins)

    def resolution(self, observation: NDArray[np.float32]) -> NDArray[np.int64]:
        """[rows] bins per column of the finest grid on which the log has the state in every group; 0
        outside of the log's range."""
        found = np.empty(len(observation), np.int64)
        for rows in chunks(len(observation), 16 * self.groups.size):
            x = observation[rows]
            inside = ((x >= self.low) & (x <= self.high)).all(axis=1)
            level = self.finest[np.arange(len(self.groups)), self._code(x)].min(axis=1, initial=self.levels)
            found[rows] = np.where(inside, 1 << level.astype(np.int64), 0)
        return found

    @property
    def levels(self) -> int:
        """How often the coarsest grid, of one bin, is halved to make the finest."""
        return self.bins.bit_length() - 1

    def visited(self, observation: Any, rows: NDArray[np.int64]) -> "SeenStates":
        """With the states of these rows added to those already visited."""
        seen = self.finest == self.levels
        width = self.groups.shape[1]
        for part in chunks(len(rows), 8 * observation.shape[1]):
            digit = self._digit(np.asarray(observation[rows[part]], np.float32)).T.copy()
            for group, columns in enumerate(self.groups):
                code = digit[columns[0]]
                for column in columns[1:]:
                    code = code * self.bins + digit[column]
                seen[group, code] = True
        finest = np.zeros(seen.shape, np.uint8).reshape(-1, *[self.bins] * width)
        for level in range(1, self.levels + 1):
            coarse = _coarser(seen.reshape(finest.shape), self.bins >> level)
            finest[coarse] = level
        return self._replace(finest=finest.reshape(seen.shape))

    def _digit(self, x: NDArray[np.float32]) -> NDArray[np.int64]:
        """[rows, observation_dim] which cell of the finest grid each number lies in; those beyond it count
        as in its edge cells."""
        within = np.clip(x, self.low, self.high)
        with np.errstate(over="ignore"):  # of numbers near the largest one; they are in an edge cell
            place = np.floor((within - self.origin) * self.scale)
        digit: NDArray[np.int64] = np.clip(place, 0, self.bins - 1).astype(np.int64)
        return digit

    def _code(self, x: NDArray[np.float32]) -> NDArray[np.int64]:
        """[rows, groups] the number of each group's cell: its columns' cells as the digits of a number."""
        strides = self.bins ** np.arange(self.groups.shape[1] - 1, -1, -1)
        code: NDArray[np.int64] = self._digit(x)[:, self.groups] @ strides
        return code


def sampled_rows(count: int) -> NDArray[np.int64]:
    """The rows of a log that are looked at: all, or of a very long log every second, third and so on."""
    return np.arange(0, count, -(-count // MOST_ROWS))


def _grouped(sample: NDArray[np.float64]) -> tuple[NDArray[np.int64], int]:
    """[groups, columns] the largest groups of columns whose grids fit, and the bins of the finest grid."""
    columns = sample.shape[1]
    if not columns:
        return np.zeros((0, 1), np.int64), LEAST_BINS
    size = next(
        (
            size
            for size in range(min(columns, LARGEST), 2, -1)
            if comb(columns, size) <= MOST_GROUPS and comb(columns, size) * LEAST_BINS**size <= MOST_CELLS
        ),
        min(columns, 2),
    )
    if comb(columns, size) <= MOST_GROUPS:
        groups = np.array(list(combinations(range(columns), size)))
    else:
        groups = _strongest_pairs(sample)
    bins = LEAST_BINS
    while bins < MOST_BINS and len(groups) * (2 * bins) ** size <= MOST_CELLS:
        bins *= 2
    return groups, bins


def _strongest_pairs(sample: NDArray[np.float64]) -> NDArray[np.int64]:
    """Each column with the one that it depends on most, and then the pairs that depend on each other most."""
    ranks = np.argsort(np.argsort(sample[:4096], axis=0), axis=0)
    strength = np.abs(np.corrcoef(ranks, rowvar=False))
    np.fill_diagonal(strength, -1)
    partners = np.sort(np.stack([np.arange(len(strength)), strength.argmax(axis=1)], axis=1), axis=1)
    first, second = np.triu_indices(len(strength), 1)
    order = np.argsort(-strength[first, second], kind="stable")
    pairs = np.concatenate([partners, np.stack([first, second], axis=1)[order]])
    _, places = np.unique(pairs, axis=0, return_index=True)
    return pairs[np.sort(places)[:MOST_GROUPS]]


def _coarser(seen: NDArray[np.bool_], block: int) -> NDArray[np.bool_]:
    """Where any cell of the same block of `block` cells along every column has been visited."""
    for axis in range(1, seen.ndim):
        shape = (*seen.shape[:axis], seen.shape[axis] // block, block, *seen.shape[axis + 1 :])
        seen = seen.reshape(shape).any(axis=axis + 1).repeat(block, axis=axis)
    return seen
