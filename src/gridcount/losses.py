"""Equations that several algorithms share, one function each, with no network inside."""

from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import Array

Tree = TypeVar("Tree")


def td_target(reward: Array, terminated: Array, next_value: Array, discount: float) -> Array:
    """Bellman target r + discount * (1 - terminated) * V(s') (Eq. 1 and 4)."""
    return reward + discount * (1 - terminated) * next_value


def soft_value(q: Array, log_prob: Array, temperature: Array) -> Array:
    """SAC's value of a sampled action: min_k Q_k - temperature * log pi."""
    return q.min(axis=0) - temperature * log_prob  # [critics, rows] -> [rows]


def bellman_loss(q: Array, target: Array) -> Array:
    """Squared error to one target, averaged over rows and summed over critics (L_in, Eq. 5)."""
    return ((q - jax.lax.stop_gradient(target)) ** 2).mean(axis=-1).sum()


def temperature_loss(log_temperature: Array, log_prob: Array, target_entropy: float) -> Array:
    """Automatic entropy tuning: raises the temperature while the policy's entropy is under its target."""
    return -(log_temperature * jax.lax.stop_gradient(log_prob + target_entropy)).mean()


def polyak(target: Tree, online: Tree, step: float) -> Tree:
    """Move the target network a step towards the online one."""
    if step == 1:
        return jax.tree.map(jnp.copy, online)  # type: ignore[no-any-return]
    moved: Tree = jax.tree.map(lambda old, new: old + step * (new - old), target, online)
    return moved


def count_uncertainty(count: Array, epoch: Array, pessimism: float) -> Array:
    """u = pessimism * sqrt(ln T / n) with T = epoch + 1, so that the first epoch is pessimistic too."""
    return pessimism * jnp.sqrt(jnp.log(epoch + 1.0) / count)


def count_penalty_loss(q: Array, uncertainty: Array, floor: float) -> Array:
    """(Q - max(Q - beta*u, floor))^2 with the target held fixed (Eq. 6 to 8), averaged over rows, summed over critics."""
    target = jax.lax.stop_gradient(jnp.maximum(q - uncertainty, floor))
    return ((q - target) ** 2).mean(axis=-1).sum()


def conservative_gap(q_sampled: Array, log_density: Array, q_data: Array) -> Array:
    """How far the soft maximum over actions lies above the data's: log sum_i exp(Q_i - log p_i) - Q(s, a), averaged over rows.

    [critics, samples, rows], [samples, rows] and [critics, rows] -> [critics] (CQL, Eq. 4 with the importance weights of its appendix F).
    """
    return (jax.nn.logsumexp(q_sampled - log_density, axis=1) - q_data).mean(axis=-1)


def ensemble_similarity(slopes: Array) -> Array:
    """Cosines between critics' action gradients, 1/(N-1) * sum over i != j, averaged over rows: [critics, rows, dims] -> scalar (EDAC).

    Of unit vectors g_i that sum is |sum_i g_i|^2 - sum_i |g_i|^2, which needs no pairs.
    """
    unit = slopes * jax.lax.rsqrt((slopes**2).sum(axis=-1, keepdims=True) + 1e-20)
    pairs = (unit.sum(axis=0) ** 2).sum(axis=-1) - (unit**2).sum(axis=(0, 2))
    return pairs.mean() / (len(slopes) - 1)


def ensemble_spread(q: Array) -> Array:
    """Disagreement of an ensemble, its standard deviation (N - 1 in the denominator): [critics, rows] -> [rows] (PBRL's uncertainty)."""
    return q.std(axis=0, ddof=1)


def scale_free(q: Array) -> Array:
    """Values divided by their mean magnitude, held fixed, so that their scale does not weigh against other terms (TD3+BC, Eq. 5)."""
    return q / jax.lax.stop_gradient(jnp.abs(q).mean())


def squared_distance(action: Array, other: Array) -> Array:
    """Squared Euclidean distance between two actions, per row."""
    return ((action - other) ** 2).sum(axis=-1)


def vae_loss(reconstruction: Array, action: Array, mean: Array, log_std: Array, kl_weight: float) -> Array:
    """Squared reconstruction error plus weighted KL divergence of N(mean, std) from N(0, 1), each a mean over rows and dimensions."""
    kl = -0.5 * (1 + 2 * log_std - mean**2 - jnp.exp(2 * log_std)).mean()
    return ((reconstruction - action) ** 2).mean() + kl_weight * kl
