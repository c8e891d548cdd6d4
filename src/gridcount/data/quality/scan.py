"""One pass over a log in chunks: all statistics that the checks need, in constant memory."""

import math
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcount.data.formats.log import Log
from gridcount.transitions import Bool, Float, Float32, Transitions, chunks, scaled

SAMPLE_BLOCKS, SAMPLE_ROWS = (
    32,
    1024,
)  # contiguous blocks spread over the log, from which typical steps and ranges are taken
JUMP_TIMES = 20.0  # a jump is this many times the step that 99 % of the rows stay below,
JUMP_SHARE = 0.25  # and this share of the range that 99 % of the values lie in
FEW_VALUES = 50  # an action with at most so many distinct values is not continuous
ROWS_PER_VALUE = 20  # rows per distinct value above which an action counts as discrete
ALIGNED = 1e-3  # share of that range by which a next observation may differ from the row below


@dataclass
class Span:
    """Statistics of one group of columns; non-finite values are only counted."""

    dims: int
    rows: int = 0
    non_finite: NDArray[np.int64] = field(init=False)  # how many values are NaN or infinite
    first_non_finite: NDArray[np.int64] = field(init=False)  # row of the first, or -1
    low: NDArray[np.float64] = field(init=False)
    high: NDArray[np.float64] = field(init=False)
    total: NDArray[np.float64] = field(init=False)
    squares: NDArray[np.float64] = field(init=False)
    digest: list[int] = field(init=False)  # equal for columns that hold the same bytes

    def __post_init__(self) -> None:
        """Initialise empty statistics."""
        self.non_finite, self.first_non_finite = np.zeros(self.dims, np.int64), np.full(self.dims, -1)
        self.low, self.high = np.full(self.dims, np.inf), np.full(self.dims, -np.inf)
        self.total, self.squares = np.zeros(self.dims), np.zeros(self.dims)
        self.digest = [0] * self.dims

    def add(self, values: Float32) -> None:
        """Add the next rows, [rows, dims]."""
        columns = np.ascontiguousarray(values.T)
        for d, column in enumerate(columns):
            self.digest[d] = zlib.crc32(column.tobytes(), self.digest[d])
        with np.errstate(invalid="ignore"):  # infinity minus infinity is NaN, which is counted below
            total = columns.sum(axis=1, dtype=np.float64)
        if not np.isfinite(total).all():
            real = np.isfinite(columns)
            for d in map(int, np.flatnonzero(~real.all(axis=1))):
                self.non_finite[d] += int((~real[d]).sum())
                if self.first_non_finite[d] < 0:
                    self.first_non_finite[d] = self.rows + int(np.argmin(real[d]))
            low, high = (
                np.where(real, columns, np.inf).min(axis=1),
                np.where(real, columns, -np.inf).max(axis=1),
            )
            columns = np.where(real, columns, np.float32(0))
            total = columns.sum(axis=1, dtype=np.float64)
        else:
            low, high = columns.min(axis=1), columns.max(axis=1)
        self.low, self.high = np.minimum(self.low, low), np.maximum(self.high, high)
        self.total += total
        self.squares += np.einsum("ij,ij->i", columns, columns, dtype=np.float64)
        self.rows += len(values)

    @property
    def constant(self) -> Bool:
        """[dims] whether all finite values are equal."""
        return self.low >= self.high

    @property
    def variance(self) -> NDArray[np.float64]:
        """[dims] of the finite values."""
        real = np.maximum(self.rows - self.non_finite, 1)
        variance: NDArray[np.float64] = np.maximum(self.squares / real - np.square(self.total / real), 0)
        return variance


@dataclass
class Rows:
    """Rows with some property: their number, and the first of them."""

    count: int = 0
    first: int = -1

    def add(self, mask: Bool, start: int) -> None:
        """Add a chunk that begins at row `start`."""
        hits = int(np.count_nonzero(mask))
        if hits and not self.count:
            self.first = start + int(np.argmax(mask))
        self.count += hits


