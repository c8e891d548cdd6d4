"""A model of the policy that made the log: a Gaussian around a mean that depends on the state, and how
well it is calibrated."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from numpy.typing import NDArray

from gridcount.algorithms.blocks import learn_first
from gridcount.algorithms.contract import Metrics, Report, ignore_report
from gridcount.algorithms.steps import descend
from gridcount.networks import MLP
from gridcount.transitions import Batch

LOG_STD_RANGE = (-4.0, 1.0)  # of actions whose range is 2: a deviation of 0.02 to 2.7
MIDDLE, WIDE = 0.6745, 1.6449  # deviations around a Gaussian's mean that hold 50 % and 90 %


class ModelState(NamedTuple):
    """The network and its optimiser."""

    network: MLP  # outputs: mean and log-deviation of each action dimension
    optimiser: optax.OptState


class Calibration(NamedTuple):
    """How often logged actions that the model never saw lie within its intervals, over all action
    dimensions."""

    in_half: float  # of those that should hold 50 %
    in_ninety: float  # of those that should hold 90 %

    def in_words(self) -> str:
        """As a person reads it."""
        return (
            f"the fitted model of the log's policy holds {self.in_half:.0%} and {self.in_ninety:.0%} of"
            " unseen actions"
            " within its 50 % and 90 % intervals"
        )


@dataclass(frozen=True)
class Behaviour:
    """The learner: maximum likelihood."""

    hidden: tuple[int, ...] = (128, 128)
    batch_size: int = 256
    rate: float = 1e-3
    updates: int = 3_000  # of Adam, whose rate falls along a cosine

    def init(self, key: Array, inputs: int, action_dim: int) -> ModelState:
        """A random network."""
        network = MLP((inputs, *self.hidden, 2 * action_dim), key)
        return ModelState(network, self._adam().init(network))

    def update(self, state: ModelState, batch: Batch, key: Array) -> tuple[ModelState, Metrics]:
        """One step up the likelihood of a batch's actions."""

        def loss(network: MLP) -> tuple[Array, Metrics]:
            mean, log_std = moments(network, batch.observation)
            return (0.5 * ((batch.action - mean) * jnp.exp(-log_std)) ** 2 + log_std).sum(axis=-1).mean(), {}

        network, optimiser, value, _ = descend(self._adam(), loss, state.network, state.optimiser)
        return ModelState(network, optimiser), {"loss": value}

    def fit(self, rows: Batch, key: Array, report: Report = ignore_report) -> MLP:
        """The network after all updates."""
        init_key, train_key = jax.random.split(key)
        state = self.init(init_key, rows.observation.shape[1], rows.action.shape[1])
        return learn_first(self, state, rows, train_key, self.updates, "the log's policy", report).network  # type: ignore[no-any-return]

    def _adam(self) -> optax.GradientTransformation:
        return optax.adam(optax.cosine_decay_schedule(self.rate, self.updates))


def moments(network: MLP, observation: Array) -> tuple[Array, Array]:
    """Mean and log-deviation of the log's action at each observation."""
    mean, log_std = jnp.split(network(observation), 2, axis=-1)
    return mean, jnp.clip(log_std, *LOG_STD_RANGE)


def log_density(
    action: NDArray[np.float32], mean: NDArray[np.float32], log_std: NDArray[np.float32]
) -> NDArray[np.float64]:
    """[rows] log-density of actions under independent Gaussians."""
    apart = (np.asarray(action, np.float64) - mean) * np.exp(-log_std)
    density: NDArray[np.float64] = (-0.5 * apart**2 - log_std - 0.5 * np.log(2 * np.pi)).sum(axis=-1)
    return density


def calibration(
    action: NDArray[np.float32], mean: NDArray[np.float32], log_std: NDArray[np.float32]
) -> Calibration:
    """Of actions that the model never saw."""
    apart = np.abs((action - mean) * np.exp(-log_std))
    return Calibration(float((apart < MIDDLE).mean()), float((apart < WIDE).mean()))
