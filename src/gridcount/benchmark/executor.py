"""Where cells run: each engine (this machine, a Ray cluster) is an `Executor` in a file of its own.

An executor starts cells, says which have ended, and stops them. `run_cells` does the rest for all engines: the
overview, the errors and Ctrl-C. To add an engine, write its file with a class and a function `from_flags`, and
add a line to `EXECUTORS`.
"""

from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rich.console import Console

from gridcount.benchmark.cells import Cell, Progress
from gridcount.benchmark.overview import Overview
from gridcount.interrupts import stopping

POLL = 0.5  # seconds between looks at the cells
EXECUTORS = {"local": "gridcount.benchmark.local", "ray": "gridcount.benchmark.ray_cluster"}  # their modules


class Ended(NamedTuple):
    """A cell that does not run any more; its rows are stored, unless it failed."""

    cell: Cell
    code: int  # exit code
    problem: str = ""  # why it failed


class Executor(Protocol):
    """An engine that runs cells and stores their rows."""

    stopping: str  # printed at the first Ctrl-C
    stopped_at_once: str  # printed at the second
    resumption: str  # what happens to stopped cells when the command runs again

    def start(self, cells: Sequence[Cell]) -> None:
        """Accept the cells; from now on they run as soon as there is room. Called once."""

    def wait(self) -> list[Ended]:
        """The cells that have ended since the last call; waits at most about `POLL` seconds for one."""

    def running(self) -> Collection[str]:
        """The names of the cells that run now."""

    def progress(self, cell: Cell) -> Progress:
        """The newest progress of a cell."""

    def stop(self) -> None:
        """Stop all cells, and return when they have stopped."""


def executor_named(name: str, flags: Mapping[str, Any], out: Path, console: Console) -> Executor:
    """An executor by name, with its values among the flags of `gridcount benchmark`.

    Its module is imported only now: an engine may need packages that are not installed.
    """
    executor: Executor = import_module(EXECUTORS[name]).from_flags(flags, out, console)
    return executor


def run_cells(executor: Executor, cells: Sequence[Cell], console: Console) -> dict[str, str]:
    """Run cells until all are stored; returns the errors by cell. Ctrl-C stops all cells."""
    problems: dict[str, str] = {}
    left = len(cells)
    with (
        stopping(executor.stopping, executor.stopped_at_once) as stop,
        Overview(console, cells, executor.progress) as overview,
    ):
        executor.start(cells)
        while left:
            for cell, code, problem in executor.wait():
                left -= 1
                if problem:
                    problems[overview.label(cell)] = problem
                overview.ended(cell, code)
            if stop.requested:
                executor.stop()
                raise KeyboardInterrupt
            overview.refresh(executor.running())
    return problems
