"""A run: a plan, a directory, and blocks of updates with evaluations and checkpoints between them."""

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from gridcount import __version__
from gridcount.algorithms import ALGORITHMS
from gridcount.algorithms.contract import EPOCH, Prepared, Report, act, with_new_names
from gridcount.algorithms.ranges import validate_ranges
from gridcount.catalogue import unknown
from gridcount.data.formats.cut import ActionUnits
from gridcount.data.quality.scan import logged_values
from gridcount.data.split import Split
from gridcount.evaluation.environments import dimensions, validate_dimensions
from gridcount.evaluation.rollouts import Act, InUnits, evaluate
from gridcount.files import archive, locked, read_record, validate_no_links, write_whole
from gridcount.files.archive import numbered, prune
from gridcount.files.records import AtLeastOne, Count
from gridcount.interrupts import Stop, stopping
from gridcount.policy import store
from gridcount.policy.actor import Actor
from gridcount.policy.counts import LogCounts
from gridcount.training import checkpoints, cloning
from gridcount.training.checkpoints import BlockMetrics, Record
from gridcount.training.divergence import Diverged, find_divergence, metric_limit, why_diverged
from gridcount.training.judging import LogJudge
from gridcount.training.logs import METRICS, MetricLog, Row, read_rows
from gridcount.training.loop import Learners, SeedMetrics, make_learners, seed_keys
from gridcount.training.machine import describe_machine, read_starts
from gridcount.training.progress import Display
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


@dataclass(frozen=True)
class Plan:
    """Everything that a run's result depends on, besides code and machine."""

    dataset: str  # a name or a file
    environment: str | None  # where policies are scored; None: they are not
    algorithm: str
    fields: dict[str, Any]  # the algorithm's hyper-parameters, without "auto"
    seeds: tuple[Count, ...]
    updates: AtLeastOne
    evaluate_every: AtLeastOne
    episodes: AtLeastOne
    fingerprint: str  # of the data
    scale_actions: bool = False  # how a file's actions were scaled to [-1, 1]
    action_low: tuple[float, ...] = ()
    action_high: tuple[float, ...] = ()
    source: str = (
        ""  # of a published name: "d4rl" or "generated"; "" for a file, and where it was not recorded
    )
    columns: dict[str, str] = field(
        default_factory=dict
    )  # of a table: role -> the columns that were named for it
    hold_out: float = 0.0  # share of the episodes that training never sees
    hold_out_seed: Count = 0  # which ones

    def check(self) -> None:
        """Raise ValueError for an invalid plan, before anything is computed."""
        self.check_numbers()
        if self.algorithm not in ALGORITHMS:
            raise unknown("algorithm", self.algorithm, tuple(ALGORITHMS))
        if self.environment is not None:
            dimensions(self.environment)  # creates it, or raises the reason

    def check_numbers(self) -> None:
        """Raise ValueError for invalid numbers."""
        self.split().check()
        if not self.seeds or self.updates < 1 or self.evaluate_every < 1 or self.episodes < 1:
            raise ValueError("seeds, updates, evaluate-every and episodes must all be at least 1")
        if min(self.seeds) < 0:
            raise ValueError(f"seed is {min(self.seeds)}; it must be at least 0")
        if len(set(self.seeds)) < len(self.seeds):
            twice = next(seed for seed in self.seeds if self.seeds.count(seed) > 1)
            raise ValueError(f"seed {twice} is listed twice in {list(self.seeds)}; list each seed once")

    def evaluates_after(self, done: int) -> bool:
        """Whether policies are scored after this many updates: at every multiple of `evaluate_every`, and at the end."""
        return done == self.updates or done % self.evaluate_every == 0

    def split(self) -> Split:
        """Which episodes are held out."""
        return Split(self.hold_out, self.hold_out_seed)

    def record(self) -> dict[str, Any]:
        """The plan as files keep it; without a hold-out it reads as it did before there was one."""
        values = asdict(self)
        if not self.hold_out:
            del values["hold_out"], values["hold_out_seed"]
        return values

    def action_units(self) -> ActionUnits:
        """How the data's actions were scaled to [-1, 1]."""
        return ActionUnits(self.scale_actions, self.action_low, self.action_high)

    def block_after(self, done: int) -> int:
        """How many updates come next: an epoch, or what is left to the next evaluation; 0 at the end."""
        evaluation = min(done - done % self.evaluate_every + self.evaluate_every, self.updates)
        return max(0, min(EPOCH, evaluation - done))

    def make_algorithm(self) -> Any:
        """The algorithm with this plan's hyper-parameters."""
        if self.algorithm not in ALGORITHMS:
            raise unknown("algorithm", self.algorithm, tuple(ALGORITHMS))
        kind = ALGORITHMS[self.algorithm]
        if lost := [name for name in self.fields if name not in kind.__dataclass_fields__]:
            raise unknown(f"setting of {self.algorithm}", lost[0], tuple(kind.__dataclass_fields__))
        algorithm = kind(
            **{
                name: tuple(value) if isinstance(value, list) else value
                for name, value in self.fields.items()
            }
        )
        validate_ranges(algorithm)
        return algorithm


