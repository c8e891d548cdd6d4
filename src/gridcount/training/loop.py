"""The compiled loop: a block of updates is one program, and several seeds run it together."""

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

from gridcount.algorithms.blocks import Block, draw, learn, make_block
from gridcount.algorithms.contract import Algorithm, Metrics
from gridcount.transitions import Batch

SeedMetrics = dict[str, NDArray[np.float64]]  # name -> [seeds], the mean over a block


def available_cores() -> list[int]:
    """The cores this process may use."""
    return (
        sorted(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else list(range(os.cpu_count() or 1))
    )


def seed_keys(seed: int) -> tuple[Array, Array]:
    """The key that makes a seed's networks and the key that draws its batches and actions."""
    init_key, train_key = jax.random.split(jax.random.key(seed))
    return init_key, train_key


class Learners(Protocol):
    """Several seeds of one algorithm on one dataset."""

    @property
    def states(self) -> list[Any]:
        """The seeds' states, one by one."""

    def advance(self, start: int, updates: int | None = None, then: int | None = None) -> SeedMetrics:
        """Make a block of updates from update `start` on, for every seed.

        `updates` is the number of updates if it is not the usual one (another program is compiled), and
        `then` is the next number.
        """


class SideBySide:
    """Each seed runs the same compiled program on a thread of its own: on a CPU this uses every core and
    wastes no work.

    A seed gives the same results as when it is trained alone.
    """

    def __init__(self, block: Block, states: Sequence[Any], rows: Batch, keys: Sequence[Array]):
        self._states = list(states)
        self._rows = jax.device_put(rows)  # jnp.asarray would compile a program for each number of rows
        self._keys = list(keys)
        self._block = block
        self._pool = ThreadPoolExecutor(min(len(self._states), len(available_cores())))
        self._compiled: dict[int | None, Any] = {}  # a program for each size of block

    @property
    def states(self) -> list[Any]:
        """The seeds' states, one by one."""
        return self._states

    def advance(self, start: int, updates: int | None = None, then: int | None = None) -> SeedMetrics:
        """Make a block of updates from update `start` on, for every seed."""
        first = jnp.asarray(start, jnp.int32)
        if updates not in self._compiled:  # once, before threads race to do it
            block = jax.jit(_sized(self._block, updates), donate_argnums=0)
            self._compiled[updates] = block.lower(self._states[0], self._rows, self._keys[0], first).compile()
        results = list(self._pool.map(lambda i: self._run(i, first, updates), range(len(self._states))))
        return {name: np.array([float(metrics[name]) for metrics in results]) for name in results[0]}

    def _run(self, index: int, first: Array, updates: int | None) -> Metrics:
        self._states[index], metrics = self._compiled[updates](
            self._states[index], self._rows, self._keys[index], first
        )
        return {name: metric.block_until_ready() for name, metric in metrics.items()}


class Vectorised:
    """All seeds in one vectorised program, distributed over all devices; this suits accelerators."""

    def __init__(self, block: Block, states: Sequence[Any], rows: Batch, keys: Sequence[Array]):
        self._count = len(states)
        devices = jax.devices()
        each = -(
            -self._count // len(devices)
        )  # every device gets the same number of seeds; some may be padding
        shares = -(-self._count // each)
        states, keys = ([*values, *[values[-1]] * (shares * each - self._count)] for values in (states, keys))
        mesh = Mesh(np.array(devices[:shares]), ("seeds",))
        by_seed, everywhere = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (["seeds"], []))  # type: ignore[no-untyped-call]
        self._stacked = jax.device_put(jax.tree.map(lambda *leaves: jnp.stack(leaves), *states), by_seed)
        self._rows = jax.device_put(rows, everywhere)
        self._keys = jax.device_put(jnp.stack(keys), by_seed)
        self._block = block
        self._compiled: dict[int | None, Any] = {}  # a program for each size of block

    @property
    def states(self) -> list[Any]:
        """The seeds' states, one by one."""
        return [jax.tree.map(lambda leaf, i=i: leaf[i], self._stacked) for i in range(self._count)]

    def advance(self, start: int, updates: int | None = None, then: int | None = None) -> SeedMetrics:
        """Make a block of updates from update `start` on, for every seed."""
        if updates not in self._compiled:
            self._compiled[updates] = jax.jit(
                jax.vmap(_sized(self._block, updates), in_axes=(0, None, 0, None)), donate_argnums=0
            )
        self._stacked, metrics = self._compiled[updates](
            self._stacked, self._rows, self._keys, jnp.asarray(start, jnp.int32)
        )
        return {name: np.asarray(values, np.float64)[: self._count] for name, values in metrics.items()}


class OnDisk:
    """Seeds in parallel; their batches are read from memory-mapped columns during the previous block.

    The batches are the same as from rows in memory, so the results are identical.
    """

    def __init__(
        self,
        algorithm: Algorithm[Any],
        updates: int,
        states: Sequence[Any],
        rows: Batch,
        keys: Sequence[Array],
    ):
        self._states = list(states)
        self._rows, self._keys, self._updates = rows, list(keys), updates
        self._draw = jax.jit(
            partial(draw, batch_size=algorithm.batch_size, rows=len(rows.reward)), static_argnames="updates"
        )
        self._learn = jax.jit(partial(learn, algorithm), donate_argnums=0)
        self._compiled: dict[int, Any] = {}  # a program for each size of block
        self._pool = ThreadPoolExecutor(min(len(self._states), len(available_cores())))
        self._readers = ThreadPoolExecutor(len(self._states))
        self._ahead: dict[
            tuple[int, int, int], Future[tuple[Batch, Array]]
        ] = {}  # (seed, start, updates) -> its batches

    @property
    def states(self) -> list[Any]:
        """The seeds' states, one by one."""
        return self._states

    def advance(self, start: int, updates: int | None = None, then: int | None = None) -> SeedMetrics:
        """Make a block of updates from update `start` on, for every seed."""
        size, following = (self._updates if count is None else count for count in (updates, then))
        if size not in self._compiled:  # once, before threads race to do it
            self._compiled[size] = self._learn.lower(
                self._states[0], *self._batches(0, start, size).result()
            ).compile()
        results = list(
            self._pool.map(lambda i: self._run(i, start, size, following), range(len(self._states)))
        )
        return {name: np.array([float(metrics[name]) for metrics in results]) for name in results[0]}

    def _run(self, index: int, start: int, updates: int, following: int) -> Metrics:
        batches, keys = self._batches(index, start, updates).result()
        del self._ahead[index, start, updates]
        if following:
            self._batches(index, start + updates, following)  # read ahead
        self._states[index], metrics = self._compiled[updates](self._states[index], batches, keys)
        return {name: metric.block_until_ready() for name, metric in metrics.items()}

    def _batches(self, index: int, start: int, updates: int) -> "Future[tuple[Batch, Array]]":
        if (index, start, updates) not in self._ahead:
            self._ahead[index, start, updates] = self._readers.submit(self._gather, index, start, updates)
        return self._ahead[index, start, updates]

    def _gather(self, index: int, start: int, updates: int) -> tuple[Batch, Array]:
        indices, keys = self._draw(self._keys[index], jnp.asarray(start, jnp.int32), updates=updates)
        flat = np.asarray(indices).reshape(-1)
        order = np.argsort(flat, kind="stable")  # the disk is read from front to back
        place = np.empty_like(order)
        place[order] = np.arange(len(order))

        def read(column: Any) -> Any:
            return jnp.asarray(column[flat[order]][place].reshape(*indices.shape, *column.shape[1:]))

        return jax.tree.map(read, self._rows), keys


def _sized(block: Block, updates: int | None) -> Block:
    return block if updates is None else partial(block, updates=updates)


def make_learners(
    algorithm: Algorithm[Any], updates: int, states: Sequence[Any], rows: Batch, keys: Sequence[Array]
) -> Learners:
    """Parallel threads on a CPU (vmap is slower there), vectorised on accelerators, from disk if the data
    is memory-mapped."""
    observation: Any = rows.observation
    if isinstance(observation, np.memmap):
        return OnDisk(algorithm, updates, states, rows, keys)
    kind = SideBySide if jax.default_backend() == "cpu" and len(jax.devices()) == 1 else Vectorised
    return kind(make_block(algorithm, updates), states, rows, keys)
