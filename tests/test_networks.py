"""Networks compute what their formulas say, whatever order of operations is fastest."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from gridcount.networks import MLP, TALL, Critics


def plain(network: MLP, x: Array) -> Array:
    """A perceptron as on paper."""
    *hidden, (weight, bias) = zip(network.weights, network.biases, strict=True)
    for inner, offset in hidden:
        x = jnp.maximum(x @ inner + offset, 0)
    return x @ weight + bias


@pytest.mark.parametrize("outputs", [1, 6, 40])
def test_a_perceptron_s_gradients_are_those_of_its_formula(outputs: int) -> None:
    network = MLP((5, 32, 16, outputs), jax.random.key(0), last_scale=0.5)
    x = jax.random.normal(jax.random.key(1), (64, 5))

    def loss(both: tuple[MLP, Array], run: Callable[[MLP, Array], Array]) -> Array:
        return (run(*both) ** 2).mean()

    for rows in (x, x.reshape(4, 16, 5)):
        ours, theirs = (eqx.filter_grad(loss)((network, rows), run) for run in (MLP.__call__, plain))
        for our, their in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            assert np.allclose(our, their, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rows", [32, TALL])
def test_critics_together_are_each_critic_alone(rows: int) -> None:
    critics = Critics(3, 4, 2, (32, 16), jax.random.key(0))
    observation, action = (jax.random.normal(jax.random.key(i), (rows, i)) for i in (4, 2))

    def alone(critics: Critics, action: Array) -> Array:
        members = [jax.tree.map(lambda leaf, k=k: leaf[k], critics.members) for k in range(3)]
        return jnp.stack([plain(each, jnp.concatenate([observation, action], -1))[:, 0] for each in members])

    def loss(values: Array) -> Array:
        return (values**2).mean(axis=1).sum()

    together = eqx.filter_value_and_grad(lambda both: loss(both[0](observation, both[1])))((critics, action))
    apart = eqx.filter_value_and_grad(lambda both: loss(alone(*both)))((critics, action))
    for our, their in zip(jax.tree.leaves(together), jax.tree.leaves(apart), strict=True):
        assert np.allclose(our, their, rtol=1e-4, atol=1e-7)
    _, slopes = critics.with_slopes(observation, action)
    each = jax.jacrev(lambda action: alone(critics, action).sum(axis=1))(action)
    assert np.allclose(slopes, each, rtol=1e-4, atol=1e-7)
