"""How close each algorithm's update comes to the machine's own limit, all measured in one run on one core.

Prints, for every algorithm with its paper's networks and batch (17-d observations, 6-d actions, as HalfCheetah's), milliseconds per
update, the floating-point operations of a step, how many times the machine's matrix-multiply time for those operations it takes, and
its cost relative to SAC beside the paper's ratio; what counting costs; and how long ranking two million states takes. Rates are the best of
several rounds, taken in turns, because a shared machine slows down but never speeds up. With --keep the figures go to results/bench.json,
and the ratios to where `gridcount algorithms` finds them.
"""

import argparse
import json
import os
import platform
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # one core, for the program and for what it is compared with

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from gridcount.algorithms import ALGORITHMS, make_algorithm
from gridcount.algorithms.about import PAPER_COST
from gridcount.algorithms.blocks import make_block
from gridcount.algorithms.gpc_sac import GPCSAC
from gridcount.counts.grid import StateCells
from gridcount.data.transitions import Transitions

DATASET = "halfcheetah-medium-v2"  # whose presets and dimensions are used
ROWS, OBSERVATION, ACTION, ROUNDS = 200_000, 17, 6, 8
COUNTED = 40  # updates of the counting benchmark
BLOCK_GIGAFLOP = 40  # work in one timed block: about half a second
ROOT = Path(__file__).parent.parent
KEPT, RATIOS = ROOT / "results" / "bench.json", ROOT / "src" / "gridcount" / "algorithms" / "cost.json"


def log(rng: np.random.Generator) -> Transitions:
    """A log with the dimensions of HalfCheetah."""
    states = rng.normal(size=(2, ROWS, OBSERVATION)).astype(np.float32)
    action = rng.uniform(-1, 1, (ROWS, ACTION)).astype(np.float32)
    flags = np.zeros(ROWS, np.bool_)
    ends = np.arange(ROWS) % 1000 == 999
    return Transitions(states[0], action, rng.uniform(size=ROWS).astype(np.float32), states[1], flags, ends)


def training(algorithm: Any, data: Transitions) -> tuple[Callable[[], float], float]:
    """A function that makes a block of updates and tells the seconds of one, and the floating-point operations of one."""
    if hasattr(algorithm, "cvae_updates"):
        algorithm = replace(algorithm, cvae_updates=1)
    prepared = algorithm.prepare(data)
    holder = [prepared.algorithm.init(jax.random.key(0), prepared.rows)]
    rows = jax.tree.map(jnp.asarray, prepared.rows)
    key, start = jax.random.key(1), jnp.asarray(0)
    batch = jax.tree.map(lambda column: column[: prepared.algorithm.batch_size], rows)
    flops = update_flops(prepared.algorithm, holder[0], batch, key)
    updates = int(np.clip(BLOCK_GIGAFLOP * 1e9 / flops, 2, 40)) // 2 * 2
    block = jax.jit(make_block(prepared.algorithm, updates), donate_argnums=0).lower(holder[0], rows, key, start).compile()

    def run() -> float:
        started = time.perf_counter()
        holder[0], metrics = block(holder[0], rows, key, start)
        for metric in metrics.values():
            metric.block_until_ready()
        return (time.perf_counter() - started) / updates

    return run, flops


def update_flops(algorithm: Any, state: Any, batch: Any, key: Any) -> float:
    """Floating-point operations of an update; where a policy learns every other update, the mean of the two kinds.

    XLA counts what it compiled, but a loop's body only once: the further rounds of matrix multiplications are added.
    """
    every = getattr(algorithm, "policy_every", 1)
    return float(np.mean([_flops_at(algorithm, state, batch, key, count if every > 1 else None) for count in range(every)]))


def _flops_at(algorithm: Any, state: Any, batch: Any, key: Any, count: int | None) -> float:
    """With the counter a constant the compiler keeps only the branch that is taken."""

    def update(state: Any, batch: Any, key: Any) -> Any:
        return algorithm.update(state if count is None else _counted(state, count), batch, key)

    compiled: Any = jax.jit(update).lower(state, batch, key).compile()
    program = jax.make_jaxpr(update)(state, batch, key).jaxpr
    return float(compiled.cost_analysis()["flops"]) + multiplications(program, rounds=True) - multiplications(program, rounds=False)


def _counted(state: Any, count: int) -> Any:
    number = jnp.asarray(count, jnp.int32)
    return state._replace(learner=state.learner._replace(updates=number)) if hasattr(state, "learner") else state._replace(updates=number)


def multiplications(program: Any, *, rounds: bool) -> float:
    """Operations of a program's matrix multiplications, a loop's body as often as it runs or once."""
    total = 0.0
    for equation in program.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            total += 2.0 * equation.outvars[0].aval.size * np.prod([equation.invars[0].aval.shape[axis] for axis in contracted])
        inner = [each for value in equation.params.values() for each in (value if isinstance(value, tuple | list) else (value,))]
        bodies = [getattr(each, "jaxpr", each) for each in inner if hasattr(getattr(each, "jaxpr", each), "eqns")]
        repeats = equation.params.get("length", 1) if rounds and equation.primitive.name == "scan" else 1
        total += repeats * sum(multiplications(body, rounds=rounds) for body in bodies)
    return total


