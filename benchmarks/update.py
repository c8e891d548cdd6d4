"""How close each algorithm's update comes to the machine's own limit, all measured in one run on one core.

Prints, for every algorithm with its paper's networks and batch (17-d observations, 6-d actions, as
HalfCheetah's), milliseconds per update, the floating-point operations of a step, how many times the machine's
matrix-multiply time for those operations it takes, both at the rate of large square matrices and at that of
the update's own, mostly small ones; and its cost relative to SAC beside the paper's ratio; what counting
costs; and how long ranking two million states takes. Rates are the best of several rounds, taken in turns,
because a shared machine slows down but never speeds up. With --keep the figures go to results/bench.json, and
the ratios to where `gridcount algorithms` finds them; a run during which the machine was busy with other work
is not kept.
"""

import argparse
import json
import os
import platform
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(
        0, {max(os.sched_getaffinity(0))}
    )  # one core, for the program and for what it is compared with

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from busy import Busy, reason_not_to_keep
from rich.console import Console
from rich.table import Table

from gridcount.algorithms import ALGORITHMS, make_algorithm
from gridcount.algorithms.blocks import make_block
from gridcount.algorithms.gpc_sac import GPCSAC
from gridcount.algorithms.papers import PAPER_COST
from gridcount.counts.grid import StateCells
from gridcount.transitions import Transitions

DATASET = "halfcheetah-medium-v2"  # whose presets and dimensions are used
ROWS, OBSERVATION, ACTION, ROUNDS = 200_000, 17, 6, 8
COUNTED = 40  # updates of the counting benchmark
BLOCK_GIGAFLOP = 40  # work in one timed block: about half a second
Shape = tuple[
    int, int, int, int
]  # of a matrix multiplication: matrices in a stack, rows, inner dimension, columns
LARGE: Shape = (1, 1024, 1024, 1024)
ROOT = Path(__file__).parent.parent
KEPT, RATIOS = ROOT / "results" / "bench.json", ROOT / "src" / "gridcount" / "algorithms" / "cost.json"


def log(rng: np.random.Generator) -> Transitions:
    """A log with the dimensions of HalfCheetah."""
    states = rng.normal(size=(2, ROWS, OBSERVATION)).astype(np.float32)
    action = rng.uniform(-1, 1, (ROWS, ACTION)).astype(np.float32)
    flags = np.zeros(ROWS, np.bool_)
    ends = np.arange(ROWS) % 1000 == 999
    return Transitions(states[0], action, rng.uniform(size=ROWS).astype(np.float32), states[1], flags, ends)


@dataclass(frozen=True)
class Work:
    """An algorithm's updates: how to run them, and what one consists of."""

    run: Callable[[], float]  # makes a block of updates and tells the seconds of one
    flops: float  # floating-point operations
    products: dict[Shape, float]  # matrix multiplications, how many of each shape


def training(algorithm: Any, data: Transitions) -> Work:
    """An algorithm's updates on a log."""
    brief = {
        "cvae_updates": 1,
        "warmup_updates": 0,
        "imitation_updates": 0,
    }  # what precedes the updates that a run mostly consists of
    algorithm = replace(
        algorithm, **{name: value for name, value in brief.items() if hasattr(algorithm, name)}
    )
    prepared = algorithm.prepare(data)
    holder = [prepared.algorithm.init(jax.random.key(0), prepared.rows)]
    rows = jax.tree.map(jnp.asarray, prepared.rows)
    key, start = jax.random.key(1), jnp.asarray(0)
    batch = jax.tree.map(lambda column: column[: prepared.algorithm.batch_size], rows)
    flops, products = update_work(prepared.algorithm, holder[0], batch, key)
    updates = int(np.clip(BLOCK_GIGAFLOP * 1e9 / flops, 2, 40)) // 2 * 2
    block = (
        jax.jit(make_block(prepared.algorithm, updates), donate_argnums=0)
        .lower(holder[0], rows, key, start)
        .compile()
    )

    def run() -> float:
        started = time.perf_counter()
        holder[0], metrics = block(holder[0], rows, key, start)
        for metric in metrics.values():
            metric.block_until_ready()
        return (time.perf_counter() - started) / updates

    return Work(run, flops, products)


