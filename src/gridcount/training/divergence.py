"""Divergence of training: detection, the most likely cause, and advice."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from gridcount.algorithms.contract import Prepared
from gridcount.networks import Normaliser
from gridcount.training.judging import caution_flag
from gridcount.training.loop import SeedMetrics
from gridcount.transitions import HUGE, Batch, Transitions, first_where

EXPLODED = 1e8  # a metric above this times the squared largest return means divergence;
LEAST_SCALE = 100.0  # the largest return is assumed to be at least this: a reward of 1 at every step
LARGE_RETURN = 1e6  # networks do not learn sums of rewards above this


class Diverged(RuntimeError):
    """Training produced a value that is not finite, or absurdly large."""

    def __init__(self, seed: int, what: str, updates: int, way_out: str):
        self.seed = seed
        self.message = f"{what} after update {updates:,}"
        super().__init__(f"seed {seed}: {self.message}; training stopped.\n{way_out}")


def metric_limit(algorithm: Any, rows: Batch) -> float:
    """The limit of all metrics: losses are squares of values, and values grow with the rewards."""
    scale = float(np.abs(rows.reward).max()) / max(1 - getattr(algorithm, "discount", 0.0), 1e-6)
    return EXPLODED * max(scale, LEAST_SCALE) ** 2


def find_divergence(
    metrics: SeedMetrics, limit: float, seeds: Sequence[int], states: Sequence[Any]
) -> tuple[int, str] | None:
    """The seed and the problem of the first bad metric or weight; None if there is none.

    Weights are checked too, because no metric includes a block's last update.
    """
    for name, values in metrics.items():
        for seed, value in zip(seeds, values.tolist(), strict=True):
            if not math.isfinite(value) or abs(value) > limit:
                return seed, f"metric '{name}' became {value:.3g}"
    for seed, state in zip(seeds, states, strict=True):
        for path, leaf in jax.tree_util.tree_leaves_with_path(state):
            if np.issubdtype(leaf.dtype, np.floating) and not np.isfinite(leaf).all():
                return seed, f"'{jax.tree_util.keystr(path)}' is no longer finite"
    return None


def why_diverged(prepared: Prepared, data: Transitions | None, q: float | None) -> str:
    """The most likely cause of the divergence, and advice."""
    if huge := _huge_value(prepared, data):
        return huge
    algorithm = prepared.algorithm
    discount, scale = getattr(algorithm, "discount", None), getattr(algorithm, "reward_scale", 1.0)
    largest = float(np.abs(prepared.rows.reward).max()) * float(scale)
    if discount is not None and largest / max(1 - discount, 1e-6) > LARGE_RETURN:
        total, by = largest / max(1 - discount, 1e-6), 10 ** math.ceil(math.log10(largest))
        way = (
            f"set --reward-scale {scale / by:g}"
            if hasattr(algorithm, "reward_scale")
            else f"divide the rewards by {by:g}"
        )
        cause = f"Rewards of up to {largest:.4g} add up to {total:.4g} with a discount of {discount:g}"
        return f"{cause}. Networks do not learn such large values well: {way}."
    flags = [
        f"a smaller --{name.replace('_', '-')}"
        for name in ("critic_rate", "policy_rate")
        if hasattr(algorithm, name)
    ][:1]
    if hasattr(algorithm, "layer_norm") and not algorithm.layer_norm:
        flags.append("--layer-norm")
    if q is not None and math.isfinite(q) and discount is not None:
        flags.append(caution_flag(algorithm, more=q > 0))
    return f"Try {', or '.join(flags)}." if flags else "Try other hyper-parameters."


def _huge_value(prepared: Prepared, data: Transitions | None) -> str | None:
    """A message with the column and row of a value that is too large for the algorithm; None if there is
    none."""
    algorithm, rows = prepared.algorithm, prepared.rows
    seen: Any = Normaliser.fit(rows.observation) if getattr(algorithm, "normalise", False) else np.asarray
    for column, name in {"observation": "{}", "next_observation": "next {}"}.items():
        if found := first_where(
            getattr(rows, column), lambda values: ~(np.abs(seen(values)) <= HUGE)
        ):  # NaN too
            own = f"observation[{found[1]}]" if data is None else data.observation_names[found[1]]
            return _too_large(name.format(own), found)
    scale = float(getattr(algorithm, "reward_scale", 1.0))
    found = first_where(rows.reward, lambda values: np.abs(scale * values) > HUGE)
    return None if found is None else _too_large("reward", found)


def _too_large(name: str, found: tuple[int, int, float]) -> str:
    row, _, value = found
    return (
        f"The dataset has {value:.4g} in column '{name}' at transition {row:,}, which is too large. Repair or"
        " remove that row, or rescale the column."
    )
