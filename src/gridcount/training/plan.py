"""A plan: the specification of one experiment. Commands, suites and Python calls make it; a run directory
records it."""

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from gridcount.algorithms import ALGORITHMS
from gridcount.algorithms.contract import EPOCH, Prepared, with_new_names
from gridcount.algorithms.ranges import validate_ranges
from gridcount.catalogue import unknown
from gridcount.data.formats.cut import ActionUnits
from gridcount.data.split import Split
from gridcount.evaluation.environments import dimensions, validate_dimensions
from gridcount.files import read_record, write_whole
from gridcount.files.records import AtLeastOne, Count
from gridcount.training.machine import describe_machine, read_starts
from gridcount.transitions import Transitions

DESCRIPTIONS = {"name", "preset"}  # fields on which no result depends
EVALUATE_EVERY, EPISODES = 5000, 20  # updates between evaluations and episodes of each, by default


def _left_out(default: Any) -> Any:
    """A field that files leave out at its default, so that older plans and their digests stay the same."""
    return field(default=default, metadata={"left_out": True})


@dataclass(frozen=True)
class Plan:
    """One experiment: what is trained on what, how long, how it is scored and how its data is read.

    Its result depends on these fields, the code and the machine. Those in DESCRIPTIONS only describe it.
    """

    dataset: str  # what is read: a name or a file
    environment: str | None  # where policies are scored; None: they are not
    algorithm: str
    fields: dict[str, Any]  # the algorithm's hyper-parameters; a run's record has no "auto" among them
    seeds: tuple[Count, ...]
    updates: AtLeastOne
    evaluate_every: AtLeastOne
    episodes: AtLeastOne
    fingerprint: str  # of the data; "" until it is read
    scale_actions: bool = False  # how a file's actions were scaled to [-1, 1]
    action_low: tuple[float, ...] = ()
    action_high: tuple[float, ...] = ()
    # of a published name: "d4rl" or "generated"; "" for a file, and where it was not recorded
    source: str = ""
    # of a table: role -> the columns that were named for it
    columns: dict[str, str] = field(default_factory=dict)
    name: str = _left_out("")  # what tables call the dataset, if not the name of its file
    preset: str = _left_out("")  # where the hyper-parameters come from; "" if that was not recorded
    hold_out: float = _left_out(0.0)  # share of the episodes that training never sees
    hold_out_seed: Count = _left_out(0)  # which ones

    @classmethod
    def of(cls, algorithm: str, made: Any, **how: Any) -> "Plan":
        """The plan of an algorithm with its hyper-parameters, before its data is read."""
        return cls(algorithm=algorithm, fields=settings(made), fingerprint="", **how)

    @property
    def title(self) -> str:
        """The dataset's name in tables."""
        return self.name or Path(self.dataset).name

    @property
    def named_environment(self) -> str | None:
        """The environment, if it is not the dataset's own."""
        return None if self.environment == self.title else self.environment

    def record(self) -> dict[str, Any]:
        """The plan as files keep it."""
        values = asdict(self)
        unused = [
            each.name
            for each in fields(self)
            if each.metadata.get("left_out") and values[each.name] == each.default
        ]
        return {name: value for name, value in values.items() if name not in unused}

    def identity(self) -> dict[str, Any]:
        """What defines the experiment: the plan without its seeds and descriptions."""
        return {name: value for name, value in self.record().items() if name not in DESCRIPTIONS} | {
            "seeds": []
        }

    def reading(self) -> dict[str, Any]:
        """How the data is read, as far as it is not the default: columns by role, and the units of its
        actions."""
        units = asdict(self.action_units())
        return self.columns | {name: value for name, value in units.items() if value}

    def check(self) -> None:
        """Raise ValueError for an invalid plan, before anything is computed."""
        self.check_numbers()
        if self.algorithm not in ALGORITHMS:
            raise unknown("algorithm", self.algorithm, tuple(ALGORITHMS))
        if self.environment is not None:
            dimensions(self.environment)  # creates it, or raises the reason

    def split(self) -> Split:
        """Which episodes are held out."""
        return Split(self.hold_out, self.hold_out_seed)

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
        """Whether policies are scored after this many updates: at every multiple of `evaluate_every`, and
        at the end."""
        return done == self.updates or done % self.evaluate_every == 0

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


def validate_plan(plan: Plan, prepared: Prepared) -> None:
    """Raise ValueError if the plan is invalid for this data, before a directory is created."""
    plan.check()
    if plan.environment is not None:
        validate_dimensions(
            plan.environment, prepared.rows.observation.shape[1], prepared.rows.action.shape[1]
        )


def validate_same_plan(directory: Path, plan: Plan) -> None:
    """Raise ValueError if a resumed run has another plan; only its number of updates may grow."""
    before, after = (json.loads(json.dumps(asdict(each))) for each in (read_plan(directory), plan))
    if after["updates"] < before["updates"]:
        raise ValueError(
            f"{directory}: the run was planned for {before['updates']:,} updates, more than --updates"
            f" {after['updates']:,}"
        )
    free = {"updates", *DESCRIPTIONS}
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
