"""A cell: one algorithm on one dataset, its seeds together. It runs in its own directory and can be
stopped and resumed."""

import hashlib
import json
import os
import re
import time
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gridcount.algorithms.contract import with_old_names
from gridcount.catalogue import MAZE_NAMES, NAMES
from gridcount.data.formats.columns import Columns
from gridcount.data.formats.cut import ActionUnits
from gridcount.data.formats.tables import is_table
from gridcount.data.load import load
from gridcount.data.quality import check as checks
from gridcount.data.store.download import published
from gridcount.data.store.mazes import FORMAT, is_generated
from gridcount.estimation.estimate import Settings
from gridcount.files import decode_record, locked, read_record, write_whole
from gridcount.training import run as runs
from gridcount.training.divergence import Diverged
from gridcount.training.experiment import Experiment, load_checked
from gridcount.training.logs import Row, headline, read_rows
from gridcount.training.machine import peak_gigabytes
from gridcount.training.plan import Plan, fingerprint, read_plan, settings
from gridcount.training.results import facts_of, with_facts
from gridcount.training.times import Times, add_times, keep_times
from gridcount.transitions import Transitions

SEEDS = "--seeds-"  # between a directory's experiment and its seeds


@dataclass(frozen=True)
class Estimated:
    """How policies are estimated on the episodes that the plan holds out: one half ranks, the other confirms."""

    settings: Settings  # of the estimates
    after: tuple[int, ...]  # updates after which policies are estimated; the last are the cell's
    bars: tuple[float, ...] = ()  # training stops after those updates if the lower limit is lower
    confirm: bool = False  # estimate the last policies on the episodes that rank nothing

    def identity(self) -> "Estimated":
        """What the trained policies and their ranking depend on."""
        return replace(self, bars=(), confirm=False)


@dataclass(frozen=True)
class Cell:
    """A plan as part of a suite."""

    suite: str
    variant: str  # an ablation's setting; "" for the preset itself
    plan: Plan  # what is run
    scored: bool = True  # whether the suite rolls policies out at all
    estimated: Estimated | None = None  # how policies are estimated on held-out episodes, if they are

    @property
    def algorithm(self) -> str:
        """Its name in the registry."""
        return self.plan.algorithm

    @property
    def dataset(self) -> str:
        """Its name in tables."""
        return self.plan.title

    @property
    def seeds(self) -> tuple[int, ...]:
        """Trained together."""
        return self.plan.seeds

    @property
    def updates(self) -> int:
        """Of each seed."""
        return self.plan.updates

    def changed(self, **fields: Any) -> "Cell":
        """The cell with other values in its plan."""
        return replace(self, plan=replace(self.plan, **fields))

    @property
    def label(self) -> str:
        """The name for users."""
        return f"{self.algorithm}, {self.dataset}" + (f", {self.variant}" if self.variant else "")

    def key(self) -> str:
        """A name for all settings except the seeds: cells with the same key are seeds of the same
        experiment."""
        algorithm = self.plan.make_algorithm()
        text = json.dumps(
            [self._identity(), with_old_names(type(algorithm), settings(algorithm)), self.origin()],
            sort_keys=True,
        )
        safe = re.sub(r"[^\w.-]", "_", self.dataset)  # it is part of file names and patterns
        return "--".join((self.algorithm, safe, hashlib.sha256(text.encode()).hexdigest()[:10]))

    def _identity(self) -> dict[str, Any]:
        """What a key is made of besides hyper-parameters and data, in the form of the first results: it
        never changes."""
        plan, reading = self.plan, self.plan.reading()
        return {
            "algorithm": plan.algorithm,
            "dataset": plan.title,
            "updates": plan.updates,
            "evaluate_every": plan.evaluate_every,
            "episodes": plan.episodes,
            "environment": plan.named_environment,
            "scored": self.scored,
            **({"reading": reading} if reading else {}),  # which is newer than the first results
            **({"hold_out": asdict(plan.split())} if plan.hold_out else {}),
            **({"estimated": asdict(self.estimated.identity())} if self.estimated else {}),
            "suite": "",
            "variant": "",
            "preset": "",
            "data": "",
            "changes": {},
            "seeds": [],
        }

    def origin(self) -> str:
        """The source of the data, with a digest if it is not D4RL's, so that results from different data
        are not mixed."""
        if self.plan.dataset == self.dataset and self.dataset in NAMES:
            return (
                _recipe()
                if self.dataset in MAZE_NAMES and not published()[self.dataset].target.is_file()
                else "d4rl"
            )
        if not Path(self.plan.dataset).is_file():  # an imported log or a Minari folder
            return f"own {_content(self.plan.dataset, self.dataset, json.dumps(self.plan.reading()))}"
        digest = _sha256(self.plan.dataset)
        if self.dataset in published() and digest == published()[self.dataset].sha256:
            return f"d4rl {digest[:16]}"
        if self.dataset in MAZE_NAMES:  # D4RL publishes no digest of its mazes
            return f"{'generated' if is_generated(Path(self.plan.dataset)) else 'own'} {digest[:16]}"
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
        return cell.changed(fields=settings(cell.plan.make_algorithm()))  # JSON's lists are tuples again


