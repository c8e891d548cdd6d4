"""Drift: whether the states met lately are distributed like those of the log.

The log's cells are merged into at most 32 regions that hold about the same share of the log. The
population stability index compares the share of the latest states in each region with the log's: sum of
(today - log) * ln(today / log). It is 0 if all shares are equal; 0.1 is usually read as some change, 0.25
as a large one. Few states give a positive index by chance alone, so the index that as many states drawn
from the log itself would give is printed beside it.
"""

import asyncio
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from gridcount.policy.counts import LogCounts

REGIONS = 32
WINDOW = 10_000  # latest states that are compared
LEAST_STATES = 200  # for a verdict
SOME, LARGE = 0.1, 0.25  # the usual limits of the index
DRAWS = 200  # from the log, for the index by chance
RECENT_SECONDS = 1.0  # for which a comparison is given again, instead of made again
Verdict = Literal["too few states", "like the log", "some change", "large change"]


class Drift(msgspec.Struct):
    """How the latest states compare with the log's."""

    states: int  # that were compared
    index: float  # population stability index
    by_chance: float  # the mean index of as many states drawn from the log
    by_chance_95: float  # 95 % of such draws have a smaller index
    outside: dict[str, float]  # share of the states outside the log's range, by column
    shares_log: list[float]  # of each region
    shares_today: list[float]
    verdict: Verdict


class DriftMeter:
    """The regions of the latest states."""

    def __init__(self, counts: LogCounts, names: tuple[str, ...]) -> None:
        assert counts.guard is not None  # a policy without it cannot decide
        self._counts, self._guard, self._names = counts, counts.guard, names
        rows = counts.guard.rows.astype(np.float64)  # of the log, by cell
        middle = (np.cumsum(rows) - rows / 2) / rows.sum()
        _, self._region = np.unique((middle * REGIONS).astype(np.int64), return_inverse=True)
        self._shares = _shares(np.bincount(self._region, rows))
        self._latest = np.empty((WINDOW, len(names)), np.float32)  # the oldest is overwritten
        self._added = 0
        self._by_chance = lru_cache(maxsize=1)(self._draw)  # the same for all full windows

    def add(self, observation: NDArray[np.float32]) -> None:
        """Remember the states of some decisions, [rows, observation_dim]."""
        latest, added = observation[-WINDOW:], self._added + len(observation)
        self._latest[np.arange(added - len(latest), added) % WINDOW] = latest
        self._added = added  # a comparison in another thread sees complete states only

    def __call__(self) -> Drift:
        """The comparison now."""
        latest = self._latest[: min(self._added, WINDOW)].copy()
        states, expected = len(latest), self._shares
        met = np.bincount(self._region[self._counts.cells.rank(latest)], minlength=len(expected))
        index, (mean, limit) = float(_index(met, expected)), self._by_chance(states)
        return Drift(
            states,
            index,
            mean,
            limit,
            self._outside(latest),
            expected.tolist(),
            (met / max(states, 1)).tolist(),
            _verdict(states, index, limit),
        )

    def _draw(self, states: int) -> tuple[float, float]:
        """The mean index of as many states drawn from the log, and what 95 % of such draws are below."""
        draws = np.random.default_rng(0).multinomial(states, self._shares, DRAWS)
        chance = _index(draws, self._shares)
        return float(chance.mean()), float(np.quantile(chance, 0.95))

    def _outside(self, latest: NDArray[np.float32]) -> dict[str, float]:
        """The share of the states outside the log's range, by column."""
        if not len(latest):
            return dict.fromkeys(self._names, 0.0)
        outside = (latest < self._guard.seen.low) | (latest > self._guard.seen.high)
        return dict(zip(self._names, outside.mean(axis=0).tolist(), strict=True))


class RecentDrift:
    """Comparisons for requests: however many come, one is made at a time, and at most one a second."""

    def __init__(self, meter: Callable[[], Drift], seconds: float = RECENT_SECONDS) -> None:
        self._meter, self._seconds = meter, seconds
        self._made: Drift | None = None
        self._at = 0.0  # when it was begun
        self._making: asyncio.Task[Drift] | None = None

    async def __call__(self) -> Drift:
        """The comparison, at most a second old."""
        if self._made is None or time.monotonic() >= self._at + self._seconds:
            if self._making is None or self._making.done():
                self._making = asyncio.create_task(self._make())
            return await asyncio.shield(self._making)  # a client that goes away does not cancel the others'
        return self._made

    async def _make(self) -> Drift:
        began = time.monotonic()
        self._made = await asyncio.to_thread(self._meter)
        self._at = began
        return self._made


def _shares(states: NDArray[Any]) -> NDArray[np.float64]:
    """[..., regions] the share of each region; half a state is added to each, so that none is empty."""
    shares: NDArray[np.float64] = (states + 0.5) / (
        states.sum(axis=-1, keepdims=True) + 0.5 * states.shape[-1]
    )
    return shares


def _index(met: NDArray[np.int64], expected: NDArray[np.float64]) -> Any:
    """The population stability index of counts [..., regions] against shares."""
    today = _shares(met)
    return ((today - expected) * np.log(today / expected)).sum(axis=-1)


def _verdict(states: int, index: float, limit: float) -> Verdict:
    if states < LEAST_STATES:
        return "too few states"
    if index <= max(limit, SOME):
        return "like the log"
    return "some change" if index <= LARGE else "large change"
