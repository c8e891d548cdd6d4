"""Fitted Q evaluation: an ensemble of critics that learns the value of a fixed policy, through the compiled
loop (docs/estimate.md).

Le, Voloshin and Yue 2019 (arXiv:1903.08738) fit Q to r + discount * Q(s', pi(s')). Each member sees its own
bootstrap of the episodes (Hao et al. 2021, arXiv:2102.03607), so that their disagreement measures how far the
log determines the value. A second output of each network learns the uncertainty that the policy meets.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from numpy.typing import NDArray

from gridcount.algorithms.contract import EPOCH, Metrics, Report, ignore_report
from gridcount.algorithms.steps import descend
from gridcount.estimation.problem import Problem
from gridcount.losses import polyak, td_target, weighted_bellman_loss
from gridcount.networks import MLP
from gridcount.training.loop import make_learners, seed_keys
from gridcount.transitions import Batch

FINAL_RATE = 0.05  # of the first rate, at the end of the cosine schedule
CHUNK = 16_384  # rows whose values are computed together


class Columns(NamedTuple):
    """What a row holds for the policies that are estimated together, besides a batch's own columns."""

    next_action: Any  # [rows, policies, action_dim] in [-1, 1]
    next_uncertainty: Any  # [rows, policies] of that action
    # [rows, policies] 0 where the policy's next action is not known: the log's own at the end of an episode
    known: Any
    weight: Any  # [rows, members] how often a member's bootstrap holds the row's episode


class QState(NamedTuple):
    """An ensemble on its way to the values of one policy."""

    members: MLP  # one leading axis over all weights; outputs: return, uncertainty
    target: MLP  # an average over recent updates: what is bootstrapped from, and evaluated in the end
    optimiser: optax.OptState
    policy: Array  # which policy's columns it reads


@dataclass(frozen=True)
class FittedQ:
    """The learner: its fields are its settings."""

    discount: float
    per_step: float  # what one step counts in the mean uncertainty: 1 - discount, or 1 / horizon
    low: float  # targets stay within the returns that are possible
    high: float
    start: float  # where values begin: the log's mean return
    members: int = 5
    rows: int = 128  # per update and member
    hidden: tuple[int, ...] = (128, 128)
    rate: float = 1e-3  # Adam's first step; it falls along a cosine
    target_step: float = 0.05
    updates: int = 15_000

    @property
    def batch_size(self) -> int:
        """Rows per update: each member has its own."""
        return self.members * self.rows

    def init(self, key: Array, inputs: int, policy: int) -> QState:
        """Random networks whose values begin at the log's mean return."""
        make = eqx.filter_vmap(lambda k: MLP((inputs, *self.hidden, 2), k, layer_norm=True))
        members: MLP = make(jax.random.split(key, self.members))
        biases = [*members.biases[:-1], members.biases[-1].at[:, 0].set(self.start)]
        members = eqx.tree_at(lambda networks: networks.biases, members, biases)
        target = jax.tree.map(jnp.copy, members)
        return QState(members, target, self._adam().init(members), jnp.asarray(policy, jnp.int32))

    def update(self, state: QState, batch: Batch, key: Array) -> tuple[QState, Metrics]:
        """One step of every member on rows of its own."""
        batch = jax.tree.map(lambda leaf: leaf.reshape(self.members, self.rows, *leaf.shape[1:]), batch)
        columns: Columns = batch.extra
        own = jnp.arange(self.members)
        next_action = columns.next_action[:, :, state.policy]
        weight = columns.weight[own, :, own] * columns.known[:, :, state.policy]  # [members, rows]
        later = values(state.target, batch.next_observation, next_action)  # [members, rows, 2]
        met = self.per_step * columns.next_uncertainty[:, :, state.policy] + later[..., 1]
        worth = td_target(batch.reward, batch.terminated, later[..., 0], self.discount)
        unsure = td_target(jnp.zeros_like(met), batch.terminated, met, self.discount)
        worth, unsure = jnp.clip(worth, self.low, self.high), jnp.clip(unsure, 0, 1)

        def loss(members: MLP) -> tuple[Array, Metrics]:
            now = values(members, batch.observation, batch.action)
            error = weighted_bellman_loss(now[..., 0], worth, weight)
            return error + weighted_bellman_loss(now[..., 1], unsure, weight), {"loss": error}

        members, optimiser, _, metrics = descend(self._adam(), loss, state.members, state.optimiser)
        return QState(
            members, polyak(state.target, members, self.target_step), optimiser, state.policy
        ), metrics

    def _adam(self) -> optax.GradientTransformation:
        return optax.adam(optax.cosine_decay_schedule(self.rate, self.updates, FINAL_RATE))


