"""A run: a plan, a directory, and blocks of updates with evaluations and checkpoints between them."""

import hashlib
import json
import math
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gridcount.algorithms import ALGORITHMS
from gridcount.algorithms.contract import Prepared, Report, with_new_names
from gridcount.algorithms.ranges import refuse_out_of_range
from gridcount.data.catalogue import unknown
from gridcount.data.transitions import Batch, Transitions
from gridcount.evaluation.environments import dimensions, refuse_misfit
from gridcount.evaluation.rollouts import Act, InUnits, evaluate
from gridcount.files import locked, read_record, validate_no_links, write_whole
from gridcount.files.records import AtLeastOne, Count
from gridcount.interrupts import Stop, stopping
from gridcount.training import checkpoints
from gridcount.training.checkpoints import BlockMetrics, Record
from gridcount.training.judging import LogJudge, why_diverged
from gridcount.training.logs import METRICS, Marks, MetricLog, Row, read_rows
from gridcount.training.loop import SeedMetrics, make_learners, seed_keys
from gridcount.training.machine import describe_machine, read_starts
from gridcount.training.progress import Display

EPOCH = 1000  # updates per block at most
OWN_FILES = (METRICS, "environment.json", "checkpoints", "tensorboard")  # what a run makes besides config.json, which comes first
AFTER_BLOCK = "stopping after this block of updates; press Ctrl-C again to stop at once"
AT_ONCE = "stopped at once; go on from the last checkpoint, if there is one, with --run {} --resume"
EXPLODED = 1e8  # no metric of a healthy run reaches this many squares of what its rewards can add up to,
LEAST_SCALE = 100.0  # of which at least this is taken for granted: rewards of 1 for ever


class Diverged(RuntimeError):
    """Training produced a value that is not finite, or absurdly large."""

    def __init__(self, seed: int, what: str, updates: int, way_out: str):
        super().__init__(f"seed {seed}: {what} after update {updates:,}; training stopped.\n{way_out}")
        self.seed = seed
        self.told = f"{what} after update {updates:,}"


class Interrupted(RuntimeError):
    """The user stopped the run; it can be resumed."""


@dataclass(frozen=True)
class Plan:
    """What to train, on what, for how long: everything a run's result depends on, besides code and machine."""

    dataset: str  # a name or a file
    environment: str | None  # where policies are scored; None: they are not
    algorithm: str
    fields: dict[str, Any]  # the algorithm's hyper-parameters, every "auto" settled
    seeds: tuple[Count, ...]
    updates: AtLeastOne
    evaluate_every: AtLeastOne
    episodes: AtLeastOne
    fingerprint: str  # of the data
    scale_actions: bool = False  # how a file's actions came to lie in [-1, 1]
    action_low: tuple[float, ...] = ()
    action_high: tuple[float, ...] = ()
    source: str = ""  # of a published name: "d4rl" or "generated"; "" for a file, and where it was not recorded
    columns: dict[str, str] = field(default_factory=dict)  # of a table: role -> the columns that were named for it

    def check(self) -> None:
        """Refuse a plan that cannot be carried out, before anything is computed."""
        self.check_numbers()
        if self.algorithm not in ALGORITHMS:
            raise unknown("algorithm", self.algorithm, tuple(ALGORITHMS))
        if self.environment is not None:
            dimensions(self.environment)  # which makes it, or says why not

    def check_numbers(self) -> None:
        """Refuse numbers that no run can have."""
        if not self.seeds or self.updates < 1 or self.evaluate_every < 1 or self.episodes < 1:
            raise ValueError("seeds, updates, evaluate-every and episodes must all be at least 1")
        if min(self.seeds) < 0:
            raise ValueError(f"seed is {min(self.seeds)}; it must be at least 0")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"a seed stands twice in {list(self.seeds)}; each is trained once")

    def evaluates_after(self, done: int) -> bool:
        """Whether policies are scored after this many updates: at every multiple of `evaluate_every`, and at the end."""
        return done == self.updates or done % self.evaluate_every == 0

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
        algorithm = kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in self.fields.items()})
        refuse_out_of_range(algorithm)
        return algorithm


def settings(algorithm: Any) -> dict[str, Any]:
    """An algorithm's hyper-parameters, as a plan keeps them."""
    values = {each.name: getattr(algorithm, each.name) for each in fields(algorithm)}
    unsaid = {each.name for each in fields(algorithm) if each.metadata.get("later") and values[each.name] == each.default}
    return {name: value for name, value in values.items() if name not in unsaid}


