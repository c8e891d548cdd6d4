"""ReBRAC: revisiting the minimalist approach to offline reinforcement learning (Tarasov et al. 2023).

TD3+BC with its penalty on both sides and a weight for each: the policy is held to the log's action, and the
target is lowered where the policy's next action leaves the log's own next action; deeper networks, and
LayerNorm in the critics.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jax import Array

from gridcount.algorithms.contract import About, Metrics, Prepared, Report, ignore_report
from gridcount.algorithms.ranges import Positive, Weight, Whole
from gridcount.algorithms.td3 import (
    TD3Fields,
    TD3State,
    bellman_target,
    fit,
    init_networks,
    smoothed,
    step_critics,
    step_policy,
)
from gridcount.losses import scale_free, squared_distance
from gridcount.networks import Deterministic
from gridcount.policy.actor import Actor
from gridcount.transitions import Batch, Float32, Transitions


@dataclass(frozen=True)
class ReBRAC(TD3Fields):
    """TD3 with behaviour penalties of their own on policy and critics."""

    about = About(
        "policy constraint",
        "Tarasov et al. 2023, arXiv:2305.09836",
        "a constraint that loosens where the log is dense",
    )

    hidden: tuple[Whole, ...] = (256, 256, 256)  # hidden layers of policy and critics
    layer_norm: bool = True  # LayerNorm in the critics, after each ReLU as in the authors' code
    # weight of the policy's distance from the log's action (beta_1); the paper tunes it per dataset
    policy_penalty: Weight = 0.01
    # weight of the next action's distance from the log's (beta_2); the paper tunes it per dataset
    critic_penalty: Weight = 0.01
    reward_scale: Positive = 1.0  # rewards are multiplied by this; 100 on AntMaze

    def prepare(self, data: Transitions) -> Prepared:
        """The rows with the log's own next action."""
        return Prepared(self, data.rows()._replace(next_action=next_actions(data)), {})

    def init(self, key: Array, rows: Batch, report: Report = ignore_report) -> TD3State:
        """Random networks, and targets equal to them."""
        return init_networks(self, key, rows.observation.shape[1], rows.action.shape[1], norm_after=True)

    def update(self, state: TD3State, batch: Batch, key: Array) -> tuple[TD3State, Metrics]:
        """One step of TD3 with both penalties."""
        batch = batch._replace(reward=self.reward_scale * batch.reward)
        next_action = smoothed(self, state.target_policy(batch.next_observation), key)
        strayed = squared_distance(next_action, batch.next_action)
        target = bellman_target(self, state, batch, next_action, self.critic_penalty * strayed)  # Eq. 4
        state, metrics = step_critics(self, state, fit(batch, target))

        def policy_loss(policy: Deterministic) -> tuple[Array, Metrics]:
            action = policy(batch.observation)
            q = state.critics(batch.observation, action).min(axis=0)  # of both, as in the authors' code
            imitation = squared_distance(action, batch.action).mean()
            loss = self.policy_penalty * imitation - scale_free(q).mean()  # Eq. 3, with TD3+BC's normalised Q
            return loss, {"q_policy": q.mean(), "imitation": imitation}

        state, policy_metrics = step_policy(self, state, policy_loss)
        return state, metrics | policy_metrics | {"strayed": strayed.mean()}

    def actor(self, state: TD3State) -> Actor:
        """The policy."""
        return state.policy.actor()


def next_actions(data: Transitions) -> Any:
    """The action of the next row, inside an episode; the row's own at an episode's last, where the log has no
    next one.

    After a terminal nothing is bootstrapped, so it does not matter there. At a time limit the own action
    keeps the penalty at its usual size, where none at all would make just these targets optimistic.
    """
    last = np.append(data.episode_end[:-1], True)
    following: Float32 = np.array(data.action)  # in memory, whether or not the log's columns are
    following[:-1][~last[:-1]] = following[1:][~last[:-1]]
    return following
