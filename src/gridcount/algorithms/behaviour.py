"""The log's own behaviour: the mean of its actions in a state and how far they spread around it, learnt beside
a policy."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from gridcount.algorithms.contract import Metrics
from gridcount.algorithms.steps import decayed, descend
from gridcount.losses import gaussian_fit
from gridcount.networks import MLP
from gridcount.policy.actor import Perceptron
from gridcount.transitions import Batch

RATE = 1e-3  # Adam step
LEAST_DEVIATION = 0.05  # of an action whose range is 2: below it the log's action counts as constant
LOG_DEVIATION, REACH = -2.0, 2.0  # the network's log-deviations lie within REACH around LOG_DEVIATION


class Habit(NamedTuple):
    """What the log does in some states."""

    base: Array  # [rows, action_dim] its mean action before the tanh
    deviation: Array  # [rows, action_dim] how far its actions spread (sigma)

    @property
    def mean(self) -> Array:
        """[rows, action_dim] its mean action (mu)."""
        return jnp.tanh(self.base)


class Behaviour(eqx.Module):
    """Mean and standard deviation of the log's actions, each a function of the state."""

    trunk: MLP

    def __init__(self, observation_dim: int, action_dim: int, hidden: tuple[int, ...], key: Array):
        self.trunk = MLP((observation_dim, *hidden, 2 * action_dim), key, last_scale=1e-3)

    def __call__(self, observation: Array) -> tuple[Array, Array]:
        """[rows, action_dim] each: the mean before the tanh, and the logarithm of the deviation."""
        base, raw = jnp.split(self.trunk(observation), 2, axis=-1)
        return base, LOG_DEVIATION + REACH * jnp.tanh(raw / REACH)

    def habit(self, observation: Array) -> Habit:
        """What the log does in these states, held fixed."""
        base, log_deviation = jax.lax.stop_gradient(self(observation))
        return Habit(base, jnp.maximum(jnp.exp(log_deviation), LEAST_DEVIATION))

    def mean(self) -> Perceptron:
        """The layers of the mean alone, before the tanh."""
        return self.trunk.perceptron(outputs=self.trunk.biases[-1].shape[-1] // 2)


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


def step_behaviour(state: BehaviourState, batch: Batch, decay: float) -> BehaviourState:
    """One Adam step towards the log's actions; `decay` is the weight decay of AdamW."""

    def loss(network: Behaviour) -> tuple[Array, Metrics]:
        base, log_deviation = network(batch.observation)
        return gaussian_fit(jnp.tanh(base), log_deviation, batch.action), {}

    network, optimiser, _, _ = descend(optax.adam(RATE), loss, state.network, state.optimiser)
    if decay:
        network = decayed(network, state.network, RATE * decay)
    return BehaviourState(network, optimiser)


def habits(network: Behaviour, batch: Batch) -> tuple[Habit, Habit]:
    """What the log does in the states of a batch, and in those that follow."""
    both = network.habit(jnp.concatenate([batch.observation, batch.next_observation]))
    here, there = (Habit(*parts) for parts in zip(*(jnp.split(part, 2) for part in both), strict=True))
    return here, there
