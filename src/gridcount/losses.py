"""Equations that several algorithms share, one function each, with no network inside."""

from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import Array

Tree = TypeVar("Tree")


def td_target(reward: Array, terminated: Array, next_value: Array, discount: float) -> Array:
    """Bellman target r + discount * (1 - terminated) * V(s') (GPC-SAC, Eq. 1 and 4)."""
    return reward + discount * (1 - terminated) * next_value


def soft_value(q: Array, log_prob: Array, temperature: Array) -> Array:
    """SAC's value of a sampled action: min_k Q_k - temperature * log pi."""
    return q.min(axis=0) - temperature * log_prob  # [critics, rows] -> [rows]


def bellman_loss(q: Array, target: Array) -> Array:
    """Squared error to one target, averaged over rows and summed over critics (GPC-SAC, L_in of Eq. 5)."""
    return ((q - jax.lax.stop_gradient(target)) ** 2).mean(axis=-1).sum()


def weighted_bellman_loss(q: Array, target: Array, weight: Array) -> Array:
    """Squared error to one target, each row by its weight, averaged over rows and summed over critics (UWAC's
    critic loss).

    The authors' code weighs the error before it is squared, and so by the weight's square: give it that.
    """
    return (jax.lax.stop_gradient(weight) * (q - jax.lax.stop_gradient(target)) ** 2).mean(axis=-1).sum()


def uncertainty_weight(variance: Array, scale: float, limit: float, kind: str) -> Array:
    """The weight of a value with this variance: scale / Var, or exp(-scale * Var), and at most `limit`
    (UWAC)."""
    if kind == "exponential":
        return jnp.minimum(jnp.exp(-scale * variance), limit)
    return jnp.minimum(scale / jnp.maximum(variance, 1e-12), limit)


def mean_discrepancy(x: Array, y: Array, width: float, kernel: str) -> Array:
    """Maximum mean discrepancy of two sets of samples per row, [samples, rows, dims] each -> [rows]
    (BEAR)."""

    def similarity(a: Array, b: Array) -> Array:
        difference = a[:, None] - b[None]  # [samples, samples, rows, dims]
        distance = jnp.abs(difference) if kernel == "laplacian" else difference**2
        return jnp.exp(-distance.sum(axis=-1) / (2 * width)).mean(axis=(0, 1))

    return jnp.sqrt(similarity(x, x) + similarity(y, y) - 2 * similarity(x, y) + 1e-6)


def variational_loss(
    action: Array, reconstruction: Array, mean: Array, log_std: Array, kl_weight: float
) -> Array:
    """A VAE's squared error of reconstruction, and the divergence of its latents N(mean, std) from N(0, 1)
    by a weight."""
    divergence = 0.5 * (mean**2 + jnp.exp(2 * log_std) - 2 * log_std - 1).mean()
    return ((reconstruction - action) ** 2).mean() + kl_weight * divergence


def expectile_loss(difference: Array, expectile: float) -> Array:
    """Asymmetric squared error |expectile - 1(u < 0)| * u^2 of u = Q - V (IQL's Eq. 5), averaged over
    rows."""
    return (jnp.where(difference > 0, expectile, 1 - expectile) * difference**2).mean()


def advantage_weight(advantage: Array, scale: float, limit: float) -> Array:
    """The weight of a row in advantage-weighted imitation: exp(scale * advantage), at most `limit` (IQL's
    Eq. 7)."""
    return jnp.minimum(jnp.exp(scale * jax.lax.stop_gradient(advantage)), limit)


def temperature_loss(log_temperature: Array, log_prob: Array, target_entropy: float) -> Array:
    """Automatic entropy tuning: raises the temperature while the policy's entropy is under its target."""
    return -(log_temperature * jax.lax.stop_gradient(log_prob + target_entropy)).mean()


def polyak(target: Tree, online: Tree, step: Array | float) -> Tree:
    """Move the target network a step towards the online one."""
    if not isinstance(step, Array) and step == 1:
        return jax.tree.map(jnp.copy, online)  # type: ignore[no-any-return]
    moved: Tree = jax.tree.map(lambda old, new: old + step * (new - old), target, online)
    return moved


