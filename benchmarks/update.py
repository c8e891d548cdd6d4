"""How close an update comes to the machine's own limit, all measured in one run on one core.

Prints milliseconds per update of GPC-SAC and SAC at the paper's size (batch 256, 17-d observations, 6-d actions, 3 x 256), the
floating-point operations of a step, the rate of the machine's matrix multiplication, and the share of it that training reaches;
what counting costs; and how long ranking two million states takes. Rates are the best of several rounds, taken in turns, because a
shared machine slows down but never speeds up.
"""

import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # one core, for the program and for what it is compared with

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from gridcount.algorithms.gpc_sac import GPCSAC
from gridcount.algorithms.sac import SAC
from gridcount.counts.grid import StateCells
from gridcount.data.transitions import Transitions
from gridcount.training.loop import make_block

ROWS, OBSERVATION, ACTION, UPDATES, ROUNDS = 200_000, 17, 6, 40, 8


def log(rng: np.random.Generator) -> Transitions:
    """A log with the dimensions of HalfCheetah."""
    states = rng.normal(size=(2, ROWS, OBSERVATION)).astype(np.float32)
    action = rng.uniform(-1, 1, (ROWS, ACTION)).astype(np.float32)
    flags = np.zeros(ROWS, np.bool_)
    return Transitions(states[0], action, rng.uniform(size=ROWS).astype(np.float32), states[1], flags, flags)


def training(algorithm: Any, data: Transitions) -> tuple[Callable[[], None], float]:
    """A function that makes a block of updates, and the floating-point operations of one update."""
    prepared = algorithm.prepare(data)
    holder = [prepared.algorithm.init(jax.random.key(0), prepared.rows)]
    rows = jax.tree.map(jnp.asarray, prepared.rows)
    key, start = jax.random.key(1), jnp.asarray(0)
    batch = jax.tree.map(lambda column: column[: prepared.algorithm.batch_size], rows)
    flops = jax.jit(prepared.algorithm.update).lower(holder[0], batch, key).compile().cost_analysis()["flops"]
    block = jax.jit(make_block(prepared.algorithm, UPDATES), donate_argnums=0).lower(holder[0], rows, key, start).compile()

    def run() -> None:
        holder[0], metrics = block(holder[0], rows, key, start)
        jax.block_until_ready(metrics)

    return run, flops


def counting(algorithm: GPCSAC, data: Transitions) -> Callable[[], None]:
    """A function that maps, counts and reads as a block of updates does, and nothing else."""
    prepared = algorithm.prepare(data)
    state = prepared.algorithm.init(jax.random.key(0), prepared.rows)
    cells = jnp.asarray(np.concatenate([prepared.rows.state_cell[:256], prepared.rows.next_state_cell[:256]]))
    actions = jax.random.uniform(jax.random.key(0), (UPDATES, 512, ACTION), minval=-1, maxval=1)

    def block(table: Any, actions: jax.Array) -> tuple[Any, jax.Array]:
        def step(table: Any, action: jax.Array) -> tuple[Any, jax.Array]:
            table, count = table.visit(cells, state.grid.offset(action))
            return table, jnp.sqrt(jnp.log(2.0) / count).mean()

        return jax.lax.scan(step, table, actions)

    compiled = jax.jit(block, donate_argnums=0).lower(state.table, actions).compile()
    holder = [state.table]

    def run() -> None:
        holder[0], u = compiled(holder[0], actions)
        u.block_until_ready()

    return run


def multiplication(size: int = 1024) -> Callable[[], None]:
    """A function that multiplies two square matrices with NumPy's BLAS."""
    a, b = np.random.default_rng(0).normal(size=(2, size, size)).astype(np.float32)

    def run() -> None:
        a @ b

    return run


def main() -> None:
    """Measure and print."""
    data = log(np.random.default_rng(0))
    paper = GPCSAC(bins=5, pessimism=3.0)
    (gpc, gpc_flops), (sac, sac_flops) = training(paper, data), training(SAC(), data)
    work = {"gpc-sac": gpc, "sac": sac, "counting": counting(paper, data), "matmul": multiplication()}
    best = dict.fromkeys(work, float("inf"))
    for _ in range(ROUNDS):
        for name, run in work.items():
            started = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - started)
    peak = 2 * 1024**3 / best["matmul"]

    table = Table(title=f"one core, batch 256, {OBSERVATION}-d observations, {ACTION}-d actions, 3 x 256 networks")
    for heading in ("", "ms per update", "MFLOP per update", "GFLOP/s", "share of matrix multiplication", "relative to SAC"):
        table.add_column(heading, justify="right")
    for name, flops in (("gpc-sac", gpc_flops), ("sac", sac_flops)):
        seconds = best[name] / UPDATES
        rate = flops / seconds
        table.add_row(
            name, f"{seconds * 1e3:.2f}", f"{flops / 1e6:.0f}", f"{rate / 1e9:.1f}", f"{rate / peak:.0%}", f"{best[name] / best['sac']:.2f}"
        )
    table.add_row("matrix multiplication", "", "", f"{peak / 1e9:.1f}", "100%", "")
    console = Console(width=140)
    console.print(table)
    console.print(
        f"counting (map, visit, read 512 pairs): {best['counting'] / UPDATES * 1e3:.3f} ms, {best['counting'] / best['gpc-sac']:.1%} of a GPC-SAC update"
    )

    states = np.random.default_rng(0).normal(size=(2_000_000, OBSERVATION)).astype(np.float32)
    started = time.perf_counter()
    cells, _ = StateCells.fit(states, bins=5)
    console.print(f"ranking 2,000,000 states of {OBSERVATION} dimensions: {time.perf_counter() - started:.2f} s ({cells.n_cells:,} cells)")


if __name__ == "__main__":
    main()
