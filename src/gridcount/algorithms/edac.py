"""EDAC: SAC-N with diversified critics (An et al. 2021, section 4 and Algorithm 1).

Critics whose action gradients agree outside the data make the same errors, so their minimum is no lower
bound. With a penalty on the cosines between those gradients, 10 to 50 critics are enough, where plain SAC-N
needs hundreds.
"""

from dataclasses import dataclass

import jax
from jax import Array

from gridcount.algorithms.contract import About, Metrics, Prepared, Report, ignore_report
from gridcount.algorithms.ranges import Weight
from gridcount.algorithms.sac import (
    SACState,
    bellman_target,
    draw_actions,
    finish,
    init_networks,
    step_critics,
    step_policy,
    step_temperature,
)
from gridcount.algorithms.sac_n import EnsembleFields, prepare_rewards
from gridcount.losses import bellman_loss, ensemble_similarity
from gridcount.networks import Critics
from gridcount.policy.actor import Actor
from gridcount.transitions import Batch, Transitions


@dataclass(frozen=True)
class EDAC(EnsembleFields):
    """SAC-N with diversified action gradients."""

    about = About(
        "ensemble", "An et al. 2021, arXiv:2110.01548", "uncertainty where all critics extrapolate alike"
    )

    diversity: Weight = 1.0  # weight of the cosines between the critics' action gradients (eta)
    # compare min(N, dim A) random critics per update, as the authors' code does; the paper compares all
    compare_some: bool = False

    def prepare(self, data: Transitions) -> Prepared:
        """The rows as they are, or with standardised rewards."""
        return prepare_rewards(self, data)

    def init(self, key: Array, rows: Batch, report: Report = ignore_report) -> SACState:
        """SAC's networks with N critics; at least two, because critics are compared."""
        if self.n_critics < 2:
            raise ValueError(
                f"n_critics is {self.n_critics}; EDAC compares critics with each other, so it needs at least"
                " 2"
            )
        return init_networks(self, key, rows.observation.shape[1], rows.action.shape[1], self.n_critics)

    def update(self, state: SACState, batch: Batch, key: Array) -> tuple[SACState, Metrics]:
        """One pass of Algorithm 1's inner loop."""
        draw_key, member_key = jax.random.split(key)
        draw = draw_actions(state.policy, batch, draw_key)
        state, temperature = step_temperature(self, state, draw.log_prob)
        target = bellman_target(self, state, batch, draw, temperature)

        def critic_loss(critics: Critics) -> tuple[Array, Metrics]:
            q, slopes = critics.with_slopes(batch.observation, batch.action)
            if self.compare_some:
                some = max(2, min(self.n_critics, batch.action.shape[1]))
                slopes = slopes[jax.random.permutation(member_key, self.n_critics)[:some]]
            similarity = ensemble_similarity(slopes)
            loss_in = bellman_loss(q, target)
            metrics = {
                "loss_in": loss_in,
                "similarity": similarity,
                "q_data": q.mean(),
                "q_spread": q.std(axis=0).mean(),
            }
            return loss_in + self.diversity * similarity, metrics

        state, metrics = step_critics(self, state, critic_loss)
        state, policy_metrics = step_policy(self, state, batch, draw_key, temperature)
        return finish(self, state), metrics | policy_metrics

    def actor(self, state: SACState) -> Actor:
        """The mode of the policy."""
        return state.acting_policy.actor()
