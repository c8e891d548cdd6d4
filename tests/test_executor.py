"""What every engine gets from `run_cells`: errors by cell, an overview, and Ctrl-C."""

import io
import os
import signal
from collections.abc import Sequence

import pytest
from rich.console import Console

from gridcount.benchmark.cells import Cell, Progress
from gridcount.benchmark.executor import Ended, run_cells
from gridcount.benchmark.suites import read_suite


class OneAtATime:
    """An engine that runs nothing: each look finds the next cell ended."""

    stopping = "stopping: cells end"
    stopped_at_once = "stopped immediately"
    resumption = "cells start again"

    def __init__(self, failing: str, stop_after: int | None = None):
        self._failing, self._stop_after = failing, stop_after
        self._left: list[Cell] = []
        self.looks = 0
        self.stopped = False

    def start(self, cells: Sequence[Cell]) -> None:
        self._left = list(cells)

    def wait(self) -> list[Ended]:
        self.looks += 1
        if self.looks == self._stop_after:
            os.kill(os.getpid(), signal.SIGINT)
        cell = self._left.pop(0)
        return [Ended(cell, 2, "no memory") if cell.dataset == self._failing else Ended(cell, 0)]

    def running(self) -> set[str]:
        return {cell.name for cell in self._left}

    def progress(self, cell: Cell) -> Progress:
        return Progress(of=cell.updates)

    def stop(self) -> None:
        self.stopped = True


def test_an_engine_that_only_starts_and_ends_cells_gets_errors_and_an_overview() -> None:
    cells = read_suite("paper/maze2d").cells()[:4]
    written = io.StringIO()
    problems = run_cells(OneAtATime(cells[0].dataset), cells, Console(file=written, width=200))
    failed = [cell.label for cell in cells if cell.dataset == cells[0].dataset]
    assert problems == dict.fromkeys(failed, "no memory")
    assert "4 of 4" in written.getvalue()


def test_ctrl_c_stops_any_engine_before_its_next_cell(capsys: pytest.CaptureFixture[str]) -> None:
    cells = read_suite("paper/maze2d").cells()[:4]
    engine = OneAtATime("", stop_after=2)
    with pytest.raises(KeyboardInterrupt):
        run_cells(engine, cells, Console(quiet=True))
    assert (engine.looks, engine.stopped) == (2, True)
    assert engine.stopping in capsys.readouterr().err
