"""TD3+BC: a minimalist approach to offline reinforcement learning (Fujimoto and Gu 2021).

TD3 whose policy also imitates the log: the critics' scale is divided out, so that one weight suits every
dataset. Observations are normalised; their statistics are part of the state, so that a checkpoint acts on raw
observations.
"""

from dataclasses import dataclass
from typing import NamedTuple

from jax import Array

from gridcount.algorithms.contract import About, Metrics, Prepared, Report, ignore_report
from gridcount.algorithms.ranges import Weight
from gridcount.algorithms.td3 import (
    TD3Fields,
    TD3State,
    bellman_target,
    first,
    fit,
    init_networks,
    smoothed,
    step_critics,
    step_policy,
)
from gridcount.losses import scale_free, squared_distance
from gridcount.networks import Deterministic, Normaliser
from gridcount.policy.actor import Actor
from gridcount.transitions import Batch, Transitions


class TD3BCState(NamedTuple):
    """TD3's state and the statistics of the log's observations."""

    learner: TD3State
    normaliser: Normaliser


@dataclass(frozen=True)
class TD3BC(TD3Fields):
    """TD3 with a behaviour-cloning term and normalised observations."""

    about = About(
        "policy constraint",
        "Fujimoto and Gu 2021, arXiv:2106.06860",
        "a constraint that loosens where the log is dense",
    )

    ambition: Weight = 2.5  # weight of the values against imitation (alpha); larger: further from the log
    normalise: bool = True  # normalise observations by the log's mean and standard deviation

    def prepare(self, data: Transitions) -> Prepared:
        """TD3+BC takes the rows as they are and normalises them batch by batch."""
        return Prepared(self, data.rows(), {})

    def init(self, key: Array, rows: Batch, report: Report = ignore_report) -> TD3BCState:
        """TD3's networks, and the mean and deviation of the log's observations."""
        observation_dim, action_dim = rows.observation.shape[1], rows.action.shape[1]
        # Eq. 4
        normaliser = Normaliser.fit(rows.observation) if self.normalise else Normaliser.none(observation_dim)
        return TD3BCState(init_networks(self, key, observation_dim, action_dim), normaliser)

    def update(self, state: TD3BCState, batch: Batch, key: Array) -> tuple[TD3BCState, Metrics]:
        """One step of TD3 in which the policy also imitates the log."""
        observation, next_observation = (
            state.normaliser(each) for each in (batch.observation, batch.next_observation)
        )
        batch = batch._replace(observation=observation, next_observation=next_observation)
        next_action = smoothed(self, state.learner.target_policy(batch.next_observation), key)
        target = bellman_target(self, state.learner, batch, next_action)
        learner, metrics = step_critics(self, state.learner, fit(batch, target))
        critic = first(learner.critics)

        def policy_loss(policy: Deterministic) -> tuple[Array, Metrics]:
            action = policy(batch.observation)
            q = critic(batch.observation, action)[
                0
            ]  # Eq. 5 takes the scale at the log's actions, the authors' code at these
            # the authors' code: a mean over dimensions too
            imitation = squared_distance(action, batch.action).mean() / action.shape[1]
            return imitation - self.ambition * scale_free(q).mean(), {
                "q_policy": q.mean(),
                "imitation": imitation,
            }  # Eq. 3 and 5

        learner, policy_metrics = step_policy(self, learner, policy_loss)
        return TD3BCState(learner, state.normaliser), metrics | policy_metrics

    def actor(self, state: TD3BCState) -> Actor:
        """The policy at the normalised observation."""
        return state.learner.policy.actor(state.normaliser)
