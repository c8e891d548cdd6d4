"""Networks: multi-layer perceptrons, ensembles of critics, the tanh-Gaussian policy."""

from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

TALL = 512  # rows from which on a CPU multiplies and sums faster with features first (measured; below it is the other way round)
LOG_STD_RANGE = (-20.0, 2.0)  # as in the SAC code the paper builds on


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

    def __call__(self, x: Array, *, features_first: bool = False, dropout: float = 0.0, key: Array | None = None) -> Array:
        """[rows, in] -> [rows, out], or with features first [in, rows] -> [out, rows]: the same numbers, another order in memory.

        With a key, each hidden unit of each row is left out with probability `dropout`.
        """
        axis, widen = (0, (slice(None), None)) if features_first else (-1, (slice(None),))
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = (weight.T @ x if features_first else x @ weight) + bias[widen]
            if layer < len(self.weights) - 1:
                if self.gains:
                    x = _normalise(x, axis) * self.gains[layer][widen] + self.shifts[layer][widen]
                x = jax.nn.relu(x)
                if dropout and key is not None:
                    x = drop(x, dropout, jax.random.fold_in(key, layer))
        return x


class Critics(eqx.Module):
    """An ensemble of independent Q functions with one leading axis over all weights."""

    members: MLP

    def __init__(self, count: int, observation_dim: int, action_dim: int, hidden: tuple[int, ...], key: Array, *, layer_norm: bool = False):
        sizes = (observation_dim + action_dim, *hidden, 1)
        self.members = eqx.filter_vmap(lambda k: MLP(sizes, k, layer_norm=layer_norm))(jax.random.split(key, count))

    def __call__(self, observation: Array, action: Array) -> Array:
        """Q of each critic: [critics, rows]."""
        x = jnp.concatenate([observation, action], axis=-1)
        features_first = len(x) >= TALL
        q: Array = eqx.filter_vmap(lambda member: member(x.T if features_first else x, features_first=features_first))(self.members)
        return q[:, 0] if features_first else q[..., 0]


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
        gaussian = -0.5 * noise**2 - log_std - 0.5 * jnp.log(2 * jnp.pi)
        squash = 2 * (jnp.log(2.0) - raw - jax.nn.softplus(-2 * raw))  # log of tanh's derivative, without cancellation
        return jnp.tanh(raw), (gaussian - squash).sum(axis=-1)

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


class Normaliser(eqx.Module):
    """Shifts and scales observations to the mean 0 and deviation 1 of a log."""

    mean: Array  # [observation_dim]
    deviation: Array  # [observation_dim]

    @classmethod
    def fit(cls, observation: Any, least: float = 1e-3) -> "Normaliser":
        """The log's mean and deviation, read a chunk at a time; `least` is added to the deviation, as TD3+BC does."""
        count = len(observation)
        chunks = [slice(start, start + 65_536) for start in range(0, count, 65_536)]
        mean = sum(observation[rows].sum(axis=0, dtype=np.float64) for rows in chunks) / count
        variance = sum(((observation[rows] - mean) ** 2).sum(axis=0) for rows in chunks) / count
        return cls(jnp.asarray(mean, jnp.float32), jnp.asarray(np.sqrt(variance) + least, jnp.float32))

    @classmethod
    def none(cls, observation_dim: int) -> "Normaliser":
        """One that changes nothing."""
        return cls(jnp.zeros(observation_dim), jnp.ones(observation_dim))

    def __call__(self, observation: Array) -> Array:
        """The observations in the log's own scale."""
        return (observation - self.mean) / self.deviation


def drop(x: Array, rate: float, key: Array) -> Array:
    """Each number 0 with probability `rate`, the others scaled up so that the mean stays."""
    kept = jax.random.bits(key, x.shape, "uint16") >= round(rate * 2**16)  # 16 bits are enough for a coin, and half the work of 32
    return jnp.where(kept, x / (1 - rate), 0)


def _normalise(x: Array, axis: int) -> Array:
    """LayerNorm over the features, without its scale and offset."""
    centred = x - x.mean(axis=axis, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(axis=axis, keepdims=True) + 1e-5)
