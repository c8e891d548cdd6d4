"""TD3: twin delayed deep deterministic policy gradient (Fujimoto, van Hoof and Meger 2018), trained on a log,
without any pessimism.

Its steps are functions, so that relatives call them instead of inheriting. The networks and rates are those
of the authors' later code (256, 256, batch 256, Adam 3e-4), which TD3+BC builds on; the paper's own were 400,
300, batch 100 and 1e-3.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from gridcount.algorithms.contract import About, Metrics, Prepared, Report, ignore_report
from gridcount.algorithms.ranges import Positive, Share, Step, Weight, Whole
from gridcount.algorithms.steps import decayed, descend
from gridcount.losses import bellman_loss, polyak, td_target
from gridcount.networks import Critics, Deterministic
from gridcount.policy.actor import Actor
from gridcount.transitions import Batch, Transitions

PolicyLoss = Callable[[Deterministic], tuple[Array, Metrics]]


class TD3State(NamedTuple):
    """Everything TD3 carries from one update to the next."""

    policy: Deterministic  # learns and acts
    target_policy: Deterministic
    critics: Critics
    target_critics: Critics
    policy_optimiser: optax.OptState
    critic_optimiser: optax.OptState
    updates: Array  # how many updates made this state


@dataclass(frozen=True)
class TD3Fields:
    """Hyper-parameters that TD3 and its relatives share: fields only, written once."""

    hidden: tuple[Whole, ...] = (256, 256)  # hidden layers of policy and critics
    layer_norm: bool = False  # LayerNorm in the critics
    batch_size: Whole = 256  # rows per update
    discount: Share = 0.99  # gamma
    policy_rate: Positive = 3e-4  # Adam step of the policy
    critic_rate: Positive = 3e-4  # Adam step of the critics
    target_step: Step = 0.005  # how far the target networks move at each of their updates (tau)
    smoothing: Weight = 0.2  # standard deviation of the noise on the target policy's actions (sigma)
    smoothing_limit: Weight = 0.5  # that noise is clipped to plus or minus this (c)
    policy_every: Whole = 2  # critic updates per update of the policy and the targets (d)


@dataclass(frozen=True)
class TD3(TD3Fields):
    """Twin delayed deep deterministic policy gradient."""

    about = About("none", "Fujimoto et al. 2018, arXiv:1802.09477", "all pessimism: this algorithm has none")

    def prepare(self, data: Transitions) -> Prepared:
        """TD3 takes the rows as they are."""
        return Prepared(self, data.rows(), {})

    def init(self, key: Array, rows: Batch, report: Report = ignore_report) -> TD3State:
        """Random networks, and targets equal to them."""
        return init_networks(self, key, rows.observation.shape[1], rows.action.shape[1])

    def update(self, state: TD3State, batch: Batch, key: Array) -> tuple[TD3State, Metrics]:
        """One step of the critics and, every second time, of the policy and the targets (Algorithm 1)."""
        next_action = smoothed(self, state.target_policy(batch.next_observation), key)
        state, metrics = step_critics(
            self, state, fit(batch, bellman_target(self, state, batch, next_action))
        )
        state, policy_metrics = step_policy(self, state, ascend(first(state.critics), batch))
        return state, metrics | policy_metrics

    def actor(self, state: TD3State) -> Actor:
        """The policy."""
        return state.policy.actor()


@eqx.filter_jit
def init_networks(
    config: TD3Fields, key: Array, observation_dim: int, action_dim: int, *, norm_after: bool = False
) -> TD3State:
    """Random networks, and targets equal to them."""
    policy_key, critic_key = jax.random.split(key)
    policy = Deterministic(observation_dim, action_dim, config.hidden, policy_key)
    critics = Critics(
        2,
        observation_dim,
        action_dim,
        config.hidden,
        critic_key,
        layer_norm=config.layer_norm,
        norm_after=norm_after,
    )
    return TD3State(
        policy,
        jax.tree.map(jnp.copy, policy),
        critics,
        jax.tree.map(jnp.copy, critics),
        optax.adam(config.policy_rate).init(policy),
        optax.adam(config.critic_rate).init(critics),
        jnp.zeros((), jnp.int32),
    )


def smoothed(config: TD3Fields, action: Array, key: Array) -> Array:
    """An action with clipped Gaussian noise, within [-1, 1] (target policy smoothing, Eq. 14)."""
    noise = jnp.clip(
        config.smoothing * jax.random.normal(key, action.shape),
        -config.smoothing_limit,
        config.smoothing_limit,
    )
    return jnp.clip(action + noise, -1, 1)


def bellman_target(
    config: TD3Fields, state: TD3State, batch: Batch, next_action: Array, penalty: Array | float = 0.0
) -> Array:
    """y = r + discount * (1 - terminated) * (min_k Qtarget_k(s', a') - penalty) (Eq. 10 with the action of
    Eq. 14)."""
    next_q = state.target_critics(batch.next_observation, next_action).min(axis=0)
    return td_target(batch.reward, batch.terminated, next_q - penalty, config.discount)


def fit(batch: Batch, target: Array) -> Callable[[Critics], tuple[Array, Metrics]]:
    """The critics' loss: their squared errors to one target at the log's own actions."""

    def loss(critics: Critics) -> tuple[Array, Metrics]:
        q = critics(batch.observation, batch.action)
        return bellman_loss(q, target), {"q_data": q.mean()}

    return loss


def step_critics(
    config: TD3Fields, state: TD3State, loss: Callable[[Critics], tuple[Array, Metrics]]
) -> tuple[TD3State, Metrics]:
    """One Adam step of the critics on a loss."""
    critics, optimiser, value, metrics = descend(
        optax.adam(config.critic_rate), loss, state.critics, state.critic_optimiser
    )
    return state._replace(critics=critics, critic_optimiser=optimiser), metrics | {"critic_loss": value}


def first(critics: Critics) -> Critics:
    """The first critic alone, as an ensemble of one: what the policy climbs."""
    alone: Critics = jax.tree.map(lambda weights: weights[:1], critics)
    return alone


def ascend(critics: Critics, batch: Batch) -> PolicyLoss:
    """The deterministic policy gradient: -Q_1(s, pi(s)) (Eq. 1)."""

    def loss(policy: Deterministic) -> tuple[Array, Metrics]:
        q = critics(batch.observation, policy(batch.observation)).min(axis=0)
        return -q.mean(), {"q_policy": q.mean()}

    return loss


def step_policy(
    config: TD3Fields, state: TD3State, loss: PolicyLoss, decay: float = 0.0
) -> tuple[TD3State, Metrics]:
    """Count the update and, every `policy_every` of them, take a step of the policy on a loss and move all
    targets.

    `decay` is the weight decay of AdamW.

    An update without such a step reports 0 for the policy's metrics and one with it reports them
    `policy_every` times, so that their mean over a block of updates is the mean over the steps.
    """

    def step(state: TD3State) -> tuple[TD3State, Metrics]:
        adam = optax.adam(config.policy_rate)
        policy, optimiser, value, metrics = descend(adam, loss, state.policy, state.policy_optimiser)
        if decay:
            policy = decayed(policy, state.policy, config.policy_rate * decay)
        moved = state._replace(
            policy=policy,
            policy_optimiser=optimiser,
            target_policy=polyak(state.target_policy, policy, config.target_step),
            target_critics=polyak(state.target_critics, state.critics, config.target_step),
        )
        return moved, {
            name: config.policy_every * metric for name, metric in (metrics | {"policy_loss": value}).items()
        }

    def wait(state: TD3State) -> tuple[TD3State, Metrics]:
        _, reported = jax.eval_shape(step, state)
        return state, jax.tree.map(lambda metric: jnp.zeros(metric.shape, metric.dtype), reported)

    due = (state.updates + 1) % config.policy_every == 0
    state, metrics = jax.lax.cond(due, step, wait, state)
    return state._replace(updates=state.updates + 1), metrics
