"""The log's own behaviour: the mean of its actions in a state and how far they spread around it, learnt beside
a policy."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from gridcount.algorithms.contract import Metrics
from gridcount.algorithms.steps import descend
from gridcount.losses import gaussian_fit
from gridcount.networks import MLP
from gridcount.transitions import Batch

RATE = 1e-3  # Adam step
LEAST_DEVIATION = 0.05  # of an action whose range is 2: below it the log's action counts as constant
LOG_DEVIATION, REACH = -2.0, 2.0  # the network's log-deviations lie within REACH around LOG_DEVIATION


class Behaviour(eqx.Module):
    """Mean and standard deviation of the log's actions, each a function of the state."""

    trunk: MLP

    def __init__(self, observation_dim: int, action_dim: int, hidden: tuple[int, ...], key: Array):
        self.trunk = MLP((observation_dim, *hidden, 2 * action_dim), key, last_scale=1e-3)

    def __call__(self, observation: Array) -> tuple[Array, Array]:
        """[rows, action_dim] each: the mean, in (-1, 1), and the logarithm of the deviation."""
        mean, raw = jnp.split(self.trunk(observation), 2, axis=-1)
        return jnp.tanh(mean), LOG_DEVIATION + REACH * jnp.tanh(raw / REACH)

    def deviation(self, observation: Array) -> Array:
        """How far the log's actions spread in these states."""
        return jnp.maximum(jnp.exp(self(observation)[1]), LEAST_DEVIATION)


class BehaviourState(NamedTuple):
    """The network and its optimiser."""

    network: Behaviour
    optimiser: optax.OptState


@eqx.filter_jit
def init_behaviour(
    observation_dim: int, action_dim: int, hidden: tuple[int, ...], key: Array
) -> BehaviourState:
    """A random network."""
    network = Behaviour(observation_dim, action_dim, hidden, key)
    return BehaviourState(network, optax.adam(RATE).init(network))


def step_behaviour(state: BehaviourState, batch: Batch) -> BehaviourState:
    """One Adam step towards the log's actions."""

    def loss(network: Behaviour) -> tuple[Array, Metrics]:
        return gaussian_fit(*network(batch.observation), batch.action), {}

    network, optimiser, _, _ = descend(optax.adam(RATE), loss, state.network, state.optimiser)
    return BehaviourState(network, optimiser)


def deviations(state: BehaviourState, batch: Batch) -> tuple[Array, Array]:
    """The deviations of the log's actions in the states of a batch, and in those that follow."""
    both = jax.lax.stop_gradient(
        state.network.deviation(jnp.concatenate([batch.observation, batch.next_observation]))
    )
    here, there = jnp.split(both, 2)
    return here, there