def update_work(algorithm: Any, state: Any, batch: Any, key: Any) -> tuple[float, dict[Shape, float]]:
    """Operations and matrix multiplications of an update; where a policy learns every other update, the
    mean of the two kinds."""
    every = getattr(algorithm, "policy_every", 1)
    kinds = [_work_at(algorithm, state, batch, key, count if every > 1 else None) for count in range(every)]
    products: Counter[Shape] = sum((found for _, found in kinds), Counter())
    return float(np.mean([flops for flops, _ in kinds])), {
        shape: count / every for shape, count in products.items()
    }


def _work_at(
    algorithm: Any, state: Any, batch: Any, key: Any, count: int | None
) -> tuple[float, Counter[Shape]]:
    """With the counter a constant the compiler keeps only the branch that is taken.

    XLA counts what it compiled, but a loop's body only once: the further rounds of matrix multiplications are
    added.
    """

    def update(state: Any, batch: Any, key: Any) -> Any:
        return algorithm.update(state if count is None else _counted(state, count), batch, key)

    compiled: Any = jax.jit(update).lower(state, batch, key).compile()
    program = jax.make_jaxpr(update)(state, batch, key).jaxpr
    all_rounds, once = (products_of(program, rounds=rounds) for rounds in (True, False))
    taken = products_of(program, rounds=True, taken=count != 0)
    return float(compiled.cost_analysis()["flops"]) + operations(all_rounds) - operations(once), taken


def _counted(state: Any, count: int) -> Any:
    number = jnp.asarray(count, jnp.int32)
    return (
        state._replace(learner=state.learner._replace(updates=number))
        if hasattr(state, "learner")
        else state._replace(updates=number)
    )


def products_of(program: Any, *, rounds: bool, taken: bool | None = None) -> Counter[Shape]:
    """A program's matrix multiplications, those in a loop's body as often as it runs or once.

    Of branches all count; or, where `taken` says whether the larger one is, that one or the other.
    """
    found: Counter[Shape] = Counter()
    for equation in program.eqns:
        if equation.primitive.name == "dot_general":
            left, right = (operand.aval.shape for operand in equation.invars)
            (contracted, _), (batched, _) = equation.params["dimension_numbers"]
            stack, inner = (int(np.prod([left[axis] for axis in axes])) for axes in (batched, contracted))
            found[
                stack, int(np.prod(left)) // (stack * inner), inner, int(np.prod(right)) // (stack * inner)
            ] += 1
        values = [
            each
            for value in equation.params.values()
            for each in (value if isinstance(value, tuple | list) else (value,))
        ]
        bodies = [
            getattr(each, "jaxpr", each) for each in values if hasattr(getattr(each, "jaxpr", each), "eqns")
        ]
        inside = [products_of(body, rounds=rounds, taken=taken) for body in bodies]
        if equation.primitive.name == "cond" and taken is not None:
            inside = sorted(inside, key=operations)[-1:] if taken else sorted(inside, key=operations)[:1]
        repeats = equation.params.get("length", 1) if rounds and equation.primitive.name == "scan" else 1
        for products in inside:
            for shape, times in products.items():
                found[shape] += repeats * times
    return found


def operations(products: Mapping[Shape, float]) -> float:
    """Floating-point operations of matrix multiplications."""
    return float(sum(2.0 * np.prod(shape) * times for shape, times in products.items()))


def counting(algorithm: GPCSAC, data: Transitions) -> Callable[[], float]:
    """A function that maps, counts and reads as an update does, and nothing else; tells the seconds of
    one."""
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


def multiplication(stack: int, rows: int, inner: int, columns: int) -> Callable[[], float]:
    """A function that multiplies a stack of matrices with NumPy's BLAS, several times if they are small;
    tells the seconds of one stack."""
    rng = np.random.default_rng(0)
    a, b = (
        rng.normal(size=shape).astype(np.float32) for shape in ((stack, rows, inner), (stack, inner, columns))
    )
    out = np.empty((stack, rows, columns), np.float32)
    times = int(np.clip(2e8 / (2.0 * stack * rows * inner * columns), 1, 40))

    def run() -> float:
        started = time.perf_counter()
        for _ in range(times):
            for one, other, place in zip(a, b, out, strict=True):
                np.dot(one, other, out=place)
        return (time.perf_counter() - started) / times

    return run


