"""A run: a plan, a directory, and blocks of updates with evaluations and checkpoints between them."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from gridcount import __version__
from gridcount.algorithms.contract import EPOCH, Prepared, Report, act
from gridcount.data.quality.scan import logged_values
from gridcount.evaluation.rollouts import InUnits, evaluate
from gridcount.files import archive, locked, validate_no_links
from gridcount.files.archive import numbered, prune
from gridcount.interrupts import Stop, stopping
from gridcount.policy import store
from gridcount.policy.counts import LogCounts
from gridcount.training import checkpoints, cloning
from gridcount.training.checkpoints import BlockMetrics, Record
from gridcount.training.divergence import Diverged, find_divergence, metric_limit, why_diverged
from gridcount.training.judging import LogJudge
from gridcount.training.logs import METRICS, MetricLog, Row, read_rows
from gridcount.training.loop import Learners, SeedMetrics, make_learners, seed_keys
from gridcount.training.plan import Plan, validate_plan, validate_same_plan, write_record
from gridcount.training.progress import Display
from gridcount.training.restoring import newest, policy_of
from gridcount.transitions import Transitions

OWN_FILES = (
    METRICS,
    "environment.json",
    "checkpoints",
    store.FOLDER,
    "tensorboard",
)  # files of a run besides config.json, which is written first
AFTER_BLOCK = "stopping after this block of updates; press Ctrl-C again to stop immediately"
AT_ONCE = "stopped immediately; resume from the last checkpoint, if there is one, with --run {} --resume"


Stops = Callable[[Row], bool | None]  # receives a row of metrics and returns True to stop the run


def never_stop(row: Row) -> None:
    """A callback that never stops the run."""


class Interrupted(RuntimeError):
    """The user stopped the run; it can be resumed."""


def train(
    plan: Plan,
    prepared: Prepared,
    directory: Path,
    display: Display,
    *,
    keep: int = 2,
    keep_policies: int | None = None,
    save_every: float = 60.0,
    data: Transitions | None = None,
    judge: LogJudge | None = None,
    callback: Stops = never_stop,
    clone: bool = True,
) -> list[Row]:
    """Train a plan in a directory, from its newest checkpoint if there is one; returns all rows of metrics.

    If `data` is given, policies are compared with it at every evaluation, their actions are in its units, and
    they are kept in the folder `policy/`: as many as checkpoints, or `keep_policies`. A `judge` that was
    fitted before is reused. `callback` receives every row of metrics; the run stops if it returns True.
    `clone`: whether to clone the log's behaviour at the end, as a fallback of a guard.
    """
    validate_plan(plan, prepared)
    kept = Kept.checked(keep, keep_policies, save_every)._replace(clone=clone)
    busy = f"{directory}: another process is training this run; wait until it ends, or stop it first"
    validate_no_links(directory)
    with locked(directory / "run", busy):
        if (directory / "config.json").exists():
            validate_same_plan(directory, plan)
        elif found := [name for name in OWN_FILES if (directory / name).exists()]:
            raise ValueError(
                f"{directory / found[0]}: was not written by gridcount; name an empty directory with --run"
            )
        if judge is None and data is not None:
            judge = LogJudge.fit(data, prepared)
        return _train(plan, prepared, directory, display, kept, data, judge, callback)


class Kept(NamedTuple):
    """What stays on disk, and how often it is written."""

    checkpoints: int
    policies: int
    seconds: float  # between checkpoints, at least
    clone: bool = True  # of the log's behaviour, made at the end of the run

    @classmethod
    def checked(cls, checkpoints: int, policies: int | None, seconds: float) -> "Kept":
        """As a person says it: as many policies as checkpoints where nobody says otherwise."""
        policies = checkpoints if policies is None else policies
        for name, count, what in (("keep", checkpoints, "checkpoint"), ("keep_policies", policies, "policy")):
            if count < 1:
                raise ValueError(f"{name} is {count}; a run keeps at least 1 {what}")
        return cls(checkpoints, policies, seconds)


def _train(
    plan: Plan,
    prepared: Prepared,
    directory: Path,
    display: Display,
    kept: Kept,
    data: Transitions | None,
    judge: LogJudge | None,
    callback: Stops,
) -> list[Row]:
    keys = [seed_keys(seed) for seed in plan.seeds]
    states, record = newest(directory, plan, prepared)
    write_record(directory, plan)
    log = _open_log(directory, plan, record)
    last_save = time.monotonic()
    with stopping(AFTER_BLOCK, AT_ONCE.format(directory)) as stop, closing(log), display:
        if states is None:
            inits = zip(plan.seeds, keys, strict=True)
            states = [
                prepared.algorithm.init(init_key, prepared.rows, _reporting(display, f"seed {seed}: ", stop))
                for seed, (init_key, _) in inits
            ]
        usual = min(plan.evaluate_every, EPOCH)
        learners = make_learners(
            prepared.algorithm, usual, states, prepared.rows, [train_key for _, train_key in keys]
        )
        training = _Training(
            plan, prepared, directory, display, data, judge, log, learners, record.updates, record.pending
        )
        display.begin(plan.updates, training.done)
        while size := plan.block_after(training.done):
            training.advance(size)
            if plan.evaluates_after(training.done):
                for row in training.evaluate():
                    stop.requested = bool(callback(row)) or stop.requested
                if training.done == plan.updates or time.monotonic() - last_save > kept.seconds:
                    training.save(kept)
                    last_save = time.monotonic()
            if stop.requested and training.done < plan.updates:
                training.save(kept)
                raise Interrupted(f"stopped at update {training.done:,}; all files are in {directory}")
        training.finish(_reporting(display, "", stop), kept.clone)
    return read_rows(directory)


def _open_log(directory: Path, plan: Plan, record: Record) -> MetricLog:
    """The run's metrics as at a checkpoint; prints which files were rebuilt."""
    log = MetricLog(directory, plan.seeds, record)
    for name in log.rebuilt:
        print(
            f"{directory / name} was missing or changed, and was rebuilt from metrics.jsonl", file=sys.stderr
        )
    return log


