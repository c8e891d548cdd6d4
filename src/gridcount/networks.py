"""Networks: multi-layer perceptrons, ensembles of critics, policies."""

from itertools import pairwise
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from gridcount.policy.actor import Actor, Perceptron

# rows from which on a CPU multiplies and sums faster with features first (measured; below it is the other way
# round)
TALL = 512
LOG_STD_LOW, LOG_STD_HIGH = -20.0, 2.0  # as in SAC's own code; GPC-SAC's builds on EDAC's, which has -5 and 2
HIDDEN_BIAS = 0.1  # of the published initialisation
EDGE = 1e-6  # how far inside [-1, 1] a logged action must lie for its density to be finite


Initialisation = Literal["fan-in", "published"]


class MLP(eqx.Module):
    """Fully connected ReLU layers, optionally layer-normalised before or after each ReLU, and a linear
    output."""

    weights: list[Array]  # [in, out] each
    biases: list[Array]  # [out] each
    gains: list[Array]  # [hidden] each: LayerNorm's scale; empty without LayerNorm
    shifts: list[Array]  # [hidden] each: LayerNorm's offset
    norm_after: bool = eqx.field(static=True)  # whether LayerNorm comes after the ReLU

    def __init__(
        self,
        sizes: tuple[int, ...],
        key: Array,
        *,
        layer_norm: bool = False,
        norm_after: bool = False,
        last_scale: float = 3e-3,
        initialisation: Initialisation = "fan-in",
    ):
        """Uniform weights within 1/sqrt(inputs of the layer), and within `last_scale` in the last; biases of
        0.

        "published" is what GPC-SAC's code does: within 1/sqrt(outputs of the layer), hidden biases of 0.1,
        and the last layer's within `last_scale` as its weights are.
        """
        published = initialisation == "published"
        keys = jax.random.split(key, len(sizes) - 1)
        bounds = [width**-0.5 for width in (sizes[1:-1] if published else sizes[:-2])] + [last_scale]
        shapes = list(pairwise(sizes))
        self.weights = [
            jax.random.uniform(k, s, minval=-b, maxval=b)
            for k, s, b in zip(keys, shapes, bounds, strict=True)
        ]
        hidden_bias = HIDDEN_BIAS if published else 0.0
        self.biases = [jnp.full(size, hidden_bias, jnp.float32) for size in sizes[1:-1]] + [
            jnp.zeros(sizes[-1])
        ]
        if published:
            last_key = jax.random.fold_in(keys[-1], 1)
            self.biases[-1] = jax.random.uniform(last_key, sizes[-1:], minval=-last_scale, maxval=last_scale)
        self.gains = [jnp.ones(size) for size in sizes[1:-1]] if layer_norm else []
        self.shifts = [jnp.zeros(size) for size in sizes[1:-1]] if layer_norm else []
        self.norm_after = norm_after

    def __call__(
        self, x: Array, *, features_first: bool = False, dropout: float = 0.0, key: Array | None = None
    ) -> Array:
        """[rows, in] -> [rows, out], or with features first [in, rows] -> [out, rows]: the same numbers,
        another order in memory.

        With a key, each hidden unit of each row is left out with probability `dropout`.
        """
        axis, widen = (0, (slice(None), None)) if features_first else (-1, (slice(None),))
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = (weight.T @ x if features_first else x @ weight) + bias[widen]
            if layer < len(self.weights) - 1:
                if self.norm_after:
                    x = jax.nn.relu(x)
                if self.gains:
                    x = _normalise(x, axis) * self.gains[layer][widen] + self.shifts[layer][widen]
                if not self.norm_after:
                    x = jax.nn.relu(x)
                if dropout and key is not None:
                    x = drop(x, dropout, jax.random.fold_in(key, layer))
        return x

    def perceptron(self, outputs: int | None = None) -> Perceptron:
        """The same layers as arrays that act without this library; with only the first `outputs`, where
        given."""
        last = slice(outputs)
        weights, biases = (
            [*self.weights[:-1], self.weights[-1][:, last]],
            [*self.biases[:-1], self.biases[-1][last]],
        )
        return Perceptron(weights, biases, self.gains, self.shifts, self.norm_after)


