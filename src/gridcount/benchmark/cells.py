"""A cell: one algorithm on one dataset, its seeds together. It runs in its own directory and can be stopped and resumed."""

import hashlib
import json
import os
import re
import time
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gridcount.algorithms import make_algorithm
from gridcount.algorithms.contract import with_old_names
from gridcount.catalogue import MAZE_NAMES, NAMES
from gridcount.data.formats.columns import ROLES
from gridcount.data.load import load
from gridcount.data.quality import check as checks
from gridcount.data.store.download import published
from gridcount.data.store.mazes import FORMAT, is_generated
from gridcount.estimation.estimate import Settings
from gridcount.evaluation.environments import has_environment
from gridcount.files import decode_record, locked, read_record, write_whole
from gridcount.training import run as runs
from gridcount.training.divergence import Diverged
from gridcount.training.experiment import Experiment, load_checked
from gridcount.training.logs import Row, headline, read_rows
from gridcount.training.machine import describe_starts, peak_gigabytes
from gridcount.training.times import Times, add_times, keep_times, read_times
from gridcount.transitions import Transitions

SEEDS = "--seeds-"  # between a directory's experiment and its seeds


@dataclass(frozen=True)
class Estimated:
    """How the policies of a cell are estimated on held-out episodes: one half ranks, the other confirms."""

    hold_out: float  # share of the episodes that training never sees
    hold_out_seed: int  # which ones
    settings: Settings  # of the estimates
    after: tuple[int, ...]  # updates after which policies are estimated; the last are the cell's
    bars: tuple[float, ...] = ()  # training stops after those updates if the lower limit is lower
    confirm: bool = False  # estimate the last policies on the episodes that rank nothing

    def identity(self) -> "Estimated":
        """What the trained policies and their ranking depend on."""
        return replace(self, bars=(), confirm=False)


@dataclass(frozen=True)
class Cell:
    """All settings that affect a cell's results, besides code and machine."""

    suite: str
    algorithm: str
    dataset: str  # as tables call it
    variant: str  # an ablation's setting; "" for the preset itself
    preset: str
    changes: dict[str, Any]  # fields that differ from the preset
    seeds: tuple[int, ...]
    updates: int
    evaluate_every: int
    episodes: int
    data: str  # what is loaded: the dataset's name, or a file
    environment: str | None = None  # where policies are scored; None: the dataset's own, if it has one
    scored: bool = True  # whether policies are rolled out at all
    reading: dict[str, Any] = field(
        default_factory=dict
    )  # of a table: its columns by role, and the units of its actions
    estimated: Estimated | None = None  # policies are estimated, not scored, where this is given

    @property
    def label(self) -> str:
        """The name for users."""
        return f"{self.algorithm}, {self.dataset}" + (f", {self.variant}" if self.variant else "")

    def key(self) -> str:
        """A name for all settings except the seeds: cells with the same key are seeds of the same experiment."""
        algorithm = make_algorithm(self.algorithm, self.dataset, self.preset, **self.changes)
        facts = asdict(replace(self, seeds=(), suite="", variant="", preset="", changes={}, data=""))
        if not self.reading:
            del facts["reading"]  # which is newer than the first results
        if self.estimated is None:
            del facts["estimated"]  # likewise
        else:
            facts["estimated"] = asdict(self.estimated.identity())
        text = json.dumps(
            [facts, with_old_names(type(algorithm), runs.settings(algorithm)), self.origin()], sort_keys=True
        )
        safe = re.sub(r"[^\w.-]", "_", self.dataset)  # it is part of file names and patterns
        return "--".join((self.algorithm, safe, hashlib.sha256(text.encode()).hexdigest()[:10]))

    def origin(self) -> str:
        """The source of the data, with a digest if it is not D4RL's, so that results from different data are not mixed."""
        if self.data == self.dataset and self.dataset in NAMES:
            return (
                _recipe()
                if self.dataset in MAZE_NAMES and not published()[self.dataset].target.is_file()
                else "d4rl"
            )
        if not Path(self.data).is_file():  # an imported log or a Minari folder
            return f"own {_content(self.data, self.dataset)}"
        digest = _sha256(self.data)
        if self.dataset in published() and digest == published()[self.dataset].sha256:
            return f"d4rl {digest[:16]}"
        if self.dataset in MAZE_NAMES:  # D4RL publishes no digest of its mazes
            return f"{'generated' if is_generated(Path(self.data)) else 'own'} {digest[:16]}"
        return f"{'re-collected' if self.dataset in NAMES else 'own'} {digest[:16]}"

    @cached_property
    def name(self) -> str:
        """The name of its directory: an experiment and a set of seeds."""
        return f"{self.key()}{SEEDS}{_ranges(self.seeds)}"

    def directory(self, folder: Path) -> Path:
        """Where it runs."""
        return folder / self.name

    def results(self, folder: Path) -> Path:
        """The file of its rows; suites may share a folder and runs, but not rows."""
        return folder / f"{self.suite.replace('/', '-')}--{self.name}.parquet"

    def to_json(self) -> str:
        """The cell as JSON, for another process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Cell":
        """A cell from its JSON."""
        cell = decode_record(
            text.encode(), cls, "a cell", "run the suite's command again, which writes it again", closed=True
        )
        changes, reading = (
            {name: _frozen(value) for name, value in each.items()} for each in (cell.changes, cell.reading)
        )
        return replace(cell, changes=changes, reading=reading)


def run_cell(cell: Cell, directory: Path) -> list[Row]:
    """Train and score a cell in its directory, resuming if it was stopped; returns the rows of the results store."""
    with locked(directory / "cell"):  # a worker of a killed run may still be saving
        experiment, _ = prepare_cell(cell)
        found: list[Row] = []
        place = directory
        while experiment.plan.seeds:
            try:
                with Status(place, cell, directory) as status:
                    experiment.train(place, status, keep=1)
            except (
                Diverged
            ) as error:  # divergence is a result: its rows are kept, and the other seeds continue
                found += diverged_rows(cell, place, error)
                left = tuple(seed for seed in experiment.plan.seeds if seed != error.seed)
                experiment = replace(experiment, plan=replace(experiment.plan, seeds=left))
                place = place / f"without-seed-{error.seed}"
            else:
                return found + rows_of(cell, place)
        return found


def prepare_cell(cell: Cell) -> tuple[Experiment, Transitions]:
    """A cell's experiment, and its whole log: held-out episodes included."""
    plan, data = load_cell(cell)
    algorithm = make_algorithm(cell.algorithm, cell.dataset, cell.preset, **cell.changes)
    return Experiment.prepare(plan, algorithm, data), data


