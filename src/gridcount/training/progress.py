"""Progress of a run: a live bar in a terminal, one line per evaluation in a log file."""

import time
import warnings
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gridcount.training.logs import headline


class Display(Protocol):
    """Receives every block and every evaluation."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def begin(self, updates: int, done: int) -> None:
        """A run of `updates` starts (or goes on) at `done`."""

    def pretrained(self, what: str, done: int, updates: int) -> None:
        """A block of pre-training ended."""

    def advance(self, done: int, metrics: dict[str, list[float]]) -> None:
        """A block ended."""

    def evaluated(self, row: dict[str, Any]) -> None:
        """A seed was evaluated."""

    def warn(self, text: str) -> None:
        """Show a warning about the run."""


class ConsoleDisplay:
    """A live bar in a terminal, plain lines otherwise."""

    def __init__(self, console: Console):
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]:.0f} updates/s"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._scores: dict[int, float] = {}
        self._in_log: dict[int, float] = {}  # share of each seed's actions that the log has
        self._headline = "score"  # or "return", where no reference normalises it
        self._metrics: dict[str, float] = {}
        self._total = self._start = 0
        self._task = self._bar.add_task("starting", total=1, rate=0.0)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self, updates: int, done: int) -> None:
        """A run of `updates` starts (or goes on) at `done`."""
        self._total, self._start, self._since = updates, done, time.monotonic()
        self._bar.update(self._task, total=updates, completed=done, description="compiling")

    def pretrained(self, what: str, done: int, updates: int) -> None:
        """A block of pre-training ended."""
        self._bar.update(self._task, total=updates, completed=done, description=f"learning the {what}")
        if done == updates:
            self._console.print(f"{what} learnt in {updates:,} updates", highlight=False, soft_wrap=True)

    def advance(self, done: int, metrics: dict[str, list[float]]) -> None:
        """A block ended."""
        self._metrics = {name: sum(values) / len(values) for name, values in metrics.items()}
        self._bar.update(self._task, completed=done, rate=self._rate(done), description=self._describe())

    def evaluated(self, row: dict[str, Any]) -> None:
        """A seed was evaluated."""
        self._headline, value = headline(row)
        if value is not None:
            self._scores[row["seed"]] = value
        left = (self._total - row["updates"]) / max(self._rate(row["updates"]), 1e-9)
        score = f"{self._headline} {value:7.1f}  " if value is not None else ""
        score += f"success {row['success']:4.0%}  " if "success" in row else ""
        if (in_log := row.get("in_log")) is not None:
            self._in_log[row["seed"]] = in_log
            score += f"in log {in_log:4.0%}  "
        self._console.print(
            f"update {row['updates']:>9,}  seed {row['seed']}  {score}{self._losses(row)}"
            f"{self._rate(row['updates']):.0f} updates/s  {duration(left)} left",
            highlight=False,
            soft_wrap=True,  # one line per evaluation, whatever the width
        )
        self._bar.update(self._task, description=self._describe())

    def _rate(self, done: int) -> float:
        return (done - self._start) / max(time.monotonic() - self._since, 1e-9)

    def _describe(self) -> str:
        score = (
            f"{self._headline} {sum(self._scores.values()) / len(self._scores):.1f}  " if self._scores else ""
        )
        score += f"in log {sum(self._in_log.values()) / len(self._in_log):.0%}  " if self._in_log else ""
        return score + self._losses(self._metrics).strip()

    def warn(self, text: str) -> None:
        """Show a warning about the run."""
        self._console.print(text, style="yellow", highlight=False, soft_wrap=True)

    @staticmethod
    def _losses(metrics: dict[str, Any]) -> str:
        shown = {"critic_loss": "critic loss", "q_data": "Q", "uncertainty": "u"}
        return "".join(f"{label} {metrics[name]:.3g}  " for name, label in shown.items() if name in metrics)


def duration(seconds: float) -> str:
    """Seconds as readable text."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Silent:
    """A display that shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def begin(self, updates: int, done: int) -> None:
        """Nothing."""

    def pretrained(self, what: str, done: int, updates: int) -> None:
        """Nothing."""

    def advance(self, done: int, metrics: dict[str, list[float]]) -> None:
        """Nothing."""

    def evaluated(self, row: dict[str, Any]) -> None:
        """Nothing."""

    def warn(self, text: str) -> None:
        """Issue a Python warning, because nothing is printed."""
        warnings.warn(text, RuntimeWarning, stacklevel=2)