def read_plan(directory: Path) -> Plan:
    """The plan a run directory was made with."""
    path = directory / "config.json"
    if not path.exists():
        raise FileNotFoundError(f"{directory}: not a run directory, it holds no config.json")
    plan = read_record(path, Plan, "put the file back as the run wrote it, or start a new run", closed=True)
    try:
        plan.check_numbers()
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    known = with_new_names(ALGORITHMS[plan.algorithm], plan.fields) if plan.algorithm in ALGORITHMS else plan.fields
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
    save_every: float = 60.0,
    data: Transitions | None = None,
) -> list[Row]:
    """Carry out a plan in a directory, from its newest checkpoint if there is one; returns all rows of metrics.

    With the data that `prepared` was made of, policies are held against it at every evaluation, and their actions are in its units.
    """
    refuse_unfit(plan, prepared, keep)
    busy = f"{directory}: another process is training this run; wait until it ends, or stop it first"
    validate_no_links(directory)
    with locked(directory / "run", busy):
        if (directory / "config.json").exists():
            refuse_other_plan(directory, plan)
        elif found := [name for name in OWN_FILES if (directory / name).exists()]:
            raise ValueError(f"{directory / found[0]}: is of no run of gridcount; name an empty directory with --run")
        return _train(plan, prepared, directory, display, keep, save_every, data)


def refuse_unfit(plan: Plan, prepared: Prepared, keep: int) -> None:
    """Refuse what cannot be carried out with this data, before a directory is made for it."""
    plan.check()
    if keep < 1:
        raise ValueError(f"keep is {keep}; a run keeps at least 1 checkpoint")
    if plan.environment is not None:
        refuse_misfit(plan.environment, prepared.rows.observation.shape[1], prepared.rows.action.shape[1])


def _train(
    plan: Plan, prepared: Prepared, directory: Path, display: Display, keep: int, save_every: float, data: Transitions | None
) -> list[Row]:
    algorithm, rows = prepared.algorithm, prepared.rows
    judge = None if data is None else LogJudge.fit(data, prepared)
    in_units = None if data is None else data.in_units
    keys = [seed_keys(seed) for seed in plan.seeds]
    done = 0
    pending: list[BlockMetrics] = []  # of blocks since the last evaluation
    marks = Marks(sizes={})
    if saved := checkpoints.numbered(directory / "checkpoints"):
        states, record = _restore(saved[-1], [_template(prepared)] * len(keys), plan)
        checkpoints.validate_rows_kept(directory, saved, record)
        done, pending, marks = record.updates, record.pending, record
    write_record(directory, plan)
    limit = _limit(algorithm, rows)
    act = jax.jit(algorithm.act)
    log = MetricLog(directory, plan.seeds, marks)
    for name in log.rebuilt:
        print(f"{directory / name} was missing or changed, and was made again from metrics.jsonl", file=sys.stderr)
    last_save = time.monotonic()

    def save() -> None:
        arrays = {
            f"seed{seed}{name}": leaf
            for seed, state in zip(plan.seeds, learners.states, strict=True)
            for name, leaf in checkpoints.flatten(state).items()
        }
        marks = log.marks()
        record = Record(updates=done, pending=pending, sizes=marks.sizes, digests=marks.digests)
        checkpoints.save(directory / "checkpoints" / f"{done:010d}.npz", arrays | checkpoints.recorded(record))
        checkpoints.prune(directory / "checkpoints", keep)

    with stopping(AFTER_BLOCK, AT_ONCE.format(directory)) as stop, closing(log), display:
        if not saved:
            inits = zip(plan.seeds, keys, strict=True)
            states = [algorithm.init(init_key, rows, _reporting(display, seed, stop)) for seed, (init_key, _) in inits]
        usual = min(plan.evaluate_every, EPOCH)
        learners = make_learners(algorithm, usual, states, rows, [train_key for _, train_key in keys])
        display.begin(plan.updates, done)
        while size := plan.block_after(done):
            metrics = learners.advance(done, size, plan.block_after(done + size))
            _refuse_divergence(metrics, limit, learners.states, plan.seeds, done, directory, prepared, data)
            done += size
            pending.append((size, {name: values.tolist() for name, values in metrics.items()}))
            display.advance(done, pending[-1][1])
            if plan.evaluates_after(done):
                evaluations = _evaluate(plan, act, learners.states, done, in_units, rows.observation.shape[1])
                if judge is not None:
                    measured = [judge.measure(_policy(act, state)) for state in learners.states]
                    evaluations = [each | more for each, more in zip(evaluations, measured, strict=True)]
                for row in _rows(plan, done, pending, evaluations):
                    log.write(row)
                    display.evaluated(row)
                    if judge is not None and (warning := judge.warning(row)):
                        display.warn(warning)
                log.flush()
                pending = []
                if done == plan.updates or time.monotonic() - last_save > save_every:
                    save()
                    last_save = time.monotonic()
            if stop.requested and done < plan.updates:
                save()
                raise Interrupted(f"stopped at update {done:,}; everything is in {directory}")
    return read_rows(directory)


def restore_policies(directory: Path, prepared: Prepared) -> tuple[list[Any], list[Act], int]:
    """The states and deterministic policies in a run's newest checkpoint, one per seed, and their number of updates."""
    plan = read_plan(directory)
    saved = checkpoints.numbered(directory / "checkpoints")
    if not saved:
        raise FileNotFoundError(f"{directory}: the run has no checkpoint yet; let it train a little longer")
    states, record = _restore(saved[-1], [_template(prepared)] * len(plan.seeds), plan)
    act = jax.jit(prepared.algorithm.act)
    return states, [_policy(act, state) for state in states], record.updates


