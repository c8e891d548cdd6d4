"""How often two different cells share a code: Eq. 2 and 3 as printed, as evidently meant, as published,
and the project's own tables."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridcount.counts.grid import Grid, StateCells, rounded_code
from gridcount.counts.tables import SparseTable, empty_table
from gridcount.paper import PAPER

Int = NDArray[np.int64]


class Space(NamedTuple):
    """A task's dimensions and the paper's partitions for it."""

    states: int
    actions: int
    bins: int


OBSERVATIONS = {  # dataset -> dimensions of its observation
    "maze2d-umaze-v1": 4,
    "hopper-medium-v2": 11,
    "halfcheetah-medium-v2": 17,
    "walker2d-medium-v2": 17,
    "pen-expert-v1": 45,
    "door-expert-v1": 39,
}
SPACES = {
    name.split("-")[0]: Space(dims, PAPER[name].action_dim, PAPER[name].bins)
    for name, dims in OBSERVATIONS.items()
}
STEPS = 20  # small steps tried from each cell of the project's own tables
MARGIN = 1  # how many data widths beyond the range "outside" reaches on either side


def fold(cell: ArrayLike, period: int) -> Int:
    """The `mod` of Eq. 2 divided by the data's width, so in units of cells: cells a period (m) apart
    become one."""
    return np.asarray(cell, np.int64) % period


def printed_weights(space: Space) -> list[int]:
    """Eq. 3 to the letter: bins^i + 1 for states, bins^((states - 1) + j) + 1 for actions."""
    powers = [*range(space.states), *(space.states - 1 + j for j in range(space.actions))]
    return [space.bins**power + 1 for power in powers]


def place_weights(space: Space) -> list[int]:
    """What Eq. 3 evidently means: digits 0..bins in base bins + 1, every dimension with a place of its
    own, states first."""
    return [(space.bins + 1) ** place for place in reversed(range(space.states + space.actions))]


def weighted_code(cells: Int, weights: list[int]) -> list[int]:
    """Sum of digit * weight for each row, in integers of any size."""
    return list((cells.astype(object) * np.array(weights, object)).sum(axis=1))


def appendix_code(cell: tuple[int, int], base: int) -> int:
    """The code that the appendix's two examples obey: v(s, a) = base * s + a. Eq. 3 does not give it."""
    return base * cell[0] + cell[1]


def float_code(digits: Int, bins: int) -> NDArray[np.float32]:
    """The published arithmetic: code = digit + (bins + 1) * code over the dimensions, rounded to 32-bit
    floats at every step."""
    return rounded_code(digits.T.astype(np.float32), len(digits), bins)


def as_printed(cells: Int, space: Space) -> list[Any]:
    """Eq. 3 to the letter."""
    return weighted_code(cells, printed_weights(space))


def as_meant(cells: Int, space: Space) -> list[Any]:
    """Eq. 3 with a place for every dimension."""
    return weighted_code(cells, place_weights(space))


def as_published(cells: Int, space: Space) -> list[Any]:
    """State code and action code, each in 32-bit floats."""
    parts = float_code(cells[:, : space.states], space.bins), float_code(cells[:, space.states :], space.bins)
    return list(zip(*(part.tolist() for part in parts), strict=True))


def random_cells(space: Space, number: int, rng: np.random.Generator, outside: bool = False) -> Int:
    """Distinct cells, every digit uniform: within the data's range, or with actions up to a width beyond
    it on either side."""
    reach = MARGIN * space.bins if outside else 0
    states = rng.integers(0, space.bins + 1, (number, space.states))
    actions = rng.integers(-reach, space.bins + reach + 1, (number, space.actions))
    return np.unique(np.concatenate([states, actions], axis=1), axis=0)


def sharing(codes: list[Any]) -> tuple[float, float]:
    """Over distinct cells: the share that has its code in common with another, and the share of pairs that
    have one in common."""
    _, times = np.unique(np.array([hash(code) for code in codes]), return_counts=True)
    n = len(codes)
    return float(times[times > 1].sum() / n), float((times * (times - 1.0)).sum() / (n * (n - 1.0)))