@eqx.filter_vmap
def values(member: MLP, observation: Array, action: Array) -> Array:
    """[members, rows, 2] of observations and actions with a leading axis over members."""
    return member(jnp.concatenate([observation, action], axis=-1))


@eqx.filter_jit
@eqx.filter_vmap(in_axes=(eqx.if_array(0), None, None))
def values_alike(member: MLP, observation: Array, action: Array) -> Array:
    """[members, rows, 2] of the same observations and actions for every member."""
    return member(jnp.concatenate([observation, action], axis=-1))


@dataclass(frozen=True)
class Fitted:
    """The critics of every policy, and which episodes each member learnt from."""

    problem: Problem
    critics: dict[str, MLP]
    unseen: NDArray[np.bool_]  # [episodes, members] the member never saw the episode

    def values(
        self,
        name: str,
        observation: NDArray[np.float32],
        step: NDArray[np.int64],
        action: NDArray[np.float32],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """[members, rows] returns in the log's units, and mean uncertainty after this action."""
        seen = self.problem.seen(observation, step)
        parts = [
            np.asarray(values_alike(self.critics[name], seen[at : at + CHUNK], action[at : at + CHUNK]))
            for at in range(0, len(seen), CHUNK)
        ]
        both = np.concatenate(parts, axis=1)
        return self.problem.units.in_log_units(both[..., 0]), both[..., 1].astype(np.float64)


def fit(problem: Problem, learner: FittedQ, seed: int, report: Report = ignore_report) -> Fitted:
    """Fit the critics of every policy side by side; they share initial networks, bootstraps and batches,
    so that they can be compared."""
    names = list(problem.policies)
    folds = 1 + problem.fold.max()
    unseen = problem.fold[:, None] == np.arange(learner.members) % folds
    rows = make_rows(problem, bootstrap_weights(unseen, seed))
    init_key, train_key = seed_keys(seed)
    inputs = rows.observation.shape[1] + problem.data.action_dim
    states = [learner.init(init_key, inputs, policy) for policy in range(len(names))]
    size = min(EPOCH, learner.updates)
    learners = make_learners(learner, size, states, rows, [train_key] * len(names))  # type: ignore[arg-type]
    for start in range(0, learner.updates, size):
        learners.advance(start, min(size, learner.updates - start))
        report("values", min(start + size, learner.updates), learner.updates)
    critics = {name: state.target for name, state in zip(names, learners.states, strict=True)}
    return Fitted(problem, critics, unseen)


def bootstrap_weights(unseen: NDArray[np.bool_], seed: int) -> NDArray[np.float32]:
    """[episodes, members] how often each episode is in a member's bootstrap; 0 for those it must not see."""
    drawn = np.random.default_rng([seed, 1]).poisson(1.0, unseen.shape)
    return np.where(unseen, 0, drawn).astype(np.float32)


def make_rows(problem: Problem, weight: NDArray[np.float32]) -> Batch:
    """All rows of the log, as the learner draws them."""
    data, step = problem.data, problem.step
    actions = {name: problem.next_actions(rule) for name, rule in problem.policies.items()}
    uncertainty = [problem.uncertainty(data.next_observation, action) for action in actions.values()]
    ended = problem.ended()
    inside = np.append(~np.asarray(data.episode_end[:-1]), False)  # the next row belongs to the same episode
    known = [
        np.ones(len(data), np.float32) if rule is not None else np.maximum(inside, ended)
        for rule in problem.policies.values()
    ]
    columns = Columns(
        np.stack(list(actions.values()), axis=1),
        np.stack(uncertainty, axis=1),
        np.stack(known, axis=1).astype(np.float32),
        np.repeat(weight, data.episode_lengths, axis=0),
    )
    arrays: dict[str, Any] = {
        "observation": problem.seen(data.observation, step),
        "action": np.asarray(data.action),
        "reward": problem.units.scaled(data.reward),
        "next_observation": problem.seen(data.next_observation, step + 1),
        "terminated": ended,
    }
    return Batch(**arrays, extra=columns)
