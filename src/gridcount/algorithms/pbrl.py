"""PBRL: pessimistic bootstrapping (Bai et al. 2022), on top of SAC.

Ten critics learn from targets of their own; how much they disagree is the uncertainty. It is taken from the
targets, and from the values of the policy's own actions at logged states. Where the paper leaves things open,
its authors' code decides.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from gridcount.algorithms.contract import EPOCH, About, Metrics, Prepared, Report, ignore_report
from gridcount.algorithms.gpc import number
from gridcount.algorithms.ranges import AtLeastOne, Number, Positive, Weight, Whole
from gridcount.algorithms.sac import (
    SACState,
    SoftFields,
    draw_actions,
    finish,
    init_networks,
    step_policy,
    step_temperature,
)
from gridcount.algorithms.steps import descend_in_parts, in_parts
from gridcount.counts.auto import auto_q_floor
from gridcount.losses import bellman_loss, count_penalty_loss, ensemble_spread, td_target
from gridcount.networks import Critics
from gridcount.policy.actor import Actor
from gridcount.transitions import Batch, Transitions

RECORD, RECENT = 20, 5  # looks remembered, and how many of them are compared with those before
PART = 32  # rows of a batch that are learnt from at a time, each with all its sampled actions


class PBRLState(NamedTuple):
    """SAC's state, and what the weight of the out-of-distribution penalty depends on."""

    learner: SACState
    ood_weight: Array  # where the weight stands once its linear descent is over
    record: Array  # [RECORD] mean values of the policy's actions, one per epoch, the latest last


class Part(NamedTuple):
    """Some rows of a batch with their targets and sampled actions; in a batch of parts each has one more
    leading axis."""

    observation: Array  # [rows, observation_dim]
    action: Array  # [rows, action_dim]
    target: Array  # [rows, critics]
    next_observation: Array  # [rows, observation_dim]
    policy_action: Array  # [rows, sampled_actions, action_dim] at the observation
    next_action: Array  # [rows, sampled_actions, action_dim] at the next observation


@dataclass(frozen=True)
class PBRL(SoftFields):
    """SAC with pessimism by the disagreement of an ensemble."""

    about = About(
        "ensemble",
        "Bai et al. 2022, arXiv:2202.11566",
        "the same penalty from a table instead of ten critics",
    )

    policy_rate: Positive = 1e-4  # Adam step of the policy and the temperature (the authors' code)
    n_critics: Whole = 10  # critics in the ensemble, each with a target of its own (K)
    beta_in: Weight = 0.01  # how much of the uncertainty of (s', a') is taken from a target (beta_in)
    ood_start: Weight = 5.0  # how much of the uncertainty of (s, a~pi) is taken at first (beta_ood)
    ood_end: Weight = 1.0  # and at the end of the linear descent
    ood_updates: Whole = 50_000  # updates of the linear descent
    # then beta_ood is divided by this whenever an epoch's values fall below those before; 1: never
    ood_decay: AtLeastOne = 1.01
    ood_floor: Weight = 0.2  # and stays above this
    beta_next: Weight = 0.1  # how much of the uncertainty of (s', a'~pi) is taken
    sampled_actions: Whole = 10  # actions of the policy penalised at each of s and s'
    q_floor: Number | Literal["auto"] = "auto"  # penalised values stay above this; 0 in the authors' code
    prior_scale: Weight = 0.0  # weight of fixed random networks added to the critics: 1 is PBRL-Prior

    def prepare(self, data: Transitions) -> Prepared:
        """Set the floor of penalised values."""
        if self.q_floor != "auto":
            return Prepared(self, data.rows(), {})
        floor, why = auto_q_floor(float(data.reward.min()), self.discount)
        return Prepared(replace(self, q_floor=floor), data.rows(), {"q_floor": why})

    def init(self, key: Array, rows: Batch, report: Report = ignore_report) -> PBRLState:
        """SAC's networks with an ensemble of critics, and nothing recorded."""
        number(self.q_floor)
        if self.n_critics < 2:
            raise ValueError(
                f"n_critics is {self.n_critics}; PBRL's uncertainty is their disagreement, so it needs at"
                " least 2"
            )
        learner = init_networks(
            self, key, rows.observation.shape[1], rows.action.shape[1], self.n_critics, self.prior_scale
        )
        return PBRLState(learner, jnp.asarray(self.ood_end, jnp.float32), jnp.zeros(RECORD))

    def update(self, state: PBRLState, batch: Batch, key: Array) -> tuple[PBRLState, Metrics]:
        """One pass of Algorithm 1's inner loop."""
        draw_key, policy_key, next_key = jax.random.split(key, 3)
        learner = state.learner
        draw = draw_actions(learner.policy, batch, draw_key)
        learner, temperature = step_temperature(self, learner, draw.log_prob)

        target = own_targets(self, learner.target_critics, batch, draw.next_action)
        policy_action, _ = learner.policy.sample_many(batch.observation, self.sampled_actions, policy_key)
        next_action, _ = learner.policy.sample_many(batch.next_observation, self.sampled_actions, next_key)
        whole = Part(
            batch.observation,
            batch.action,
            target.T,
            batch.next_observation,
            policy_action.swapaxes(0, 1),
            next_action.swapaxes(0, 1),
        )
        beta = ood_beta(self, state)
        critics, optimiser, value, metrics = descend_in_parts(
            optax.adam(self.critic_rate),
            partial(critic_loss, self, beta),
            learner.critics,
            learner.critic_optimiser,
            in_parts(whole, PART),
        )
        learner = learner._replace(critics=critics, critic_optimiser=optimiser)
        learner, policy_metrics = step_policy(
            self, learner, batch, draw_key, temperature
        )  # the minimum over the ensemble
        weight, record = next_weight(self, state, beta, metrics["q_sampled"])
        metrics |= policy_metrics | {"critic_loss": value, "ood_weight": beta}
        return PBRLState(finish(self, learner), weight, record), metrics

    def actor(self, state: PBRLState) -> Actor:
        """The mode of the policy."""
        return state.learner.acting_policy.actor()


