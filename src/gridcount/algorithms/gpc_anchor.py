"""GPC-Anchor: grid-mapping pseudo-counts with a policy anchored to the log and no settings to tune; ours
(docs/gpc-anchor.md).

TD3 in the units of the log. State cells follow the log (counts.adaptive). Rewards are in units of the spread
of its returns (counts.units). What the log does in a state, its mean action mu(s) and their deviation
sigma(s), is learnt beside the policy (behaviour). The policy is mu(s) plus a correction. Critics are penalised
where the log has an action of the policy less often than its own actions. How far the correction goes depends
on how much of what the critics predict of the log's own actions comes true: little, and the policy does what
the log does.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gridcount.algorithms.behaviour import (
    Behaviour,
    BehaviourState,
    Habit,
    habits,
    init_behaviour,
    step_behaviour,
)
from gridcount.algorithms.contract import About, Metrics, Prepared, Report, added_later, ignore_report
from gridcount.algorithms.gpc import number
from gridcount.algorithms.halves import second_half
from gridcount.algorithms.ranges import Count, Number, Positive, Share, Step, Weight, Whole
from gridcount.algorithms.td3 import (
    PolicyLoss,
    TD3Fields,
    TD3State,
    bellman_target,
    init_networks,
    step_critics,
    step_policy,
)
from gridcount.counts.adaptive import ActionCounts, AdaptiveCells
from gridcount.counts.units import RewardUnits
from gridcount.losses import (
    counted_gap_loss,
    log_uncertainty,
    polyak,
    squared_distance,
    tail_step,
    weighted_bellman_loss,
)
from gridcount.networks import (
    Critics,
    Deterministic,
    Normaliser,
    column_moments,
    make_actor,
    summed,
)
from gridcount.policy.actor import Actor
from gridcount.transitions import Batch, Transitions

ROUNDING = 1e-6  # a deviation below this share of the mean is an error of 32-bit numbers
SKEWNESS_ROWS = 100_000  # from which the order of columns is made
# share of the predicted differences that comes true, below which imitation outweighs values, and above which
# values outweigh imitation
NOISE, SIGNAL = 0.5, 0.7
LEAST_SHARE = 0.01  # a smaller share counts as this
SHARE_STEP = 1e-3  # of the moving sums that the share is made of
CHECKED = 4  # one in so many rows of a batch is used for them
SMALL_LOG = 100_000  # rows up to which critics learn from halves and weights decay
DECAY_ROWS = 10_000  # the weight decay is 1 in a log of as many rows or fewer
PASSES = 100  # how often critics and correction use each row of a small log
LEAST_UPDATES = 5_000  # of them, however small the log is


class AnchorState(NamedTuple):
    """TD3's state, the acting policy, and statistics of the log."""

    learner: TD3State  # its policy is the correction of what the log does
    behaviour: BehaviourState  # mu and sigma: what the log does in a state, and how far its actions spread
    acting: tuple[Deterministic, Behaviour]  # averages over the last part of the updates so far
    came_true: Array  # [2] moving sums whose ratio is how much of the predicted differences comes true (b)
    counts: ActionCounts  # n: how often the log has an action in a cell
    usual_uncertainty: Array  # [cells] the mean of 1 / sqrt(n + 1) over the log's own actions in a cell
    columns: Array  # the observation's columns that networks see, in their order
    normaliser: Normaliser

    def seen(self, observation: Array) -> Array:
        """Observations as the networks see them."""
        return self.normaliser(observation[..., self.columns])

    def excess(self, cell: Array, action: Array) -> tuple[Array, Array]:
        """[rows] each: how often the log has actions in those cells, and how much less it knows of them than of
        its own, from 0 to 1."""
        count = self.counts(cell, action)
        return count, jnp.maximum(log_uncertainty(count, 1.0) - self.usual_uncertainty[cell], 0.0)


