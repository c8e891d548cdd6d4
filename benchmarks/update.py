"""How close an update comes to the machine's own limit, all measured in one run on one core.

Prints milliseconds per update of GPC-SAC and SAC at the paper's size (batch 256, 17-d observations, 6-d actions, 3 x 256), the
floating-point operations of a step, the rate of the machine's matrix multiplication, and the share of it that training reaches;
what counting costs; and how long ranking two million states takes. Rates are the best of several rounds, taken in turns, because a
shared machine slows down but never speeds up. With an argument, the figures also go to that JSON file.
"""

import json
import os
import platform
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # one core, for the program and for what it is compared with

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from gridcount.algorithms.blocks import make_block
from gridcount.algorithms.gpc_sac import GPCSAC
from gridcount.algorithms.sac import SAC
from gridcount.counts.grid import StateCells
from gridcount.data.transitions import Transitions

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
    update: Any = jax.jit(prepared.algorithm.update).lower(holder[0], batch, key).compile()
    block = jax.jit(make_block(prepared.algorithm, UPDATES), donate_argnums=0).lower(holder[0], rows, key, start).compile()

    def run() -> None:
        holder[0], metrics = block(holder[0], rows, key, start)
        metrics["critic_loss"].block_until_ready()

    return run, update.cost_analysis()["flops"]


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

    updates = {}
    for name, flops in (("gpc-sac", gpc_flops), ("sac", sac_flops)):
        seconds = best[name] / UPDATES
        updates[name] = {
            "milliseconds": seconds * 1e3,
            "megaflop": flops / 1e6,
            "gigaflops": flops / seconds / 1e9,
            "share": flops / seconds / peak,
        }
    states = np.random.default_rng(0).normal(size=(2_000_000, OBSERVATION)).astype(np.float32)
    started = time.perf_counter()
    StateCells.fit(states, bins=5)
    figures = {
        "machine": f"{_processor()}, one core, jax {jax.__version__}",
        "updates": updates,
        "matmul_gigaflops": peak / 1e9,
        "counting_milliseconds": best["counting"] / UPDATES * 1e3,
        "counting_share": best["counting"] / best["gpc-sac"],
        "ranking_seconds": time.perf_counter() - started,
    }
    show(figures)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(figures, indent=2) + "\n")


def show(figures: dict[str, Any]) -> None:
    """Print what was measured."""
    table = Table(title=f"{figures['machine']}; batch 256, {OBSERVATION}-d observations, {ACTION}-d actions, 3 x 256 networks")
    for heading in ("", "ms per update", "MFLOP per update", "GFLOP/s", "share of matrix multiplication", "relative to SAC"):
        table.add_column(heading, justify="right")
    for name, row in figures["updates"].items():
        relative = row["milliseconds"] / figures["updates"]["sac"]["milliseconds"]
        values = f"{row['milliseconds']:.2f}", f"{row['megaflop']:.0f}", f"{row['gigaflops']:.1f}", f"{row['share']:.0%}", f"{relative:.2f}"
        table.add_row(name, *values)
    table.add_row("matrix multiplication", "", "", f"{figures['matmul_gigaflops']:.1f}", "100%", "")
    console = Console(width=140)
    console.print(table)
    milliseconds, share = figures["counting_milliseconds"], figures["counting_share"]
    console.print(f"counting (map, visit, read 512 pairs): {milliseconds:.3f} ms, {share:.1%} of a GPC-SAC update")
    console.print(f"ranking 2,000,000 states of {OBSERVATION} dimensions: {figures['ranking_seconds']:.2f} s")


def _processor() -> str:
    """The processor's name where the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
