"""TD3-CVAE: offline reinforcement learning as anti-exploration (Rezaeifar et al. 2022).

A conditional variational autoencoder learns the log's actions given its observations, then is fixed. Its
reconstruction error of an action is a bonus for novelty in exploration; here it is subtracted from the target
and from the policy's objective. Where the paper's appendix could not be seen, values are those of the first
author's published research code.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import jax
import optax
from jax import Array

from gridcount.algorithms.autoencoder import ConditionalVAE
from gridcount.algorithms.blocks import learn_first
from gridcount.algorithms.contract import (
    About,
    Metrics,
    Prepared,
    Report,
    added_later,
    ignore_report,
    pretraining,
)
from gridcount.algorithms.ranges import Count, Positive, Weight, Whole
from gridcount.algorithms.steps import descend
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
from gridcount.losses import squared_distance, variational_loss
from gridcount.networks import Deterministic
from gridcount.policy.actor import Actor
from gridcount.transitions import Batch, Transitions


class TD3CVAEState(NamedTuple):
    """TD3's state and the autoencoder, which no longer learns."""

    learner: TD3State
    cvae: ConditionalVAE


class CVAEState(NamedTuple):
    """The autoencoder while it learns."""

    cvae: ConditionalVAE
    optimiser: optax.OptState


@dataclass(frozen=True)
class CVAELearner:
    """How the autoencoder learns: a batch at a time, as algorithms do."""

    batch_size: int
    rate: float
    kl_weight: float

    def update(self, state: CVAEState, batch: Batch, key: Array) -> tuple[CVAEState, Metrics]:
        """One step down the reconstruction error and the divergence of the latent from a standard
        Gaussian."""

        def loss(cvae: ConditionalVAE) -> tuple[Array, Metrics]:
            reconstruction, mean, log_std = cvae(batch.observation, batch.action, key)
            return variational_loss(batch.action, reconstruction, mean, log_std, self.kl_weight), {}

        cvae, optimiser, value, _ = descend(optax.adam(self.rate), loss, state.cvae, state.optimiser)
        return CVAEState(cvae, optimiser), {"cvae_loss": value}


@dataclass(frozen=True)
class TD3CVAE(TD3Fields):
    """TD3 with the reconstruction error of a pre-trained autoencoder as a penalty on novelty."""

    about = About(
        "value penalty",
        "Rezaeifar et al. 2022, arXiv:2106.06431",
        "a bonus that needs no model of the actions",
    )

    hidden: tuple[Whole, ...] = (400, 300)  # hidden layers of policy and critics
    policy_rate: Positive = 1e-4  # Adam step of the policy
    critic_rate: Positive = 1e-4  # Adam step of the critics
    # weight of the bonus in the target (alpha); the paper's value not verified, this one is ours
    target_penalty: Weight = 5.0
    # weight of the bonus in the policy's objective (beta); the paper's value not verified, this one is ours
    policy_penalty: Weight = 5.0
    # divide the bonus by dim(A)^2, as the first author's code, where both weights are 1
    average_bonus: bool = added_later(False)
    # rewards are multiplied by this; auto: 1 / (largest - smallest reward)
    reward_scale: Positive | Literal["auto"] = "auto"
    cvae_hidden: tuple[Whole, ...] = (750, 750)  # hidden layers of encoder and decoder
    cvae_latent: Whole = 12  # dimensions of the latent
    cvae_kl_weight: Weight = 0.5  # weight of the latent's divergence against the reconstruction
    cvae_rate: Positive = 1e-4  # Adam step of the autoencoder
    cvae_batch_size: Whole = 100  # rows per update of the autoencoder
    # updates of the autoencoder before training; the authors' code makes 50 passes through the log
    cvae_updates: Count = pretraining(100_000, "autoencoder")

    def prepare(self, data: Transitions) -> Prepared:
        """The rows as they are, and what brings their rewards to a range of 1."""
        if self.reward_scale != "auto":
            return Prepared(self, data.rows(), {})
        low, high = float(data.reward.min()), float(data.reward.max())
        scale = 1 / (high - low) if high > low else 1.0
        note = f"{scale:.4g}: rewards lie between {low:.3g} and {high:.3g}, and are brought to a range of 1"
        return Prepared(replace(self, reward_scale=scale), data.rows(), {"reward_scale": note})

    def init(self, key: Array, rows: Batch, report: Report = ignore_report) -> TD3CVAEState:
        """TD3's networks, and the autoencoder trained on the log."""
        network_key, cvae_key, learning_key = jax.random.split(key, 3)
        observation_dim, action_dim = rows.observation.shape[1], rows.action.shape[1]
        cvae = ConditionalVAE(observation_dim, action_dim, self.cvae_latent, self.cvae_hidden, cvae_key)
        cvae_state = CVAEState(cvae, optax.adam(self.cvae_rate).init(cvae))
        learner = CVAELearner(self.cvae_batch_size, self.cvae_rate, self.cvae_kl_weight)
        nothing: Any = None
        columns = rows._replace(next_observation=nothing, terminated=nothing)  # unused columns are not copied
        cvae_state = learn_first(
            learner, cvae_state, columns, learning_key, self.cvae_updates, "autoencoder of actions", report
        )
        return TD3CVAEState(init_networks(self, network_key, observation_dim, action_dim), cvae_state.cvae)

    def update(self, state: TD3CVAEState, batch: Batch, key: Array) -> tuple[TD3CVAEState, Metrics]:
        """One step of TD3 with the bonus subtracted from the target and from the policy's objective."""
        if self.reward_scale == "auto":
            raise ValueError('reward_scale is still "auto"; use the algorithm that prepare(data) returns')
        action_key, target_key, policy_key = jax.random.split(key, 3)
        batch = batch._replace(reward=self.reward_scale * batch.reward)
        next_action = smoothed(self, state.learner.target_policy(batch.next_observation), action_key)
        scale = batch.action.shape[1] ** -2 if self.average_bonus else 1.0
        next_bonus = scale * bonus(state.cvae, batch.next_observation, next_action, target_key)
        target = bellman_target(self, state.learner, batch, next_action, self.target_penalty * next_bonus)
        learner, metrics = step_critics(self, state.learner, fit(batch, target))
        critic = first(learner.critics)

        def policy_loss(policy: Deterministic) -> tuple[Array, Metrics]:
            action = policy(batch.observation)
            q = critic(batch.observation, action)[0]
            novelty = scale * bonus(state.cvae, batch.observation, action, policy_key)
            return (self.policy_penalty * novelty - q).mean(), {"q_policy": q.mean(), "bonus": novelty.mean()}

        learner, policy_metrics = step_policy(self, learner, policy_loss)
        return TD3CVAEState(learner, state.cvae), metrics | policy_metrics | {"next_bonus": next_bonus.mean()}

    def actor(self, state: TD3CVAEState) -> Actor:
        """The policy."""
        return state.learner.policy.actor()


def bonus(cvae: ConditionalVAE, observation: Array, action: Array, key: Array) -> Array:
    """b(s, a) = |a - decode(s, encode(s, a))|^2, per row: large where the log has no such action."""
    return squared_distance(cvae(observation, action, key)[0], action)
