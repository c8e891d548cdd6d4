"""IQL: implicit Q-learning (Kostrikov, Nair and Levine 2021), which never evaluates an action outside the
log.

V is an upper expectile of Q over the log's own actions, Q is learnt from V at the next state, and the policy
imitates the log's actions in proportion to how much better than V they are. The equations cited are the
paper's; the order of the steps and the targets they use are those of the authors' code.
"""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from gridcount.algorithms.contract import About, Metrics, Prepared, Report, ignore_report, run_length
from gridcount.algorithms.ranges import Inside, Positive, Share, Step, Weight, Whole
from gridcount.algorithms.steps import descend
from gridcount.losses import advantage_weight, bellman_loss, expectile_loss, polyak, td_target
from gridcount.networks import MLP, Critics, make_actor
from gridcount.policy.actor import Actor
from gridcount.transitions import Batch, Transitions

LOG_STD_RANGE = (-5.0, 2.0)  # as in the authors' code


class TanhMeanGaussian(eqx.Module):
    """A Gaussian around a tanh of a perceptron, with deviations that do not depend on the state; its
    samples are not squashed."""

    trunk: MLP
    log_std: Array  # [action_dim]

    def __init__(self, observation_dim: int, action_dim: int, hidden: tuple[int, ...], key: Array):
        self.trunk = MLP((observation_dim, *hidden, action_dim), key, last_scale=1e-3)
        self.log_std = jnp.zeros(action_dim)

    def mode(self, observation: Array, *, dropout: float = 0.0, key: Array | None = None) -> Array:
        """The mean, in (-1, 1)."""
        return jnp.tanh(self.trunk(observation, dropout=dropout, key=key))

    def log_prob(
        self, observation: Array, action: Array, *, dropout: float = 0.0, key: Array | None = None
    ) -> Array:
        """Log-density of one action per row."""
        log_std = jnp.clip(self.log_std, *LOG_STD_RANGE)
        distance = (action - self.mode(observation, dropout=dropout, key=key)) / jnp.exp(log_std)
        return (-0.5 * distance**2 - log_std - 0.5 * jnp.log(2 * jnp.pi)).sum(axis=-1)


class IQLState(NamedTuple):
    """Everything IQL carries from one update to the next."""

    policy: TanhMeanGaussian
    value: MLP
    critics: Critics
    target_critics: Critics
    policy_optimiser: optax.OptState
    value_optimiser: optax.OptState
    critic_optimiser: optax.OptState
    updates: Array  # how many updates made this state


