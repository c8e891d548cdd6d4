"""GPC-Anchor: grid-mapping pseudo-counts with a policy anchored to the log, and nothing to tune; ours (docs/gpc-anchor.md).

TD3 with the paper's count penalty in its critics, in which every quantity is measured by the log's own:
cells are a tree's that follows the log (counts.adaptive), rewards are in units of the spread of its returns (counts.units), and around
each state the standard deviation of the log's actions, sigma(s), is the unit of distance: of the noise on the policy's actions, and of
the pull that anchors them to the log's. Where the log tried much, sigma is large and the policy is free; where it always did the same,
sigma is small and the policy stays.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gridcount.algorithms.contract import Metrics, Prepared, Report, silent
from gridcount.algorithms.gpc import EPOCH, number
from gridcount.algorithms.td3 import PolicyLoss, TD3Fields, TD3State, bellman_target, init_networks, step_critics, step_policy
from gridcount.counts.adaptive import AdaptiveCells, CellMoments
from gridcount.counts.auto import auto_bins
from gridcount.counts.grid import Grid
from gridcount.counts.tables import Table, empty_table
from gridcount.counts.units import RewardUnits
from gridcount.data.transitions import Batch, Transitions
from gridcount.losses import bellman_loss, count_penalty_loss, count_uncertainty, deviations_apart, polyak
from gridcount.networks import Critics, Deterministic, Normaliser

PRIOR_ROWS = 8  # a cell's deviation is estimated as if it held this many more rows, which spread as the whole log does
LEAST_DEVIATION = 0.05  # of an action dimension whose range is 2: below it the log's action is a constant
NOISE_LIMIT = 2.5  # deviations


class AnchorState(NamedTuple):
    """TD3's state, the policy that acts, and what the log says: its cells' deviations, the action grid, visits, normalisation."""

    learner: TD3State
    acting_policy: Deterministic  # an average over recent updates
    deviation: Array  # [cells, action_dim] sigma: how far the log's actions spread in a cell
    grid: Grid
    table: Table
    columns: Array  # the observation's columns that networks see, in their order
    normaliser: Normaliser

    def seen(self, observation: Array) -> Array:
        """Observations as the networks see them."""
        return self.normaliser(observation[..., self.columns])


@dataclass(frozen=True)
class GPCAnchor(TD3Fields):
    """TD3 with count-based pessimism and a policy anchored to the log, in the log's own units."""

    hidden: tuple[int, ...] = (256, 256, 256)  # hidden layers of policy and critics
    layer_norm: bool = True  # LayerNorm in the critics
    target_step: float = 0.01  # how far the target networks move per update (tau)
    policy_every: int = 1  # critic updates per update of the policy and the targets
    anchor: float = 0.2  # weight of the distance to the log's action, in the log's deviations, against values in units of their gain
    smoothing: float = 1.0  # noise on the policy's actions, in the log's deviations
    smoothing_limit: float = NOISE_LIMIT  # that noise is clipped to plus or minus this, in the log's deviations
    pessimism: float = 0.05  # scale of the uncertainty, in units of the spread of the log's returns
    ood_weight: float = 0.5  # weight of the penalty on the policy's own actions, as in GPC-SAC
    q_floor: float | Literal["auto"] = "auto"  # penalised values stay above this; auto: the worst discounted return of the log
    value_spread: float = 10.0  # rewards are scaled so that the log's discounted returns spread by this
    rows_per_cell: int = 128  # rows of the log in a state cell, at least
    bins: int | Literal["auto"] = "auto"  # partitions per action dimension, as in GPC-SAC
    average_step: float = 0.001  # how far the acting policy moves towards the learning one per update
    table_megabytes: int = 512  # memory of a seed's visit table: exact where it fits, bounded otherwise

    def prepare(self, data: Transitions) -> Prepared:
        """Rewards in the log's unit, every row's cell, and automatic values."""
        units = RewardUnits.fit(data, self.discount)
        cells = AdaptiveCells.fit(data.observation, data.action, self.rows_per_cell)
        here, there = cells.rank(data.observation), cells.rank(data.next_observation)
        notes = {
            "rewards": f"less {units.level:.4g}, divided by {units.spread / self.value_spread:.4g}: the log's returns spread by {units.spread:.4g}",
            "state cells": f"{cells.n_cells:,} of {self.rows_per_cell} rows and more, cut in {cells.in_words(data.observation_names)}",
        }
        settled = self
        if self.bins == "auto":
            bins, notes["bins"] = auto_bins(data.action_dim)
            settled = replace(settled, bins=bins)
        if self.q_floor == "auto":
            floor = self.value_spread * units.worst
            settled = replace(settled, q_floor=floor)
            notes["q_floor"] = f"{floor:.4g}: the worst discounted return of the log"
        rows = data.rows()._replace(reward=self.value_spread * units(data.reward), state_cell=here, next_state_cell=there)
        return Prepared(settled, rows, notes)

    def init(self, key: Array, rows: Batch, report: Report = silent) -> AnchorState:
        """Random networks, and what the log says."""
        columns = varying_columns(rows.observation)
        learner = init_networks(self, key, len(columns), rows.action.shape[1])
        grid = Grid.fit(np.asarray(rows.action), int(number(self.bins)), limit=1.0)
        cells = 1 + int(max(rows.state_cell.max(), rows.next_state_cell.max()))
        normaliser = Normaliser.fit(rows.observation, least=0.0)
        return AnchorState(
            learner,
            jax.tree.map(jnp.copy, learner.policy),
            jnp.asarray(log_deviation(rows.state_cell, cells, rows.action)),
            grid,
            empty_table(cells, grid.sizes, self.table_megabytes),
            jnp.asarray(columns),
            Normaliser(normaliser.mean[columns], normaliser.deviation[columns]),
        )

    def update(self, state: AnchorState, batch: Batch, key: Array) -> tuple[AnchorState, Metrics]:
        """One step of TD3 with the count penalty in its critics and the anchor in its policy."""
        action_key, next_key = jax.random.split(key)
        learner = state.learner
        batch = batch._replace(observation=state.seen(batch.observation), next_observation=state.seen(batch.next_observation))
        deviation, next_deviation = state.deviation[batch.state_cell], state.deviation[batch.next_state_cell]
        action = self.noisy(learner.policy(batch.observation), deviation, action_key)
        next_action = self.noisy(learner.target_policy(batch.next_observation), next_deviation, next_key)
        table, visits = state.table.visit(batch.state_cell, state.grid.offset(action))
        scale = self.value_spread * self.pessimism
        uncertainty = count_uncertainty(visits, learner.updates // EPOCH + 1, scale)
        target = bellman_target(self, learner, batch, next_action)

        def critic_loss(critics: Critics) -> tuple[Array, Metrics]:
            # One pass through the networks for both terms: larger matrices, fewer of them.
            observation = jnp.concatenate([batch.observation, batch.observation])
            q_data, q_policy = jnp.split(critics(observation, jnp.concatenate([batch.action, action])), 2, axis=1)
            loss_in = bellman_loss(q_data, target)
            loss_ood = self.ood_weight * count_penalty_loss(q_policy, uncertainty, number(self.q_floor))
            return loss_in + loss_ood, {"loss_in": loss_in, "loss_ood": loss_ood, "q_data": q_data.mean()}

        learner, metrics = step_critics(self, learner, critic_loss)
        learner, policy_metrics = step_policy(self, learner, anchored(self.anchor, learner.critics, batch, deviation))
        metrics |= policy_metrics | {"uncertainty": uncertainty.mean(), "first_visits": (visits == 1).mean()}
        acting = polyak(state.acting_policy, learner.policy, self.average_step)
        return state._replace(learner=learner, acting_policy=acting, table=table), metrics

    def noisy(self, action: Array, deviation: Array, key: Array) -> Array:
        """An action with noise as wide as the log's own actions spread there, so that critics are asked about what the log has."""
        noise = jnp.clip(self.smoothing * jax.random.normal(key, action.shape), -self.smoothing_limit, self.smoothing_limit)
        return jnp.clip(action + deviation * noise, -1, 1)

    def act(self, state: AnchorState, observation: Array) -> Array:
        """The averaged policy."""
        return state.acting_policy(state.seen(observation))


def anchored(anchor: float, critics: Critics, batch: Batch, deviation: Array) -> PolicyLoss:
    """The policy's loss: -Q(s, pi(s)) / gain + anchor * |(pi(s) - a) / sigma(s)|^2, with Q the smaller of both critics'.

    `gain` is the root mean square of |sigma dQ/da|: what moving by one deviation of the log's actions is worth. It makes the loss the
    same for rewards of any scale and level.
    """

    def value(action: Array) -> Array:
        return critics(batch.observation, action).min(axis=0)

    def loss(policy: Deterministic) -> tuple[Array, Metrics]:
        action = policy(batch.observation)
        # Rows do not mix, so the gradient of their sum is each row's own; Q's own graph is not needed twice.
        q, pull = jax.vjp(value, jax.lax.stop_gradient(action))
        slope = pull(jnp.ones_like(q))[0]
        gain = jnp.sqrt(((slope * deviation) ** 2).sum(axis=-1).mean()) + 1e-8
        distance = deviations_apart(action, batch.action, deviation).mean()
        climbed = (jax.lax.stop_gradient(slope / gain) * action).sum(axis=-1).mean()  # has the gradient of Q / gain in the policy
        return anchor * distance - climbed, {"q_policy": q.mean(), "gain": gain, "imitation": distance}

    return loss


def log_deviation(cell: Any, n_cells: int, action: Any) -> Any:
    """[cells, action_dim] the standard deviation of the log's actions in each cell, drawn a little towards the whole log's."""
    moments = CellMoments.of(np.asarray(cell), n_cells, action)
    whole = CellMoments.of(np.zeros(len(cell), np.int32), 1, action).deviation[0]
    rows = moments.rows[:, None]
    variance = (rows * moments.deviation**2 + PRIOR_ROWS * whole**2) / (rows + PRIOR_ROWS)
    return np.maximum(np.sqrt(variance), LEAST_DEVIATION).astype(np.float32)


def varying_columns(observation: Any) -> Any:
    """The columns that vary, in an order that depends on their values alone: neither a constant column nor a shuffle changes a run."""
    normaliser = Normaliser.fit(observation, least=0.0)
    mean, deviation = np.asarray(normaliser.mean), np.asarray(normaliser.deviation)
    sample = np.asarray(observation[:: max(1, len(observation) // 100_000)], np.float64)
    normalised = (sample - mean) / deviation
    varying = np.flatnonzero((normalised**2).mean(axis=0) > 1e-6)
    skewness = (normalised[:, varying] ** 3).mean(axis=0)
    return varying[np.argsort(skewness, kind="stable")] if len(varying) else np.arange(observation.shape[1])
