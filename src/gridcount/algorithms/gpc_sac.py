"""GPC-SAC: soft actor-critic with grid-mapping pseudo-counts (Shen and Huang 2024, Algorithm 1).

SAC's steps with gpc's penalty in the critics' loss; the equations cited there and here are the paper's.
"""

from dataclasses import dataclass

from jax import Array

from gridcount.algorithms.contract import About, Metrics, Prepared, Report, ignore_report
from gridcount.algorithms.gpc import (
    CountFields,
    GPCState,
    count,
    counted_loss,
    init_counts,
    prepare_counts,
    read_uncertainty,
)
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
from gridcount.policy.actor import Actor
from gridcount.transitions import Batch, Transitions


@dataclass(frozen=True)
class GPCSAC(CountFields, SoftFields):
    """SAC with count-based pessimism on the policy's own actions."""

    about = About(
        "count",
        "Shen and Huang 2024 (the paper this library builds on)",
        "its pessimism: u = pessimism * sqrt(ln T / n)",
    )

    def prepare(self, data: Transitions) -> Prepared:
        """Set automatic values and rank every row's state cells."""
        return prepare_counts(self, data)

    def init(self, key: Array, rows: Batch, report: Report = ignore_report) -> GPCState[SACState]:
        """SAC's networks, the grid over the log's actions, and the table with its prior."""
        return init_counts(
            self, init_networks(self, key, rows.observation.shape[1], rows.action.shape[1]), rows
        )

    def update(
        self, state: GPCState[SACState], batch: Batch, key: Array
    ) -> tuple[GPCState[SACState], Metrics]:
        """One pass of Algorithm 1's inner loop."""
        batch = state.seen_batch(batch)
        draw = draw_actions(state.learner.policy, batch, key)
        learner, temperature = step_temperature(self, state.learner, draw.log_prob)
        target = bellman_target(self, learner, batch, draw, temperature)  # Eq. 4
        table, uncertainty = count(self, state, batch, draw)
        learner, metrics = step_critics(
            self, learner, counted_loss(self, batch, target, draw, uncertainty)
        )  # Eq. 9
        learner, policy_metrics = step_policy(self, learner, batch, key, temperature)  # Eq. 10
        metrics |= policy_metrics | uncertainty.metrics()
        return state._replace(learner=finish(self, learner), table=table), metrics

    def actor(self, state: GPCState[SACState]) -> Actor:
        """The mode of the policy."""
        return state.learner.acting_policy.actor(state.normaliser)

    def uncertainty(self, state: GPCState[SACState], state_cell: Array, action: Array) -> Array:
        """How little is known of actions in some state cells: u."""
        return read_uncertainty(self, state, state_cell, action)
