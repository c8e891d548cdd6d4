"""A model of the log's dynamics, in which policies are rolled out: where they would go, and what they would earn.

Fitted values know a policy's actions at the log's states only. A policy that leads to other states, such as a
corner in which it stays, is seen by following it. Members of the ensemble predict the change of the
observation, the reward and the end of the episode, each from its own bootstrap of the episodes (Chua et al.
2018, arXiv:1805.12114; Fu et al. 2021, arXiv:2103.16596, compare such estimates with fitted values).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from numpy.typing import NDArray

from gridcount.algorithms.blocks import learn_first
from gridcount.algorithms.contract import Metrics, Report, ignore_report
from gridcount.algorithms.steps import descend
from gridcount.estimation.problem import Problem
from gridcount.networks import MLP
from gridcount.transitions import Batch

FINAL_RATE = 0.02  # of the first rate, at the end of the cosine schedule
REST = 0.01  # roll-outs stop when the discount has made later rewards count less than this
LONGEST = 1_000  # steps of a roll-out at most; what follows is worth what the critics say
EVERY = 5  # steps between two looks at the log's counts
LEAST_CHANGE = 1e-6  # deviation of an observation's change that is divided by

Float = NDArray[np.float64]
Act = Callable[
    [NDArray[np.float32], int], NDArray[np.float32]
]  # [members * rows, dim], step -> actions in [-1, 1]


class ModelState(NamedTuple):
    """The networks and their optimiser."""

    members: MLP  # one leading axis over all weights; outputs: change of each observation, reward, end
    optimiser: optax.OptState


@dataclass(frozen=True)
class Dynamics:
    """The learner: its fields are its settings."""

    ends: bool  # some episode of the log terminates
    members: int = 4
    rows: int = 256  # per update and member
    hidden: tuple[int, ...] = (128, 128)
    rate: float = 1e-3  # Adam's first step; it falls along a cosine
    updates: int = 8_000

    @property
    def batch_size(self) -> int:
        """Rows per update: each member has its own."""
        return self.members * self.rows

    def init(self, key: Array, inputs: int, outputs: int) -> ModelState:
        """Random networks."""
        make = eqx.filter_vmap(lambda k: MLP((inputs, *self.hidden, outputs), k))
        members: MLP = make(jax.random.split(key, self.members))
        return ModelState(members, self._adam().init(members))

    def update(self, state: ModelState, batch: Batch, key: Array) -> tuple[ModelState, Metrics]:
        """One step of every member on rows of its own."""
        batch = jax.tree.map(lambda leaf: leaf.reshape(self.members, self.rows, *leaf.shape[1:]), batch)
        own = jnp.arange(self.members)
        weight = batch.extra[own, :, own]  # [members, rows]
        known = jnp.concatenate([batch.next_observation, batch.reward[..., None]], axis=-1)

        def loss(members: MLP) -> tuple[Array, Metrics]:
            found = predict(members, jnp.concatenate([batch.observation, batch.action], axis=-1))
            error = jnp.square(found[..., :-1] - known).mean(axis=-1)
            if self.ends:
                error = error + optax.sigmoid_binary_cross_entropy(found[..., -1], batch.terminated)
            return (weight * error).mean(axis=-1).sum(), {}

        members, optimiser, value, _ = descend(self._adam(), loss, state.members, state.optimiser)
        return ModelState(members, optimiser), {"loss": value}

    def _adam(self) -> optax.GradientTransformation:
        return optax.adam(optax.cosine_decay_schedule(self.rate, self.updates, FINAL_RATE))


@eqx.filter_jit
@eqx.filter_vmap
def predict(member: MLP, inputs: Array) -> Array:
    """[members, rows, outputs] of inputs with a leading axis over members."""
    return member(inputs)


class Moved(NamedTuple):
    """One step of [members, rows] imagined states."""

    observation: Float
    reward: Float  # in the units of the networks
    goes_on: Float  # the probability that the episode does not end here


@dataclass(frozen=True)
class Model:
    """Fitted networks, and the units of what they predict."""

    problem: Problem
    members: MLP
    drift: Float  # [observation_dim] mean change of an observation in a step, such as 1 of a counter
    change: Float  # [observation_dim] its deviation
    reward: tuple[float, float]  # mean and deviation of rewards, in the units of the networks
    low: Float  # [observation_dim] imagined observations stay within those of the log
    high: Float
    ends: bool

    def step(self, observation: Float, action: NDArray[np.float32]) -> Moved:
        """The next states of [members, rows, dim] observations under actions."""
        inputs = np.concatenate([_normal(self.problem, observation), action], axis=-1)
        found = np.asarray(predict(self.members, inputs), np.float64)
        later = np.clip(observation + self.drift + found[..., :-2] * self.change, self.low, self.high)
        level, deviation = self.reward
        smallest, largest = self.problem.units.scaled(self._rewards)
        reward = np.clip(level + deviation * found[..., -2], smallest, largest)
        over = 1 / (1 + np.exp(-np.clip(found[..., -1], -30, 30))) if self.ends else 0.0
        return Moved(later, reward, np.ones_like(reward) - over)

    @property
    def _rewards(self) -> Float:
        reward = self.problem.data.reward
        return np.array([np.min(reward), np.max(reward)], np.float64)


def fit_model(
    problem: Problem,
    weight: NDArray[np.float32],
    learner: Dynamics,
    seed: int,
    report: Report = ignore_report,
) -> Model:
    """Fit the ensemble; `weight` is [episodes, members] how often each episode is in a member's bootstrap."""
    data = problem.data
    observation = np.asarray(data.observation, np.float64)
    moved = np.asarray(data.next_observation, np.float64) - observation
    drift, change = moved.mean(axis=0), moved.std(axis=0) + LEAST_CHANGE
    reward = problem.units.scaled(data.reward)
    level, deviation = float(reward.mean()), float(reward.std()) or 1.0
    arrays: dict[str, Any] = {
        "observation": _normal(problem, observation),
        "action": np.asarray(data.action),
        "reward": (reward - level) / deviation,
        "next_observation": ((moved - drift) / change).astype(np.float32),
        "terminated": np.asarray(data.terminated, np.float32),
    }
    rows = Batch(**arrays, extra=np.repeat(weight, data.episode_lengths, axis=0))
    init_key, train_key = jax.random.split(jax.random.key(seed))
    state = learner.init(init_key, data.observation_dim + data.action_dim, data.observation_dim + 2)
    state = learn_first(learner, state, rows, train_key, learner.updates, "a model of the log", report)
    limits = observation.min(axis=0), observation.max(axis=0)
    return Model(problem, state.members, drift, change, (level, deviation), *limits, learner.ends)