@dataclass
class _Training:
    """A run during training, in steps between which it can stop."""

    plan: Plan
    prepared: Prepared
    directory: Path
    display: Display
    data: Transitions | None
    judge: LogJudge | None
    log: MetricLog
    learners: Learners
    done: int  # updates
    pending: list[BlockMetrics]  # of blocks since the last evaluation

    def __post_init__(self) -> None:
        """Compile once what every evaluation and check needs."""
        self.act = jax.jit(partial(act, self.prepared.algorithm))
        self.limit = metric_limit(self.prepared.algorithm, self.prepared.rows)

    def advance(self, size: int) -> None:
        """Make a block of updates; raises Diverged if it diverged."""
        metrics = self.learners.advance(self.done, size, self.plan.block_after(self.done + size))
        if found := find_divergence(metrics, self.limit, self.plan.seeds, self.learners.states):
            raise self._diverged(*found, metrics)
        self.done += size
        self.pending.append((size, {name: values.tolist() for name, values in metrics.items()}))
        self.display.advance(self.done, self.pending[-1][1])

    def evaluate(self) -> list[Row]:
        """Score every seed's policy, compare it with the log, and write a row for each."""
        in_units = None if self.data is None else self.data.in_units
        states, observation_dim = self.learners.states, self.prepared.rows.observation.shape[1]
        evaluations = _evaluate(self.plan, self.act, states, self.done, in_units, observation_dim)
        if self.judge is not None:
            measured = [self.judge.measure(policy_of(self.act, state)) for state in states]
            evaluations = [each | more for each, more in zip(evaluations, measured, strict=True)]
        rows = list(_rows(self.plan, self.done, self.pending, evaluations))
        for row in rows:
            self.log.write(row)
            self.display.evaluated(row)
            if self.judge is not None and (warning := self.judge.warning(row)):
                self.display.warn(warning)
        self.log.flush()
        self.pending = []
        return rows

    def save(self, kept: Kept) -> None:
        """Write a checkpoint and the policies, and remove the oldest of those beyond what is kept."""
        arrays = {
            f"seed{seed}{name}": leaf
            for seed, state in zip(self.plan.seeds, self.learners.states, strict=True)
            for name, leaf in checkpoints.flatten(state).items()
        }
        marks = self.log.marks()
        record = Record(updates=self.done, pending=self.pending, sizes=marks.sizes, digests=marks.digests)
        folder = self.directory / "checkpoints"
        archive.save_arrays(folder / f"{self.done:010d}.npz", arrays | checkpoints.recorded(record))
        prune(folder, kept.checkpoints)
        if self.data is not None:
            self._save_policies(self.data, kept.policies)

    def _save_policies(self, data: Transitions, keep: int) -> None:
        """Write the policies without the training state."""
        folder = self.directory / store.FOLDER
        if not (folder / store.COUNTS).exists():
            store.write_counts(folder, LogCounts.fit(data))
        actors = {
            seed: self.prepared.algorithm.actor(state)
            for seed, state in zip(self.plan.seeds, self.learners.states, strict=True)
        }
        store.write_actors(folder, self.done, actors, keep)
        store.write_facts(
            folder, policy_facts(self.plan, data)
        )  # last: a folder with this file is a complete policy

    def finish(self, report: Report, clone: bool) -> None:
        """Add what a guard needs to the policies, where it is missing: the log's states and, if asked for, a
        clone of its behaviour."""
        folder = self.directory / store.FOLDER
        if self.data is None or not (folder / store.FACTS).exists():
            return
        if store.read_counts(folder, store.read_facts(folder)).guard is None:
            store.write_counts(folder, LogCounts.fit(self.data))
        if clone and not (folder / store.CLONE).exists() and self.plan.updates >= cloning.LEAST:
            actor = cloning.train_clone(self.prepared.algorithm, self.data, self.plan.updates, report)
            store.write_clone(folder, actor)

    def _diverged(self, seed: int, what: str, metrics: SeedMetrics) -> Diverged:
        """The error to raise, with the last good checkpoint and the most likely cause."""
        kept = numbered(self.directory / "checkpoints")
        last = f"The last good checkpoint is {kept[-1]}. " if kept else "No checkpoint had been written yet. "
        q = float(metrics["q_data"][self.plan.seeds.index(seed)]) if "q_data" in metrics else None
        return Diverged(seed, what, self.done, f"{last}{why_diverged(self.prepared, self.data, q)}")


