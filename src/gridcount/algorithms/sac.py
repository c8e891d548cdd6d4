"""SAC: soft actor-critic (Haarnoja et al. 2018), trained on a log; the baseline with no pessimism at all.

Its steps are functions, so that relatives call them instead of inheriting.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from gridcount.algorithms.contract import About, Metrics, Prepared, Report, added_later, ignore_report
from gridcount.algorithms.ranges import LogDeviation, Positive, Share, Step, Whole
from gridcount.algorithms.steps import descend
from gridcount.losses import bellman_loss, polyak, soft_value, td_target, temperature_loss
from gridcount.networks import LOG_STD_LOW, Critics, TanhGaussian
from gridcount.policy.actor import Actor
from gridcount.transitions import Batch, Transitions


class SACState(NamedTuple):
    """Everything SAC carries from one update to the next."""

    policy: TanhGaussian  # the one that learns
    acting_policy: TanhGaussian  # the one that acts: an average over recent updates where average_step < 1
    critics: Critics
    target_critics: Critics
    log_temperature: Array
    policy_optimiser: optax.OptState
    critic_optimiser: optax.OptState
    temperature_optimiser: optax.OptState
    updates: Array  # how many updates made this state


class Draw(NamedTuple):
    """Actions of the current policy at the batch's states, drawn once per update."""

    action: Array
    log_prob: Array
    next_action: Array
    next_log_prob: Array


@dataclass(frozen=True)
class SoftFields:
    """Hyper-parameters that SAC and its relatives share (the paper's first table): fields only, written
    once."""

    hidden: tuple[Whole, ...] = (256, 256, 256)  # hidden layers of policy and critics
    layer_norm: bool = False  # LayerNorm in the critics; not in the paper
    batch_size: Whole = 256  # rows per update
    discount: Share = 0.99  # gamma
    policy_rate: Positive = 3e-4  # Adam step of the policy and the temperature
    critic_rate: Positive = 3e-4  # Adam step of the critics
    target_step: Step = 0.005  # how far the target critics move per update (tau)
    # how far the acting policy moves towards the learning one per update; 1: no average, as in the paper
    average_step: Step = 1.0
    # "published": as GPC-SAC's code: docs/gpc-sac.md
    initialisation: Literal["fan-in", "published"] = added_later("fan-in")
    # the policy's log-deviation stays above this; -5 in GPC-SAC's code
    log_std_low: LogDeviation = added_later(LOG_STD_LOW)


@dataclass(frozen=True)
class SAC(SoftFields):
    """Soft actor-critic without any pessimism."""

    about = About("none", "Haarnoja et al. 2018, arXiv:1812.05905", "all pessimism: this algorithm has none")

    def prepare(self, data: Transitions) -> Prepared:
        """SAC takes the rows as they are."""
        return Prepared(self, data.rows(), {})

    def init(self, key: Array, rows: Batch, report: Report = ignore_report) -> SACState:
        """Random networks, targets equal to the critics, temperature 1."""
        return init_networks(self, key, rows.observation.shape[1], rows.action.shape[1])

    def update(self, state: SACState, batch: Batch, key: Array) -> tuple[SACState, Metrics]:
        """One step of temperature, critics, policy and targets."""
        draw = draw_actions(state.policy, batch, key)
        state, temperature = step_temperature(self, state, draw.log_prob)
        target = bellman_target(self, state, batch, draw, temperature)

        def critic_loss(critics: Critics) -> tuple[Array, Metrics]:
            q = critics(batch.observation, batch.action)
            return bellman_loss(q, target), {"q_data": q.mean()}

        state, metrics = step_critics(self, state, critic_loss)
        state, policy_metrics = step_policy(self, state, batch, key, temperature)
        return finish(self, state), metrics | policy_metrics

    def actor(self, state: SACState) -> Actor:
        """The mode of the policy."""
        return state.acting_policy.actor()


@eqx.filter_jit
def init_networks(
    config: SoftFields,
    key: Array,
    observation_dim: int,
    action_dim: int,
    n_critics: int = 2,
    prior_scale: float = 0.0,
) -> SACState:
    """Random networks, targets equal to the critics unless initialised as published, temperature 1."""
    policy_key, critic_key = jax.random.split(key)
    policy = TanhGaussian(
        observation_dim,
        action_dim,
        config.hidden,
        policy_key,
        initialisation=config.initialisation,
        log_std_low=config.log_std_low,
    )
    critics, targets = _init_critics(config, critic_key, observation_dim, action_dim, n_critics, prior_scale)
    log_temperature = jnp.zeros(())
    return SACState(
        policy,
        jax.tree.map(jnp.copy, policy),
        critics,
        targets,
        log_temperature,
        optax.adam(config.policy_rate).init(policy),
        optax.adam(config.critic_rate).init(critics),
        optax.adam(config.policy_rate).init(log_temperature),
        jnp.zeros((), jnp.int32),
    )


