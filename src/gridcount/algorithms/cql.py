"""CQL(H): conservative Q-learning (Kumar et al. 2020), on top of SAC.

The critics are pushed down on a soft maximum over all actions and up on the log's own, so that the value of
the policy is a lower bound of its true value. The equations cited are the paper's; where it leaves things
open, its authors' code decides.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from gridcount.algorithms.contract import About, Metrics, Prepared, Report, added_later, ignore_report
from gridcount.algorithms.ranges import Count, Number, Positive, Weight, Whole
from gridcount.algorithms.sac import (
    SACState,
    SoftFields,
    bellman_target,
    draw_actions,
    finish,
    init_networks,
    step_policy,
    step_temperature,
)
from gridcount.algorithms.steps import descend, descend_in_parts, in_parts
from gridcount.losses import bellman_loss, conservative_gap, td_target
from gridcount.networks import Critics, TanhGaussian
from gridcount.policy.actor import Actor
from gridcount.transitions import Batch, Transitions

PART = 64  # rows of a batch that are learnt from at a time, each with all its sampled actions
SAMPLES_OF_A_KIND = 10  # in the authors' code and in CORL's, whose thresholds are known
MULTIPLIER_MAX = 1e6  # the Lagrange multiplier stays below this, as in the authors' code


class CQLState(NamedTuple):
    """SAC's state and the multiplier that holds the gap at its threshold."""

    learner: SACState
    log_multiplier: Array  # stays 0, a multiplier of 1, without a threshold
    multiplier_optimiser: optax.OptState


class Sampled(NamedTuple):
    """Actions the soft maximum is estimated with: uniform, pi(s) and pi(s') in equal numbers."""

    action: Array  # [samples, rows, action_dim]
    log_density: Array  # [samples, rows] of the distribution each was drawn from
    next_action: Array  # [sampled_actions, rows, action_dim] those of pi(s') alone


class Part(NamedTuple):
    """Some rows of a batch with their targets and actions; in a batch of parts each has one more leading
    axis."""

    observation: Array  # [rows, observation_dim]
    actions: Array  # [rows, 1 + samples, action_dim] the log's, then the sampled ones
    log_density: Array  # [rows, samples]
    target: Array  # [rows]


@dataclass(frozen=True)
class CQL(SoftFields):
    """SAC whose critics are conservative about actions the log does not hold."""

    about = About(
        "value penalty",
        "Kumar et al. 2020, arXiv:2006.04779",
        "a penalty by cell instead of one weight for all unseen actions",
    )

    policy_rate: Positive = 1e-4  # Adam step of the policy and the temperature (the authors' code)
    # weight of the gap between sampled and logged actions (alpha; 5 or 10 in the authors' code)
    conservatism: Weight = 5.0
    # tune a multiplier so that the weighted gap stays near this (tau); None: fixed weight
    lagrange_threshold: Number | None = None
    # lower the threshold to correct for fewer than 10 sampled actions of a kind
    scale_threshold: bool = added_later(False)
    sampled_actions: Whole = 10  # actions drawn from each of the uniform distribution, pi(s) and pi(s')
    # bootstrap SAC's entropy too; the authors' default leaves it out (deterministic_backup)
    entropy_backup: bool = False
    # bootstrap the best of the sampled next actions (max_q_backup in the authors' code)
    max_backup: bool = False
    # the policy imitates the log for so many updates; 40,000 in the authors' code
    imitation_updates: Count = 0

    def prepare(self, data: Transitions) -> Prepared:
        """CQL takes the rows as they are."""
        return Prepared(self, data.rows(), {})

    def init(self, key: Array, rows: Batch, report: Report = ignore_report) -> CQLState:
        """SAC's networks and a multiplier of 1."""
        learner = init_networks(self, key, rows.observation.shape[1], rows.action.shape[1])
        log_multiplier = jnp.zeros(())
        return CQLState(learner, log_multiplier, optax.adam(self.critic_rate).init(log_multiplier))

    def update(self, state: CQLState, batch: Batch, key: Array) -> tuple[CQLState, Metrics]:
        """One step of temperature, critics, multiplier, policy and targets (Algorithm 1)."""
        draw_key, sample_key = jax.random.split(key)
        learner = state.learner
        draw = draw_actions(learner.policy, batch, draw_key)
        sampled = sample_actions(learner.policy, batch, self.sampled_actions, sample_key)
        learner, temperature = step_temperature(self, learner, draw.log_prob)
        if self.max_backup:
            target = best_target(self, learner, batch, sampled.next_action)
        else:
            target = bellman_target(self, learner, batch, draw, temperature * self.entropy_backup)

        multiplier = jnp.minimum(jnp.exp(state.log_multiplier), MULTIPLIER_MAX)
        everything = jnp.concatenate([batch.action[None], sampled.action])
        whole = Part(batch.observation, everything.swapaxes(0, 1), sampled.log_density.T, target)
        critics, optimiser, value, metrics = descend_in_parts(
            optax.adam(self.critic_rate),
            partial(critic_loss, self, multiplier),
            learner.critics,
            learner.critic_optimiser,
            in_parts(whole, PART),
        )
        learner = learner._replace(critics=critics, critic_optimiser=optimiser)
        if self.lagrange_threshold is not None:
            state = step_multiplier(self, state, multiplier, metrics["gap"])
        if self.imitation_updates:
            learner, policy_metrics = jax.lax.cond(
                learner.updates < self.imitation_updates,
                lambda: step_imitation(self, learner, batch, draw_key, temperature),
                lambda: step_policy(self, learner, batch, draw_key, temperature),
            )
        else:
            learner, policy_metrics = step_policy(self, learner, batch, draw_key, temperature)
        metrics |= policy_metrics | {"critic_loss": value, "multiplier": multiplier}
        return state._replace(learner=finish(self, learner)), metrics

    def actor(self, state: CQLState) -> Actor:
        """The mode of the policy."""
        return state.learner.acting_policy.actor()