class Critics(eqx.Module):
    """An ensemble of independent Q functions with one leading axis over all weights."""

    members: MLP
    priors: (
        MLP | None
    )  # networks that never learn, added to the members' outputs (randomised prior functions); None: there are none
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
        norm_after: bool = False,
        prior_scale: float = 0.0,
        initialisation: Initialisation = "fan-in",
    ):
        sizes = (observation_dim + action_dim, *hidden, 1)
        make = eqx.filter_vmap(
            lambda k: MLP(
                sizes, k, layer_norm=layer_norm, norm_after=norm_after, initialisation=initialisation
            )
        )
        self.members = make(jax.random.split(key, count))
        self.priors = make(jax.random.split(jax.random.fold_in(key, 1), count)) if prior_scale else None
        self.prior_scale = float(prior_scale)

    def __call__(
        self, observation: Array, action: Array, *, dropout: float = 0.0, key: Array | None = None
    ) -> Array:
        """Q of each critic: [critics, rows]; with a key, each leaves hidden units of its own out."""
        x = jnp.concatenate([observation, action], axis=-1)
        q = self._run(self.members, x, dropout, key)
        return (
            q
            if self.priors is None
            else q + self.prior_scale * jax.lax.stop_gradient(self._run(self.priors, x, 0.0, None))
        )

    def _run(self, networks: MLP, x: Array, dropout: float, key: Array | None) -> Array:
        # which is faster rows first (measured on ReBRAC's 1,024)
        features_first = len(x) >= TALL and not networks.norm_after
        layout = x.T if features_first else x
        q: Array
        if key is None:
            q = eqx.filter_vmap(lambda member: member(layout, features_first=features_first))(networks)
        else:
            keys = jax.random.split(key, len(networks.biases[0]))
            one = lambda member, key: member(layout, features_first=features_first, dropout=dropout, key=key)  # noqa: E731
            q = eqx.filter_vmap(one)(networks, keys)
        return q[:, 0] if features_first else q[..., 0]

    def with_slopes(self, observation: Array, action: Array) -> tuple[Array, Array]:
        """Q of each critic and its gradient in the action, from one forward pass: [critics, rows] and
        [critics, rows, action_dim]."""

        def slope(member: MLP) -> tuple[Array, Array]:
            # Rows do not mix, so the gradient of their sum is each row's own.
            q, pull = jax.vjp(lambda a: member(jnp.concatenate([observation, a], axis=-1))[:, 0], action)
            return q, pull(jnp.ones_like(q))[0]

        both: tuple[Array, Array] = eqx.filter_vmap(slope)(self.members)
        return both

    def with_members(self, members: MLP) -> "Critics":
        """The ensemble with other weights."""
        changed: Critics = eqx.tree_at(lambda critics: critics.members, self, members)
        return changed


