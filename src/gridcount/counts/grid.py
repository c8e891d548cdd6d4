"""Cells: where a continuous vector lies on the grid (Eq. 2), and the rank of every state cell of a
dataset."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, get_args

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

StateResolution = Literal["even", "exact", "leading", "rounded"]
# of training, GridCounter and descriptions; the order of columns does not matter
DEFAULT_RESOLUTION: StateResolution = "even"

CODES = 2**24  # integers that a 32-bit float represents exactly
CHUNK = 1 << 16  # rows coded at a time: they fit the cache, and a memory-mapped column is read once
WIDTH_GUARD = 1e-6  # keeps a dimension that never varies from dividing by zero, as in the paper's appendix


class Grid(eqx.Module):
    """A grid of `bins` partitions per dimension over the data's range, and `margin` times as wide in all.

    The paper folds cells beyond m times the range back onto others (the `mod` of Eq. 2), so that a far action
    can have the count of a near one. Here cells are distinct up to the margin and share the edge cell beyond
    it: nothing outside has the count of a cell inside the data's range.
    """

    low: Array  # [dims] smallest value in the data
    high: Array  # [dims] largest
    bins: int = eqx.field(static=True)
    first: tuple[int, ...] = eqx.field(static=True)  # [dims] smallest distinct cell index; at most 0
    last: tuple[int, ...] = eqx.field(static=True)  # [dims] largest; at least `bins`

    @classmethod
    def fit(
        cls, values: NDArray[np.float32], bins: int, margin: float = 3.0, limit: float = np.inf
    ) -> "Grid":
        """The grid over a column's range, `margin` (m in Eq. 2, >= 1) times as wide as the range in all.

        Values never leave [-limit, limit], so cells beyond it are not made.
        """
        if bins < 1 or margin < 1:
            raise ValueError(f"a grid needs bins >= 1 and margin >= 1, not bins={bins} and margin={margin}")
        low, high = values.min(axis=0), values.max(axis=0)
        reach = math.ceil((margin - 1) / 2 * bins)
        width = high - low + np.float32(WIDTH_GUARD)
        ends = (
            np.floor(bins * (end - low) / width + 0.5)
            for end in (np.minimum(low, -limit), np.maximum(high, limit))
        )
        first, last = (tuple(int(i) for i in np.clip(end, -reach, bins + reach)) for end in ends)
        return cls(jnp.asarray(low), jnp.asarray(high), bins, first, last)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many different cell indices each dimension has."""
        return tuple(last - first + 1 for first, last in zip(self.first, self.last, strict=True))

    def cell(self, x: Array) -> Array:
        """Cell index per dimension, round(bins * (x - low) / (high - low + 1e-6)) (Eq. 2): 0..bins inside
        the range."""
        scaled = self.bins * (x - self.low) / (self.high - self.low + WIDTH_GUARD)
        cell = jnp.clip(
            jnp.floor(scaled + 0.5), jnp.asarray(self.first, jnp.float32), jnp.asarray(self.last, jnp.float32)
        )
        return cell.astype(jnp.int32)

    def offset(self, x: Array) -> Array:
        """Cell indices counted from the first distinct one, so that none is negative; they index the
        tables."""
        return self.cell(x) - jnp.asarray(self.first, jnp.int32)