@dataclass(frozen=True)
class IQL:
    """In-sample value learning by expectiles, and advantage-weighted imitation."""

    about = About(
        "in-sample values",
        "Kostrikov et al. 2021, arXiv:2110.06169",
        "more than one visit before an action is preferred",
    )

    hidden: tuple[Whole, ...] = (256, 256)  # hidden layers of policy, V and critics
    layer_norm: bool = False  # LayerNorm in V and the critics; not in the paper
    batch_size: Whole = 256  # rows per update
    discount: Share = 0.99  # gamma
    policy_rate: Positive = 3e-4  # Adam step of the policy at the start; it falls to 0 along half a cosine
    # updates after which the policy's step is 0: set it to the run's length
    schedule_updates: Whole = run_length(1_000_000)
    critic_rate: Positive = 3e-4  # Adam step of the critics
    value_rate: Positive = 3e-4  # Adam step of V
    target_step: Step = 0.005  # how far the target critics move per update (alpha in the paper)
    # which expectile of Q is V (tau): 0.5 values the log's policy, towards 1 the best of its actions
    expectile: Inside = 0.7
    advantage_scale: Weight = 3.0  # how sharply better actions are preferred (beta, the inverse temperature)
    weight_limit: Positive = 100.0  # no row weighs more than this in the policy's loss
    dropout: Share = 0.0  # share of the policy's hidden units left out of each training step
    # reward * 1000 / (best - worst return), or reward - 1
    reward_scaling: Literal["none", "return-range", "minus-one"] = "none"

    def prepare(self, data: Transitions) -> Prepared:
        """Scale the rewards as the authors do for this kind of task."""
        scale, offset, note = reward_change(self.reward_scaling, data)
        if not note:
            return Prepared(self, data.rows(), {})
        reward = (np.asarray(data.reward, np.float64) * scale + offset).astype(np.float32)
        return Prepared(self, replace(data, reward=reward).rows(), {"reward": note})

    def init(self, key: Array, rows: Batch, report: Report = ignore_report) -> IQLState:
        """Random networks, targets equal to the critics."""
        observation_dim, action_dim = rows.observation.shape[1], rows.action.shape[1]
        policy_key, value_key, critic_key = jax.random.split(key, 3)
        policy = TanhMeanGaussian(observation_dim, action_dim, self.hidden, policy_key)
        value = MLP((observation_dim, *self.hidden, 1), value_key, layer_norm=self.layer_norm)
        critics = Critics(2, observation_dim, action_dim, self.hidden, critic_key, layer_norm=self.layer_norm)
        return IQLState(
            policy,
            value,
            critics,
            jax.tree.map(jnp.copy, critics),
            self._policy_adam().init(policy),
            optax.adam(self.value_rate).init(value),
            optax.adam(self.critic_rate).init(critics),
            jnp.zeros((), jnp.int32),
        )

    def update(self, state: IQLState, batch: Batch, key: Array) -> tuple[IQLState, Metrics]:
        """One step of V, then the policy, then the critics and their targets."""
        target_q = state.target_critics(batch.observation, batch.action).min(axis=0)

        def value_loss(value: MLP) -> tuple[Array, Metrics]:  # Eq. 5
            v = value(batch.observation)[:, 0]
            return expectile_loss(target_q - v, self.expectile), {"v_data": v.mean()}

        value, value_optimiser, loss, metrics = descend(
            optax.adam(self.value_rate), value_loss, state.value, state.value_optimiser
        )
        metrics["value_loss"] = loss

        # Policy and critics see V after its step, in one pass for both states.
        v, next_v = jnp.split(value(jnp.concatenate([batch.observation, batch.next_observation]))[:, 0], 2)
        weight = advantage_weight(target_q - v, self.advantage_scale, self.weight_limit)

        def policy_loss(policy: TanhMeanGaussian) -> tuple[Array, Metrics]:  # Eq. 7
            log_prob = policy.log_prob(batch.observation, batch.action, dropout=self.dropout, key=key)
            return -(weight * log_prob).mean(), {}

        policy, policy_optimiser, loss, _ = descend(
            self._policy_adam(), policy_loss, state.policy, state.policy_optimiser
        )
        metrics |= {"policy_loss": loss, "advantage": (target_q - v).mean(), "weight": weight.mean()}

        target = td_target(batch.reward, batch.terminated, next_v, self.discount)

        def critic_loss(critics: Critics) -> tuple[Array, Metrics]:  # Eq. 6
            q = critics(batch.observation, batch.action)
            return bellman_loss(q, target), {"q_data": q.mean()}

        critics, critic_optimiser, loss, q = descend(
            optax.adam(self.critic_rate), critic_loss, state.critics, state.critic_optimiser
        )
        targets = polyak(state.target_critics, critics, self.target_step)
        optimisers = policy_optimiser, value_optimiser, critic_optimiser
        return IQLState(policy, value, critics, targets, *optimisers, state.updates + 1), metrics | q | {
            "critic_loss": loss
        }

    def actor(self, state: IQLState) -> Actor:
        """The mean of the policy."""
        return make_actor(state.policy.trunk.perceptron())

    def _policy_adam(self) -> optax.GradientTransformation:
        """Adam whose step falls from policy_rate to 0 along half a cosine."""
        return optax.adam(optax.cosine_decay_schedule(self.policy_rate, self.schedule_updates))


def reward_change(scaling: str, data: Transitions) -> tuple[float, float, str]:
    """The factor and offset of rewards, and the reason; no reason if they are unchanged."""
    if scaling == "minus-one":
        return 1.0, -1.0, "each reward less 1"
    if scaling == "return-range":
        returns = data.episode_returns
        spread = float(returns.max() - returns.min())
        if spread > 0:
            scale = 1000 / spread
            return (
                scale,
                0.0,
                f"times {scale:.4g}, so that 1000 lies between the worst episode ({returns.min():.4g}) and"
                f" the best ({returns.max():.4g})",
            )
    return 1.0, 0.0, ""