@dataclass(frozen=True)
class GPCAnchor(TD3Fields):
    """TD3 with count-based pessimism and a policy anchored to the log, in the log's own units."""

    about = About(
        "count",
        "GPC in the log's own units, added to TD3; ours",
        "its pessimism, its cells and its unit of distance",
    )

    hidden: tuple[Whole, ...] = (256, 256)  # hidden layers of policy and critics
    layer_norm: bool = True  # LayerNorm in the critics
    target_step: Step = 0.01  # how far the target networks move per update (tau)
    policy_every: Whole = 1  # critic updates per update of the policy and the targets
    policy_rate: Positive = 1e-3  # Adam step of the policy
    critic_rate: Positive = 1e-3  # Adam step of the critics
    # weight of the squared distance to the log's mean action in deviations, at least (lambda); values are
    # divided by their gain
    anchor: Weight = 0.2
    # how much that weight grows where little of what the critics predict comes true: doubt * ((1 - b) / b)^2
    doubt: Weight = 1.0
    # scale of the uncertainty u of actions that are less known than the log's own, in units of the spread of
    # the log's returns
    pessimism: Weight = 0.15
    # what acting where the log never did costs over the horizon, in units of the spread of its returns
    # (kappa); actions as well known as the log's own in that cell cost nothing
    support_cost: Weight = 6.0
    # weight of the gap between values of the policy's actions and the log's, as in GPC-SAC
    ood_weight: Weight = 0.5
    # noise on the policy's actions whose values are penalised, in the log's deviations
    ood_noise: Weight = 1.0
    smoothing: Weight = 0.25  # noise on the target policy's actions, in the log's deviations
    smoothing_limit: Weight = 2.5  # both noises are clipped to plus or minus this, in the log's deviations
    # targets stay above this; auto: the worst discounted return of the log
    q_floor: Number | Literal["auto"] = "auto"
    # subtracted from every reward; auto: their mean if only differences matter, else 0
    reward_level: Number | Literal["auto"] = "auto"
    # part of a return that reward_level removes, to report values in the log's units
    value_level: Number | Literal["auto"] = "auto"
    # divisor of rewards; auto: such that the log's returns have the spread value_spread
    reward_unit: Positive | Literal["auto"] = "auto"
    value_spread: Positive = 10.0  # standard deviation of the log's discounted returns, as networks see them
    # each critic learns from half of the episodes, and what it predicts is compared with the other half; auto:
    # in logs of at most 100,000 rows
    halves: bool | Literal["auto"] = "auto"
    # decay of the weights of policy and clone per step of AdamW, so that it does not fit the noise of a small log's
    # actions; auto: 10,000 / rows, at most 1, in logs of at most 100,000 rows, else 0
    weight_decay: Weight | Literal["auto"] = "auto"
    # updates in which critics and correction learn; later ones improve the clone alone. auto: those that use each row
    # 100 times, at least 5,000, in logs of at most 100,000 rows, else 0: all
    correction_updates: Count | Literal["auto"] = added_later("auto")
    rows_per_cell: Whole = 128  # rows of the log in a state cell, at least
    bins: Whole = 20  # partitions of each action dimension in which the log's actions are counted
    # the acting policy is a mean of the learning one over about this share of all updates so far; 0: the last
    average_share: Share = 0.1

    def prepare(self, data: Transitions) -> Prepared:
        """Automatic values from the log, and every row's cell."""
        units = RewardUnits.fit(data, self.discount)
        cells = AdaptiveCells.fit(data.observation, data.action, self.rows_per_cell)
        here, there = cells.rank(data.observation), cells.rank(data.next_observation)
        notes = {
            "state cells": f"{cells.n_cells:,} of {self.rows_per_cell} rows or more, by {cells.in_words(data.observation_names)}"
        }
        settled = self
        if self.reward_level == "auto":
            settled = replace(settled, reward_level=units.level)
            notes["reward_level"] = f"{units.level:.4g}: " + (
                "the mean reward" if units.level else "episode lengths can vary"
            )
        if self.value_level == "auto":
            settled = replace(settled, value_level=number(settled.reward_level) * units.steps)
        if self.reward_unit == "auto":
            settled = replace(settled, reward_unit=units.spread / self.value_spread)
            notes["reward_unit"] = (
                f"{settled.reward_unit:.4g}: the log's discounted returns have a spread of {units.spread:.4g}"
            )
        if self.q_floor == "auto":
            settled = replace(settled, q_floor=units.worst)
            notes["q_floor"] = f"{units.worst:.4g}: the worst discounted return of the log"
        small = len(data) <= SMALL_LOG
        size = f"the log has {len(data):,} rows, {'at most' if small else 'more than'} {SMALL_LOG:,}"
        if self.halves == "auto":
            settled = replace(settled, halves=small)
            notes["halves"] = f"{'yes' if small else 'no'}: {size}"
        if self.weight_decay == "auto":
            settled = replace(settled, weight_decay=min(1.0, DECAY_ROWS / len(data)) if small else 0.0)
            notes["weight_decay"] = f"{settled.weight_decay:.3g}: " + (
                f"{DECAY_ROWS:,} / {len(data):,} rows, at most 1" if small else size
            )
        if self.correction_updates == "auto":
            passes = max(LEAST_UPDATES, math.ceil(PASSES * len(data) / self.batch_size))
            settled = replace(settled, correction_updates=passes if small else 0)
            notes["correction_updates"] = (
                f"{passes:,}: then only the clone learns; {size}" if small else f"all: {size}"
            )
        rows = data.rows()._replace(state_cell=here, next_state_cell=there)
        if settled.halves:
            rows = rows._replace(extra={"half": second_half(np.asarray(data.episode_end))})
        return Prepared(settled, rows, notes)

    def init(self, key: Array, rows: Batch, report: Report = ignore_report) -> AnchorState:
        """Random networks, and statistics of the log."""
        columns, normaliser = varying_columns(rows.observation)
        sizes = len(columns), rows.action.shape[1]
        key, behaviour_key = jax.random.split(key)
        learner, behaviour = (
            init_networks(self, key, *sizes),
            init_behaviour(*sizes, self.hidden, behaviour_key),
        )
        cells = 1 + int(max(rows.state_cell.max(), rows.next_state_cell.max()))
        counts = ActionCounts.fit(rows.state_cell, cells, rows.action, self.bins)
        copies = jax.jit(partial(jax.tree.map, jnp.copy))  # one program, not one per shape
        return AnchorState(
            learner,
            behaviour,
            copies((learner.policy, behaviour.network)),
            jnp.zeros(2),
            jax.tree.map(jnp.asarray, counts),
            jnp.asarray(counts.usual_uncertainty(rows.state_cell, rows.action)),
            jnp.asarray(columns),
            normaliser,
        )

    def update(self, state: AnchorState, batch: Batch, key: Array) -> tuple[AnchorState, Metrics]:
        """One step of the clone; and of TD3 with the counted gap in its critics' loss and the anchor in its
        policy's."""
        batch = batch._replace(
            observation=state.seen(batch.observation),
            next_observation=state.seen(batch.next_observation),
            reward=(batch.reward - number(self.reward_level)) / number(self.reward_unit),
        )
        behaviour = step_behaviour(state.behaviour, batch, number(self.weight_decay))
        state = state._replace(behaviour=behaviour)
        if not self.correction_updates:
            return self._correct(state, batch, key)
        over = state.learner.updates >= int(number(self.correction_updates))
        moved: tuple[AnchorState, Metrics] = jax.lax.cond(
            over, self._only_clone, self._correct, state, batch, key
        )
        return moved

    def _only_clone(self, state: AnchorState, batch: Batch, key: Array) -> tuple[AnchorState, Metrics]:
        """An update after which critics and correction are as before."""
        _, metrics = self._correct(state, batch, key)  # what only its new networks need is not computed
        learner = state.learner._replace(updates=state.learner.updates + 1)
        correction, clone = state.acting
        clone = polyak(clone, state.behaviour.network, tail_step(learner.updates, self.average_share))
        return state._replace(learner=learner, acting=(correction, clone)), metrics

    def _correct(self, state: AnchorState, batch: Batch, key: Array) -> tuple[AnchorState, Metrics]:
        """One step of critics and correction."""
        action_key, next_key = jax.random.split(key)
        learner, behaviour = state.learner, state.behaviour
        habit, next_habit = habits(behaviour.network, batch)
        action = self._noisy(
            learner.policy(batch.observation, habit.base), self.ood_noise * habit.deviation, action_key
        )
        next_action = self._noisy(
            learner.target_policy(batch.next_observation, next_habit.base),
            self.smoothing * next_habit.deviation,
            next_key,
        )
        _, next_excess = state.excess(batch.next_state_cell, next_action)
        cost = (1 - self.discount) * self.support_cost * self.value_spread * next_excess
        target = jnp.maximum(
            bellman_target(self, learner, batch, next_action, cost), self._scaled(number(self.q_floor))
        )
        count, excess = state.excess(batch.state_cell, action)
        uncertainty = self.pessimism * self.value_spread * excess
        dealt = jnp.ones((2, 1))  # which rows each critic learns from
        if self.halves:
            dealt = 2 * jnp.stack([1 - batch.extra["half"], batch.extra["half"]])

        def critic_loss(critics: Critics) -> tuple[Array, Metrics]:
            # One pass through the networks for both terms, with fewer and larger matrices.
            observation = jnp.concatenate([batch.observation, batch.observation])
            q_data, q_policy = jnp.split(
                critics(observation, jnp.concatenate([batch.action, action])), 2, axis=1
            )
            loss_in = weighted_bellman_loss(q_data, target, dealt)
            gap = counted_gap_loss(q_policy, q_data, dealt * uncertainty, self.value_spread)
            return loss_in + self.ood_weight * gap, {"loss_in": loss_in, "gap": gap, "q_data": q_data.mean()}

        learner, metrics = step_critics(self, learner, critic_loss)
        checked = jax.tree.map(lambda rows: rows[::CHECKED], (batch, habit, target))
        newest_sums = came_true_sums(learner.target_critics, *checked, halves=bool(self.halves))
        sums = state.came_true + SHARE_STEP * (newest_sums - state.came_true)
        share = jnp.clip(sums[0] / (sums[1] + 1e-12), LEAST_SHARE, 1.0)
        weight = self.anchor + self.doubt * ((1 - share) / share) ** 2
        loss = anchored(weight, learner.target_critics, batch.observation, habit)
        learner, policy_metrics = step_policy(self, learner, loss, number(self.weight_decay))
        metrics |= policy_metrics
        metrics |= {name: self._in_log_units(metrics[name]) for name in ("q_data", "q_policy")}
        metrics |= {"uncertainty": uncertainty.mean(), "unseen": (count < 1).mean()}
        metrics |= {"came_true": share, "imitation": weight, "deviation": habit.deviation.mean()}
        newest = learner.policy, behaviour.network
        acting = polyak(state.acting, newest, tail_step(learner.updates, self.average_share))
        return state._replace(learner=learner, acting=acting, came_true=sums), metrics

    def actor(self, state: AnchorState) -> Actor:
        """The averaged policy."""
        correction, behaviour = state.acting
        network = summed(correction.trunk.perceptron(), behaviour.mean())
        return make_actor(network, state.normaliser, state.columns)

    def uncertainty(self, state: AnchorState, state_cell: Array, action: Array) -> Array:
        """How much less the log knows of actions than of its own in some state cells: u, in the log's units."""
        _, excess = state.excess(state_cell, action)
        return self.pessimism * self.value_spread * number(self.reward_unit) * excess

    def remark(self, row: Mapping[str, Any]) -> str:
        """What the share of predictions that came true says about the policy, in words; empty if it says
        nothing."""
        share = row.get("came_true")
        if share is None or share >= SIGNAL or not self.doubt:
            return ""
        told = "hardly any" if share < 2 * LEAST_SHARE else f"{share:.0%}"
        text = f"At the end of training {told} of the differences between the log's actions that the critics predict came true."
        held = "does nearly what the log does" if share < NOISE else "follows them in part"
        larger = ": a larger log may allow more." if self.halves is True else "."
        return f"{text} So the policy {held}{larger}"

    def _noisy(self, action: Array, deviation: Array, key: Array) -> Array:
        """An action with clipped Gaussian noise of a deviation, within [-1, 1]."""
        noise = jnp.clip(jax.random.normal(key, action.shape), -self.smoothing_limit, self.smoothing_limit)
        return jnp.clip(action + deviation * noise, -1, 1)

    def _scaled(self, value: float) -> float:
        """A discounted return of the log, in the networks' units."""
        return (value - number(self.value_level)) / number(self.reward_unit)

    def _in_log_units(self, value: Array) -> Array:
        """A value of the networks, in the units of the log's returns."""
        return value * number(self.reward_unit) + number(self.value_level)


