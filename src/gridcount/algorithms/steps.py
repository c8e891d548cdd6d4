"""The step every algorithm takes."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from gridcount.algorithms.contract import Metrics

Parameters = TypeVar("Parameters")
Columns = TypeVar("Columns")


def descend(
    optimiser: optax.GradientTransformation,
    loss: Callable[[Parameters], tuple[Array, Metrics]],
    parameters: Parameters,
    state: optax.OptState,
) -> tuple[Parameters, optax.OptState, Array, Metrics]:
    """One step of an optimiser down a loss: the new parameters, the optimiser's new state, the loss and
    its metrics."""
    (value, metrics), gradient = jax.value_and_grad(loss, has_aux=True)(parameters)
    change, state = optimiser.update(gradient, state, parameters)
    return eqx.apply_updates(parameters, change), state, value, metrics


def decayed(new: Parameters, old: Parameters, share: Array | float) -> Parameters:
    """Parameters after a step from `old`, with a share of the old weights taken off, as AdamW does; biases
    keep theirs."""
    shrunk: Parameters = jax.tree.map(
        lambda after, before: after - share * before if after.ndim > 1 else after, new, old
    )
    return shrunk


def in_parts(whole: Columns, most: int) -> Columns:
    """Columns of a batch cut into parts of as many rows as divide both it and `most`: one more leading
    axis."""
    rows = math.gcd(len(jax.tree.leaves(whole)[0]), most)
    parts: Columns = jax.tree.map(lambda column: column.reshape(-1, rows, *column.shape[1:]), whole)
    return parts


def descend_in_parts(
    optimiser: optax.GradientTransformation,
    loss: Callable[[Parameters, Any], tuple[Array, Metrics]],
    parameters: Parameters,
    state: optax.OptState,
    parts: Any,
) -> tuple[Parameters, optax.OptState, Array, Metrics]:
    """One step down the mean of a loss over parts of a batch (their leading axis), one part after the other.

    The same step as on the whole batch where a loss is a mean over rows; what networks compute of a part
    stays in the cache.
    """
    slope = jax.value_and_grad(loss, has_aux=True)
    count = len(jax.tree.leaves(parts)[0])

    def add(total: Any, part: Any) -> tuple[Any, None]:
        return jax.tree.map(lambda a, b: a + b / count, total, slope(parameters, part)), None

    first = jax.eval_shape(slope, parameters, jax.tree.map(lambda leaf: leaf[0], parts))
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), first)
    ((value, metrics), gradient), _ = jax.lax.scan(add, nothing, parts)
    change, state = optimiser.update(gradient, state, parameters)
    return eqx.apply_updates(parameters, change), state, value, metrics