def settings(algorithm: Any) -> dict[str, Any]:
    """An algorithm's hyper-parameters, as a plan keeps them."""
    values = {each.name: getattr(algorithm, each.name) for each in fields(algorithm)}
    omitted = {
        each.name
        for each in fields(algorithm)
        if each.metadata.get("added_later") and values[each.name] == each.default
    }
    return {name: value for name, value in values.items() if name not in omitted}


def read_plan(directory: Path) -> Plan:
    """The plan a run directory was made with."""
    path = directory / "config.json"
    if not path.exists():
        raise FileNotFoundError(f"{directory}: not a run directory, it holds no config.json")
    plan = read_record(path, Plan, "restore the file as the run wrote it, or start a new run", closed=True)
    try:
        plan.check_numbers()
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    known = (
        with_new_names(ALGORITHMS[plan.algorithm], plan.fields)
        if plan.algorithm in ALGORITHMS
        else plan.fields
    )
    return replace(plan, fields=known)


def algorithm_of(directory: Path) -> Any:
    """The algorithm of a run, with the hyper-parameters it was made with."""
    plan = read_plan(directory)
    try:
        return plan.make_algorithm()
    except ValueError as error:
        raise ValueError(f"{directory / 'config.json'}: {error}") from error


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
) -> list[Row]:
    """Train a plan in a directory, from its newest checkpoint if there is one; returns all rows of metrics.

    If `data` is given, policies are compared with it at every evaluation, their actions are in its units, and they are kept in the
    folder `policy/`: as many as checkpoints, or `keep_policies`. A `judge` that was fitted before is reused.
    `callback` receives every row of metrics; the run stops if it returns True.
    """
    validate_plan(plan, prepared)
    kept = Kept.checked(keep, keep_policies, save_every)
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

    @classmethod
    def checked(cls, checkpoints: int, policies: int | None, seconds: float) -> "Kept":
        """As a person says it: as many policies as checkpoints where nobody says otherwise."""
        policies = checkpoints if policies is None else policies
        for name, count, what in (("keep", checkpoints, "checkpoint"), ("keep_policies", policies, "policy")):
            if count < 1:
                raise ValueError(f"{name} is {count}; a run keeps at least 1 {what}")
        return cls(checkpoints, policies, seconds)


def validate_plan(plan: Plan, prepared: Prepared) -> None:
    """Raise ValueError if the plan is invalid for this data, before a directory is created."""
    plan.check()
    if plan.environment is not None:
        validate_dimensions(
            plan.environment, prepared.rows.observation.shape[1], prepared.rows.action.shape[1]
        )


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
    states, record = _newest(directory, plan, prepared)
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
        training.finish(_reporting(display, "", stop))
    return read_rows(directory)


def _newest(directory: Path, plan: Plan, prepared: Prepared) -> tuple[list[Any] | None, Record]:
    """The states and the record of a run's newest checkpoint; without a checkpoint, None and an empty record."""
    saved = numbered(directory / "checkpoints")
    if not saved:
        return None, Record(updates=0, pending=[], sizes={})
    states, record = _restore(saved[-1], [_template(prepared)] * len(plan.seeds), plan)
    checkpoints.validate_rows_kept(directory, saved, record)
    store.forget_after(directory / store.FOLDER, record.updates)
    return states, record


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
            measured = [self.judge.measure(_policy(self.act, state)) for state in states]
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

    def finish(self, report: Report) -> None:
        """Add what a guard needs to the policies, where it is missing: the log's states and a clone of its behaviour."""
        folder = self.directory / store.FOLDER
        if self.data is None or not (folder / store.FACTS).exists():
            return
        if store.read_counts(folder, store.read_facts(folder)).guard is None:
            store.write_counts(folder, LogCounts.fit(self.data))
        if not (folder / store.CLONE).exists() and self.plan.updates >= cloning.LEAST:
            clone = cloning.train_clone(self.prepared.algorithm, self.data, self.plan.updates, report)
            store.write_clone(folder, clone)

    def _diverged(self, seed: int, what: str, metrics: SeedMetrics) -> Diverged:
        """The error to raise, with the last good checkpoint and the most likely cause."""
        kept = numbered(self.directory / "checkpoints")
        last = f"The last good checkpoint is {kept[-1]}. " if kept else "No checkpoint had been written yet. "
        q = float(metrics["q_data"][self.plan.seeds.index(seed)]) if "q_data" in metrics else None
        return Diverged(seed, what, self.done, f"{last}{why_diverged(self.prepared, self.data, q)}")


def host_actor(prepared: Prepared, state: Any) -> Actor:
    """A state's policy as NumPy arrays."""
    made = prepared.algorithm.actor(state)
    actor: Actor = jax.tree.map(
        lambda leaf: np.asarray(leaf) if hasattr(leaf, "shape") else leaf, made
    )  # flags stay as they are
    return actor


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


