"""Importance weights: what logged episodes say about another policy (docs/estimate.md).

A learnt policy is a function, and a logged action never equals its action exactly. So the policy is smoothed
with the log's own noise (a kernel, as in Kallus and Zhou 2018, arXiv:1802.06037): w_t is the product up to
step t of pi(a | s) / b(a | s). Products of many ratios are carried by few episodes, and the effective number
of episodes says how many.

- importance sampling: mean over episodes of sum_t discount^t w_t r_t (per decision; Precup, Sutton and Singh
  2000);
- weighted: the same with weights of mean 1 at every step (Thomas 2015);
- doubly robust: sum_t discount^t (w_t (r_t - Q_t) + w_(t-1) V_t) with such weights (Thomas and Brunskill
  2016, arXiv:1604.00923).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridcount.estimation.intervals import CONFIDENCE, Interval
from gridcount.estimation.result import Weighted

RESAMPLES = 500  # of the episodes, in a bootstrap
TINY = 1e-300  # keeps a division by no weight at all finite
IMPORTANCE, WEIGHTED, ROBUST = "importance sampling", "weighted importance sampling", "doubly robust"
Float = NDArray[np.float64]


class Table(NamedTuple):
    """Evaluated episodes as a table, [episodes, steps]; after an episode's end rewards are 0 and weights
    stay."""

    reward: Float
    log_ratio: Float  # log pi(a | s) - log b(a | s) of each step; 0 after the end
    running: NDArray[np.bool_]
    q: Float  # fitted value of the logged action; 0 after the end
    # fitted value of the policy's action; 0 after the end, and the value of the last state where an episode
    # was cut off
    v: Float

    @property
    def log_weight(self) -> Float:
        """Of everything up to and including each step."""
        return np.cumsum(self.log_ratio, axis=1)


def as_table(lengths: NDArray[np.int64], columns: dict[str, Float], tail: Float) -> Table:
    """Rows of episodes one after the other as a table with one more step, which holds the value `tail` of
    the state after the last."""
    steps = int(lengths.max()) + 1
    running = np.arange(steps) < lengths[:, None]
    found = {}
    for name, column in columns.items():
        found[name] = np.zeros((len(lengths), steps))
        found[name][running] = column
    found["v"][np.arange(len(lengths)), lengths] = tail
    return Table(running=running, **found)


def estimates(table: Table, discount: float, seed: int) -> dict[str, Weighted]:
    """All estimates by importance weights, with bootstrap intervals over episodes."""
    episodes, steps = table.reward.shape
    powers = np.power(discount, np.arange(steps), dtype=np.float64)
    drawn = np.random.default_rng(seed).multinomial(episodes, np.full(episodes, 1 / episodes), RESAMPLES)
    counts = np.concatenate([np.ones((1, episodes)), drawn])  # the estimate itself, then its bootstrap
    largest = table.log_weight.max(axis=0)
    weight = np.exp(table.log_weight - largest)  # [episodes, steps], each step in units of its largest weight
    before = np.column_stack([np.ones(episodes), weight[:, :-1]])
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        plain = counts @ (weight * table.reward) @ (powers * np.exp(largest)) / episodes
        weighted = _means(counts, weight, table.reward) @ powers
        robust = (_means(counts, weight, table.reward - table.q) + _means(counts, before, table.v)) @ powers
    effective = effective_episodes(weight, table.running, powers)
    found = {IMPORTANCE: plain, WEIGHTED: weighted, ROBUST: robust}
    return {name: Weighted.of(_interval(values), effective) for name, values in found.items()}


def effective_episodes(weight: Float, running: NDArray[np.bool_], powers: Float) -> float:
    """(sum w)^2 / sum w^2 of the weights at each step; its harmonic mean over steps, as the discount and
    the running episodes count them.

    At the first steps nearly all episodes are effective. Their number would hide the steps that few carry in
    an arithmetic mean.
    """
    each = weight.sum(axis=0) ** 2 / (weight**2).sum(axis=0)
    importance = powers * running.sum(axis=0)
    return float(importance.sum() / (importance / each).sum())


def _means(counts: Float, weight: Float, values: Float) -> Float:
    """[resamples, steps] the weighted mean over episodes of each step's values."""
    means: Float = (counts @ (weight * values)) / np.maximum(counts @ weight, TINY)
    return means


def _interval(values: Float) -> Interval:
    """The first value, and the limits of the others."""
    known = values[np.isfinite(values)]
    if not np.isfinite(values[0]) or len(known) < len(values):  # a product of weights overflowed
        return Interval(float(values[0]), -np.inf, np.inf)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values[1:], [tail, 1 - tail])
    return Interval(float(values[0]), float(low), float(high))