def load_cell(cell: Cell) -> tuple[runs.Plan, Transitions]:
    """A cell's plan, and its whole log, checked."""
    environment = cell.environment or (cell.dataset if has_environment(cell.dataset) else None)
    split = cell.estimated
    plan = runs.Plan(
        dataset=cell.data,
        environment=environment if cell.scored else None,
        algorithm=cell.algorithm,
        fields={},
        seeds=cell.seeds,
        updates=cell.updates,
        evaluate_every=cell.evaluate_every,
        episodes=cell.episodes,
        fingerprint="",
        columns={role: name for role, name in cell.reading.items() if role in ROLES},
        hold_out=split.hold_out if split else 0.0,
        hold_out_seed=split.hold_out_seed if split else 0,
        **{name: value for name, value in cell.reading.items() if name not in ROLES},
    )
    return plan, load_checked(plan, show=_print_findings)


def _print_findings(name: str, findings: list[checks.Finding]) -> None:
    """Print findings; the output of a worker is the cell's log."""
    for finding in findings:
        print(f"{name}: {finding.severity}: {finding.problem}; {finding.advice}", flush=True)


def rows_of(cell: Cell, directory: Path) -> list[Row]:
    """A cell's rows as the store keeps them: one per evaluation of a seed, with all settings."""
    facts = facts_of(cell, directory)
    costs = {
        each.updates: {"seconds": each.seconds, "gigabytes": each.gigabytes} for each in read_times(directory)
    }
    return [facts | costs.get(row["updates"], {}) | row for row in read_rows(directory)]


def facts_of(cell: Cell, directory: Path) -> Row:
    """The columns that all rows of a cell share."""
    plan = runs.read_plan(directory)
    starts = describe_starts(directory)
    start = starts[-1]
    kind = cell.origin().split()[0]
    return {
        "suite": cell.suite,
        "algorithm": cell.algorithm,
        "dataset": cell.dataset,
        "variant": cell.variant,
        "key": cell.key(),
        "preset": cell.preset,
        "config": json.dumps(plan.fields, sort_keys=True),
        "planned_updates": cell.updates,
        "episodes": cell.episodes,
        "environment": cell.environment,  # left out: the dataset's own, or none
        "source": kind,
        "fingerprint": plan.fingerprint,
        "commit": ", ".join(
            dict.fromkeys(str(each.commit) for each in starts)
        ),  # several where it went on with newer code
        "versions": json.dumps(start.versions, sort_keys=True),
        "machine": start.machine,
        "started": starts[0].started,
        "seeds_together": len(plan.seeds),
        "cores_used": start.cores_used,
    }