def refuse_other_plan(directory: Path, plan: Plan) -> None:
    """A run goes on as it began: only its number of updates may grow."""
    before, after = (json.loads(json.dumps(asdict(each))) for each in (read_plan(directory), plan))
    if after["updates"] < before["updates"]:
        raise ValueError(f"{directory}: the run was planned for {before['updates']:,} updates, more than --updates {after['updates']:,}")
    free = {"updates"}
    if before["fingerprint"] == after["fingerprint"]:
        free |= {"dataset", "source", "columns"}  # the same rows, wherever they lie and whatever they are called
    before, after = (each | each.pop("fields") | dict.fromkeys(free) for each in (before, after))
    changed = {name: (before.get(name), after.get(name)) for name in before | after if before.get(name) != after.get(name)}
    if changed:
        listed = "; ".join(f"{name} was {old}, now {new}" for name, (old, new) in changed.items())
        raise ValueError(f"{directory}: cannot resume, because {listed}. Repeat the run's own flags, or start a new run")


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
    write_whole(directory / "config.json", json.dumps(asdict(plan), indent=2) + "\n")
    write_whole(directory / "environment.json", json.dumps([*starts, machine], indent=2) + "\n")


def _template(prepared: Prepared) -> Any:
    """The shapes and types of a state, without making one."""
    return jax.eval_shape(lambda key: prepared.algorithm.init(key, prepared.rows), jax.random.key(0))


def _reporting(display: Display, seed: int, stop: Stop) -> Report:
    """What tells the display of a seed's pre-training, and ends it when the user wants to stop."""

    def report(what: str, done: int, updates: int) -> None:
        display.pretrained(f"seed {seed}: {what}", done, updates)
        if stop.requested:
            raise Interrupted(f"stopped while learning the {what} of seed {seed}, which starts again when the run goes on")

    return report


def _restore(path: Path, templates: list[Any], plan: Plan) -> tuple[list[Any], Record]:
    arrays = checkpoints.load(path)
    record = checkpoints.read_record(path, arrays)
    checkpoints.validate_record(path, record, len(plan.seeds), plan.updates, plan.evaluate_every)
    states = []
    for seed, template in zip(plan.seeds, templates, strict=True):
        prefix = f"seed{seed}"
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith((f"{prefix}.", f"{prefix}["))}
        states.append(checkpoints.unflatten(template, own, path))
    return states, record


def _evaluate(plan: Plan, act: Any, states: list[Any], done: int, in_units: InUnits | None, observation_dim: int) -> list[dict[str, float]]:
    """Each seed's scores; start states differ from evaluation to evaluation, but not from run to run."""
    if plan.environment is None:
        return [{} for _ in plan.seeds]
    name, episodes = plan.environment, plan.episodes
    return [
        evaluate(_policy(act, state), name, episodes, seed + 7919 * done, in_units=in_units, observation_dim=observation_dim).summary()
        for seed, state in zip(plan.seeds, states, strict=True)
    ]


def _policy(act: Any, state: Any) -> Act:
    """A state's policy as a function of NumPy arrays."""
    return lambda observation: np.asarray(act(state, observation))


def _rows(plan: Plan, done: int, pending: list[BlockMetrics], evaluations: list[dict[str, float]]) -> Iterator[Row]:
    sizes, blocks = zip(*pending, strict=True)
    for i, seed in enumerate(plan.seeds):
        means = {name: float(np.average([block[name][i] for block in blocks], weights=sizes)) for name in blocks[0]}
        yield {"updates": done, "seed": seed} | evaluations[i] | means


def _limit(algorithm: Any, rows: Batch) -> float:
    """What no metric may reach: losses are squares of values, and values grow with the rewards."""
    scale = float(np.abs(rows.reward).max()) / max(1 - getattr(algorithm, "discount", 0.0), 1e-6)
    return EXPLODED * max(scale, LEAST_SCALE) ** 2


def _refuse_divergence(
    metrics: SeedMetrics,
    limit: float,
    states: list[Any],
    seeds: tuple[int, ...],
    done: int,
    directory: Path,
    prepared: Prepared,
    data: Transitions | None,
) -> None:
    """Stop at the first bad metric, or at weights that went bad in the block's last update, which no metric has seen yet."""
    bad_metrics = (
        (seed, f"metric '{name}' became {value:.3g}")
        for name, values in metrics.items()
        for seed, value in zip(seeds, values.tolist(), strict=True)
        if not math.isfinite(value) or abs(value) > limit
    )
    bad_weights = (
        (seed, f"'{jax.tree_util.keystr(path)}' is no longer finite")
        for seed, state in zip(seeds, states, strict=True)
        for path, leaf in jax.tree_util.tree_leaves_with_path(state)
        if np.issubdtype(leaf.dtype, np.floating) and not np.isfinite(leaf).all()
    )
    for seed, what in chain(bad_metrics, bad_weights):
        kept = checkpoints.numbered(directory / "checkpoints")
        last = f"The last good checkpoint is {kept[-1]}. " if kept else "No checkpoint had been written yet. "
        q = float(metrics["q_data"][seeds.index(seed)]) if "q_data" in metrics else None
        raise Diverged(seed, what, done, f"{last}{why_diverged(prepared, data, q)}")