def main() -> int:
    """Measure and print; the exit code is 1 if figures were to be kept and the machine was busy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", nargs="*", default=sorted(ALGORITHMS), help="algorithms to measure beside SAC"
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="write the figures where the docs and the command find them; with --only, the ratios to SAC alone",
    )
    options = parser.parse_args()
    console = Console(width=150)
    data = log(np.random.default_rng(0))
    work: dict[str, Work] = {}
    for name in dict.fromkeys(["sac", "gpc-sac", *options.only]):
        console.print(f"compiling {name}", style="dim")
        work[name] = training(make_algorithm(name, DATASET), data)
    shapes = {LARGE, *(shape for each in work.values() for shape in each.products)}
    runs: dict[Any, Callable[[], float]] = {name: each.run for name, each in work.items()}
    runs |= {"counting": counting(make_algorithm("gpc-sac", DATASET), data)} | {
        shape: multiplication(*shape) for shape in shapes
    }
    console.print("measuring", style="dim")
    best, busy = dict.fromkeys(runs, float("inf")), Busy()
    for _ in range(ROUNDS):
        for name, run in runs.items():
            best[name] = min(best[name], run())
    others, waiting = busy.cores()
    peak = operations({LARGE: 1}) / best[LARGE]

    updates = {
        name: {
            "milliseconds": best[name] * 1e3,
            "megaflop": each.flops / 1e6,
            "gigaflops": each.flops / best[name] / 1e9,
            "times_matmul": best[name] / (each.flops / peak),
            "times_own_products": best[name]
            / sum(best[shape] * times for shape, times in each.products.items()),
            "relative": best[name] / best["sac"],
        }
        for name, each in sorted(work.items(), key=lambda item: best[item[0]])
    }
    states = np.random.default_rng(0).normal(size=(2_000_000, OBSERVATION)).astype(np.float32)
    started = time.perf_counter()
    StateCells.fit(states, bins=5)
    figures = {
        "machine": f"{_processor()}, one core, jax {jax.__version__}",
        "other_cores": others,
        "waiting_share": waiting,
        "updates": updates,
        "matmul_gigaflops": peak / 1e9,
        "counting_milliseconds": best["counting"] * 1e3,
        "counting_share": best["counting"] / best["gpc-sac"],
        "ranking_seconds": time.perf_counter() - started,
    }
    show(figures, console)
    if reason := reason_not_to_keep(others, waiting):
        console.print(f"The machine was busy: {reason}.", style="bold")
        if options.keep:
            console.print("Nothing was kept. Stop the other processes and measure again.")
            return 1
    if options.keep:
        keep(figures, options.only)
    return 0


def keep(figures: dict[str, Any], only: list[str]) -> None:
    """Write the figures where the docs find them, and the ratios to SAC where `gridcount algorithms` does."""
    ratios = {name: round(row["relative"], 2) for name, row in figures["updates"].items()}
    if set(only) == set(ALGORITHMS):
        KEPT.write_text(json.dumps(figures, indent=2) + "\n")
    else:  # a table is of one run; a ratio to SAC is its own
        ratios = json.loads(RATIOS.read_text()) | {name: ratios[name] for name in only}
    RATIOS.write_text(json.dumps(dict(sorted(ratios.items(), key=lambda item: item[1])), indent=2) + "\n")


def show(figures: dict[str, Any], console: Console) -> None:
    """Print what was measured."""
    table = Table(
        title=f"{figures['machine']}; {OBSERVATION}-d observations, {ACTION}-d actions, each paper's networks and batch"
    )
    for heading in (
        "",
        "ms per update",
        "MFLOP per update",
        "GFLOP/s",
        "times its matrix-multiply time",
        "times its own matrices'",
        "relative to SAC",
        "in the paper",
    ):
        table.add_column(heading, justify="right")
    for name, row in figures["updates"].items():
        times = f"{row['times_matmul']:.2f}", f"{row['times_own_products']:.2f}"
        values = f"{row['milliseconds']:.2f}", f"{row['megaflop']:,.0f}", f"{row['gigaflops']:.1f}", *times
        table.add_row(
            name, *values, f"{row['relative']:.2f}", f"{PAPER_COST[name]:.2f}" if name in PAPER_COST else ""
        )
    table.add_row("matrix multiplication", "", "", f"{figures['matmul_gigaflops']:.1f}", "1.00")
    console.print(table)
    milliseconds, share = figures["counting_milliseconds"], figures["counting_share"]
    console.print(
        f"counting (map, visit, read 512 pairs): {milliseconds:.3f} ms, {share:.1%} of a GPC-SAC update"
    )
    console.print(f"ranking 2,000,000 states of {OBSERVATION} dimensions: {figures['ranking_seconds']:.2f} s")


def _processor() -> str:
    """The processor's name where the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


if __name__ == "__main__":
    sys.exit(main())