def moves(space: Space) -> Int:
    """Small steps from a cell: one digit by one; two adjacent digits by +1 and -1; two adjacent digits by
    a carry, -(bins + 1) and +1."""
    total, result = space.states + space.actions, []
    for d in range(total):
        for sign in (1, -1):
            result.append({d: sign})
            if d + 1 < total:
                result.append({d: sign, d + 1: -sign})
                result.append({d: sign, d + 1: -sign * (space.bins + 1)})
                result.append({d: sign * (space.bins + 1), d + 1: -sign})
    steps = np.zeros((len(result), total), np.int64)
    for i, step in enumerate(result):
        steps[i, list(step)] = list(step.values())
    return steps


def in_reach(cells: Int, space: Space, outside: bool) -> NDArray[np.bool_]:
    """Which cells a learner could meet: states of the data, and actions of its range or up to a width
    beyond it."""
    reach = MARGIN * space.bins if outside else 0
    state, action = cells[:, : space.states], cells[:, space.states :]
    return np.asarray(
        ((state >= 0) & (state <= space.bins)).all(axis=1)
        & ((action >= -reach) & (action <= space.bins + reach)).all(axis=1)
    )


def partnered(cells: Int, space: Space, code: Callable[[Int, Space], list[Any]], outside: bool) -> float:
    """Share of cells from which a small step leads to another cell in reach with the same code."""
    own, found = np.array(code(cells, space), object), np.zeros(len(cells), np.bool_)
    for step in moves(space):
        search = np.flatnonzero(~found & in_reach(cells + step, space, outside))
        if len(search):
            there = np.array(code(cells[search] + step, space), object)
            found[search] = np.fromiter(
                (a == b for a, b in zip(there.tolist(), own[search].tolist(), strict=True)),
                np.bool_,
                len(search),
            )
    return float(found.mean())


def linear_partnered(cells: Int, space: Space, weights: list[int], outside: bool) -> float:
    """The same for a code that is a weighted sum, where a step changes every code by the same amount."""
    found = np.zeros(len(cells), np.bool_)
    for step in moves(space):
        if sum(int(s) * w for s, w in zip(step, weights, strict=True)) == 0:
            found |= in_reach(cells + step, space, outside)
    return float(found.mean())


def misread(
    cells: Int, space: Space, outside: bool, rng: np.random.Generator, megabytes: float = 64
) -> dict[str, Any]:
    """The project's own table after one visit to each cell: counts that are not 1, and cells a small step
    away that find a count."""
    grid = Grid.fit(
        np.array([np.zeros(space.actions), np.full(space.actions, space.bins)], np.float32),
        space.bins,
        1 + 2 * MARGIN,
    )
    near = np.repeat(cells, STEPS, axis=0)
    near += rng.choice(moves(space), len(near))
    near = near[in_reach(near, space, outside)]
    known = {row.tobytes() for row in cells}
    strangers = near[[row.tobytes() not in known for row in near]]
    every = np.concatenate([cells, strangers])
    corners = np.array([np.zeros(space.states), np.full(space.states, space.bins)], np.float32)
    ranked, (rank, _) = StateCells.fit(every[:, : space.states].astype(np.float32), corners, bins=space.bins)
    state, action = jnp.asarray(rank), grid.offset(jnp.asarray(every[:, space.states :], jnp.float32))
    table, _ = empty_table(ranked.n_cells, grid.sizes, megabytes).visit(
        state[: len(cells)], action[: len(cells)]
    )
    count = np.asarray(table.read(state, action))
    return {
        "ours": float((count[: len(cells)] != 1).mean()),
        "ours_strangers": len(strangers),
        "ours_near": int((count[len(cells) :] > 0).sum()),
    }


