"""SAC-N: soft actor-critic with many critics (An et al. 2021, section 3).

The minimum over N critics is a lower confidence bound of the value: where the log has little data, the
critics disagree and the minimum is lower, and more critics lower it further. Nothing else differs from SAC.
"""

from dataclasses import dataclass

import numpy as np
from jax import Array

from gridcount.algorithms.contract import About, Metrics, Prepared, Report, ignore_report
from gridcount.algorithms.ranges import Whole
from gridcount.algorithms.sac import (
    SACState,
    SoftFields,
    bellman_target,
    draw_actions,
    finish,
    init_networks,
    step_critics,
    step_policy,
    step_temperature,
)
from gridcount.losses import bellman_loss
from gridcount.networks import Critics
from gridcount.policy.actor import Actor
from gridcount.transitions import Batch, Transitions


@dataclass(frozen=True)
class EnsembleFields(SoftFields):
    """Hyper-parameters that SAC-N and EDAC share."""

    n_critics: Whole = 10  # critics in the ensemble (N)
    # rewards to mean 0 and standard deviation 1, as the paper does on Adroit
    standardise_reward: bool = False


@dataclass(frozen=True)
class SACN(EnsembleFields):
    """SAC with N critics in target and policy."""

    about = About(
        "ensemble", "An et al. 2021, arXiv:2110.01548", "pessimism that does not need hundreds of critics"
    )

    def prepare(self, data: Transitions) -> Prepared:
        """The rows as they are, or with standardised rewards."""
        return prepare_rewards(self, data)

    def init(self, key: Array, rows: Batch, report: Report = ignore_report) -> SACState:
        """SAC's networks with N critics."""
        return init_networks(self, key, rows.observation.shape[1], rows.action.shape[1], self.n_critics)

    def update(self, state: SACState, batch: Batch, key: Array) -> tuple[SACState, Metrics]:
        """One step of temperature, critics, policy and targets."""
        draw = draw_actions(state.policy, batch, key)
        state, temperature = step_temperature(self, state, draw.log_prob)
        target = bellman_target(self, state, batch, draw, temperature)  # the minimum over N (Eq. 2)

        def critic_loss(critics: Critics) -> tuple[Array, Metrics]:
            q = critics(batch.observation, batch.action)
            return bellman_loss(q, target), {"q_data": q.mean(), "q_spread": q.std(axis=0).mean()}

        state, metrics = step_critics(self, state, critic_loss)
        state, policy_metrics = step_policy(self, state, batch, key, temperature)  # the minimum over N again
        return finish(self, state), metrics | policy_metrics

    def actor(self, state: SACState) -> Actor:
        """The mode of the policy."""
        return state.acting_policy.actor()


def prepare_rewards(config: EnsembleFields, data: Transitions) -> Prepared:
    """The rows as they are, or with rewards of mean 0 and standard deviation 1."""
    if not config.standardise_reward:
        return Prepared(config, data.rows(), {})
    reward = np.asarray(data.reward, np.float64)
    mean, deviation = reward.mean(), reward.std()
    scaled = ((reward - mean) / (deviation if deviation > 0 else 1.0)).astype(np.float32)
    notes = {"rewards": f"standardised: mean {mean:.4g} and standard deviation {deviation:.4g} in the data"}
    return Prepared(config, data.rows()._replace(reward=scaled), notes)