class StateCells(NamedTuple):
    """The distinct state cells of a dataset, ranked, so that the rank of any state can be looked up."""

    low: NDArray[np.float32]
    high: NDArray[np.float32]
    bins: int
    kept: NDArray[
        np.int64
    ]  # dimensions that distinguish states: those that vary, or the leading ones of them
    codes: tuple[
        NDArray[np.uint64], ...
    ]  # sorted distinct codes, one array per group of dimensions that fits 64 bits
    resolution: StateResolution = "exact"  # how it was fitted; "rounded" codes are bits of 32-bit floats

    @property
    def n_cells(self) -> int:
        """How many different state cells the dataset visits."""
        return len(self.codes[-1])

    @classmethod
    def over(
        cls, low: NDArray[np.float32], high: NDArray[np.float32], bins: int, resolution: StateResolution
    ) -> "StateCells":
        """The grid over a range, of which no cell has been visited yet."""
        kept, bins = _kept_dimensions(np.flatnonzero(high > low), bins, resolution)
        return cls(low, high, bins, kept, (), resolution)

    @classmethod
    def fit(
        cls, *columns: NDArray[np.float32], bins: int, resolution: StateResolution = "exact"
    ) -> tuple["StateCells", list[NDArray[np.int32]]]:
        """Find the cells that the columns (observations and next observations) visit, and the rank of each
        row's cell.

        `resolution` sets how finely: "exact" with all bins in every dimension that varies; "even" with as
        many bins in each of them as keep the grid within 2^24 cells; "leading" with all bins, in the leading
        dimensions that keep it there; "rounded" as the published code does, where states with equal rounded
        32-bit codes are the same.
        """
        low = np.min([column.min(axis=0) for column in columns], axis=0)
        high = np.max([column.max(axis=0) for column in columns], axis=0)
        cells = cls.over(low, high, bins, resolution)
        codes: list[NDArray[np.uint64]] = []
        ranks = [np.zeros(len(column), np.int32) for column in columns]
        for group in cells._groups():
            # two passes over chunks of rows: only the ranks and the distinct codes are in memory
            codes.append(distinct_codes(code for _, code in cells._coded(columns, ranks, group)))
            for part, code in cells._coded(columns, ranks, group):
                own, inverse = np.unique(code, return_inverse=True)  # sorted codes are looked up faster
                part[:] = np.searchsorted(codes[-1], own)[inverse]
        return cells._replace(codes=tuple(codes)), ranks

    def rank(self, observation: NDArray[np.float32]) -> NDArray[np.int32]:
        """Rank of each observation's cell in 0..n_cells-1, or -1 for a cell that is not in the dataset."""
        rank = np.zeros(len(observation), np.uint64)
        known = self._inside(observation)
        for group, codes in zip(self._groups(), self.codes, strict=True):
            code = self._code(observation, group) + rank * self._stride(group)
            rank = np.minimum(np.searchsorted(codes, code), len(codes) - 1).astype(np.uint64)
            known &= codes[rank] == code
        return np.where(known, rank.astype(np.int32), np.int32(-1))

    def in_words(self, names: Sequence[str]) -> str:
        """The bins of each column as text, and the columns that are not counted."""
        left_out = {names[d]: "never varies" for d in range(len(names)) if not self.low[d] < self.high[d]}
        left_out |= {
            name: "not used" for d, name in enumerate(names) if d not in self.kept and name not in left_out
        }
        text = f"{self.bins} bin{'s' if self.bins > 1 else ''} in each of: {_listed([names[d] for d in self.kept])}"
        if self.resolution == "rounded":
            text += " (rounded as by the published 32-bit code, which merges states that differ in the last columns)"
        without = [f"{name} ({why})" for name, why in left_out.items()]
        return f"{text}; not counted: {_listed(without)}" if without else text

    def _coded(
        self, columns: Sequence[NDArray[np.float32]], ranks: list[NDArray[np.int32]], group: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int32], NDArray[np.uint64]]]:
        """For each chunk, the rows' ranks so far and their codes with a group of dimensions."""
        for column, rank in zip(columns, ranks, strict=True):
            for start in range(0, len(column), CHUNK):
                part = rank[start : start + CHUNK]
                code = self._code(column[start : start + CHUNK], group)
                yield part, code + part.astype(np.uint64) * self._stride(group)

    def _groups(self) -> list[NDArray[np.int64]]:
        """Dimensions split so that a group's code and 32 bits of rank before it fit 64 bits: injective by
        construction."""
        if self.resolution == "rounded":
            return [self.kept]  # one code for all of them; states with equal codes are meant to be one
        size = max(1, int(32 / math.log2(self.bins + 1)))
        return [self.kept[start : start + size] for start in range(0, max(1, len(self.kept)), size)]

    def _stride(self, group: NDArray[np.int64]) -> np.uint64:
        """How many codes a group has: what the rank before it is multiplied by. A single group has no rank
        before it."""
        return np.uint64(1) if self.resolution == "rounded" else np.uint64((self.bins + 1) ** len(group))

    def _scaled(self, x: NDArray[np.float32], dimension: int) -> NDArray[np.float32]:
        guard = np.float32(
            0 if self.resolution == "rounded" else WIDTH_GUARD
        )  # the published code has no guard for states
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # values near the largest number lie in the last cell
            width = self.high[dimension] - self.low[dimension] + guard
            scaled = np.floor(self.bins * (x[:, dimension] - self.low[dimension]) / width + np.float32(0.5))
        return np.asarray(scaled if np.isfinite(width) else np.nan_to_num(scaled), np.float32)

    def _digit(self, x: NDArray[np.float32], dimension: int) -> NDArray[np.float32]:
        return np.clip(self._scaled(x, dimension), 0, self.bins)

    def _code(self, x: NDArray[np.float32], group: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Mixed-radix code of a group of cell indices (Eq. 3 without its collisions), or the published
        one's bits."""
        code = np.zeros(len(x), np.uint64)
        for start in range(0, len(x), CHUNK):
            rows, part = x[start : start + CHUNK], code[start : start + CHUNK]
            digits = (self._digit(rows, int(dimension)) for dimension in group)
            if self.resolution == "rounded":
                part[:] = rounded_code(digits, len(rows), self.bins).view(np.uint32)
                continue
            for digit in digits:
                part *= np.uint64(self.bins + 1)
                part += digit.astype(np.uint64)
        return code

    def _inside(self, x: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Whether all kept dimensions lie in the data's cells."""
        inside = np.ones(len(x), np.bool_)
        for dimension in self.kept:
            scaled = self._scaled(x, int(dimension))
            inside &= (scaled >= 0) & (scaled <= self.bins)
        return inside


def rounded_code(digits: Iterable[NDArray[np.float32]], rows: int, bins: int) -> NDArray[np.float32]:
    """The published arithmetic: code = digit + (bins + 1) * code over the dimensions, rounded to 32 bits at
    every step.

    No code is negative, so codes have the order of their bits. Beyond 3.4e38 all codes are infinite, and
    equal.
    """
    code = np.zeros(rows, np.float32)
    with np.errstate(over="ignore"):
        for digit in digits:
            code = digit + np.float32(bins + 1) * code
    return code


def even_bins(most: int, dimensions: int) -> int:
    """The most partitions, equal in all dimensions and at most `most`, whose grid has no more than 2^24
    cells; 1 at least."""
    root = int(CODES ** (1 / max(dimensions, 1))) + 1
    return next((bins for bins in range(min(most, root), 1, -1) if (bins + 1) ** dimensions <= CODES), 1)


def _kept_dimensions(
    varying: NDArray[np.int64], bins: int, resolution: StateResolution
) -> tuple[NDArray[np.int64], int]:
    """The dimensions that distinguish states, and their number of bins."""
    if resolution not in get_args(StateResolution):
        raise ValueError(
            f"unknown state resolution '{resolution}'; available: {', '.join(get_args(StateResolution))}"
        )
    if resolution == "even":
        return varying, even_bins(bins, len(varying))
    if resolution == "leading":
        return varying[: max(1, int(math.log2(CODES) / math.log2(bins + 1)))], bins
    return varying, bins


def fit_states(
    observation: NDArray[np.float32],
    next_observation: NDArray[np.float32],
    bins: int,
    state_bins: int | None = None,
    resolution: StateResolution = DEFAULT_RESOLUTION,
) -> tuple[StateCells, list[NDArray[np.int32]]]:
    """A dataset's state cells, and the ranks of its observations and next observations: shared by all that
    count on the same grid."""
    wanted = bins if state_bins is None else state_bins
    if min(bins, wanted) < 1:
        raise ValueError(f"a grid needs at least 1 bin per dimension, not {min(bins, wanted)}")
    return StateCells.fit(observation, next_observation, bins=wanted, resolution=resolution)


def _listed(names: Sequence[str], most: int = 40) -> str:
    """Names with commas; for many names, the first ones and the number of others."""
    return (
        ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
        or "no column"
    )


def distinct_codes(codes: Iterable[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Sorted distinct codes of all chunks; they are merged when the new ones may be as many as the old
    ones."""
    distinct, fresh, waiting = np.empty(0, np.uint64), list[NDArray[np.uint64]](), 0
    for code in codes:
        fresh.append(_sorted_unique(code))
        waiting += len(fresh[-1])
        if waiting > max(len(distinct), 8 * CHUNK):
            distinct, fresh, waiting = _sorted_unique(np.concatenate([distinct, *fresh])), [], 0
    return _sorted_unique(np.concatenate([distinct, *fresh]))


def _sorted_unique(codes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each code once, sorted: by sorting, because NumPy's hashing is slow if most codes differ."""
    ordered: NDArray[np.uint64] = np.sort(codes)
    distinct: NDArray[np.uint64] = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return distinct