def tail_step(updates: Array, share: float) -> Array:
    """The step of a moving average over the last part of all updates so far: 1 / (1 + share * (t - 1)).

    With eta = 1 / share - 1 it is the polynomial-decay averaging of Shamir and Zhang (2013,
    arXiv:1212.1824): after t updates the k-th counts in proportion to about k^eta. So the average forgets
    the start of a run of any length. A share of 0 keeps the last alone, 1 the mean of all.
    """
    return 1 / (1 + share * (updates - 1.0))


def count_uncertainty(count: Array, epoch: Array, pessimism: float) -> Array:
    """u = pessimism * sqrt(ln T / n) with T = epoch + 1, so that the first epoch is pessimistic too."""
    return pessimism * jnp.sqrt(jnp.log(epoch + 1.0) / count)


def log_uncertainty(count: Array, pessimism: float) -> Array:
    """u = pessimism / sqrt(n + 1) of an action that the log has n times: GPC's, without the ln T of counts
    that grow while training."""
    return pessimism / jnp.sqrt(count + 1)


def count_penalty_loss(q: Array, uncertainty: Array, floor: float) -> Array:
    """(Q - max(Q - beta*u, floor))^2 with the target held fixed (GPC-SAC, Eq. 6 to 8), averaged over rows,
    summed over critics."""
    target = jax.lax.stop_gradient(jnp.maximum(q - uncertainty, floor))
    return ((q - target) ** 2).mean(axis=-1).sum()


def counted_gap_loss(q_policy: Array, q_data: Array, uncertainty: Array, widest: float) -> Array:
    """2 u (Q(s, a~pi) - Q(s, a)), averaged over rows, summed over critics: GPC's penalty, which lowers Q at
    the policy's action and raises it equally at the log's.

    The downward part has the gradient of GPC-SAC's Eq. 6. If the two actions are equal the parts cancel, so
    values keep their level. A gap that is as wide as `widest` is not widened further: its force is constant,
    so nothing else would stop it at a row whose value the policy does not follow.
    """
    gap = q_policy - q_data
    narrow = jax.lax.stop_gradient(gap > -widest)
    return (2 * uncertainty * narrow * gap).mean(axis=-1).sum()


def conservative_gap(q_sampled: Array, log_density: Array, q_data: Array) -> Array:
    """How far the soft maximum over actions lies above the data's: log sum_i exp(Q_i - log p_i) - Q(s, a),
    averaged over rows.

    [critics, samples, rows], [samples, rows] and [critics, rows] -> [critics] (CQL, Eq. 4 with the importance
    weights of its appendix F).
    """
    return (jax.nn.logsumexp(q_sampled - log_density, axis=1) - q_data).mean(axis=-1)


def ensemble_similarity(slopes: Array) -> Array:
    """Cosines between critics' action gradients, 1/(N-1) * sum over i != j, averaged over rows: [critics,
    rows, dims] -> scalar (EDAC).

    Of unit vectors g_i that sum is |sum_i g_i|^2 - sum_i |g_i|^2, which needs no pairs.
    """
    unit = slopes * jax.lax.rsqrt((slopes**2).sum(axis=-1, keepdims=True) + 1e-20)
    pairs = (unit.sum(axis=0) ** 2).sum(axis=-1) - (unit**2).sum(axis=(0, 2))
    return pairs.mean() / (len(slopes) - 1)


def ensemble_spread(q: Array) -> Array:
    """Disagreement of an ensemble, its standard deviation (N - 1 in the denominator): [critics, rows] ->
    [rows] (PBRL's uncertainty)."""
    return q.std(axis=0, ddof=1)


def scale_free(q: Array) -> Array:
    """Values divided by their mean magnitude, held fixed, so that their scale does not weigh against other
    terms (TD3+BC, Eq. 5)."""
    return q / jax.lax.stop_gradient(jnp.abs(q).mean())


def squared_distance(action: Array, other: Array) -> Array:
    """Squared Euclidean distance between two actions, per row."""
    return ((action - other) ** 2).sum(axis=-1)


def gaussian_fit(mean: Array, log_deviation: Array, action: Array) -> Array:
    """The squared error of a mean, each dimension in units of its own error, and the negative log-likelihood
    of the deviation for that error, held fixed; summed over dimensions, averaged over rows.

    Held fixed, because a likelihood alone fits the mean least where the deviation is large.
    """
    error = (action - mean) ** 2
    held = jax.lax.stop_gradient(error)
    fit = error / (held.mean(axis=0) + 1e-4) + 0.5 * held * jnp.exp(-2 * log_deviation) + log_deviation
    return fit.sum(axis=-1).mean()
