"""Problems whose answers are known, and a way to learn from them."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from gridcount.algorithms import ALGORITHMS
from gridcount.algorithms.blocks import make_block
from gridcount.algorithms.contract import Prepared, act
from gridcount.transitions import Transitions

EDGE = 0.2  # no action right of this was ever tried in the bandit's log
PROBE = jnp.linspace(-0.9, 0.9, 64)[:, None]  # observations a bandit's policy is asked about
# for a program that would run longer than it takes to compile; tests compile without optimisations
OPTIMISED: dict[str, Any] = {"xla_backend_optimization_level": 1}

SMALL: dict[str, Any] = {"hidden": (16, 16), "batch_size": 32}
# small networks that learn fast
BRISK: dict[str, Any] = {"hidden": (32, 32), "batch_size": 64, "policy_rate": 1e-3, "critic_rate": 1e-3}
BRIEF: dict[str, Any] = {
    "hidden": (16,),
    "cvae_hidden": (16,),
    "cvae_updates": 10,
    "behaviour_hidden": (16,),
    "passes": 4,
}  # what would take long


def small(name: str) -> Any:
    """An algorithm with its defaults but for sizes, which are a test's."""
    kind = ALGORITHMS[name]
    return replace(
        kind(),
        **{field: value for field, value in (SMALL | BRIEF).items() if field in kind.__dataclass_fields__},
    )


def learn(algorithm: Any, data: Transitions, updates: int, seed: int = 0) -> tuple[Prepared, Any]:
    """An algorithm and its state after some updates."""
    prepared = algorithm.prepare(data)
    state = prepared.algorithm.init(jax.random.key(seed), prepared.rows)
    rows = jax.tree.map(jnp.asarray, prepared.rows)
    state, _ = jax.jit(make_block(prepared.algorithm, updates), compiler_options=OPTIMISED)(
        state, rows, jax.random.key(seed + 1), jnp.asarray(0)
    )
    return prepared, state


def actions(prepared: Prepared, state: Any, observation: Any) -> Any:
    """What a learnt policy does."""
    return np.asarray(act(prepared.algorithm, state, jnp.asarray(observation)))


def chain() -> Transitions:
    """Two states in a row, each left by any action; reward 1 on leaving the second: Q = (discount, 1)."""
    rng = np.random.default_rng(0)
    second = np.arange(600) % 2 == 1
    place = np.where(second, 1.0, -1.0).astype(np.float32)[:, None]
    return Transitions(
        observation=place,
        action=rng.uniform(-1, 1, (600, 1)).astype(np.float32),
        reward=second.astype(np.float32),
        next_observation=np.ones_like(place),
        terminated=second,
        episode_end=second,
    )


def bandit() -> Transitions:
    """One decision, whatever the observation: reward rises towards the right, but the log has a gap right
    of EDGE, where it falls."""
    rng = np.random.default_rng(0)
    action = rng.uniform(-1, EDGE, (2000, 1)).astype(np.float32)
    still = rng.uniform(-1, 1, (2000, 1)).astype(np.float32)
    done = np.ones(2000, np.bool_)
    return Transitions(still, action, bandit_reward(action[:, 0]), still, done, done)


def bandit_reward(action: NDArray[np.float32]) -> NDArray[np.float32]:
    """What an action is truly worth: 1 + a up to the edge of the log, then steeply less, down to -1.2 at a
    = 1."""
    return np.where(action <= EDGE, 1 + action, 1 + EDGE - 3 * (action - EDGE)).astype(np.float32)


def overestimate(actions: Any, q: Any) -> float:
    """How far the values a learner gives its own actions in the bandit lie above their true reward, on
    average."""
    return float(np.mean(np.asarray(q) - bandit_reward(np.asarray(actions)[:, 0])))


def journey(rows: int = 1200) -> Transitions:
    """Episodes of equal length, none terminated, in which the action that follows the state pays."""
    rng = np.random.default_rng(3)
    state = rng.normal(size=(rows, 3)).astype(np.float32)
    action = np.clip(rng.normal(0, 0.5, (rows, 2)), -1, 1).astype(np.float32)
    reward = (action[:, 0] * np.sign(state[:, 1])).astype(np.float32)
    following = np.roll(state, -1, axis=0)
    ends = (np.arange(rows) + 1) % 60 == 0
    return Transitions(state, action, reward, following, np.zeros(rows, np.bool_), ends)
