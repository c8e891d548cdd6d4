"""GPC-TD3: TD3 with grid-mapping pseudo-counts, a second host of gpc's penalty besides SAC; not from a paper,
without imitation.

The policy's actions are counted with TD3's smoothing noise: without noise, a deterministic policy would visit
a single cell per state, and the critics would be penalised only at that point.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
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
from gridcount.algorithms.td3 import (
    TD3Fields,
    TD3State,
    ascend,
    bellman_target,
    first,
    init_networks,
    smoothed,
    step_critics,
    step_policy,
)
from gridcount.policy.actor import Actor
from gridcount.transitions import Batch, Transitions


class Draw(NamedTuple):
    """The policy's smoothed actions at the batch's states, drawn once per update."""

    action: Array
    next_action: Array


@dataclass(frozen=True)
class GPCTD3(CountFields, TD3Fields):
    """TD3 with count-based pessimism on the policy's own actions."""

    about = About(
        "count", "GPC added to TD3 (Fujimoto et al. 2018); ours", "its pessimism, with a deterministic policy"
    )

    def prepare(self, data: Transitions) -> Prepared:
        """Set automatic values and rank every row's state cells."""
        return prepare_counts(self, data)

    def init(self, key: Array, rows: Batch, report: Report = ignore_report) -> GPCState[TD3State]:
        """TD3's networks, the grid over the log's actions, and the table with its prior."""
        return init_counts(
            self, init_networks(self, key, rows.observation.shape[1], rows.action.shape[1]), rows
        )

    def update(
        self, state: GPCState[TD3State], batch: Batch, key: Array
    ) -> tuple[GPCState[TD3State], Metrics]:
        """One step of TD3 with the penalty in its critics' loss."""
        learner, batch = state.learner, state.seen_batch(batch)
        action_key, next_key = jax.random.split(key)
        drawn = Draw(
            smoothed(self, learner.policy(batch.observation), action_key),
            smoothed(self, learner.target_policy(batch.next_observation), next_key),
        )
        target = bellman_target(self, learner, batch, drawn.next_action)
        table, uncertainty = count(self, state, batch, drawn)
        learner, metrics = step_critics(self, learner, counted_loss(self, batch, target, drawn, uncertainty))
        learner, policy_metrics = step_policy(self, learner, ascend(first(learner.critics), batch))
        return state._replace(learner=learner, table=table), metrics | policy_metrics | uncertainty.metrics()

    def actor(self, state: GPCState[TD3State]) -> Actor:
        """The policy."""
        return state.learner.policy.actor(state.normaliser)

    def uncertainty(self, state: GPCState[TD3State], state_cell: Array, action: Array) -> Array:
        """How little is known of actions in some state cells: u."""
        return read_uncertainty(self, state, state_cell, action)