def run_cell(cell: Cell, directory: Path) -> list[Row]:
    """Train and score a cell in its directory, resuming if it was stopped; returns the rows of the results
    store."""
    with locked(directory / "cell"):  # a worker of a killed run may still be saving
        experiment, _ = prepare_cell(cell)
        found: list[Row] = []
        place = directory
        while experiment.plan.seeds:
            try:
                with Status(place, cell, directory) as status:
                    experiment.train(place, status, keep=1, clone=False)
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
    data = load_cell(cell)
    return Experiment.prepare(_planned(cell), data), data


def load_cell(cell: Cell) -> Transitions:
    """A cell's whole log, checked."""
    return load_checked(_planned(cell), show=_print_findings)


def _planned(cell: Cell) -> Plan:
    return cell.plan if cell.scored else replace(cell.plan, environment=None)


def _print_findings(name: str, findings: list[checks.Finding]) -> None:
    """Print findings; the output of a worker is the cell's log."""
    for finding in findings:
        print(f"{name}: {finding.severity}: {finding.problem}; {finding.advice}", flush=True)


def rows_of(cell: Cell, directory: Path) -> list[Row]:
    """A cell's rows as the store keeps them: one per evaluation of a seed, with all settings."""
    return with_facts(_facts(cell, directory), directory, read_rows(directory))


def _facts(cell: Cell, directory: Path) -> Row:
    """The columns that all rows of a cell share."""
    asked = cell.plan
    # an older directory may not record the first two
    plan = replace(read_plan(directory), name=asked.name, preset=asked.preset, environment=asked.environment)
    source = cell.origin().split()[0]
    return facts_of(plan, directory, suite=cell.suite, key=cell.key(), variant=cell.variant, source=source)


def diverged_rows(cell: Cell, directory: Path, error: Diverged) -> list[Row]:
    """The rows of a seed that diverged, marked as such; one row without metrics if it was never evaluated."""
    rows = rows_of(cell, directory)
    own = [row for row in rows if row["seed"] == error.seed]
    return [
        row | {"diverged": error.message}
        for row in own or [_facts(cell, directory) | {"seed": error.seed, "updates": 0}]
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
    """A run's display that writes to files: progress for the overview, and the time and memory of
    training."""

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


def _recipe() -> str:
    """The version of the maze generator; the first has no number, so that old results keep their key."""
    return "generated" if FORMAT == 1 else f"generated {FORMAT}"


def _sha256(path: str) -> str:
    facts = os.stat(path)
    return _digest(path, facts.st_size, facts.st_mtime_ns)


@cache
def _content(name: str, dataset: str, reading: str) -> str:
    """A digest of data that is not one file; `reading` says how tables are read, as JSON."""
    how: dict[str, Any] = json.loads(reading) if is_table(name) else {}
    units = ActionUnits(**{field: how.pop(field) for field in asdict(ActionUnits()) if field in how})
    try:
        data = load(name, Columns(**how), scale_actions=units.scale_actions, action_bounds=units.bounds)
        return fingerprint(data)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{dataset} cannot be read from {name}: {error}") from error


@cache
def _digest(path: str, size: int, modified: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
