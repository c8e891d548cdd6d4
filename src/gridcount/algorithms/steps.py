"""The step every algorithm takes."""

from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import optax
from jax import Array

from gridcount.algorithms.contract import Metrics

Parameters = TypeVar("Parameters")


def descend(
    optimiser: optax.GradientTransformation,
    loss: Callable[[Parameters], tuple[Array, Metrics]],
    parameters: Parameters,
    state: optax.OptState,
) -> tuple[Parameters, optax.OptState, Array, Metrics]:
    """One step of an optimiser down a loss: the new parameters, the optimiser's new state, the loss and its metrics."""
    (value, metrics), gradient = jax.value_and_grad(loss, has_aux=True)(parameters)
    change, state = optimiser.update(gradient, state, parameters)
    return eqx.apply_updates(parameters, change), state, value, metrics
