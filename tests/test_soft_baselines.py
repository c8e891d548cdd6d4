"""CQL, SAC-N, EDAC and PBRL against problems whose answers are known, and their losses against NumPy."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from problems import EDGE, PROBE, bandit_reward

from gridcount.algorithms.blocks import make_block
from gridcount.data.transitions import Batch, Transitions

FIELDS: dict[str, Any] = {"hidden": (32, 32), "batch_size": 64, "critic_rate": 1e-3, "policy_rate": 1e-3}
SMALL: dict[str, Any] = {"hidden": (16, 16), "batch_size": 32}


SEEDS = 3


def learner_of(state: Any) -> Any:
    return getattr(state, "learner", state)


@cache
def learnt(algorithm: Any, problem: Callable[[], Transitions], updates: int) -> tuple[Any, ...]:
    """The learners of three seeds after some updates, all in one program."""
    prepared = algorithm.prepare(problem())
    states = [prepared.algorithm.init(jax.random.key(seed), prepared.rows) for seed in range(SEEDS)]
    rows = jax.tree.map(jnp.asarray, prepared.rows)
    block = jax.vmap(make_block(prepared.algorithm, updates), in_axes=(0, None, 0, None))
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    after, _ = jax.jit(block)(stacked, rows, jnp.stack([jax.random.key(seed + 100) for seed in range(SEEDS)]), jnp.asarray(0))
    return tuple(learner_of(jax.tree.map(lambda leaf: leaf[seed], after)) for seed in range(SEEDS))


def own_values(learner: Any) -> tuple[Any, Any]:
    """The actions a learner would take in a bandit, and the values it gives them."""
    actions = learner.acting_policy.mode(PROBE)
    return actions, learner.critics(PROBE, actions).min(axis=0)


def sideways() -> Transitions:
    """A bandit whose log never moved the second of two actions: whatever critics say of that direction, they made up."""
    rng = np.random.default_rng(0)
    action = np.zeros((2000, 2), np.float32)
    action[:, 0] = rng.uniform(-1, 1, 2000)
    still = rng.uniform(-1, 1, (2000, 1)).astype(np.float32)
    done = np.ones(2000, np.bool_)
    return Transitions(still, action, sideways_reward(action), still, done, done)


def sideways_reward(action: Any) -> Any:
    """What an action is truly worth: best at 0.5 ahead, and the less the further aside."""
    return (1 - (action[:, 0] - 0.5) ** 2 - 2 * np.abs(action[:, 1])).astype(np.float32)


def wishes(learners: tuple[Any, ...], reward: Callable[[Any], Any]) -> list[float]:
    """How far each seed's values of its own actions lie above what those are truly worth."""
    return [float(np.mean(np.asarray(q) - reward(np.asarray(a)))) for a, q in map(own_values, learners)]


def start(algorithm: Any, data: Transitions) -> tuple[Any, Any, Batch]:
    prepared = algorithm.prepare(data)
    state = prepared.algorithm.init(jax.random.key(0), prepared.rows)
    return prepared.algorithm, state, jax.tree.map(lambda column: jnp.asarray(column[:32]), prepared.rows)


def two_steps() -> Transitions:
    """Two decisions in a row, each paid like the bandit's, so that the log has the same gap twice."""
    rng = np.random.default_rng(0)
    second = np.arange(4000) % 2 == 1
    place = np.where(second, 1.0, -1.0).astype(np.float32)[:, None]
    action = rng.uniform(-1, EDGE, (4000, 1)).astype(np.float32)
    return Transitions(place, action, bandit_reward(action[:, 0]), np.ones_like(place), second, second)


def true_and_learnt(state: Any, discount: float) -> tuple[list[float], list[float]]:
    """The policy's exact value in both states of `two_steps`, and the value its critics give it."""
    learner = learner_of(state)
    rewards, values = [], []
    for place in (-1.0, 1.0):
        observation = jnp.full((4000, 1), place)
        action, _ = learner.policy.sample(observation, jax.random.key(0))
        rewards.append(float(bandit_reward(np.asarray(action)[:, 0]).mean()))
        values.append(float(learner.critics(observation, action).min(axis=0).mean()))
    return [rewards[0] + discount * rewards[1], rewards[1]], values