def diverged_rows(cell: Cell, directory: Path, error: Diverged) -> list[Row]:
    """The rows of a seed that diverged, marked as such; one row without metrics if it was never evaluated."""
    rows = rows_of(cell, directory)
    own = [row for row in rows if row["seed"] == error.seed]
    return [
        row | {"diverged": error.message}
        for row in own or [facts_of(cell, directory) | {"seed": error.seed, "updates": 0}]
    ]


STATUS = "status.json"


@dataclass
class Progress:
    """The progress of a cell, for the overview."""

    state: str = "starting"
    done: int = 0
    of: int = 0
    score: float | None = None  # mean over seeds of the newest evaluation
    rate: float = 0.0  # updates per second
    note: str = ""

    @classmethod
    def read(cls, directory: Path) -> "Progress":
        """The last progress that the cell wrote; empty if there is none."""
        try:
            return read_record(directory / STATUS, cls, "it is written again")
        except (OSError, ValueError):  # it is only shown, and nothing depends on it
            return cls()


class Status:
    """A run's display that writes to files: progress for the overview, and the time and memory of training."""

    def __init__(self, directory: Path, cell: Cell, watched: Path):
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._watched, self._progress = directory, watched, Progress(of=cell.updates)
        self._scores: dict[int, float] = {}
        self._seconds = self._last = 0.0
        self._timed = 0  # the newest evaluation in the file of times

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        state = "done" if error is None else "stopped" if isinstance(error, runs.Interrupted) else "failed"
        self._write_status(
            state=state, note="" if error is None else (str(error).splitlines() or [type(error).__name__])[0]
        )

    def begin(self, updates: int, done: int) -> None:
        """A run of `updates` starts (or goes on) at `done`."""
        kept = keep_times(self._directory, done)
        self._seconds, self._timed = (kept[-1].seconds, kept[-1].updates) if kept else (0.0, 0)
        self._start, self._since, self._last = done, time.monotonic(), time.monotonic()
        self._write_status(state="running", done=done, of=updates)

    def pretrained(self, what: str, done: int, updates: int) -> None:
        """A block of pre-training ended."""
        self._write_status(state="running", note=f"{what}: {done:,} of {updates:,}")

    def advance(self, done: int, metrics: dict[str, list[float]]) -> None:
        """A block ended."""
        now = time.monotonic()
        self._seconds += now - self._last
        self._last = now
        self._write_status(done=done, rate=(done - self._start) / max(now - self._since, 1e-9), note="")

    def evaluated(self, row: dict[str, Any]) -> None:
        """A seed was evaluated."""
        if not self._scores or row["updates"] != self._progress.done or row["seed"] in self._scores:
            self._scores = {}
        if (value := headline(row)[1]) is not None:
            self._scores[row["seed"]] = value
            self._write_status(score=sum(self._scores.values()) / len(self._scores))
        if self._timed < row["updates"]:
            add_times(self._directory, Times(row["updates"], round(self._seconds, 3), peak_gigabytes()))
            self._timed = row["updates"]
        self._last = time.monotonic()

    def warn(self, text: str) -> None:
        """Print a warning; the output of a worker is the cell's log."""
        print(text, flush=True)

    def _write_status(self, **changes: Any) -> None:
        for name, value in changes.items():
            setattr(self._progress, name, value)
        write_whole(self._watched / STATUS, json.dumps(asdict(self._progress)), durable=False)


def seeds_of(name: str) -> tuple[int, ...]:
    """The seeds that a cell's directory is named after."""
    ends = [part.split("to") for part in name.rsplit(SEEDS, 1)[1].split("-")]
    return tuple(seed for end in ends for seed in range(int(end[0]), int(end[-1]) + 1))


def _ranges(seeds: tuple[int, ...]) -> str:
    """A short form of the seeds, such as 0to4-7, for file names."""
    starts = [seed for seed in seeds if seed - 1 not in seeds]
    ends = [seed for seed in seeds if seed + 1 not in seeds]
    return "-".join(
        str(start) if start == end else f"{start}to{end}" for start, end in zip(starts, ends, strict=True)
    )


def _frozen(value: Any) -> Any:
    """JSON's lists as tuples."""
    return tuple(value) if isinstance(value, list) else value


def _recipe() -> str:
    """The version of the maze generator; the first has no number, so that old results keep their key."""
    return "generated" if FORMAT == 1 else f"generated {FORMAT}"


def _sha256(path: str) -> str:
    facts = os.stat(path)
    return _digest(path, facts.st_size, facts.st_mtime_ns)


@cache
def _content(name: str, dataset: str) -> str:
    try:
        return runs.fingerprint(load(name))
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{dataset} cannot be read from {name}: {error}") from error


@cache
def _digest(path: str, size: int, modified: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