def came_true_sums(critics: Critics, batch: Batch, habit: Habit, target: Array, *, halves: bool) -> Array:
    """[2] sums whose ratio is how much of the differences that critics predict between the log's actions comes
    true: the slope of a regression, 1 if all, 0 if none.

    Predicted is how much better an action of the log is than its mean in that state, by the critics' slopes;
    true is its target less the value of the mean. With halves a row's prediction is of the critic that did not
    learn from it.
    """
    q, slopes = critics.with_slopes(batch.observation, habit.mean)
    slope = slopes.mean(axis=0)
    if halves:
        slope = jnp.where(batch.extra["half"][:, None] == 0, slopes[1], slopes[0])
    predicted = (slope * (batch.action - habit.mean)).sum(axis=-1)
    return jnp.stack([(predicted * (target - q.mean(axis=0))).mean(), (predicted**2).mean()])


def anchored(weight: Array, critics: Critics, observation: Array, habit: Habit) -> PolicyLoss:
    """The policy's loss: its squared distance to the log's mean action in deviations, less its value.

    Without limits of its networks each state's action would be mu + sigma^2 slope / (2 weight gain). Q is the
    mean of both critics, and `gain` the root mean square of |sigma dQ/da|: the change of Q when the action
    moves by one deviation. It makes the loss independent of the scale and level of rewards.
    """

    def loss(policy: Deterministic) -> tuple[Array, Metrics]:
        action = policy(observation, habit.base)
        q, slopes = critics.with_slopes(observation, jax.lax.stop_gradient(action))
        slope = slopes.mean(axis=0)
        gain = jnp.sqrt(((slope * habit.deviation) ** 2).sum(axis=-1).mean()) + 1e-8
        climbed = (slope * action).sum(axis=-1).mean() / gain  # has the gradient of Q / gain in the policy
        distance = squared_distance(action / habit.deviation, habit.mean / habit.deviation).mean()
        return weight * distance - climbed, {"q_policy": q.mean(), "gain": gain, "moved": distance}

    return loss


def varying_columns(observation: Any) -> tuple[Any, Normaliser]:
    """The columns that vary, in an order that depends only on their values, and their normalisation.

    So constant columns, the order of columns and their units do not change the networks' inputs.
    """
    mean, deviation = column_moments(observation)
    varying = np.flatnonzero(deviation > ROUNDING * np.abs(mean))
    if not len(varying):
        varying = np.arange(observation.shape[1])
    scale = np.where(deviation > 0, deviation, 1.0)[varying]
    sample = np.asarray(observation[:: max(1, len(observation) // SKEWNESS_ROWS)], np.float64)[:, varying]
    skewness = (((sample - mean[varying]) / scale) ** 3).mean(axis=0)
    order = np.argsort(skewness, kind="stable")
    normaliser = Normaliser(
        jnp.asarray(mean[varying][order], jnp.float32), jnp.asarray(scale[order], jnp.float32)
    )
    return varying[order], normaliser