def restore_policies(directory: Path, prepared: Prepared) -> tuple[list[Any], list[Act], int]:
    """The states and deterministic policies in a run's newest checkpoint, one per seed, and their number of updates."""
    plan = read_plan(directory)
    saved = numbered(directory / "checkpoints")
    if not saved:
        raise FileNotFoundError(f"{directory}: the run has no checkpoint yet; wait until it has written one")
    states, record = _restore(saved[-1], [_template(prepared)] * len(plan.seeds), plan)
    acting = jax.jit(partial(act, prepared.algorithm))
    return states, [_policy(acting, state) for state in states], record.updates


def validate_same_plan(directory: Path, plan: Plan) -> None:
    """Raise ValueError if a resumed run has another plan; only its number of updates may grow."""
    before, after = (json.loads(json.dumps(asdict(each))) for each in (read_plan(directory), plan))
    if after["updates"] < before["updates"]:
        raise ValueError(
            f"{directory}: the run was planned for {before['updates']:,} updates, more than --updates {after['updates']:,}"
        )
    free = {"updates"}
    if before["fingerprint"] == after["fingerprint"]:
        free |= {"dataset", "source", "columns"}  # the same rows, whatever their path and names
    before, after = (each | each.pop("fields") | dict.fromkeys(free) for each in (before, after))
    changed = {
        name: (before.get(name), after.get(name))
        for name in before | after
        if before.get(name) != after.get(name)
    }
    if changed:
        listed = "; ".join(f"{name} was {old}, now {new}" for name, (old, new) in changed.items())
        raise ValueError(
            f"{directory}: cannot resume, because {listed}. Use the run's own flags, or start a new run"
        )


def fingerprint(data: Transitions) -> str:
    """A digest of every column, so that a run is never continued on other data."""
    digest = hashlib.sha256()
    for column in (data.observation, data.action, data.reward, data.next_observation, data.terminated):
        digest.update(np.ascontiguousarray(column).view(np.uint8).data)
    return digest.hexdigest()[:16]


def write_record(directory: Path, plan: Plan) -> None:
    """Record the plan, and the machine and versions it runs on (one entry per start)."""
    machine = describe_machine()
    directory.mkdir(parents=True, exist_ok=True)
    starts = read_starts(directory)
    write_whole(directory / "config.json", json.dumps(plan.record(), indent=2) + "\n")
    write_whole(directory / "environment.json", json.dumps([*starts, machine], indent=2) + "\n")


def _template(prepared: Prepared) -> Any:
    """The shapes and types of a state, without making one."""
    return jax.eval_shape(lambda key: prepared.algorithm.init(key, prepared.rows), jax.random.key(0))


def _reporting(display: Display, whose: str, stop: Stop) -> Report:
    """A callback that reports training beside the run's to the display, and stops it if the user wants to stop."""

    def report(what: str, done: int, updates: int) -> None:
        display.pretrained(f"{whose}{what}", done, updates)
        if stop.requested:
            raise Interrupted(
                f"stopped while learning the {whose}{what}, which starts again when the run is resumed"
            )

    return report


def _restore(path: Path, templates: list[Any], plan: Plan) -> tuple[list[Any], Record]:
    expected = {
        f"seed{seed}{name}": leaf
        for seed, template in zip(plan.seeds, templates, strict=True)
        for name, leaf in checkpoints.named(template).items()
    }
    arrays = checkpoints.load(path, expected)
    record = checkpoints.read_record(path, arrays)
    checkpoints.validate_record(path, record, len(plan.seeds), plan.updates, plan.evaluate_every)
    states = []
    for seed, template in zip(plan.seeds, templates, strict=True):
        prefix = f"seed{seed}"
        own = {
            name.removeprefix(prefix): array
            for name, array in arrays.items()
            if name.startswith((f"{prefix}.", f"{prefix}["))
        }
        states.append(checkpoints.unflatten(template, own, path))
    return states, record


def _evaluate(
    plan: Plan, act: Any, states: list[Any], done: int, in_units: InUnits | None, observation_dim: int
) -> list[dict[str, float]]:
    """Each seed's scores; start states differ between evaluations, but not between runs."""
    if plan.environment is None:
        return [{} for _ in plan.seeds]
    name, episodes = plan.environment, plan.episodes
    return [
        evaluate(
            _policy(act, state),
            name,
            episodes,
            seed + 7919 * done,
            in_units=in_units,
            observation_dim=observation_dim,
        ).summary()
        for seed, state in zip(plan.seeds, states, strict=True)
    ]


def _policy(act: Any, state: Any) -> Act:
    """A state's policy as a function of NumPy arrays."""
    return lambda observation: np.asarray(act(state, observation))


def _rows(
    plan: Plan, done: int, pending: list[BlockMetrics], evaluations: list[dict[str, float]]
) -> Iterator[Row]:
    sizes, blocks = zip(*pending, strict=True)
    for i, seed in enumerate(plan.seeds):
        means = {
            name: float(np.average([block[name][i] for block in blocks], weights=sizes)) for name in blocks[0]
        }
        yield {"updates": done, "seed": seed} | evaluations[i] | means
