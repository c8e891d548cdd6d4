"""An algorithm outside gridcount: TD3 whose policy pays for the squared distance to the log's action.

Install it and train with it:

    pip install examples/my_algorithm
    gridcount train my-log.csv --algo cautious-td3 --caution 2.0
"""

from dataclasses import dataclass

from jax import Array

from gridcount.algorithms.contract import Metrics, Prepared, Report, ignore_report
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
from gridcount.losses import squared_distance
from gridcount.networks import Deterministic
from gridcount.policy.actor import Actor
from gridcount.transitions import Batch, Transitions


@dataclass(frozen=True)
class CautiousTD3(TD3Fields):
    """TD3 with a penalty on the distance to the log's action."""

    caution: float = 1.0  # weight of the penalty; 0: plain TD3

    def prepare(self, data: Transitions) -> Prepared:
        """Look at the data once. Here: take the rows as they are."""
        return Prepared(self, data.rows(), {})

    def init(self, key: Array, rows: Batch, report: Report = ignore_report) -> TD3State:
        """The networks and optimisers of one seed."""
        return init_networks(self, key, rows.observation.shape[1], rows.action.shape[1])

    def update(self, state: TD3State, batch: Batch, key: Array) -> tuple[TD3State, Metrics]:
        """One gradient step; it is compiled, so it must be a pure function."""
        next_action = smoothed(self, state.target_policy(batch.next_observation), key)
        state, metrics = step_critics(
            self, state, fit(batch, bellman_target(self, state, batch, next_action))
        )
        critic = first(state.critics)

        def policy_loss(policy: Deterministic) -> tuple[Array, Metrics]:
            action = policy(batch.observation)
            value = critic(batch.observation, action)[0].mean()
            distance = squared_distance(action, batch.action).mean()
            return self.caution * distance - value, {"q_policy": value, "distance": distance}

        state, policy_metrics = step_policy(self, state, policy_loss)
        return state, metrics | policy_metrics

    def actor(self, state: TD3State) -> Actor:
        """The deterministic policy."""
        return state.policy.actor()
