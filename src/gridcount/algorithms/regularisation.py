"""Changes to a whole network that make it smoother: units left out, and weights of spectral norm 1."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from gridcount.networks import MLP, drop


def drop_units(network: MLP, rate: float, key: Array) -> MLP:
    """The network (or ensemble of them) with each hidden unit left out with probability `rate`, for all
    rows alike."""
    keys = jax.random.split(key, len(network.weights) - 1)
    rest = [
        weight * drop(jnp.ones(weight.shape[:-1]), rate, k)[..., None]
        for weight, k in zip(network.weights[1:], keys, strict=True)
    ]
    thinned: MLP = eqx.tree_at(lambda n: n.weights, network, [network.weights[0], *rest])
    return thinned


def first_directions(network: MLP, key: Array) -> list[Array]:
    """A random direction of each layer's output, from which spectral_norm starts."""
    keys = jax.random.split(key, len(network.weights))
    return [_unit(jax.random.normal(k, bias.shape)) for bias, k in zip(network.biases, keys, strict=True)]


def spectral_norm(network: MLP, directions: list[Array]) -> tuple[MLP, list[Array]]:
    """The network (or ensemble) with each weight divided by its largest singular value (Miyato et al. 2018),
    and better directions.

    The value is found by a step of power iteration per call, from the direction of the call before.
    """
    weights, better = [], []
    for weight, direction in zip(network.weights, directions, strict=True):
        fixed = jax.lax.stop_gradient(weight)
        source = _unit(jnp.einsum("...io,...o->...i", fixed, direction))
        direction = _unit(jnp.einsum("...io,...i->...o", fixed, source))
        stretch = jnp.einsum("...io,...i,...o->...", weight, source, direction)
        weights.append(weight / stretch[..., None, None])
        better.append(direction)
    smooth: MLP = eqx.tree_at(lambda n: n.weights, network, weights)
    return smooth, better


def _unit(x: Array) -> Array:
    """A vector's direction."""
    length: Array = jnp.linalg.norm(x, axis=-1, keepdims=True)
    return x / (length + 1e-12)
