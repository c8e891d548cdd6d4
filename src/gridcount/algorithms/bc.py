"""BC: behavioural cloning (Fujimoto and Gu 2021; %BC: Chen et al. 2021).

A function of the observation is fitted to the log's actions by squared error: it uses no values, and rewards
only to select episodes.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from numpy.typing import NDArray

from gridcount.algorithms.contract import About, Metrics, Prepared, Report, ignore_report
from gridcount.algorithms.ranges import Positive, Step, Whole
from gridcount.algorithms.steps import descend
from gridcount.networks import Deterministic, Normaliser
from gridcount.policy.actor import Actor
from gridcount.transitions import Batch, Transitions


class BCState(NamedTuple):
    """Everything BC carries from one update to the next."""

    policy: Deterministic
    normaliser: Normaliser
    policy_optimiser: optax.OptState
    updates: Array  # how many updates made this state


@dataclass(frozen=True)
class BC:
    """Behavioural cloning of the whole log, or of its best episodes."""

    about = About(
        "imitation",
        "Fujimoto and Gu 2021, arXiv:2106.06860; X%BC: Chen et al. 2021",
        "only a measure of missing support",
    )

    hidden: tuple[Whole, ...] = (256, 256)  # hidden layers of the policy
    batch_size: Whole = 256  # rows per update
    policy_rate: Positive = 3e-4  # Adam step of the policy
    # share of the episodes that is cloned, those of the highest return (the X of X%BC); 1: all
    best_share: Step = 1.0
    normalise: bool = True  # shift and scale observations to mean 0 and deviation 1 over the log

    def prepare(self, data: Transitions) -> Prepared:
        """Keep the rows of the best episodes."""
        if not 0 < self.best_share <= 1:
            raise ValueError(f"best_share is {self.best_share}; it must be above 0 and at most 1")
        if self.best_share == 1:
            return Prepared(self, data.rows(), {})
        kept, least = best_rows(data, self.best_share)
        rows: Batch = jax.tree.map(lambda column: np.asarray(column[kept]), data.rows())
        episodes = len(data.episode_lengths)
        note = f"{len(kept):,} of {len(data):,} rows: the best {count_best(episodes, self.best_share):,} of {episodes:,} episodes"
        return Prepared(self, rows, {"best_share": f"{note}, return {least:.4g} or more"})

    def init(self, key: Array, rows: Batch, report: Report = ignore_report) -> BCState:
        """A random policy and the log's own scale."""
        observation_dim, action_dim = rows.observation.shape[1], rows.action.shape[1]
        policy = Deterministic(observation_dim, action_dim, self.hidden, key)
        normaliser = Normaliser.fit(rows.observation) if self.normalise else Normaliser.none(observation_dim)
        return BCState(
            policy, normaliser, optax.adam(self.policy_rate).init(policy), jnp.zeros((), jnp.int32)
        )

    def update(self, state: BCState, batch: Batch, key: Array) -> tuple[BCState, Metrics]:
        """One step down the mean squared error; it is deterministic, so the key is not used."""
        observation = state.normaliser(batch.observation)

        def loss(policy: Deterministic) -> tuple[Array, Metrics]:
            return ((policy(observation) - batch.action) ** 2).mean(), {}

        policy, optimiser, value, _ = descend(
            optax.adam(self.policy_rate), loss, state.policy, state.policy_optimiser
        )
        return BCState(policy, state.normaliser, optimiser, state.updates + 1), {"policy_loss": value}

    def actor(self, state: BCState) -> Actor:
        """The policy at the normalised observation."""
        return state.policy.actor(state.normaliser)


def count_best(episodes: int, share: float) -> int:
    """How many episodes a share is: rounded down, but at least one."""
    return max(1, int(episodes * share))


def best_rows(data: Transitions, share: float) -> tuple[NDArray[np.int64], float]:
    """The rows of the episodes with the highest undiscounted returns, in the log's order, and the least of
    these returns."""
    returns = data.episode_returns
    best = np.argsort(-returns, kind="stable")[: count_best(len(returns), share)]
    chosen = np.zeros(len(returns), np.bool_)
    chosen[best] = True
    return np.flatnonzero(np.repeat(chosen, data.episode_lengths)), float(returns[best].min())
