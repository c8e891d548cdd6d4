"""The compiled loop: a block of updates is one program, and several seeds run it together."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from gridcount.algorithms.contract import Algorithm, Metrics
from gridcount.data.transitions import Batch

SeedMetrics = dict[str, NDArray[np.float64]]  # name -> [seeds], the mean over a block
Block = Callable[[Any, Batch, Array, Array], tuple[Any, Metrics]]


def seed_keys(seed: int) -> tuple[Array, Array]:
    """The key that makes a seed's networks and the key that draws its batches and actions."""
    init_key, train_key = jax.random.split(jax.random.key(seed))
    return init_key, train_key


def make_block(algorithm: Algorithm[Any], updates: int) -> Block:
    """A function (state, rows, key, start) -> (state, mean metrics) that makes `updates` updates.

    The randomness of update t is fold_in(key, t), whatever block it falls in: that is what lets a run stop anywhere and go on
    to the same bits. The rows are an argument, because a closed-over array would be compiled into the program.
    """

    def block(state: Any, rows: Batch, key: Array, start: Array) -> tuple[Any, Metrics]:
        keys = jax.vmap(partial(jax.random.fold_in, key))(start + jnp.arange(updates))
        batch_keys, update_keys = jax.vmap(partial(jax.random.split, num=2), out_axes=1)(keys)
        draw = partial(jax.random.randint, shape=(algorithm.batch_size,), minval=0, maxval=len(rows.reward))
        indices = jax.vmap(draw)(batch_keys)  # [updates, batch]
        batches = jax.tree.map(lambda column: column[indices], rows)
        state, metrics = jax.lax.scan(lambda state, step: algorithm.update(state, *step), state, (batches, update_keys))
        return state, jax.tree.map(lambda metric: metric.mean(axis=0), metrics)

    return block


class Learners(Protocol):
    """Several seeds of one algorithm on one dataset."""

    @property
    def states(self) -> list[Any]:
        """The seeds' states, one by one."""

    def advance(self, start: int) -> SeedMetrics:
        """Make a block of updates from update `start` on, for every seed."""


class SideBySide:
    """Each seed runs the same compiled program on a thread of its own: on a CPU this uses every core and wastes no work.

    A seed's arithmetic is the very one it would do alone.
    """

    def __init__(self, block: Block, states: Sequence[Any], rows: Batch, keys: Sequence[Array]):
        self._states = list(states)
        self._rows = jax.tree.map(jnp.asarray, rows)
        self._keys = list(keys)
        self._block = jax.jit(block, donate_argnums=0)
        self._pool = ThreadPoolExecutor(min(len(self._states), os.cpu_count() or 1))
        self._compiled: Any = None

    @property
    def states(self) -> list[Any]:
        """The seeds' states, one by one."""
        return self._states

    def advance(self, start: int) -> SeedMetrics:
        """Make a block of updates from update `start` on, for every seed."""
        first = jnp.asarray(start, jnp.int32)
        if self._compiled is None:  # once, before threads race to do it
            self._compiled = self._block.lower(self._states[0], self._rows, self._keys[0], first).compile()
        results = list(self._pool.map(lambda i: self._run(i, first), range(len(self._states))))
        return {name: np.array([float(metrics[name]) for metrics in results]) for name in results[0]}

    def _run(self, index: int, first: Array) -> Metrics:
        self._states[index], metrics = self._compiled(self._states[index], self._rows, self._keys[index], first)
        return {name: metric.block_until_ready() for name, metric in metrics.items()}


class Vectorised:
    """All seeds in one vectorised program: what an accelerator wants."""

    def __init__(self, block: Block, states: Sequence[Any], rows: Batch, keys: Sequence[Array]):
        self._stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
        self._count = len(states)
        self._rows = jax.tree.map(jnp.asarray, rows)
        self._keys = jnp.stack(list(keys))
        self._block = jax.jit(jax.vmap(block, in_axes=(0, None, 0, None)), donate_argnums=0)

    @property
    def states(self) -> list[Any]:
        """The seeds' states, one by one."""
        return [jax.tree.map(lambda leaf, i=i: leaf[i], self._stacked) for i in range(self._count)]

    def advance(self, start: int) -> SeedMetrics:
        """Make a block of updates from update `start` on, for every seed."""
        self._stacked, metrics = self._block(self._stacked, self._rows, self._keys, jnp.asarray(start, jnp.int32))
        return {name: np.asarray(values, np.float64) for name, values in metrics.items()}


def make_learners(block: Block, states: Sequence[Any], rows: Batch, keys: Sequence[Array]) -> Learners:
    """Side by side on a CPU (two seeds by vmap cost more than two seeds), vectorised on an accelerator."""
    kind = SideBySide if jax.default_backend() == "cpu" else Vectorised
    return kind(block, states, rows, keys)
