"""A block of updates as one compiled program, with its rows and randomness."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gridcount.algorithms.contract import Metrics, Report
from gridcount.transitions import Batch

PRETRAINING_BLOCK = 1000  # updates between reports

Block = Callable[
    ..., tuple[Any, Metrics]
]  # of (state, rows, key, start), and `updates` where not as many as usual


class Learner(Protocol):
    """The interface that a block needs: an algorithm, or anything else that learns batch by batch."""

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
    """The random draws of updates from `start` on.

    The randomness of update t is fold_in(key, t), whatever its block. So a run can stop anywhere and resume
    with identical results.
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
    """A function (state, rows, key, start) -> (state, mean metrics) that makes `updates` updates: one
    program.

    The rows are an argument, because a closed-over array would be compiled into the program.
    """

    def block(
        state: Any, rows: Batch, key: Array, start: Array, updates: int = updates
    ) -> tuple[Any, Metrics]:
        draws = draw(key, start, updates, learner.batch_size, len(rows.reward))
        batches = jax.tree.map(lambda column: column[draws.indices], rows)
        return learn(learner, state, batches, draws.keys)

    return block


def learn_first(
    learner: Learner, state: Any, rows: Batch, key: Array, updates: int, what: str, report: Report
) -> Any:
    """The state after `updates` updates that an algorithm's `init` makes before training proper, with a
    report after each block.

    Of memory-mapped rows only the batches are read. If `init` is only traced for the shape of its state, the
    state is returned unchanged, because learning does not change its shape.
    """
    mapped = isinstance(rows.observation, np.memmap)
    if mapped and isinstance(key, jax.core.Tracer):
        return state
    here = rows if mapped else jax.tree.map(jnp.asarray, rows)
    for start in range(0, updates, PRETRAINING_BLOCK):
        size = min(PRETRAINING_BLOCK, updates - start)
        first = jnp.asarray(start, jnp.int32)
        if mapped:
            draws = _draw(key, first, size, learner.batch_size, len(rows.reward))
            indices = np.asarray(draws.indices)
            batches = jax.tree.map(lambda column, indices=indices: jnp.asarray(column[indices]), rows)
            state, _ = _learn(learner, state, batches, draws.keys)
        else:
            state, _ = _block(learner, size, state, here, key, first)
        jax.block_until_ready(state)  # type: ignore[no-untyped-call]
        report(what, start + size, updates)
    return state


_draw = jax.jit(draw, static_argnums=(2, 3, 4))
_learn = jax.jit(learn, static_argnums=0)
_block = jax.jit(lambda learner, size, *rest: make_block(learner, size)(*rest), static_argnums=(0, 1))
