"""GPC-SAC: soft actor-critic held back by grid-mapping pseudo-counts (Shen and Huang 2024, Algorithm 1).

The policy's own actions at logged states are mapped to a grid and counted; where the count is low, the critics are
pulled down by u = pessimism * sqrt(ln T / n). The equations cited are the paper's.
"""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from gridcount.algorithms.contract import Metrics, Prepared, Report, silent
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
from gridcount.counts.auto import auto_bins, auto_pessimism, auto_q_floor
from gridcount.counts.grid import Grid, StateCells, StateResolution
from gridcount.counts.tables import Table, empty_table, visit_rows
from gridcount.data.transitions import Batch, Transitions
from gridcount.losses import bellman_loss, count_penalty_loss, count_uncertainty
from gridcount.networks import Critics

EPOCH = 1000  # updates per epoch, T's unit


class GPCState(NamedTuple):
    """SAC's state, the action grid and the visit table."""

    learner: SACState
    grid: Grid
    table: Table


@dataclass(frozen=True)
class GPCSAC(SoftFields):
    """SAC with count-based pessimism on the policy's own actions."""

    bins: int | Literal["auto"] = "auto"  # partitions per dimension (alpha in Eq. 2; column m of the paper's table)
    pessimism: float | Literal["auto"] = "auto"  # scale of the uncertainty (alpha of u)
    q_floor: float | Literal["auto"] = "auto"  # penalised values stay above this; 0 in the paper
    beta: float = 1.0  # how much of u is taken from Q(s, a~pi)
    beta_next: float = 0.1  # how much of u is taken from Q(s', a'~pi)
    ood_weight: float = 0.5  # weight of the (s, a~pi) term; the text says 1, the published results used the mean of both: 0.5
    ood_next_weight: float = 0.5  # weight of the (s', a'~pi) term; the published results let no gradient through it: 0
    prior: Literal["none", "dataset", "dataset-only"] = "none"  # start the table empty, or with the log's own actions, or only them
    margin: float = 3.0  # cells keep their identity this many times the data's width (m in Eq. 2)
    state_bins: int | None = None  # partitions per state dimension; None: as bins
    state_resolution: StateResolution = "exact"  # "published" merges states as 32-bit codes did
    table_megabytes: int = 512  # memory of a seed's visit table: exact where it fits, bounded otherwise

    def prepare(self, data: Transitions) -> Prepared:
        """Settle automatic values and rank every row's state cells."""
        settled, notes = settle(self, data)
        bins = settled.state_bins or int(number(settled.bins))
        cells, (here, there) = StateCells.fit(data.observation, data.next_observation, bins=bins, resolution=settled.state_resolution)
        notes["state cells"] = f"{cells.n_cells:,} of {2 * len(data):,} states, {bins} bins per dimension"
        rows = data.rows()._replace(state_cell=here, next_state_cell=there)
        return Prepared(settled, rows, notes)

    def init(self, key: Array, rows: Batch, report: Report = silent) -> GPCState:
        """SAC's networks, the grid over the log's actions, and the table with its prior."""
        observation_dim, action_dim = rows.observation.shape[1], rows.action.shape[1]
        grid = Grid.fit(np.asarray(rows.action), int(number(self.bins)), self.margin, limit=1.0)
        state_cells = 1 + int(max(rows.state_cell.max(), rows.next_state_cell.max()))
        table = empty_table(state_cells, grid.sizes, self.table_megabytes)
        if self.prior != "none":
            table = visit_rows(table, grid, rows.state_cell, np.asarray(rows.action))
        return GPCState(init_networks(self, key, observation_dim, action_dim), grid, table)

    def update(self, state: GPCState, batch: Batch, key: Array) -> tuple[GPCState, Metrics]:
        """One pass of Algorithm 1's inner loop."""
        learner = state.learner
        draw = draw_actions(learner.policy, batch, key)
        learner, temperature = step_temperature(self, learner, draw.log_prob)
        target = bellman_target(self, learner, batch, draw, temperature)

        # Count both halves, then read them: a pair in use has been seen at least once.
        state_cell = jnp.concatenate([batch.state_cell, batch.next_state_cell])
        action_cell = state.grid.offset(jnp.concatenate([draw.action, draw.next_action]))
        if self.prior == "dataset-only":
            table, count = state.table, jnp.maximum(state.table.read(state_cell, action_cell), 1)
        else:
            table, count = state.table.visit(state_cell, action_cell)
        epoch = learner.updates // EPOCH + 1
        u, u_next = jnp.split(count_uncertainty(count, epoch, number(self.pessimism)), 2)

        floor = number(self.q_floor)

        def critic_loss(critics: Critics) -> tuple[Array, Metrics]:
            # One pass through the networks for all terms: larger matrices, fewer of them.
            terms = [(batch.observation, batch.action), (batch.observation, draw.action)]
            if self.ood_next_weight:
                terms.append((batch.next_observation, draw.next_action))
            observation, action = (jnp.concatenate(parts) for parts in zip(*terms, strict=True))
            q_data, q_policy, *q_next = jnp.split(critics(observation, action), len(terms), axis=1)
            loss_in = bellman_loss(q_data, target)  # Eq. 5
            loss_ood = self.ood_weight * count_penalty_loss(q_policy, self.beta * u, floor)  # Eq. 6
            if q_next:
                loss_ood += self.ood_next_weight * count_penalty_loss(q_next[0], self.beta_next * u_next, floor)  # Eq. 7
            return loss_in + loss_ood, {"loss_in": loss_in, "loss_ood": loss_ood, "q_data": q_data.mean()}  # Eq. 9

        learner, metrics = step_critics(self, learner, critic_loss)
        learner, policy_metrics = step_policy(self, learner, batch, key, temperature)
        metrics |= policy_metrics | {"uncertainty": u.mean(), "first_visits": (count == 1).mean()}
        return GPCState(finish(self, learner), state.grid, table), metrics

    def act(self, state: GPCState, observation: Array) -> Array:
        """The mode of the policy."""
        return state.learner.acting_policy.mode(observation)


def number(value: float | Literal["auto"]) -> float:
    """A hyper-parameter that must have been settled by now."""
    if value == "auto":
        raise ValueError('this algorithm still has an "auto" value; use the one that prepare(data) returns')
    return value


def settle(config: GPCSAC, data: Transitions) -> tuple[GPCSAC, dict[str, str]]:
    """Replace every "auto" by the paper's rule for it, and say which rule gave what."""
    notes: dict[str, str] = {}
    low, high, mean = float(data.reward.min()), float(data.reward.max()), float(data.reward.mean())
    if config.bins == "auto":
        bins, notes["bins"] = auto_bins(data.action_dim)
        config = replace(config, bins=bins)
    if config.pessimism == "auto":
        pessimism, notes["pessimism"] = auto_pessimism(low, high, mean)
        config = replace(config, pessimism=pessimism)
    if config.q_floor == "auto":
        floor, notes["q_floor"] = auto_q_floor(low, config.discount)
        config = replace(config, q_floor=floor)
    return config, notes
