"""Cells on this machine, in worker processes pinned to cores."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

from gridcount.benchmark.cells import STATUS, Cell, Progress
from gridcount.benchmark.executor import POLL, Ended, run_cells
from gridcount.children import module_command, module_environment
from gridcount.files import open_plain, write_whole
from gridcount.interrupts import STOPPED
from gridcount.training.loop import available_cores


@dataclass
class Job:
    """A cell's worker process and the cores it holds."""

    cell: Cell
    process: subprocess.Popen[bytes]
    cores: tuple[int, ...]


class Workers:
    """The executor of this machine: a process per cell, on cores of its own."""

    stopping = "stopping: each cell writes a checkpoint; press Ctrl-C again to stop without waiting"
    stopped_at_once = (
        "stopped immediately; cells still write their checkpoints: run the same command again to resume"
    )
    resumption = "each cell resumes where it stopped"

    def __init__(self, out: Path, workers: int | None = None, trusted: Sequence[str] = ()):
        self._out, self._workers, self._trusted = out, workers, trusted
        self._waiting: list[Cell] = []
        self._jobs: list[Job] = []
        self._free: list[tuple[int, ...]] = []  # groups of cores

    def start(self, cells: Sequence[Cell]) -> None:
        """Divide the cores among the workers; `wait` starts them."""
        self._waiting = list(cells)
        self._free = _core_groups(min(self._workers or default_workers(), len(cells)) or 1)
        (self._out / "cells").mkdir(parents=True, exist_ok=True)

    def wait(self) -> list[Ended]:
        """Start as many cells as there are free cores, and look for those that have ended."""
        while self._waiting and self._free:
            self._jobs.append(_start(self._waiting.pop(0), self._out, self._free.pop(0), self._trusted))
        ended = [job for job in self._jobs if job.process.poll() is not None]
        for job in ended:
            self._jobs.remove(job)
            self._free.append(job.cores)
        if not ended:
            time.sleep(POLL)
        return [Ended(job.cell, job.process.returncode, self._problem(job)) for job in ended]

    def running(self) -> set[str]:
        """The names of the cells whose process runs."""
        return {job.cell.name for job in self._jobs}

    def progress(self, cell: Cell) -> Progress:
        """The progress that a cell's process wrote last."""
        return Progress.read(cell.directory(self._out / "cells"))

    def stop(self) -> None:
        """Ask each process to write a checkpoint and end, and wait until all have ended."""
        for job in self._jobs:
            job.process.send_signal(signal.SIGTERM)
        for job in self._jobs:
            job.process.wait()

    def _problem(self, job: Job) -> str:
        code = job.process.returncode
        return _failure_message(job.cell.directory(self._out / "cells"), code) if code else ""


def from_flags(flags: Mapping[str, Any], out: Path, console: Console) -> Workers:
    """The executor that the flags of `gridcount benchmark` ask for."""
    return Workers(out, flags["workers"], flags["env"])


def run_local(
    cells: Sequence[Cell],
    out: Path,
    console: Console,
    workers: int | None = None,
    trusted: Sequence[str] = (),
) -> dict[str, str]:
    """Run cells here until all are stored; returns the errors by cell. `trusted`: environments whose modules
    were typed."""
    return run_cells(Workers(out, workers, trusted), cells, console)


def _core_groups(workers: int) -> list[tuple[int, ...]]:
    """The cores of each worker; with fewer cells than cores, each gets several for its seeds."""
    cores = available_cores()
    share = max(len(cores) // workers, 1)
    return [tuple(cores[i * share : (i + 1) * share] or cores[i % len(cores) :][:1]) for i in range(workers)]


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
