"""A block of updates as one program: whose rows, whose randomness, in what order."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from gridcount.algorithms.contract import Metrics
from gridcount.data.transitions import Batch

Block = Callable[..., tuple[Any, Metrics]]  # of (state, rows, key, start), and `updates` where not as many as usual


class Learner(Protocol):
    """What a block needs of an algorithm, or of anything else that is learnt a batch at a time."""

    @property
    def batch_size(self) -> int:
        """Rows per update."""

    def update(self, state: Any, batch: Batch, key: Array) -> tuple[Any, Metrics]:
        """One gradient step on a batch."""


class Draws(NamedTuple):
    """The randomness of a block of updates."""

    indices: Array  # [updates, batch] rows of the dataset
    keys: Array  # [updates]


def draw(key: Array, start: Array, updates: int, batch_size: int, rows: int) -> Draws:
    """What updates from `start` on draw.

    The randomness of update t is fold_in(key, t), whatever block it falls in: that is what lets a run stop anywhere and go on to the
    same bits.
    """
    keys = jax.vmap(partial(jax.random.fold_in, key))(start + jnp.arange(updates))
    batch_keys, update_keys = jax.vmap(partial(jax.random.split, num=2), out_axes=1)(keys)
    pick = partial(jax.random.randint, shape=(batch_size,), minval=0, maxval=rows)
    return Draws(jax.vmap(pick)(batch_keys), update_keys)


def learn(learner: Learner, state: Any, batches: Batch, keys: Array) -> tuple[Any, Metrics]:
    """An update per batch, one after the other; the metrics are means over them."""
    state, metrics = jax.lax.scan(lambda state, step: learner.update(state, *step), state, (batches, keys))
    return state, jax.tree.map(lambda metric: metric.mean(axis=0), metrics)


def make_block(learner: Learner, updates: int) -> Block:
    """A function (state, rows, key, start) -> (state, mean metrics) that makes `updates` updates: one program.

    The rows are an argument, because a closed-over array would be compiled into the program.
    """

    def block(state: Any, rows: Batch, key: Array, start: Array, updates: int = updates) -> tuple[Any, Metrics]:
        draws = draw(key, start, updates, learner.batch_size, len(rows.reward))
        batches = jax.tree.map(lambda column: column[draws.indices], rows)
        return learn(learner, state, batches, draws.keys)

    return block
