"""UWAC: uncertainty-weighted actor-critic (Wu et al. 2021), which is BEAR (Kumar et al. 2019) with critics
that estimate their uncertainty.

BEAR keeps the policy's actions, as a set, near those of a model of the log's own (a VAE) by a bound on their
maximum mean discrepancy. UWAC applies dropout to the critics, uses the variance of a value as its
uncertainty, and gives uncertain values less weight in both losses. Comments say which version is used where
paper and code differ.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from gridcount.algorithms.autoencoder import ConditionalVAE
from gridcount.algorithms.contract import About, Metrics, Prepared, Report, added_later, ignore_report
from gridcount.algorithms.ranges import Count, Positive, Range, Share, Step, Weight, Whole
from gridcount.algorithms.regularisation import drop_units, first_directions, spectral_norm
from gridcount.algorithms.steps import descend
from gridcount.losses import (
    mean_discrepancy,
    polyak,
    td_target,
    uncertainty_weight,
    variational_loss,
    weighted_bellman_loss,
)
from gridcount.networks import (
    LOG_STD_HIGH,
    Critics,
    TanhGaussian,
)
from gridcount.policy.actor import Actor, Candidates
from gridcount.transitions import Batch, Transitions

LOG_MULTIPLIER_RANGE = (-5.0, 10.0)  # BEAR's code
LATENT_LIMIT = 0.5  # BEAR's samples of the log's actions come from latents clipped to this, as in BCQ
KL_WEIGHT = 0.5  # of the VAE's loss, as in BCQ


class UWACState(NamedTuple):
    """Everything UWAC carries from one update to the next."""

    policy: TanhGaussian
    behaviour: ConditionalVAE  # the model of the log's actions
    critics: Critics
    target_critics: Critics
    directions: list[
        Array
    ]  # the leading singular direction of each critic layer: empty without spectral normalisation
    target_directions: list[Array]
    log_multiplier: Array  # of the Lagrange multiplier that holds the discrepancy to its bound
    policy_optimiser: optax.OptState
    behaviour_optimiser: optax.OptState
    critic_optimiser: optax.OptState
    multiplier_optimiser: optax.OptState
    updates: Array  # how many updates made this state


@dataclass(frozen=True)
class UWAC:
    """BEAR with dropout-variance weights on critic and policy."""

    about = About(
        "policy constraint", "Wu et al. 2021, arXiv:2105.08140", "weights from visits instead of dropout"
    )

    hidden: tuple[Whole, ...] = (256, 256)  # hidden layers of policy and critics
    behaviour_hidden: tuple[Whole, ...] = (750, 750)  # hidden layers of the VAE's encoder and decoder
    layer_norm: bool = False  # LayerNorm in the critics; not in the paper
    # divide each critic layer by its largest singular value, as the authors' code does
    spectral_norm: bool = True
    batch_size: Whole = 256  # rows per update
    discount: Share = 0.99  # gamma
    policy_rate: Positive = 1e-4  # Adam step of the policy
    critic_rate: Positive = 3e-4  # Adam step of the critics
    behaviour_rate: Positive = 3e-4  # Adam step of the VAE
    multiplier_rate: Positive = 1e-3  # Adam step of the Lagrange multiplier
    target_step: Step = 0.005  # how far the target critics move per update (tau)
    dropout: Share = 0.1  # share of the critics' hidden units left out of each pass
    # forward passes for each mean and variance; most of the CPU time is spent here
    passes: Annotated[int, Range(2)] = 100
    # beta/Var as the paper has it, or exp(-beta*Var), the authors' code's default
    weighting: Literal["inverse", "exponential"] = "inverse"
    weight_scale: Positive = 0.5  # how strongly uncertain values are down-weighted (beta)
    # no row weighs more than this; the authors' code's default, for the exponential, is 1
    weight_limit: Positive = 1.5
    # weigh critics' errors before they are squared, as the authors' code; else the squares
    weight_errors: bool = added_later(False)
    next_actions: Whole = 10  # actions of the policy at s' of which the best is bootstrapped from
    # the target is this much of the smaller critic and the rest of the larger (lambda)
    minimum_share: Annotated[float, Range(0, 1)] = 0.75
    kernel: Literal["gaussian", "laplacian"] = "gaussian"  # of the discrepancy
    kernel_width: Positive = 20.0  # of the discrepancy (sigma)
    # actions per state, of the policy and of the VAE, that the discrepancy compares
    discrepancy_samples: Whole = 4
    discrepancy_limit: Weight = 0.07  # the bound the multiplier holds it to (epsilon)
    warmup_updates: Count = 40_000  # until then the policy only learns to keep the bound
    # actions drawn at each observation, of which the one the first critic values most is taken
    candidates: Whole = 100

    def prepare(self, data: Transitions) -> Prepared:
        """UWAC takes the rows as they are."""
        if self.passes < 2:
            raise ValueError(f"passes is {self.passes}; a variance needs at least 2")
        return Prepared(self, data.rows(), {})

    def init(self, key: Array, rows: Batch, report: Report = ignore_report) -> UWACState:
        """Random networks, targets equal to the critics, multiplier 1."""
        observation_dim, action_dim = rows.observation.shape[1], rows.action.shape[1]
        policy_key, behaviour_key, critic_key, direction_key = jax.random.split(key, 4)
        policy = TanhGaussian(observation_dim, action_dim, self.hidden, policy_key)
        behaviour = ConditionalVAE(
            observation_dim, action_dim, 2 * action_dim, self.behaviour_hidden, behaviour_key
        )
        critics = Critics(2, observation_dim, action_dim, self.hidden, critic_key, layer_norm=self.layer_norm)
        directions = first_directions(critics.members, direction_key) if self.spectral_norm else []
        log_multiplier = jnp.zeros(())
        return UWACState(
            policy,
            behaviour,
            critics,
            jax.tree.map(jnp.copy, critics),
            directions,
            jax.tree.map(jnp.copy, directions),
            log_multiplier,
            optax.adam(self.policy_rate).init(policy),
            optax.adam(self.behaviour_rate).init(behaviour),
            optax.adam(self.critic_rate).init(critics),
            optax.adam(self.multiplier_rate).init(log_multiplier),
            jnp.zeros((), jnp.int32),
        )

    def update(self, state: UWACState, batch: Batch, key: Array) -> tuple[UWACState, Metrics]:
        """One step of the VAE, then of critics, policy and multiplier, each with the networks as they were
        before."""
        vae_key, latent_key, next_key, target_key, critic_key, action_key, policy_key = jax.random.split(
            key, 7
        )
        before = state
        state, metrics = self._step_behaviour(state, batch, vae_key)
        targets, target_directions = self._smooth(before.target_critics, before.target_directions)
        target, next_variance = self._target(before.policy, targets, batch, next_key, target_key)
        state, critic_metrics = self._step_critics(state, batch, target, next_variance, critic_key)
        smooth, directions = self._smooth(before.critics, before.directions)
        supported = self._supported(state.behaviour, batch.observation, latent_key)
        state, policy_metrics = self._step_policy(state, smooth, batch, supported, action_key, policy_key)
        state = self._step_multiplier(state, policy_metrics["multiplier"], policy_metrics["discrepancy"])
        state = state._replace(
            target_critics=polyak(before.target_critics, state.critics, self.target_step),
            directions=directions,
            target_directions=target_directions,
            updates=before.updates + 1,
        )
        return state, metrics | critic_metrics | policy_metrics

    def actor(self, state: UWACState) -> Actor:
        """Of the policy's candidates the one the first critic, with all its units, values most; the draws
        are fixed."""
        critics, _ = self._smooth(state.critics, state.directions)
        action_dim = state.policy.trunk.biases[-1].shape[-1] // 2
        noise = jax.random.normal(jax.random.key(0), (self.candidates, action_dim))
        critic = jax.tree.map(lambda weights: weights[0], critics.members).perceptron()
        candidates = Candidates(noise, state.policy.log_std_low, LOG_STD_HIGH, critic)
        return Actor(state.policy.trunk.perceptron(), candidates=candidates)

    def _step_behaviour(self, state: UWACState, batch: Batch, key: Array) -> tuple[UWACState, Metrics]:
        """One step of the model of the log's actions (BEAR's pi_beta)."""

        def loss(behaviour: ConditionalVAE) -> tuple[Array, Metrics]:
            return variational_loss(
                batch.action, *behaviour(batch.observation, batch.action, key), KL_WEIGHT
            ), {}

        behaviour, optimiser, value, _ = descend(
            optax.adam(self.behaviour_rate), loss, state.behaviour, state.behaviour_optimiser
        )
        return state._replace(behaviour=behaviour, behaviour_optimiser=optimiser), {"behaviour_loss": value}

    def _target(
        self, policy: TanhGaussian, targets: Critics, batch: Batch, action_key: Array, pass_key: Array
    ) -> tuple[Array, Array]:
        """The value of the best of several actions of the policy at s' (as BEAR's target), and the variance
        of the most uncertain one."""
        rows = len(batch.observation)
        next_action = jnp.tanh(
            policy.raw(batch.next_observation, action_key, self.next_actions)
        )  # [actions, rows, action_dim]
        repeated = jnp.tile(batch.next_observation, (self.next_actions, 1))
        mean, variance = self._guess(targets, repeated, next_action.reshape(len(repeated), -1), pass_key)
        blend = self.minimum_share * mean.min(axis=0) + (1 - self.minimum_share) * mean.max(axis=0)
        next_value = blend.reshape(-1, rows).max(axis=0)
        target = td_target(batch.reward, batch.terminated, next_value, self.discount)
        return target, variance.sum(axis=0).reshape(-1, rows).max(axis=0)

    def _step_critics(
        self, state: UWACState, batch: Batch, target: Array, next_variance: Array, key: Array
    ) -> tuple[UWACState, Metrics]:
        """One step of the critics; rows with an uncertain target weigh less."""
        weight = self._weight(next_variance)

        def loss(raw: Critics) -> tuple[Array, Metrics]:
            critics, _ = self._smooth(raw, state.directions)
            q = critics(batch.observation, batch.action, dropout=self.dropout, key=key)
            row_weight = weight**2 if self.weight_errors else weight
            return weighted_bellman_loss(q, target, row_weight), {"q_data": q.mean()}

        critics, optimiser, value, metrics = descend(
            optax.adam(self.critic_rate), loss, state.critics, state.critic_optimiser
        )
        metrics |= {"critic_loss": value, "weight": weight.mean(), "variance": next_variance.mean()}
        return state._replace(critics=critics, critic_optimiser=optimiser), metrics

    def _supported(self, behaviour: ConditionalVAE, observation: Array, key: Array) -> Array:
        """Actions like the log's, before the tanh: [samples, rows, action_dim]."""
        shape = (self.discrepancy_samples, len(observation), behaviour.latent_dim)
        latent = jnp.clip(jax.random.normal(key, shape), -LATENT_LIMIT, LATENT_LIMIT)
        return behaviour.decode_raw(observation, latent)

    def _step_policy(
        self,
        state: UWACState,
        critics: Critics,
        batch: Batch,
        supported: Array,
        action_key: Array,
        pass_key: Array,
    ) -> tuple[UWACState, Metrics]:
        """Ascend weighted values within the bound on the discrepancy (BEAR's, of actions before the tanh)."""
        observation, rows = batch.observation, len(batch.observation)
        multiplier = jnp.exp(state.log_multiplier)

        def weighted_value(action: Array) -> tuple[Array, Array]:
            mean, variance = self._guess(critics, observation, action, pass_key)
            weight = self._weight(variance.sum(axis=0))
            return mean.min(axis=0) * weight, weight

        def no_value(action: Array) -> tuple[Array, Array]:
            return jnp.zeros(rows), jnp.zeros(rows)

        def loss(policy: TanhGaussian) -> tuple[Array, Metrics]:
            raw = policy.raw(observation, action_key, self.discrepancy_samples)
            discrepancy = mean_discrepancy(supported, raw, self.kernel_width, self.kernel)
            warm = state.updates >= self.warmup_updates
            value, weight = jax.lax.cond(warm, weighted_value, no_value, jnp.tanh(raw[0]))
            lagrangian = (multiplier * (discrepancy - self.discrepancy_limit) - value).mean()
            return lagrangian, {"discrepancy": discrepancy.mean(), "policy_weight": weight.mean()}

        policy, optimiser, value, metrics = descend(
            optax.adam(self.policy_rate), loss, state.policy, state.policy_optimiser
        )
        metrics |= {"policy_loss": value, "multiplier": multiplier}
        return state._replace(policy=policy, policy_optimiser=optimiser), metrics

    def _step_multiplier(self, state: UWACState, multiplier: Array, discrepancy: Array) -> UWACState:
        """Dual ascent: the multiplier grows while the bound is broken."""
        slope = -multiplier * (discrepancy - self.discrepancy_limit)
        change, optimiser = optax.adam(self.multiplier_rate).update(slope, state.multiplier_optimiser)
        log_multiplier = jnp.clip(state.log_multiplier + change, *LOG_MULTIPLIER_RANGE)
        return state._replace(log_multiplier=log_multiplier, multiplier_optimiser=optimiser)

    def _smooth(self, critics: Critics, directions: list[Array]) -> tuple[Critics, list[Array]]:
        """The critics as they are used: spectrally normalised or as they are."""
        if not self.spectral_norm:
            return critics, directions
        members, directions = spectral_norm(critics.members, directions)
        return critics.with_members(members), directions

    def _guess(self, critics: Critics, observation: Array, action: Array, key: Array) -> tuple[Array, Array]:
        """Mean and variance of each critic's value over passes with units left out: [critics, rows] each.

        All rows share a pass's units, so that leaving them out is a change of weights and the passes are
        plain matrix
        multiplications: for a row alone the distribution is that of dropout, as for two rows with units of
            their own.
        """

        x = jnp.concatenate([observation, action], axis=-1)

        def one_pass(
            key: Array,
        ) -> Array:  # rows first: without gradients of weights this is the faster order at any height
            q: Array = eqx.filter_vmap(lambda member: member(x)[:, 0])(
                drop_units(critics.members, self.dropout, key)
            )
            return q

        q = jax.lax.map(one_pass, jax.random.split(key, self.passes))  # [passes, critics, rows]
        return q.mean(axis=0), q.var(axis=0, ddof=1)

    def _weight(self, variance: Array) -> Array:
        return uncertainty_weight(
            jax.lax.stop_gradient(variance), self.weight_scale, self.weight_limit, self.weighting
        )