def critic_loss(config: CQL, multiplier: Array, critics: Critics, part: Part) -> tuple[Array, Metrics]:
    """The Bellman loss and the weighted gap between sampled actions and the log's (Eq. 4, appendix F)."""
    # The log's action and all sampled ones go through the critics as one tall batch.
    actions = part.actions.swapaxes(0, 1)
    q = critics(*as_rows(part.observation, actions)).reshape(-1, *actions.shape[:2])
    q_data, q_sampled = q[:, 0], q[:, 1:]
    loss_in = bellman_loss(q_data, part.target)
    gap = conservative_gap(q_sampled, part.log_density.T, q_data)  # per critic
    penalty = multiplier * (config.conservatism * gap - threshold(config))
    metrics = {
        "loss_in": loss_in,
        "gap": gap.mean(),
        "q_data": q_data.mean(),
        "q_sampled": q_sampled.mean(),
    }
    return loss_in + penalty.sum(), metrics


def step_multiplier(config: CQL, state: CQLState, multiplier: Array, gap: Array) -> CQLState:
    """Raise the multiplier while the weighted gap is above the threshold."""
    slope = -multiplier * (config.conservatism * gap - threshold(config))
    change, optimiser = optax.adam(config.critic_rate).update(slope, state.multiplier_optimiser)
    return state._replace(log_multiplier=state.log_multiplier + change, multiplier_optimiser=optimiser)


def threshold(config: CQL) -> float:
    """The threshold of the weighted gap; 0 without a threshold.

    A sum of n terms of a kind is n/10 of one of ten, on average, so its logarithm is ln(10/n) less, whatever
    the values
    are: with `scale_threshold` the same is taken from the threshold, which is for ten.
    """
    shift = math.log(SAMPLES_OF_A_KIND / config.sampled_actions) if config.scale_threshold else 0.0
    return (
        0.0 if config.lagrange_threshold is None else config.lagrange_threshold - config.conservatism * shift
    )


def sample_actions(policy: TanhGaussian, batch: Batch, count: int, key: Array) -> Sampled:
    """Uniform actions, and those of the policy at s and at s', with their log-densities."""
    uniform_key, policy_key, next_key = jax.random.split(key, 3)
    uniform = jax.random.uniform(uniform_key, (count, *batch.action.shape), minval=-1, maxval=1)
    uniform_density = jnp.full(
        uniform.shape[:2], -batch.action.shape[-1] * math.log(2)
    )  # 1/2 per dimension of [-1, 1]
    action, log_prob = policy.sample_many(batch.observation, count, policy_key)
    next_action, next_log_prob = policy.sample_many(batch.next_observation, count, next_key)
    log_density = jnp.concatenate([uniform_density, log_prob, next_log_prob])
    return Sampled(jnp.concatenate([uniform, action, next_action]), log_density, next_action)


def as_rows(observation: Array, actions: Array) -> tuple[Array, Array]:
    """Several actions per observation, [samples, rows, dims], as one tall batch of pairs."""
    tall = jnp.broadcast_to(observation, (len(actions), *observation.shape))
    return tall.reshape(-1, observation.shape[-1]), actions.reshape(-1, actions.shape[-1])


def best_target(config: CQL, state: SACState, batch: Batch, next_action: Array) -> Array:
    """y = r + discount * (1 - terminated) * min_k max_i Qtarget_k(s', a'_i)."""
    next_q = state.target_critics(*as_rows(batch.next_observation, next_action)).reshape(
        -1, *next_action.shape[:2]
    )
    return td_target(batch.reward, batch.terminated, next_q.max(axis=1).min(axis=0), config.discount)


def step_imitation(
    config: CQL, state: SACState, batch: Batch, key: Array, temperature: Array
) -> tuple[SACState, Metrics]:
    """Ascend log pi(a|s) of the log's actions, with SAC's entropy."""

    def loss(policy: TanhGaussian) -> tuple[Array, Metrics]:
        action, log_prob, *_ = draw_actions(policy, batch, key)
        q = state.critics(batch.observation, action).min(axis=0)
        value = (temperature * log_prob - policy.log_prob(batch.observation, batch.action)).mean()
        return value, {"entropy": -log_prob.mean(), "q_policy": jax.lax.stop_gradient(q).mean()}

    policy, optimiser, value, metrics = descend(
        optax.adam(config.policy_rate), loss, state.policy, state.policy_optimiser
    )
    state = state._replace(policy=policy, policy_optimiser=optimiser)
    return state, metrics | {"policy_loss": value, "temperature": temperature}
