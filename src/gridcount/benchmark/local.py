"""Cells on this machine, in worker processes pinned to cores. Finished cells are skipped."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from gridcount.benchmark.cells import SEEDS, STATUS, Cell, Progress, seeds_of
from gridcount.benchmark.overview import Overview
from gridcount.benchmark.store import finished_seeds, read_results, write_rows
from gridcount.children import module_command, module_environment
from gridcount.files import open_plain, write_whole
from gridcount.files.archive import numbered
from gridcount.interrupts import STOPPED, stopping
from gridcount.training.logs import Row
from gridcount.training.loop import available_cores

POLL = 0.5  # seconds between looks at the workers
SAVING = "stopping: each cell writes a checkpoint; press Ctrl-C again to stop without waiting"
AT_ONCE = "stopped immediately; cells still write their checkpoints: run the same command again to resume"


@dataclass
class Job:
    """A cell's worker process and the cores it holds."""

    cell: Cell
    process: subprocess.Popen[bytes]
    cores: tuple[int, ...]


def missing(cells: Sequence[Cell], out: Path) -> list[Cell]:
    """The cells to run, without finished seeds; seeds that were started together stay together.

    Seeds that another suite in the folder finished are excluded: `reuse_finished` copies them.
    """
    stored = _stored(out)
    left = []
    for cell in cells:
        key = cell.key()
        wanted = set(cell.seeds) - finished_seeds(stored, None, key)
        for begun in sorted((out / "cells").glob(f"{key}{SEEDS}*")):
            seeds = seeds_of(begun.name)
            if numbered(begun / "checkpoints") and set(seeds) <= wanted:
                left.append(cell.changed(seeds=seeds))
                wanted -= set(seeds)
        if wanted:
            left.append(cell.changed(seeds=tuple(sorted(wanted))))
    return left


def reuse_finished(cells: Sequence[Cell], out: Path) -> None:
    """Copy finished results of the same experiments in this folder, by any suite, with the present names."""
    _rename(cells, out)
    stored = _stored(out)
    for cell in cells:
        key = cell.key()
        own = finished_seeds(stored, cell.suite, key)
        for suite in sorted({row["suite"] for row in stored if row["key"] == key} - {cell.suite}):
            seeds = (finished_seeds(stored, suite, key) & set(cell.seeds)) - own
            if seeds:
                named = {"suite": cell.suite, "variant": cell.variant, "preset": cell.plan.preset}
                rows = [
                    row | named
                    for row in stored
                    if (row["suite"], row["key"]) == (suite, key) and row["seed"] in seeds
                ]
                write_rows(cell.changed(seeds=tuple(sorted(seeds))).results(out / "results"), rows)
                own |= seeds


def _rename(cells: Sequence[Cell], out: Path) -> None:
    """Rename finished experiments to the suite's present names: a variant's name does not define an
    experiment."""
    names = {
        (cell.suite, cell.key()): {"variant": cell.variant, "preset": cell.plan.preset} for cell in cells
    }
    for path in sorted((out / "results").glob("*.parquet")):
        rows = read_results(path)
        renamed = [row | names.get((row["suite"], row["key"]), {}) for row in rows]
        if renamed != rows:
            write_rows(path, renamed)


def _stored(out: Path) -> list[Row]:
    return read_results(out / "results") if any((out / "results").glob("*.parquet")) else []


def run_local(
    cells: Sequence[Cell],
    out: Path,
    console: Console,
    workers: int | None = None,
    trusted: Sequence[str] = (),
) -> dict[str, str]:
    """Run cells until all are stored; returns the errors by cell. `trusted`: environments whose modules
    were typed."""
    cores = available_cores()
    workers = min(workers or default_workers(), len(cells)) or 1
    share = max(len(cores) // workers, 1)  # with fewer cells than cores, each gets several for its seeds
    free = [tuple(cores[i * share : (i + 1) * share] or cores[i % len(cores) :][:1]) for i in range(workers)]
    waiting, running, problems = list(cells), list[Job](), dict[str, str]()
    (out / "cells").mkdir(parents=True, exist_ok=True)
    with (
        stopping(SAVING, AT_ONCE) as stop,
        Overview(console, cells, lambda cell: Progress.read(cell.directory(out / "cells"))) as overview,
    ):
        while running or (waiting and not stop.requested):
            while waiting and free and not stop.requested:
                running.append(_start(waiting.pop(0), out, free.pop(0), trusted))
            for job in [job for job in running if job.process.poll() is not None]:
                running.remove(job)
                free.append(job.cores)
                if job.process.returncode and not stop.requested:
                    problems[overview.label(job.cell)] = _failure_message(
                        job.cell.directory(out / "cells"), job.process.returncode
                    )
                overview.ended(job.cell, job.process.returncode)
            if stop.requested:
                for job in running:
                    job.process.send_signal(signal.SIGTERM)
                for job in running:
                    job.process.wait()
                raise KeyboardInterrupt
            overview.refresh({job.cell.name for job in running})
            time.sleep(POLL)
    return problems


def _start(cell: Cell, out: Path, cores: tuple[int, ...], trusted: Sequence[str]) -> Job:
    directory = cell.directory(out / "cells")
    directory.mkdir(parents=True, exist_ok=True)
    write_whole(directory / "cell.json", cell.to_json(), durable=False)
    (directory / STATUS).unlink(missing_ok=True)  # the status of an earlier start
    files = (directory / "cell.json", directory, cell.results(out / "results"))
    words = [*map(str, files), ",".join(map(str, cores)), str(os.getpid())]
    with open_plain(directory / "log.txt", "ab") as log:
        process = subprocess.Popen(
            module_command("gridcount.benchmark.worker", *words, *trusted),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C reaches only the parent, which signals its workers once
            env=module_environment(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1"),
        )
    return Job(cell, process, cores)


def default_workers() -> int:
    """One per core; only one with an accelerator, which runs a cell's seeds on all devices."""
    accelerated = entry_points(group="jax_plugins") or find_spec("libtpu")
    return 1 if accelerated and os.environ.get("JAX_PLATFORMS") != "cpu" else len(available_cores())


def _failure_message(directory: Path, code: int) -> str:
    if code < 0:
        return f"killed by {signal.Signals(-code).name}" + (
            ", probably because the machine ran out of memory" if code == -signal.SIGKILL else ""
        )
    if code == STOPPED:
        return "stopped by a signal; run the same command again to resume"
    lines = (directory / "log.txt").read_text(errors="replace").strip().splitlines()
    return Progress.read(directory).note or (lines[-1] if lines else "it exited with no output")