@dataclass
class Facts:
    """The results of one pass."""

    observation: Span
    action: Span
    reward: Span
    next_observation: Span | None
    jumps: list[Rows]  # per observation dimension
    misaligned: Rows
    outside: Rows  # actions beyond their bounds
    whole_actions: bool  # every action is a whole number
    action_values: list[set[float] | None]  # per action dimension its different values; None: too many
    usual_action: Float32  # [action_dim] the most frequent value, if most rows have it,
    usual_rows: NDArray[np.int64]  # [action_dim] and how many have it
    inside: int  # rows that are not the last of their episode
    step_squares: NDArray[np.float64]  # per observation dimension, over rows inside episodes
    episode_starts: NDArray[np.int64]
    episode_lengths: NDArray[np.int64]
    episode_digests: NDArray[np.uint64]


def scan(log: Log, low: Float, high: Float, slack: Any) -> Facts:
    """Read every row once. Actions should lie between `low` and `high`, `slack` beyond at most where these
    are -1 and 1."""
    end = log.end
    ends = np.flatnonzero(end)
    facts = _no_facts(log, ends)
    starts, dims = facts.episode_starts, log.observation.shape[1]
    jump, aligned = _thresholds(log, end)
    digester = _Digester(dims + log.action.shape[1] + 1)
    for part in chunks(len(log), 4 * dims):
        observation, exact, reward = (
            np.asarray(column[part]) for column in (log.observation, log.action, log.reward)
        )
        with np.errstate(over="ignore"):  # beyond single precision is infinite
            action = exact.astype(np.float32, copy=False)
        facts.observation.add(observation)
        facts.action.add(action)
        facts.reward.add(reward[:, None])
        with np.errstate(
            invalid="ignore", over="ignore"
        ):  # NaN is reported by the spans; here it compares as False
            facts.outside.add((np.abs(scaled(exact, low, high)) > 1 + slack).any(axis=1), part.start)
            facts.whole_actions = facts.whole_actions and bool((action == np.rint(action)).all())
            facts.usual_rows += (action == facts.usual_action).sum(axis=0)
            _steps(log, facts, part, observation, end, jump, aligned)
        facts.action_values = [
            _more_values(*each) for each in zip(facts.action_values, action.T, strict=True)
        ]
        episode = np.searchsorted(ends, np.arange(part.start, part.stop))
        place = np.arange(part.start, part.stop) - starts[episode]
        joined = np.column_stack([observation, action, reward])
        np.add.at(facts.episode_digests, *digester.rows(joined, place, episode))
    return facts


def _no_facts(log: Log, ends: NDArray[np.int64]) -> Facts:
    """The facts before the first row is read; `ends` are the last rows of the episodes."""
    dims, action_dim = log.observation.shape[1], log.action.shape[1]
    starts = np.append(0, ends[:-1] + 1)
    return Facts(
        observation=Span(dims),
        action=Span(action_dim),
        reward=Span(1),
        next_observation=None if log.next_observation is None else Span(dims),
        jumps=[Rows() for _ in range(dims)],
        misaligned=Rows(),
        outside=Rows(),
        whole_actions=True,
        action_values=[set() for _ in range(action_dim)],
        usual_action=_usual(log),
        usual_rows=np.zeros(action_dim, np.int64),
        inside=len(log) - len(ends),
        step_squares=np.zeros(dims),
        episode_starts=starts,
        episode_lengths=ends + 1 - starts,
        episode_digests=np.zeros(len(starts), np.uint64),
    )


def _steps(
    log: Log,
    facts: Facts,
    part: slice,
    observation: Float32,
    end: Bool,
    jump: NDArray[np.float64],
    aligned: NDArray[np.float64],
) -> None:
    below = np.asarray(log.observation[part.start + 1 : part.stop + 1])  # one row short in the last chunk
    inside = ~end[part]
    inside_below = inside[: len(below)]
    if log.next_observation is None or facts.next_observation is None:
        step = np.abs(below - observation[: len(below)]) * inside_below[:, None]
    else:
        after = np.asarray(log.next_observation[part])
        facts.next_observation.add(after)
        off = (np.abs(after[: len(below)] - below) > aligned).any(axis=1) & inside_below
        facts.misaligned.add(off, part.start)
        step = np.abs(after - observation) * inside[:, None]
    facts.step_squares += np.nan_to_num(np.einsum("ij,ij->j", step, step, dtype=np.float64), posinf=0.0)
    beyond = step > jump
    for d in map(int, np.flatnonzero(beyond.any(axis=0))):
        facts.jumps[d].add(beyond[:, d], part.start)


