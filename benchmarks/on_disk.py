"""What training from memory-mapped columns costs beside training from memory: the same updates, in turns,
in one run."""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from gridcount.algorithms.gpc_sac import GPCSAC
from gridcount.data.formats.cut import cut
from gridcount.data.formats.log import log_of
from gridcount.data.store.local import read_local, write_local
from gridcount.training.loop import make_learners, seed_keys
from gridcount.transitions import Transitions

ROWS, OBSERVATION, ACTION, ROUNDS = 1_000_000, 17, 6, 5
SIZES = {
    "fast (2 x 64)": ((64, 64), 1000),
    "paper (3 x 256)": ((256, 256, 256), 100),
}  # networks, updates per block


def log(rng: np.random.Generator) -> Transitions:
    """A log with the dimensions of HalfCheetah."""
    states = rng.normal(size=(2, ROWS, OBSERVATION)).astype(np.float32)
    action = rng.uniform(-1, 1, (ROWS, ACTION)).astype(np.float32)
    flags = np.zeros(ROWS, np.bool_)
    return Transitions(states[0], action, rng.uniform(size=ROWS).astype(np.float32), states[1], flags, flags)


def seconds_per_update(algorithm: GPCSAC, sources: dict[str, Transitions], updates: int) -> dict[str, float]:
    """The best time per update of each source, measured in turns."""
    learners: dict[str, Any] = {}
    for name, data in sources.items():
        prepared = algorithm.prepare(data)
        init_key, train_key = seed_keys(0)
        state = prepared.algorithm.init(init_key, prepared.rows)
        learners[name] = make_learners(prepared.algorithm, updates, [state], prepared.rows, [train_key])
        learners[name].advance(0)
    best = dict.fromkeys(sources, float("inf"))
    for turn in range(1, ROUNDS + 1):
        for name, learner in learners.items():
            started = time.perf_counter()
            learner.advance(turn * updates)
            best[name] = min(best[name], (time.perf_counter() - started) / updates)
    return best


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        write_local(Path(folder) / "log", cut(log_of(log(np.random.default_rng(0)))))
        sources = {
            "memory": read_local(Path(folder) / "log"),
            "disk": read_local(Path(folder) / "log", memory_map=True),
        }
        table = Table(title=f"GPC-SAC on {ROWS:,} transitions, jax {jax.__version__}")
        for heading in ("", "ms per update from memory", "from memory-mapped columns", "speed kept"):
            table.add_column(heading, justify="right")
        for name, (hidden, updates) in SIZES.items():
            best = seconds_per_update(GPCSAC(hidden=hidden, bins=5, pessimism=3.0), sources, updates)
            row = (f"{best[source] * 1e3:.2f}" for source in sources)
            table.add_row(name, *row, f"{best['memory'] / best['disk']:.0%}")
        Console().print(table)


if __name__ == "__main__":
    main()
