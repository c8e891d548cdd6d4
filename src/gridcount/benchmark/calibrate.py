"""Expected time of cells on this machine, from a few timed updates of each kind."""

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gridcount.algorithms.blocks import make_block
from gridcount.algorithms.contract import pretraining_fields
from gridcount.benchmark.cells import Cell
from gridcount.benchmark.timings import keep_timing, read_timings
from gridcount.catalogue import NAMES
from gridcount.data.load import load
from gridcount.training.plan import settings
from gridcount.transitions import Transitions

ROWS, UPDATES = 2_000, 20
DIMENSIONS = {  # of observation and action, by the name's first word
    "hopper": (11, 3),
    "halfcheetah": (17, 6),
    "walker2d": (17, 6),
    "ant": (111, 8),
    "maze2d": (4, 2),
    "pen": (45, 24),
    "hammer": (46, 26),
    "door": (39, 28),
    "relocate": (39, 30),
    "antmaze": (29, 8),
    "kitchen": (60, 9),
}
SIZES = {  # fields that an update's time depends on
    *(
        "hidden",
        "layer_norm",
        "batch_size",
        "n_critics",
        "sampled_actions",
        "ood_next_weight",
        "policy_every",
    ),
    *("cvae_hidden", "behaviour_hidden", "passes", "next_actions", "discrepancy_samples"),
}


Report = Callable[[str, int, int], None]  # receives what is timed next, its number and the total


def seconds_per_update(cells: Sequence[Cell], report: Report) -> dict[str, float]:
    """Seconds one seed's update takes, by cell: each different algorithm, size and dimension is compiled
    and timed once, and kept."""
    kinds: dict[str, tuple[Any, tuple[int, int], str]] = {}  # kind of update -> how to time it
    owner: dict[str, str] = {}  # cell -> its kind
    for cell in cells:
        algorithm = cell.plan.make_algorithm()
        dims = (
            DIMENSIONS[cell.dataset.split("-")[0]]
            if cell.dataset in NAMES
            else _dimensions(cell.plan.dataset)
        )
        sizes = {name: value for name, value in settings(algorithm).items() if name in SIZES}
        owner[cell.label] = str((cell.algorithm, dims, sizes))
        kinds.setdefault(owner[cell.label], (algorithm, dims, cell.algorithm))
    timed = read_timings()
    new = [kind for kind in kinds if kind not in timed]
    with _one_core():
        for number, kind in enumerate(new, start=1):
            algorithm, dims, name = kinds[kind]
            report(f"{name} on {dims[0]}-d observations and {dims[1]}-d actions", number, len(new))
            timed[kind] = _time(algorithm, dims)
            keep_timing(kind, timed[kind])  # immediately, so that a stop loses nothing
    return {label: timed[kind] for label, kind in owner.items()}


@cache
def _dimensions(name: str) -> tuple[int, int]:
    """Dimensions of the user's own dataset."""
    data = load(name)
    return data.observation.shape[1], data.action.shape[1]


@contextmanager
def _one_core() -> Iterator[None]:
    """Pin this process to one core, like a worker, if the system supports it."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def estimate(cells: Sequence[Cell], per_update: dict[str, float], cores: int, workers: int) -> float:
    """Seconds for all cells, without evaluations and compilation: each runs on the next free worker, as in
    `run_local`."""
    workers = max(min(workers, len(cells)), 1)
    share = max(cores // workers, 1)
    busy = [0.0] * workers
    for cell in cells:
        busy[busy.index(min(busy))] += (
            cell.updates * math.ceil(len(cell.seeds) / share) * per_update[cell.label]
        )
    return max(busy) * max(workers / cores, 1)  # more workers than cores take turns


def _time(algorithm: Any, dims: tuple[int, int]) -> float:
    rng = np.random.default_rng(0)
    states = rng.normal(size=(2, ROWS, dims[0])).astype(np.float32)
    flags = np.zeros(ROWS, np.bool_)
    action, reward = (
        rng.uniform(-1, 1, (ROWS, dims[1])).astype(np.float32),
        rng.uniform(size=ROWS).astype(np.float32),
    )
    data = Transitions(states[0], action, reward, states[1], flags, flags)
    quick = dict.fromkeys(pretraining_fields(algorithm), 1)
    prepared = replace(algorithm, **quick).prepare(data)
    state = prepared.algorithm.init(jax.random.key(0), prepared.rows)
    rows = jax.tree.map(jnp.asarray, prepared.rows)
    key, start = jax.random.key(1), jnp.asarray(0)
    block = (
        jax.jit(make_block(prepared.algorithm, UPDATES), donate_argnums=0)
        .lower(state, rows, key, start)
        .compile()
    )
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        state, metrics = block(state, rows, key, start)
        for metric in metrics.values():
            metric.block_until_ready()
        best = min(best, (time.perf_counter() - started) / UPDATES)
    return best