def _more_values(known: set[float] | None, column: Float32) -> set[float] | None:
    """The distinct values so far, with those of the next rows; None if there are too many."""
    if known is None:
        return None
    values = known | set(np.unique(column[np.isfinite(column)]).tolist())
    return values if len(values) <= FEW_VALUES else None


def logged_values(data: Transitions) -> tuple[tuple[float, ...], ...]:
    """Per action, its values in the log, in the log's units, if these are few; () for a continuous one."""
    found: list[set[float] | None] = [set() for _ in range(data.action_dim)]
    for part in chunks(len(data), 4 * data.action_dim):
        found = [_more_values(*each) for each in zip(found, np.asarray(data.action[part]).T, strict=True)]
    few = [values if values and len(data) >= ROWS_PER_VALUE * len(values) else set() for values in found]
    if not any(few):
        return ()
    ends = zip(few, data.action_low.tolist(), data.action_high.tolist(), strict=True)
    return tuple(_in_units(values, low, high) for values, low, high in ends)


def _in_units(values: set[float], low: float, high: float) -> tuple[float, ...]:
    """Actions in [-1, 1] in the log's units, without the digits that single precision adds."""
    if high == low:
        return (low,) if values else ()
    digits = 5 - math.floor(math.log10(high - low))
    return tuple(sorted(round(low + (value + 1) / 2 * (high - low), digits) for value in values))


def _sample_blocks(rows: int) -> list[slice]:
    """Contiguous blocks of rows, spread over the log."""
    size = min(rows, SAMPLE_ROWS)
    firsts = np.unique(np.linspace(0, rows - size, SAMPLE_BLOCKS if rows > size else 1).astype(int))
    return [slice(first, first + size) for first in map(int, firsts)]


def _usual(log: Log) -> Float32:
    """The median action of a sample per dimension: the most frequent value, if most rows have it."""
    sample = np.concatenate([log.action[block] for block in _sample_blocks(len(log))])
    with np.errstate(over="ignore"):
        sample = np.sort(sample.astype(np.float32), axis=0)  # NaN last
    usual: Float32 = sample[len(sample) // 2]
    return usual


def _thresholds(log: Log, end: Bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The thresholds of jumps and of misaligned next observations per dimension, from a sample of the log."""
    blocks = _sample_blocks(len(log))
    samples = [log.observation[block].astype(np.float64) for block in blocks]
    with np.errstate(invalid="ignore"):
        steps = [_real(np.abs(np.diff(sample, axis=0))) for sample in samples]
    step = np.concatenate([step[~end[block][:-1]] for block, step in zip(blocks, steps, strict=True)])
    values = _real(np.concatenate(samples))
    spread = _quantile(values, 0.995) - _quantile(values, 0.005)
    typical = _quantile(step, 0.99)
    # A dimension that rarely changes, such as a switch, has no typical step, so its changes are not jumps.
    gradual = (_quantile(step, 0.5) > 0.01 * typical) & (typical > 1e-6 * spread)
    jump = np.where(gradual, np.maximum(JUMP_TIMES * typical, JUMP_SHARE * spread), np.inf)
    magnitude = _quantile(np.abs(values), 0.995)
    return jump, ALIGNED * spread + 1e-6 * magnitude + 1e-9


def _real(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isfinite(values), values, np.nan)


def _quantile(values: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Per dimension, NaN left out; a dimension without a number gives 0."""
    result = np.zeros(values.shape[1])
    for d, column in enumerate(values.T):
        real = column[~np.isnan(column)]
        if len(real):
            result[d] = np.quantile(real, share)
    return result


class _Digester:
    """A 64-bit digest per episode that depends on every value and its place, added up row by row."""

    def __init__(self, dims: int) -> None:
        odd = np.random.default_rng(0).integers(1, 2**63, size=dims, dtype=np.uint64) * np.uint64(
            2
        ) + np.uint64(1)
        self.factors = odd

    def rows(
        self, values: Float32, place: NDArray[Any], episode: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        """Episodes present in a chunk and what the chunk adds to the digest of each."""
        words = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
        digest = np.zeros(len(words), np.uint64)
        for d, factor in enumerate(self.factors):
            digest += words[:, d] * factor
        digest += place.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        digest = (digest ^ (digest >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
        digest ^= digest >> np.uint64(29)
        firsts = np.flatnonzero(np.append(True, episode[1:] != episode[:-1]))
        return episode[firsts], np.add.reduceat(digest, firsts)