def counting(algorithm: GPCSAC, data: Transitions) -> Callable[[], float]:
    """A function that maps, counts and reads as an update does, and nothing else; tells the seconds of one."""
    prepared = algorithm.prepare(data)
    state = prepared.algorithm.init(jax.random.key(0), prepared.rows)
    cells = jnp.asarray(np.concatenate([prepared.rows.state_cell[:256], prepared.rows.next_state_cell[:256]]))
    actions = jax.random.uniform(jax.random.key(0), (COUNTED, 512, ACTION), minval=-1, maxval=1)

    def block(table: Any, actions: jax.Array) -> tuple[Any, jax.Array]:
        def step(table: Any, action: jax.Array) -> tuple[Any, jax.Array]:
            table, count = table.visit(cells, state.grid.offset(action))
            return table, jnp.sqrt(jnp.log(2.0) / count).mean()

        return jax.lax.scan(step, table, actions)

    compiled = jax.jit(block, donate_argnums=0).lower(state.table, actions).compile()
    holder = [state.table]

    def run() -> float:
        started = time.perf_counter()
        holder[0], u = compiled(holder[0], actions)
        u.block_until_ready()
        return (time.perf_counter() - started) / COUNTED

    return run


def multiplication(size: int = 1024) -> Callable[[], float]:
    """A function that multiplies two square matrices with NumPy's BLAS."""
    a, b = np.random.default_rng(0).normal(size=(2, size, size)).astype(np.float32)

    def run() -> float:
        started = time.perf_counter()
        a @ b
        return time.perf_counter() - started

    return run


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=sorted(ALGORITHMS), help="algorithms to measure beside SAC")
    parser.add_argument("--keep", action="store_true", help="write the figures where the docs and the command find them")
    options = parser.parse_args()
    console = Console(width=150)
    data = log(np.random.default_rng(0))
    work: dict[str, Callable[[], float]] = {}
    flops: dict[str, float] = {}
    for name in dict.fromkeys(["sac", "gpc-sac", *options.only]):
        console.print(f"compiling {name}", style="dim")
        work[name], flops[name] = training(make_algorithm(name, DATASET), data)
    work |= {"counting": counting(make_algorithm("gpc-sac", DATASET), data), "matmul": multiplication()}
    best = dict.fromkeys(work, float("inf"))
    for _ in range(ROUNDS):
        for name, run in work.items():
            best[name] = min(best[name], run())
    peak = 2 * 1024**3 / best["matmul"]

    updates = {
        name: {
            "milliseconds": best[name] * 1e3,
            "megaflop": flops[name] / 1e6,
            "gigaflops": flops[name] / best[name] / 1e9,
            "times_matmul": best[name] / (flops[name] / peak),
            "relative": best[name] / best["sac"],
        }
        for name in sorted(flops, key=lambda name: best[name])
    }
    states = np.random.default_rng(0).normal(size=(2_000_000, OBSERVATION)).astype(np.float32)
    started = time.perf_counter()
    StateCells.fit(states, bins=5)
    figures = {
        "machine": f"{_processor()}, one core, jax {jax.__version__}",
        "updates": updates,
        "matmul_gigaflops": peak / 1e9,
        "counting_milliseconds": best["counting"] * 1e3,
        "counting_share": best["counting"] / best["gpc-sac"],
        "ranking_seconds": time.perf_counter() - started,
    }
    show(figures, console)
    if options.keep:
        KEPT.write_text(json.dumps(figures, indent=2) + "\n")
        RATIOS.write_text(json.dumps({name: round(row["relative"], 2) for name, row in updates.items()}, indent=2) + "\n")


def show(figures: dict[str, Any], console: Console) -> None:
    """Print what was measured."""
    table = Table(title=f"{figures['machine']}; {OBSERVATION}-d observations, {ACTION}-d actions, each paper's networks and batch")
    for heading in (
        "",
        "ms per update",
        "MFLOP per update",
        "GFLOP/s",
        "times its matrix-multiply time",
        "relative to SAC",
        "in the paper",
    ):
        table.add_column(heading, justify="right")
    for name, row in figures["updates"].items():
        values = f"{row['milliseconds']:.2f}", f"{row['megaflop']:,.0f}", f"{row['gigaflops']:.1f}", f"{row['times_matmul']:.2f}"
        table.add_row(name, *values, f"{row['relative']:.2f}", f"{PAPER_COST[name]:.2f}" if name in PAPER_COST else "")
    table.add_row("matrix multiplication", "", "", f"{figures['matmul_gigaflops']:.1f}", "1.00")
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
