"""Visit tables: how often each (state cell, action cell) was used, inside a compiled update or outside it.

Both tables have one interface: `visit` counts a batch of pairs and then reads them, so n >= 1;
`read` only reads. `DenseTable` is exact; `SparseTable` is bounded, for action spaces with too many cells for
memory.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from gridcount.counts.grid import Grid

WAYS = 8  # entries per bucket of the sparse table
ENTRY_BYTES = 8  # a 32-bit fingerprint and a 32-bit count


class DenseTable(eqx.Module):
    """One counter for every pair: exact, where it fits the memory budget."""

    counts: Array  # [state cells, action codes] uint32
    sizes: tuple[int, ...] = eqx.field(static=True)  # cells per action dimension

    @classmethod
    def empty(cls, state_cells: int, sizes: tuple[int, ...]) -> "DenseTable":
        """A table of zeros for action dimensions of these many cells."""
        return cls(jnp.zeros((state_cells, math.prod(sizes)), jnp.uint32), sizes)

    def visit(self, state_cell: Array, action_cell: Array) -> tuple["DenseTable", Array]:
        """Count each pair, then read it."""
        code = self._code(action_cell)
        counts = self.counts.at[state_cell, code].add(1, mode="promise_in_bounds")
        return DenseTable(counts, self.sizes), counts.at[state_cell, code].get(mode="promise_in_bounds")

    def read(self, state_cell: Array, action_cell: Array) -> Array:
        """How often each pair was visited."""
        return self.counts[state_cell, self._code(action_cell)]

    def _code(self, action_cell: Array) -> Array:
        """Mixed-radix code of the cell indices: injective, unlike Eq. 3."""
        strides = np.cumprod((1, *self.sizes[:-1]), dtype=np.int32)
        return (action_cell * strides).sum(axis=-1)


class SparseTable(eqx.Module):
    """A bounded table: buckets of eight entries, found by hash, identified by a 32-bit fingerprint.

    A pair finds its entry by fingerprint among the eight of its bucket; it is confused with another pair with
    a probability of at most 8 / 2^32 per read. In a full bucket a new pair replaces the least visited entry
    that the batch does not use, and starts at zero, so the rarest pair is lost; if the batch uses them all,
    the new pair itself is lost. A lost pair gets more pessimism, never less.
    """

    entries: Array  # [buckets, ways, 2] uint32: fingerprint, count
    fingerprint_bits: int = eqx.field(static=True, default=32)

    @classmethod
    def empty(cls, megabytes: float, fingerprint_bits: int = 32) -> "SparseTable":
        """A table that takes at most `megabytes`: the largest power of two of buckets within them."""
        buckets = 2 ** int(math.log2(megabytes * 2**20 / (WAYS * ENTRY_BYTES)))
        return cls(jnp.zeros((buckets, WAYS, 2), jnp.uint32), fingerprint_bits)

    def visit(self, state_cell: Array, action_cell: Array) -> tuple["SparseTable", Array]:
        """Count each pair, then read it; pairs that occur twice in the batch count twice."""
        bucket, fingerprint = self._address(state_cell, action_cell)
        place = jnp.arange(len(bucket), dtype=jnp.int32)
        bucket, fingerprint, place = jax.lax.sort(
            (bucket, fingerprint, place), num_keys=2
        )  # equal pairs side by side
        new_bucket = jnp.concatenate([jnp.ones(1, bool), bucket[1:] != bucket[:-1]])
        new_pair = new_bucket | jnp.concatenate([jnp.ones(1, bool), fingerprint[1:] != fingerprint[:-1]])
        group = jnp.cumsum(new_pair) - 1
        times = jnp.zeros_like(fingerprint).at[group].add(1)[group]  # how often the batch holds this pair

        rows = self.entries.at[bucket].get(mode="promise_in_bounds")  # [batch, ways, 2]
        counts = rows[..., 1]
        match = (rows[..., 0] == fingerprint[:, None]) & (counts > 0)
        found = match.any(axis=1)
        slot = match.argmax(axis=1)
        # Entries that the batch uses stay: a bit for each of a bucket's, added up over its pairs.
        place_of_bucket = jnp.cumsum(new_bucket) - 1
        bit = jnp.where(new_pair & found, 1 << slot, 0)
        used = jnp.zeros_like(bit).at[place_of_bucket].add(bit)[place_of_bucket]
        in_use = (used[:, None] >> jnp.arange(WAYS)) & 1 == 1  # [batch, ways]
        # The k-th new pair of a bucket takes its k-th least visited entry of the others, so that two never
        # take the same.
        newcomer = jnp.cumsum(new_pair & ~found)
        before = jax.lax.cummax(jnp.where(new_bucket, newcomer - (new_pair & ~found), 0))
        turn = newcomer - before - 1
        way, age = jnp.arange(WAYS), jnp.where(in_use, np.uint32(0xFFFFFFFF), counts)
        smaller = (age[:, None, :] < age[:, :, None]) | (
            (age[:, None, :] == age[:, :, None]) & (way[None, :] < way[:, None])
        )
        least = (smaller.sum(axis=2) == turn[:, None]).argmax(axis=1)
        room = turn < WAYS - in_use.sum(axis=1)
        slot = jnp.where(found, slot, jnp.where(room, least, WAYS))  # beyond the last: not stored

        count = jnp.where(match, counts, 0).sum(axis=1, dtype=jnp.uint32) + times
        entry = jnp.stack([fingerprint, count], axis=-1)
        entries = self.entries.at[bucket, slot].set(entry, mode="drop")
        return SparseTable(entries, self.fingerprint_bits), jnp.zeros_like(count).at[place].set(
            count, unique_indices=True
        )

    def read(self, state_cell: Array, action_cell: Array) -> Array:
        """How often each pair was visited, as far as the table still holds it."""
        bucket, fingerprint = self._address(state_cell, action_cell)
        rows = self.entries[bucket]
        return jnp.where(rows[..., 0] == fingerprint[:, None], rows[..., 1], 0).sum(axis=1, dtype=jnp.uint32)

    def _address(self, state_cell: Array, action_cell: Array) -> tuple[Array, Array]:
        """Bucket and fingerprint of a pair: two independent 32-bit hashes of all its indices."""
        words = jnp.concatenate([state_cell[:, None], action_cell], axis=1).astype(jnp.uint32)
        bucket = _hash(words, seed=0x9E3779B9) & np.uint32(self.entries.shape[0] - 1)
        fingerprint = _hash(words, seed=0x85EBCA6B) >> np.uint32(32 - self.fingerprint_bits)
        return bucket.astype(jnp.int32), fingerprint


Table = DenseTable | SparseTable


def empty_table(state_cells: int, sizes: tuple[int, ...], megabytes: float) -> Table:
    """The exact table where it fits the memory budget, the bounded one otherwise."""
    entries = state_cells * math.prod(sizes)
    if entries * 4 <= megabytes * 2**20 and entries < 2**31:
        return DenseTable.empty(state_cells, sizes)
    return SparseTable.empty(megabytes)


def _hash(words: Array, seed: int) -> Array:
    """MurmurHash3 of each row of 32-bit words."""
    state = jnp.full(words.shape[0], seed, jnp.uint32)
    for i in range(words.shape[1]):
        word = words[:, i] * np.uint32(0xCC9E2D51)
        word = ((word << 15) | (word >> 17)) * np.uint32(0x1B873593)
        state = state ^ word
        state = ((state << 13) | (state >> 19)) * np.uint32(5) + np.uint32(0xE6546B64)
    state = (state ^ (state >> 16)) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> 13)) * np.uint32(0xC2B2AE35)
    return state ^ (state >> 16)


def visit_rows(
    table: Table, grid: Grid, state_cell: NDArray[np.int32], action: NDArray[np.float32], block: int = 65_536
) -> Table:
    """Count any number of pairs in blocks; columns may be memory-mapped."""
    visit = jax.jit(lambda table, state, action: table.visit(state, grid.offset(action))[0], donate_argnums=0)
    for start in range(0, len(state_cell), block):
        table = visit(
            table, jnp.asarray(state_cell[start : start + block]), jnp.asarray(action[start : start + block])
        )
    return table