def policy_facts(plan: Plan, data: Transitions) -> store.Facts:
    """The description of a run's policies."""
    return store.Facts(
        algorithm=plan.algorithm,
        fields=plan.fields,
        dataset=Path(plan.dataset).name,
        fingerprint=plan.fingerprint,
        seeds=plan.seeds,
        observation_names=data.observation_names,
        action_names=data.action_names,
        action_low=tuple(data.action_low.tolist()),
        action_high=tuple(data.action_high.tolist()),
        version=__version__,
        action_values=logged_values(data),
    )


def _reporting(display: Display, whose: str, stop: Stop) -> Report:
    """A callback that reports training beside the run's to the display, and stops it if the user wants to
    stop."""

    def report(what: str, done: int, updates: int) -> None:
        display.pretrained(f"{whose}{what}", done, updates)
        if stop.requested:
            raise Interrupted(
                f"stopped while learning the {whose}{what}, which starts again when the run is resumed"
            )

    return report


def _evaluate(
    plan: Plan, act: Any, states: list[Any], done: int, in_units: InUnits | None, observation_dim: int
) -> list[dict[str, float]]:
    """Each seed's scores; start states differ between evaluations, but not between runs."""
    if plan.environment is None:
        return [{} for _ in plan.seeds]
    name, episodes = plan.environment, plan.episodes
    return [
        evaluate(
            policy_of(act, state),
            name,
            episodes,
            seed + 7919 * done,
            in_units=in_units,
            observation_dim=observation_dim,
        ).summary()
        for seed, state in zip(plan.seeds, states, strict=True)
    ]


def _rows(
    plan: Plan, done: int, pending: list[BlockMetrics], evaluations: list[dict[str, float]]
) -> Iterator[Row]:
    sizes, blocks = zip(*pending, strict=True)
    for i, seed in enumerate(plan.seeds):
        means = {
            name: float(np.average([block[name][i] for block in blocks], weights=sizes)) for name in blocks[0]
        }
        yield {"updates": done, "seed": seed} | evaluations[i] | means
