"""Networks: multi-layer perceptrons, ensembles of critics, the tanh-Gaussian policy."""

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

TALL = 512  # rows from which on a CPU multiplies and sums faster with features first (measured; below it is the other way round)
LOG_STD_RANGE = (-20.0, 2.0)  # as in the SAC code the paper builds on
EDGE = 1e-6  # how far inside [-1, 1] a logged action must lie for its density to be finite


class MLP(eqx.Module):
    """Fully connected ReLU layers, optionally layer-normalised before each ReLU, and a linear output."""

    weights: list[Array]  # [in, out] each
    biases: list[Array]  # [out] each
    gains: list[Array]  # [hidden] each: LayerNorm's scale; empty without LayerNorm
    shifts: list[Array]  # [hidden] each: LayerNorm's offset

    def __init__(self, sizes: tuple[int, ...], key: Array, *, layer_norm: bool = False, last_scale: float = 3e-3):
        keys = jax.random.split(key, len(sizes) - 1)
        bounds = [fan_in**-0.5 for fan_in in sizes[:-2]] + [last_scale]
        shapes = list(pairwise(sizes))
        self.weights = [jax.random.uniform(k, s, minval=-b, maxval=b) for k, s, b in zip(keys, shapes, bounds, strict=True)]
        self.biases = [jnp.zeros(size) for size in sizes[1:]]
        self.gains = [jnp.ones(size) for size in sizes[1:-1]] if layer_norm else []
        self.shifts = [jnp.zeros(size) for size in sizes[1:-1]] if layer_norm else []

    def __call__(self, x: Array, *, features_first: bool = False) -> Array:
        """[rows, in] -> [rows, out], or with features first [in, rows] -> [out, rows]: the same numbers, another order in memory."""
        axis, widen = (0, (slice(None), None)) if features_first else (-1, (slice(None),))
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = (weight.T @ x if features_first else x @ weight) + bias[widen]
            if layer < len(self.weights) - 1:
                if self.gains:
                    x = _normalise(x, axis) * self.gains[layer][widen] + self.shifts[layer][widen]
                x = jax.nn.relu(x)
        return x


class Critics(eqx.Module):
    """An ensemble of independent Q functions with one leading axis over all weights."""

    members: MLP
    priors: MLP | None  # networks that never learn, added to the members' outputs (randomised prior functions); None: there are none
    prior_scale: float = eqx.field(static=True)

    def __init__(
        self,
        count: int,
        observation_dim: int,
        action_dim: int,
        hidden: tuple[int, ...],
        key: Array,
        *,
        layer_norm: bool = False,
        prior_scale: float = 0.0,
    ):
        sizes = (observation_dim + action_dim, *hidden, 1)
        make = eqx.filter_vmap(lambda k: MLP(sizes, k, layer_norm=layer_norm))
        self.members = make(jax.random.split(key, count))
        self.priors = make(jax.random.split(jax.random.fold_in(key, 1), count)) if prior_scale else None
        self.prior_scale = float(prior_scale)

    def __call__(self, observation: Array, action: Array) -> Array:
        """Q of each critic: [critics, rows]."""
        x = jnp.concatenate([observation, action], axis=-1)
        q = self._run(self.members, x)
        return q if self.priors is None else q + self.prior_scale * jax.lax.stop_gradient(self._run(self.priors, x))

    def _run(self, networks: MLP, x: Array) -> Array:
        features_first = len(x) >= TALL
        q: Array = eqx.filter_vmap(lambda member: member(x.T if features_first else x, features_first=features_first))(networks)
        return q[:, 0] if features_first else q[..., 0]

    def with_slopes(self, observation: Array, action: Array) -> tuple[Array, Array]:
        """Q of each critic and its gradient in the action, from one forward pass: [critics, rows] and [critics, rows, action_dim]."""

        def slope(member: MLP) -> tuple[Array, Array]:
            # Rows do not mix, so the gradient of their sum is each row's own.
            q, pull = jax.vjp(lambda a: member(jnp.concatenate([observation, a], axis=-1))[:, 0], action)
            return q, pull(jnp.ones_like(q))[0]

        both: tuple[Array, Array] = eqx.filter_vmap(slope)(self.members)
        return both


class TanhGaussian(eqx.Module):
    """A policy whose actions are the tanh of a state-dependent Gaussian, so they lie in (-1, 1)."""

    trunk: MLP

    def __init__(self, observation_dim: int, action_dim: int, hidden: tuple[int, ...], key: Array):
        self.trunk = MLP((observation_dim, *hidden, 2 * action_dim), key, last_scale=1e-3)

    def sample(self, observation: Array, key: Array) -> tuple[Array, Array]:
        """An action per row, differentiable in the policy, and its log-probability."""
        mean, log_std = self._moments(observation)
        noise = jax.random.normal(key, mean.shape)
        raw = mean + jnp.exp(log_std) * noise
        return jnp.tanh(raw), _squashed_log_prob(raw, noise, log_std)

    def sample_many(self, observation: Array, count: int, key: Array) -> tuple[Array, Array]:
        """Several actions per row from one pass through the network, [count, rows, dims], and their log-probabilities [count, rows]."""
        mean, log_std = self._moments(observation)
        noise = jax.random.normal(key, (count, *mean.shape))
        raw = mean + jnp.exp(log_std) * noise
        return jnp.tanh(raw), _squashed_log_prob(raw, noise, log_std)

    def log_prob(self, observation: Array, action: Array) -> Array:
        """Log-probability of given actions; those at the edge of [-1, 1] are moved inside by a rounding error."""
        mean, log_std = self._moments(observation)
        raw = jnp.arctanh(jnp.clip(action, -1 + EDGE, 1 - EDGE))
        return _squashed_log_prob(raw, (raw - mean) * jnp.exp(-log_std), log_std)

    def mode(self, observation: Array) -> Array:
        """The deterministic action."""
        return jnp.tanh(self._moments(observation)[0])

    def _moments(self, observation: Array) -> tuple[Array, Array]:
        mean, log_std = jnp.split(self.trunk(observation), 2, axis=-1)
        return mean, jnp.clip(log_std, *LOG_STD_RANGE)


class Deterministic(eqx.Module):
    """A policy that is a function: the tanh of a perceptron."""

    trunk: MLP

    def __init__(self, observation_dim: int, action_dim: int, hidden: tuple[int, ...], key: Array, *, layer_norm: bool = False):
        self.trunk = MLP((observation_dim, *hidden, action_dim), key, layer_norm=layer_norm, last_scale=1e-3)

    def __call__(self, observation: Array) -> Array:
        """The action at each observation, in (-1, 1)."""
        return jnp.tanh(self.trunk(observation))


def _squashed_log_prob(raw: Array, noise: Array, log_std: Array) -> Array:
    """Log-density of tanh(raw), where raw lies `noise` standard deviations from a Gaussian's mean."""
    gaussian = -0.5 * noise**2 - log_std - 0.5 * jnp.log(2 * jnp.pi)
    squash = 2 * (jnp.log(2.0) - raw - jax.nn.softplus(-2 * raw))  # log of tanh's derivative, without cancellation
    return (gaussian - squash).sum(axis=-1)


def _normalise(x: Array, axis: int) -> Array:
    """LayerNorm over the features, without its scale and offset."""
    centred = x - x.mean(axis=axis, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(axis=axis, keepdims=True) + 1e-5)