def collisions(seed: int = 0, number: int = 20_000, searched: int = 1_000) -> list[dict[str, Any]]:
    """For each task, random cells within the data's range and with actions beyond it, under every coding."""
    rng, result = np.random.default_rng(seed), []
    for name, space in SPACES.items():
        for outside in (False, True):
            cells = random_cells(space, number, rng, outside)
            some = rng.permutation(cells)[:searched]
            row: dict[str, Any] = {
                "task": name,
                **space._asdict(),
                "outside": outside,
                "cells": len(cells),
                "searched": len(some),
            }
            row["printed_pairs"] = sharing(as_printed(cells, space))[1]
            row["printed"] = linear_partnered(some, space, printed_weights(space), outside)
            row["meant"] = linear_partnered(some, space, place_weights(space), outside)
            row["published"] = partnered(some, space, as_published, outside)
            result.append(row | misread(some, space, outside, rng))
    return result


def printed_partner_share(space: Space) -> float:
    """In range, Eq. 3 as printed gives the last state and the first action one weight: all but the cells
    with both at one end."""
    return float(1 - 2 / (space.bins + 1) ** 2)


def equal_ones_probability(dimensions: int) -> float:
    """P(two random binary cells hold equally many ones): what Eq. 3 as printed sees at 1 partition, where
    every weight is 2."""
    return float(math.comb(2 * dimensions, dimensions) / 4**dimensions)


def blur(seed: int = 0, number: int = 5_000) -> dict[str, dict[str, Any]]:
    """Per state dimension, how often a step to the next cell leaves the published 32-bit state code as it
    was."""
    rng, result = np.random.default_rng(seed), {}
    for name, space in SPACES.items():
        digits = rng.integers(0, space.bins + 1, (number, space.states))
        code, unseen = float_code(digits, space.bins), []
        for dimension in range(space.states):
            moved = digits.copy()
            moved[:, dimension] += np.where(digits[:, dimension] < space.bins, 1, -1)
            unseen.append(float((float_code(moved, space.bins) == code).mean()))
        seen = next((d for d, share in enumerate(unseen) if share > 0), space.states)
        predicted = min(space.states, int(24 / math.log2(space.bins + 1)))
        result[name] = {"unseen": unseen, "always_seen": seen, "predicted": predicted}
    return result


def appendix() -> dict[str, Any]:
    """The appendix's examples under Eq. 3 as printed, under the code they obey, and the cells of a 3 x 3
    range under both."""
    plane = Space(1, 1, 2)
    square = np.array([[s, a] for s in range(3) for a in range(3)])
    wide = np.array([[s, a] for s in range(3) for a in range(-2, 5)])
    return {
        "printed": as_printed(np.array([[0, 1], [1, -1], [1, 0]]), plane),  # v(0, 1), v(1, -1), v(1, 0)
        "obeyed": [appendix_code(cell, 2) for cell in ((0, 1), (1, -1), (1, 0))],
        "square_codes_printed": len(set(as_printed(square, plane))),
        "square_codes_meant": len(set(as_meant(square, plane))),
        "wide_cells": len(wide),
        "wide_codes_meant": len(set(as_meant(wide, plane))),
        "wide_misread_by_ours": misread(wide, plane, True, np.random.default_rng(0))["ours"],
    }


def fingerprints(
    bits: tuple[int, ...] = (8, 10, 12), filled: int = 4096, strangers: int = 1_000_000
) -> list[dict[str, float]]:
    """The bounded table with short fingerprints: how often an unvisited cell has a count, and entries per
    bucket / 2^bits."""
    state, action = jnp.arange(filled, dtype=jnp.int32), jnp.zeros((filled, 1), jnp.int32)
    unseen = jnp.arange(10**6, 10**6 + strangers, dtype=jnp.int32)
    result = []
    for width in bits:
        table, _ = SparseTable.empty(megabytes=2**-5, fingerprint_bits=width).visit(state, action)
        held = float((np.asarray(table.entries)[..., 1] > 0).sum()) / table.entries.shape[0]
        found = np.asarray(table.read(unseen, jnp.zeros((strangers, 1), jnp.int32)) > 0)
        result.append({"bits": width, "measured": float(found.mean()), "predicted": held / 2**width})
    return result