def own_targets(config: PBRL, targets: Critics, batch: Batch, next_action: Array) -> Array:
    """Each critic's own target, less the disagreement of the target critics, without entropy:
    [critics, rows]."""
    next_q = targets(batch.next_observation, next_action)
    next_value = next_q - config.beta_in * ensemble_spread(next_q)
    return td_target(batch.reward, batch.terminated, next_value, config.discount)


def critic_loss(config: PBRL, beta: Array, critics: Critics, part: Part) -> tuple[Array, Metrics]:
    """The Bellman loss on the log's actions and the penalty on the policy's, in one pass through the
    networks."""
    rows = len(part.action)
    each = (rows * config.sampled_actions, -1)
    here = jnp.repeat(part.observation, config.sampled_actions, axis=0)
    there = jnp.repeat(part.next_observation, config.sampled_actions, axis=0)
    observation = jnp.concatenate([part.observation, here, there])
    action = jnp.concatenate([part.action, part.policy_action.reshape(each), part.next_action.reshape(each)])
    q_data, q_policy, q_next = jnp.split(critics(observation, action), [rows, rows + each[0]], axis=1)
    u, u_next = ensemble_spread(q_policy), ensemble_spread(q_next)
    loss_in = bellman_loss(q_data, part.target.T)
    floor = number(config.q_floor)
    # The mean over both halves, as in the authors' code.
    loss_ood = (
        count_penalty_loss(q_policy, beta * u, floor)
        + count_penalty_loss(q_next, config.beta_next * u_next, floor)
    ) / 2
    metrics = {
        "loss_in": loss_in,
        "loss_ood": loss_ood,
        "q_data": q_data.mean(),
        "q_sampled": q_policy.mean(),
        "uncertainty": u.mean(),
        "uncertainty_data": ensemble_spread(q_data).mean(),
    }
    return loss_in + loss_ood, metrics


def ood_beta(config: PBRL, state: PBRLState) -> Array:
    """The weight of the penalty on (s, a~pi) at this update: a linear descent, then where the record has
    brought it."""
    done = state.learner.updates / max(config.ood_updates, 1)
    return jnp.where(
        done < 1, config.ood_start + (config.ood_end - config.ood_start) * done, state.ood_weight
    )


def next_weight(config: PBRL, state: PBRLState, beta: Array, q_sampled: Array) -> tuple[Array, Array]:
    """Once an epoch: record the values of the policy's actions, and reduce the weight if the latest lie
    below those before."""
    updates = state.learner.updates
    due = updates % EPOCH == 0
    falls = state.record[-RECENT:].mean() < state.record[:-RECENT].mean()
    ready = updates > max(config.ood_updates, RECORD * EPOCH)
    weight = jnp.where(
        due & ready & falls & (beta > config.ood_floor), state.ood_weight / config.ood_decay, state.ood_weight
    )
    record = jnp.where(due, jnp.append(state.record[1:], q_sampled), state.record)
    return weight, record
