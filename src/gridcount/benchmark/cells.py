"""A cell: one algorithm on one dataset, its seeds together. It runs in a directory of its own and can be stopped anywhere."""

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

from gridcount.algorithms import make_algorithm
from gridcount.algorithms.contract import with_old_names
from gridcount.data import check as checks
from gridcount.data.catalogue import MAZE_NAMES, NAMES
from gridcount.data.download import published
from gridcount.data.load import load
from gridcount.data.maze2d import FORMAT, is_generated
from gridcount.evaluation.environments import has_environment
from gridcount.files import decode_record, locked, read_record, write_whole
from gridcount.training import run as runs
from gridcount.training.divergence import Diverged
from gridcount.training.experiment import Experiment, load_checked
from gridcount.training.logs import Row, read_rows
from gridcount.training.machine import describe_starts, peak_gigabytes
from gridcount.training.times import Times, add_times, keep_times, read_times

SEEDS = "--seeds-"  # between a directory's experiment and its seeds


@dataclass(frozen=True)
class Cell:
    """Everything a cell's numbers depend on, besides code and machine."""

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

    @property
    def label(self) -> str:
        """What people call it."""
        return f"{self.algorithm}, {self.dataset}" + (f", {self.variant}" if self.variant else "")

    def key(self) -> str:
        """A name for everything but the seeds: cells with the same key are seeds of the same experiment, whatever suites call it."""
        algorithm = make_algorithm(self.algorithm, self.dataset, self.preset, **self.changes)
        facts = asdict(replace(self, seeds=(), suite="", variant="", preset="", changes={}, data=""))
        text = json.dumps([facts, with_old_names(type(algorithm), runs.settings(algorithm)), self.origin()], sort_keys=True)
        safe = re.sub(r"[^\w.-]", "_", self.dataset)  # it names files, and patterns find them
        return "--".join((self.algorithm, safe, hashlib.sha256(text.encode()).hexdigest()[:10]))

    def origin(self) -> str:
        """Where the data comes from; what is not a name of D4RL's has its digest, so that results from other data are never mixed in."""
        if self.data == self.dataset and self.dataset in NAMES:
            return _recipe() if self.dataset in MAZE_NAMES and not published()[self.dataset].target.is_file() else "d4rl"
        if not Path(self.data).is_file():  # an imported log or a Minari folder
            return f"own {_content(self.data, self.dataset)}"
        digest = _sha256(self.data)
        if self.dataset in published() and digest == published()[self.dataset].sha256:
            return f"d4rl {digest[:16]}"
        if self.dataset in MAZE_NAMES:  # D4RL publishes no digest of its mazes, and nobody re-collects them
            return f"{'generated' if is_generated(Path(self.data)) else 'own'} {digest[:16]}"
        return f"{'re-collected' if self.dataset in NAMES else 'own'} {digest[:16]}"

    @cached_property
    def name(self) -> str:
        """Of its directory: an experiment and a set of seeds."""
        return f"{self.key()}{SEEDS}{_ranges(self.seeds)}"

    def directory(self, folder: Path) -> Path:
        """Where it runs."""
        return folder / self.name

    def results(self, folder: Path) -> Path:
        """Where its rows go: suites may share a folder, and runs, but not rows."""
        return folder / f"{self.suite.replace('/', '-')}--{self.name}.parquet"

    def to_json(self) -> str:
        """For another process to read."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Cell":
        """As it was."""
        cell = decode_record(text.encode(), cls, "a cell", "run the suite's command again, which writes it again", closed=True)
        changes = {name: tuple(value) if isinstance(value, list) else value for name, value in cell.changes.items()}
        return replace(cell, changes=changes)


def run_cell(cell: Cell, directory: Path) -> list[Row]:
    """Train and score a cell in its directory, from where it stopped if it did; the rows of the results store."""
    with locked(directory / "cell"):  # an orphan of a killed run may still be saving
        environment = cell.environment or (cell.dataset if has_environment(cell.dataset) else None)
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
        )
        data = load_checked(plan, show=_print_findings)
        algorithm = make_algorithm(cell.algorithm, cell.dataset, cell.preset, **cell.changes)
        experiment = Experiment.prepare(plan, algorithm, data)
        found: list[Row] = []
        place = directory
        while experiment.plan.seeds:
            try:
                with Status(place, cell, directory) as status:
                    experiment.train(place, status, keep=1)
            except Diverged as error:  # which is a result: kept as far as it came, and the other seeds go on without it
                found += diverged_rows(cell, place, error)
                left = tuple(seed for seed in experiment.plan.seeds if seed != error.seed)
                experiment = replace(experiment, plan=replace(experiment.plan, seeds=left))
                place = place / f"without-seed-{error.seed}"
            else:
                return found + rows_of(cell, place)
        return found


def _print_findings(name: str, findings: list[checks.Finding]) -> None:
    """A worker's output is the cell's log."""
    for finding in findings:
        print(f"{name}: {finding.severity}: {finding.problem}; {finding.advice}", flush=True)


def rows_of(cell: Cell, directory: Path) -> list[Row]:
    """A cell's rows as the store keeps them: an evaluation of a seed each, with all that is needed to know what it is."""
    facts = facts_of(cell, directory)
    costs = {each.updates: {"seconds": each.seconds, "gigabytes": each.gigabytes} for each in read_times(directory)}
    return [facts | costs.get(row["updates"], {}) | row for row in read_rows(directory)]