class TanhGaussian(eqx.Module):
    """A policy whose actions are the tanh of a state-dependent Gaussian, so they lie in (-1, 1)."""

    trunk: MLP
    log_std_low: float = eqx.field(static=True)  # the log-deviation stays above this

    def __init__(
        self,
        observation_dim: int,
        action_dim: int,
        hidden: tuple[int, ...],
        key: Array,
        *,
        initialisation: Initialisation = "fan-in",
        log_std_low: float = LOG_STD_LOW,
    ):
        sizes = (observation_dim, *hidden, 2 * action_dim)
        self.trunk = MLP(sizes, key, last_scale=1e-3, initialisation=initialisation)
        self.log_std_low = log_std_low

    def sample(self, observation: Array, key: Array) -> tuple[Array, Array]:
        """An action per row, differentiable in the policy, and its log-probability."""
        mean, log_std = self._moments(observation)
        noise = jax.random.normal(key, mean.shape)
        raw = mean + jnp.exp(log_std) * noise
        return jnp.tanh(raw), _squashed_log_prob(raw, noise, log_std)

    def sample_many(self, observation: Array, count: int, key: Array) -> tuple[Array, Array]:
        """Several actions per row from one pass through the network, [count, rows, dims], and their
        log-probabilities [count, rows]."""
        mean, log_std = self._moments(observation)
        noise = jax.random.normal(key, (count, *mean.shape))
        raw = mean + jnp.exp(log_std) * noise
        return jnp.tanh(raw), _squashed_log_prob(raw, noise, log_std)

    def log_prob(self, observation: Array, action: Array) -> Array:
        """Log-probability of given actions; those at the edge of [-1, 1] are moved inside by a rounding
        error."""
        mean, log_std = self._moments(observation)
        raw = jnp.arctanh(jnp.clip(action, -1 + EDGE, 1 - EDGE))
        return _squashed_log_prob(raw, (raw - mean) * jnp.exp(-log_std), log_std)

    def raw(self, observation: Array, key: Array, count: int) -> Array:
        """Several samples per row before the tanh, differentiable in the policy, from one pass: [count,
        rows, action_dim]."""
        mean, log_std = self._moments(observation)
        return mean + jnp.exp(log_std) * jax.random.normal(key, (count, *mean.shape))

    def actor(self, normaliser: "Normaliser | None" = None) -> Actor:
        """The deterministic policy: the tanh of the mean."""
        return make_actor(self.trunk.perceptron(outputs=self.trunk.biases[-1].shape[-1] // 2), normaliser)

    def _moments(self, observation: Array) -> tuple[Array, Array]:
        mean, log_std = jnp.split(self.trunk(observation), 2, axis=-1)
        return mean, jnp.clip(log_std, self.log_std_low, LOG_STD_HIGH)


class Deterministic(eqx.Module):
    """A policy that is a function: the tanh of a perceptron."""

    trunk: MLP

    def __init__(
        self,
        observation_dim: int,
        action_dim: int,
        hidden: tuple[int, ...],
        key: Array,
        *,
        layer_norm: bool = False,
    ):
        self.trunk = MLP((observation_dim, *hidden, action_dim), key, layer_norm=layer_norm, last_scale=1e-3)

    def __call__(self, observation: Array, base: Array | float = 0.0) -> Array:
        """The action at each observation, in (-1, 1); `base` is added before the tanh."""
        return jnp.tanh(base + self.trunk(observation))

    def actor(self, normaliser: "Normaliser | None" = None, columns: Array | None = None) -> Actor:
        """The policy as arrays, with its normalisation of observations."""
        return make_actor(self.trunk.perceptron(), normaliser, columns)


def _squashed_log_prob(raw: Array, noise: Array, log_std: Array) -> Array:
    """Log-density of tanh(raw), where raw lies `noise` standard deviations from a Gaussian's mean."""
    gaussian = -0.5 * noise**2 - log_std - 0.5 * jnp.log(2 * jnp.pi)
    squash = 2 * (
        jnp.log(2.0) - raw - jax.nn.softplus(-2 * raw)
    )  # log of tanh's derivative, without cancellation
    return (gaussian - squash).sum(axis=-1)


class Normaliser(eqx.Module):
    """Shifts and scales observations to the mean 0 and deviation 1 of a log."""

    mean: Array  # [observation_dim]
    deviation: Array  # [observation_dim]

    @classmethod
    def fit(cls, observation: Any, least: float = 1e-3) -> "Normaliser":
        """The log's mean and deviation; `least` is added to the deviation, as TD3+BC does."""
        mean, deviation = column_moments(observation)
        return cls(jnp.asarray(mean, jnp.float32), jnp.asarray(deviation + least, jnp.float32))

    @classmethod
    def none(cls, observation_dim: int) -> "Normaliser":
        """A normaliser that changes nothing."""
        return cls(jnp.zeros(observation_dim), jnp.ones(observation_dim))

    def __call__(self, observation: Array) -> Array:
        """The observations in the log's own scale."""
        return (observation - self.mean) / self.deviation


def summed(first: Perceptron, second: Perceptron) -> Perceptron:
    """One network whose outputs are the sums of those of two without LayerNorm: their layers lie side by side."""
    if len(first.weights) == 1:
        return Perceptron(
            [first.weights[0] + second.weights[0]], [first.biases[0] + second.biases[0]], [], []
        )

    def beside(a: Array, b: Array) -> Array:
        return jnp.block([[a, jnp.zeros((len(a), b.shape[1]))], [jnp.zeros((len(b), a.shape[1])), b]])

    inner = zip(first.weights[1:-1], second.weights[1:-1], strict=True)
    weights = [
        jnp.concatenate([first.weights[0], second.weights[0]], axis=1),
        *(beside(a, b) for a, b in inner),
        jnp.concatenate([first.weights[-1], second.weights[-1]]),
    ]
    hidden = zip(first.biases[:-1], second.biases[:-1], strict=True)
    biases = [*(jnp.concatenate(pair) for pair in hidden), first.biases[-1] + second.biases[-1]]
    return Perceptron(weights, biases, [], [])


def make_actor(
    network: Perceptron, normaliser: Normaliser | None = None, columns: Array | None = None
) -> Actor:
    """A policy of a network and its normalisation of observations."""
    if normaliser is None:
        return Actor(network, columns)
    return Actor(network, columns, normaliser.mean, normaliser.deviation)


def column_moments(observation: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each column, read a chunk at a time."""
    count = len(observation)
    chunks = [slice(start, start + 65_536) for start in range(0, count, 65_536)]
    mean = sum(observation[rows].sum(axis=0, dtype=np.float64) for rows in chunks) / count
    variance = sum(((observation[rows] - mean) ** 2).sum(axis=0) for rows in chunks) / count
    return mean, np.sqrt(variance)


def drop(x: Array, rate: float, key: Array) -> Array:
    """Dropout: each number is 0 with probability `rate`, and the others are scaled to keep the mean."""
    kept = jax.random.bits(key, x.shape, "uint16") >= round(
        rate * 2**16
    )  # 16 bits are precise enough, and half the work of 32
    return jnp.where(kept, x / (1 - rate), 0)


def _normalise(x: Array, axis: int) -> Array:
    """LayerNorm over the features, without its scale and offset."""
    centred = x - x.mean(axis=axis, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(axis=axis, keepdims=True) + 1e-5)