def _init_critics(
    config: SoftFields, key: Array, observation_dim: int, action_dim: int, n_critics: int, prior_scale: float
) -> tuple[Critics, Critics]:
    """Random critics and their targets.

    The published code never copies the critics into their targets: those start from a draw of their own.
    """
    draw_critics = partial(
        Critics,
        n_critics,
        observation_dim,
        action_dim,
        config.hidden,
        layer_norm=config.layer_norm,
        prior_scale=prior_scale,
        initialisation=config.initialisation,
    )
    critics = draw_critics(key=key)
    if config.initialisation == "published":
        return critics, draw_critics(key=jax.random.fold_in(key, 2))
    return critics, jax.tree.map(jnp.copy, critics)


def draw_actions(policy: TanhGaussian, batch: Batch, key: Array) -> Draw:
    """a ~ pi(s) and a' ~ pi(s')."""
    action_key, next_key = jax.random.split(key)
    return Draw(
        *policy.sample(batch.observation, action_key), *policy.sample(batch.next_observation, next_key)
    )


def bellman_target(
    config: SoftFields, state: SACState, batch: Batch, draw: Draw, temperature: Array
) -> Array:
    """y = r + discount * (1 - terminated) * (min_k Qtarget_k(s', a') - temperature * log pi(a'|s'))
    (GPC-SAC, Eq. 4)."""
    next_q = state.target_critics(batch.next_observation, draw.next_action)
    return td_target(
        batch.reward, batch.terminated, soft_value(next_q, draw.next_log_prob, temperature), config.discount
    )


def step_temperature(config: SoftFields, state: SACState, log_prob: Array) -> tuple[SACState, Array]:
    """Tune the temperature towards an entropy of -dim(A), before anything uses it."""
    target_entropy = -float(state.policy.trunk.biases[-1].shape[0] // 2)
    gradient = jax.grad(temperature_loss)(state.log_temperature, log_prob, target_entropy)
    change, optimiser = optax.adam(config.policy_rate).update(gradient, state.temperature_optimiser)
    log_temperature = state.log_temperature + change
    return state._replace(log_temperature=log_temperature, temperature_optimiser=optimiser), jnp.exp(
        log_temperature
    )


def step_critics(
    config: SoftFields, state: SACState, loss: Callable[[Critics], tuple[Array, Metrics]]
) -> tuple[SACState, Metrics]:
    """One Adam step of the critics on a loss."""
    critics, optimiser, value, metrics = descend(
        optax.adam(config.critic_rate), loss, state.critics, state.critic_optimiser
    )
    return state._replace(critics=critics, critic_optimiser=optimiser), metrics | {"critic_loss": value}


def step_policy(
    config: SoftFields, state: SACState, batch: Batch, key: Array, temperature: Array
) -> tuple[SACState, Metrics]:
    """Ascend min_k Q_k(s, a) - temperature * log pi(a|s) with the critics just updated (GPC-SAC, Eq. 10).

    The action is redrawn with the same key, so it is the one the critics saw (and compiled only once).
    """

    def loss(policy: TanhGaussian) -> tuple[Array, Metrics]:
        action, log_prob, *_ = draw_actions(policy, batch, key)
        q = state.critics(batch.observation, action)
        return -soft_value(q, log_prob, temperature).mean(), {
            "entropy": -log_prob.mean(),
            "q_policy": q.min(axis=0).mean(),
        }

    policy, optimiser, value, metrics = descend(
        optax.adam(config.policy_rate), loss, state.policy, state.policy_optimiser
    )
    state = state._replace(policy=policy, policy_optimiser=optimiser)
    return state, metrics | {"policy_loss": value, "temperature": temperature}


def finish(config: SoftFields, state: SACState) -> SACState:
    """Move the target critics and the acting policy, and count the update."""
    targets = polyak(state.target_critics, state.critics, config.target_step)
    acting = polyak(state.acting_policy, state.policy, config.average_step)
    return state._replace(target_critics=targets, acting_policy=acting, updates=state.updates + 1)