def facts_of(cell: Cell, directory: Path) -> Row:
    """What all rows of a cell say."""
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
        "commit": ", ".join(dict.fromkeys(str(each.commit) for each in starts)),  # several where it went on with newer code
        "versions": json.dumps(start.versions, sort_keys=True),
        "machine": start.machine,
        "started": starts[0].started,
        "seeds_together": len(plan.seeds),
        "cores_used": start.cores_used,
    }


def diverged_rows(cell: Cell, directory: Path, error: Diverged) -> list[Row]:
    """What a seed has until its numbers exploded, every row saying so; a row without figures where it was never evaluated."""
    rows = rows_of(cell, directory)
    own = [row for row in rows if row["seed"] == error.seed]
    return [row | {"diverged": error.message} for row in own or [facts_of(cell, directory) | {"seed": error.seed, "updates": 0}]]


STATUS = "status.json"


@dataclass
class Progress:
    """How far a cell is, for whoever watches."""

    state: str = "starting"
    done: int = 0
    of: int = 0
    score: float | None = None  # mean over seeds of the newest evaluation
    rate: float = 0.0  # updates per second
    note: str = ""

    @classmethod
    def read(cls, directory: Path) -> "Progress":
        """What the cell last wrote; a fresh one where it has written nothing."""
        try:
            return read_record(directory / STATUS, cls, "it is written again")
        except (OSError, ValueError):  # it is for people to watch, and nothing depends on it
            return cls()


class Status:
    """A run's display that writes to files: progress for the overview, and the time and memory that training itself took."""

    def __init__(self, directory: Path, cell: Cell, watched: Path):
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._watched, self._progress = directory, watched, Progress(of=cell.updates)
        self._scores: dict[int, float] = {}
        self._seconds = self._last = 0.0
        self._timed = 0  # the newest evaluation in the file of times

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        state = "done" if error is None else "stopped" if isinstance(error, runs.Interrupted) else "failed"
        self._write_status(state=state, note="" if error is None else (str(error).splitlines() or [type(error).__name__])[0])

    def begin(self, updates: int, done: int) -> None:
        """A run of `updates` starts (or goes on) at `done`."""
        kept = keep_times(self._directory, done)
        self._seconds, self._timed = (kept[-1].seconds, kept[-1].updates) if kept else (0.0, 0)
        self._start, self._since, self._last = done, time.monotonic(), time.monotonic()
        self._write_status(state="running", done=done, of=updates)

    def pretrained(self, what: str, done: int, updates: int) -> None:
        """A block of what is learnt before the run itself ended."""
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
        if (headline := row.get("score", row.get("return"))) is not None:
            self._scores[row["seed"]] = headline
            self._write_status(score=sum(self._scores.values()) / len(self._scores))
        if self._timed < row["updates"]:
            add_times(self._directory, Times(row["updates"], round(self._seconds, 3), peak_gigabytes()))
            self._timed = row["updates"]
        self._last = time.monotonic()

    def warn(self, text: str) -> None:
        """Something a person should know: a worker's output is the cell's log."""
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
    """As in 0to4-7: a file's name has no room for many numbers."""
    starts = [seed for seed in seeds if seed - 1 not in seeds]
    ends = [seed for seed in seeds if seed + 1 not in seeds]
    return "-".join(str(start) if start == end else f"{start}to{end}" for start, end in zip(starts, ends, strict=True))


def _recipe() -> str:
    """What mazes are generated by; the first recipe has no number, so that what was run before there were others is still the same."""
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
