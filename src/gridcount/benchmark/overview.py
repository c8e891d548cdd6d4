"""An overview of all cells: state, score so far, rate, time left. A live table in a terminal, a line per
event in a log."""

import time
from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from gridcount.benchmark.cells import Cell, Progress
from gridcount.training.progress import duration

EVERY = 60.0  # seconds between lines where there is no terminal
ENDS = {0: "done", 130: "stopped, can be resumed"}


class Overview:
    """Reads each cell's progress and shows it."""

    def __init__(self, console: Console, cells: Sequence[Cell], progress: Callable[[Cell], Progress]):
        self._console, self._cells, self._progress = console, list(cells), progress
        self._ended = set[str]()  # names of cells
        self._live = (
            Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        )
        self._last = time.monotonic()

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def ended(self, cell: Cell, code: int) -> None:
        """A cell's worker ended."""
        self._ended.add(cell.name)
        progress = self._progress(cell)
        score = "" if progress.score is None else f", last score {progress.score:.1f}"
        line = f"{len(self._ended)} of {len(self._cells)}  {self.label(cell)}: {ENDS.get(code, 'failed')}{score} {progress.note}"
        self._console.print(line.rstrip(), soft_wrap=True)

    def label(self, cell: Cell) -> str:
        """The label of a cell, with its seeds if several cells have the same label."""
        unique = sum(each.label == cell.label for each in self._cells) == 1
        return cell.label if unique else f"{cell.label}, seeds {' '.join(map(str, cell.seeds))}"

    def refresh(self, running: Collection[str]) -> None:
        """Show the progress of all cells; `running` holds names of cells."""
        found = {self.label(cell): self._progress(cell) for cell in self._cells if cell.name in running}
        if self._live:
            self._live.update(self._table(found), refresh=True)
        elif time.monotonic() - self._last > EVERY:
            self._last = time.monotonic()
            for label, progress in found.items():
                self._console.print(
                    f"  {label}: " + ", ".join(filter(None, _words(progress))), soft_wrap=True
                )

    def _table(self, running: dict[str, Progress]) -> Table:
        table = Table(title=f"{len(self._ended)} of {len(self._cells)} cells ended")
        for heading in ("cell", "state", "updates", "score", "updates/s", "left"):
            words = heading in ("cell", "state")
            table.add_column(heading, justify="left" if words else "right", no_wrap=not words)
        for label, progress in running.items():
            table.add_row(label, progress.note or progress.state, *_words(progress))
        waiting = len(self._cells) - len(self._ended) - len(running)
        if waiting:
            table.add_row(f"{waiting} more", "waiting")
        return table


def _words(progress: Progress) -> list[str]:
    left = (progress.of - progress.done) / progress.rate if progress.rate else None
    return [
        f"{progress.done:,}/{progress.of:,}",
        "" if progress.score is None else f"{progress.score:.1f}",
        f"{progress.rate:.0f}",
        "" if left is None else duration(left),
    ]
