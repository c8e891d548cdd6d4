"""Aggregates over tasks with their uncertainty, as Agarwal et al. (2021) define them and their library
rliable computes them.

Scores of an algorithm are one array per task, a number per seed. Intervals are percentiles of a stratified
bootstrap: seeds are drawn with replacement within each task, tasks are fixed. Tasks may have different
numbers of seeds, which rliable does not support; all tasks have the same weight, which their runs share.
Where every task has one seed, `estimate_over_tasks` draws tasks instead.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Tasks = Sequence[ArrayLike]  # scores of an algorithm: task -> its seeds

REPETITIONS = 2000  # bootstrap draws
CONFIDENCE = 0.95
TRIMMED = 0.25  # share the interquartile mean leaves out at either end


class Estimate(NamedTuple):
    """A number and its interval, which is None where nothing could be drawn: no task has two seeds."""

    value: float
    interval: tuple[float, float] | None


def mean(scores: Array, shares: Array | None = None) -> Array:
    """Over all runs: [..., runs] -> [...]. Shares are the runs' weights, whole numbers; without any all
    weigh the same."""
    return np.asarray(np.average(scores, axis=-1, weights=shares))


def interquartile_mean(scores: Array, shares: Array | None = None) -> Array:
    """IQM: the mean of the middle half of all runs, floor(n / 4) left out at either end: [..., runs] ->
    [...].

    A run of share 3 is three equal runs, of which some may be left out.
    """
    weights = np.ones(scores.shape[-1]) if shares is None else shares
    order = np.argsort(scores, axis=-1)
    ascending, weight = np.take_along_axis(scores, order, axis=-1), weights[order]
    upto, total = np.cumsum(weight, axis=-1), weights.sum()
    cut = np.floor(TRIMMED * total)
    kept = np.maximum(np.minimum(upto, total - cut) - np.maximum(upto - weight, cut), 0.0)
    return np.asarray((kept * ascending).sum(axis=-1) / (total - 2 * cut))


def optimality_gap(scores: Array, shares: Array | None = None, optimum: float = 1.0) -> Array:
    """optimum - mean(min(score, optimum)): how far runs fall short of it, with no credit above it."""
    return optimum - mean(np.minimum(scores, optimum), shares)


def profile(scores: Array, thresholds: ArrayLike, shares: Array | None = None) -> Array:
    """The share of runs that score above each threshold: [..., runs] -> [..., thresholds]."""
    return mean((scores[..., None, :] > np.asarray(thresholds)[:, None]).astype(float), shares)


def improvement(ours: Tasks, theirs: Tasks) -> float:
    """P(ours > theirs): over tasks, the mean share of pairs of runs that ours wins, a tie counting half
    (Mann-Whitney's U / n m)."""
    return float(np.mean([wins.mean() for wins in _wins(ours, theirs)]))


def pooled(tasks: Tasks) -> Array:
    """All runs of all tasks."""
    return np.concatenate([np.asarray(scores, float) for scores in tasks])


def even_shares(tasks: Tasks) -> Array:
    """For each of the pooled runs a whole number, such that those of every task have the same sum."""
    sizes = [np.size(scores) for scores in tasks]
    return np.repeat([float(math.lcm(*sizes) // size) for size in sizes], sizes)


def estimate(
    tasks: Tasks, statistic: Callable[[Array, Array], Array], seed: int = 0, repetitions: int = REPETITIONS
) -> Estimate:
    """A statistic of all runs, every task weighing the same, with its bootstrap interval."""
    shares = even_shares(tasks)
    value = float(statistic(pooled(tasks), shares))
    if not _varied(tasks):
        return Estimate(value, None)
    low, high = _percentiles(statistic(resampled(tasks, seed, repetitions), shares))
    return Estimate(value, (float(low), float(high)))


def estimate_profile(
    tasks: Tasks, thresholds: ArrayLike, seed: int = 0, repetitions: int = REPETITIONS
) -> tuple[Array, Array | None]:
    """The performance profile at each threshold and its pointwise intervals [2, thresholds], None where no
    task has two seeds."""
    shares = even_shares(tasks)
    value = profile(pooled(tasks), thresholds, shares)
    if not _varied(tasks):
        return value, None
    draws = resampled(tasks, seed, repetitions)
    return value, np.stack(
        [_percentiles(profile(draws, [threshold], shares)[:, 0]) for threshold in np.asarray(thresholds)],
        axis=1,
    )


def estimate_improvement(
    ours: Tasks, theirs: Tasks, seed: int = 0, repetitions: int = REPETITIONS
) -> Estimate:
    """The probability of improvement, with bootstrap draws of both algorithms' seeds within each task."""
    value = improvement(ours, theirs)
    if not (_varied(ours) or _varied(theirs)):
        return Estimate(value, None)
    rng = np.random.default_rng(seed)
    draws = np.zeros(repetitions)
    for wins in _wins(ours, theirs):
        row, column = (rng.integers(size, size=(repetitions, size)) for size in wins.shape)
        draws += wins[row[:, :, None], column[:, None, :]].mean(axis=(1, 2)) / len(ours)
    low, high = _percentiles(draws)
    return Estimate(value, (float(low), float(high)))


def estimate_over_tasks(
    scores: ArrayLike, statistic: Callable[[Array], Array], seed: int = 0, repetitions: int = REPETITIONS
) -> Estimate:
    """A statistic of one number per task, for tasks of one seed each: the bootstrap draws tasks.

    So the interval says how far the number depends on which tasks were chosen, and nothing about seeds.
    """
    values = np.asarray(scores, float)
    draws = values[np.random.default_rng(seed).integers(len(values), size=(repetitions, len(values)))]
    low, high = _percentiles(statistic(draws))
    return Estimate(float(statistic(values)), (float(low), float(high)))


def mean_interval(curves: ArrayLike, seed: int = 0, repetitions: int = REPETITIONS) -> Array | None:
    """The interval of a learning curve's mean over seeds, at each evaluation: [seeds, evaluations] -> [2,
    evaluations].

    NaN is an evaluation that a seed does not have; where fewer than two seeds have one, so is the interval.
    """
    values = np.asarray(curves, float)
    if len(values) < 2:
        return None
    drawn = np.random.default_rng(seed).integers(len(values), size=(repetitions, len(values)))
    weights = np.stack(
        [(drawn == i).mean(axis=1) for i in range(len(values))], axis=1
    )  # [repetitions, seeds]
    present = np.isfinite(values)
    drawn_seeds = weights @ present
    with np.errstate(invalid="ignore"):  # a draw without any available seed gives NaN
        means = (weights @ np.where(present, values, 0.0)) / drawn_seeds
    band = np.full((2, values.shape[1]), np.nan)
    several = present.sum(axis=0) > 1
    band[:, several] = _percentiles(means[:, several])
    return band


def resampled(tasks: Tasks, seed: int = 0, repetitions: int = REPETITIONS) -> Array:
    """Bootstrap draws, stratified by task: [repetitions, runs]."""
    rng = np.random.default_rng(seed)
    draws = []
    for scores in tasks:
        values = np.asarray(scores, float)
        draws.append(values[rng.integers(len(values), size=(repetitions, len(values)))])
    return np.concatenate(draws, axis=1)


def _wins(ours: Tasks, theirs: Tasks) -> list[Array]:
    """Per task, who wins each pair of runs: [our seeds, their seeds]."""
    found = []
    for own, other in zip(ours, theirs, strict=True):
        a, b = np.asarray(own, float)[:, None], np.asarray(other, float)[None, :]
        found.append((a > b) + 0.5 * (a == b))
    return found


def _varied(tasks: Tasks) -> bool:
    return any(np.size(scores) > 1 for scores in tasks)


def _percentiles(draws: Array) -> Array:
    """The interval's ends, over the first axis."""
    outside = 100 * (1 - CONFIDENCE) / 2
    return np.asarray(np.nanpercentile(draws, [outside, 100 - outside], axis=0))