class Imagined(NamedTuple):
    """Roll-outs in a model, [members, episodes]."""

    worth: Float  # returns in the log's units
    unsure: Float  # mean of 1 / sqrt(n + 1) over its steps, as the discount counts them


Value = Callable[[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32]], Float]


def roll_out(model: Model, act: Act, observation: NDArray[np.float32], value: Value) -> Imagined:
    """Follow a policy from [episodes, dim] first states; `value` is what follows [members, rows] last states.

    The uncertainty is a mean over the steps that the policy is expected to act, so that falling at once does
    not make a policy look well known.
    """
    problem, count = model.problem, model.members.weights[0].shape[0]
    state = np.repeat(np.asarray(observation, np.float64)[None], count, axis=0)
    total, running, power = np.zeros(state.shape[:2]), np.ones(state.shape[:2]), 1.0
    unsure, met = np.zeros(state.shape[:2]), np.zeros(state.shape[:2])
    steps = rolled_steps(problem.discount, problem.horizon)
    for step in range(steps):
        flat = state.reshape(-1, state.shape[-1]).astype(np.float32)
        action = act(flat, step)
        if step % EVERY == 0:
            unsure += power * running * problem.uncertainty(flat, action).reshape(running.shape)
            met += power * running
        state, reward, goes_on = model.step(state, action.reshape(*state.shape[:2], -1))
        total += power * running * reward
        running, power = running * goes_on, power * problem.discount
    total = problem.units.spread * total + problem.units.level * problem.units.steps
    if problem.discount < 1 or steps < problem.horizon:
        flat = state.reshape(-1, state.shape[-1]).astype(np.float32)
        after = value(flat, np.full(len(flat), steps), act(flat, steps)).reshape(count, *state.shape[:2])
        rest = np.stack([each[member] for member, each in enumerate(after)])
        total += power * running * (rest - problem.units.level * problem.units.steps)
    return Imagined(total, unsure / met)


def rolled_steps(discount: float, horizon: int) -> int:
    """How many steps are followed."""
    if discount == 0:
        return 1
    return min(LONGEST, horizon if discount == 1 else math.ceil(math.log(REST) / math.log(discount)))


def _normal(problem: Problem, observation: Any) -> NDArray[np.float32]:
    """Observations as networks see them, without the time."""
    flat = np.asarray(observation).reshape(-1, problem.data.observation_dim)
    seen = problem.seen(flat, np.zeros(len(flat), np.int64))[:, : problem.data.observation_dim]
    return seen.reshape(np.shape(observation))
