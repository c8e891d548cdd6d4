"""A search and its trials: which settings come next, when a trial stops early, and the file to resume from.

Optuna proposes settings. Its study is made anew from our own records before every question, so that nothing
but `study.json` and the trials' results has to survive a kill.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from gridcount.algorithms import make_algorithm
from gridcount.benchmark.cells import Cell, Estimated
from gridcount.benchmark.estimated import Found
from gridcount.data.formats.columns import FIELDS
from gridcount.estimation.estimate import Settings
from gridcount.estimation.measured import SEARCH_COST
from gridcount.files import read_record, write_whole
from gridcount.training.plan import Plan
from gridcount.tuning.space import Between, OneOf, Space, fixed_fields

try:
    import optuna
except ImportError as error:
    raise ImportError(
        f"choosing settings needs Optuna ({error}). Install it with: pip install 'gridcount[tune]'"
    ) from error

FILE = "study.json"
AUTOMATIC = "gpc-anchor"  # the algorithm that has nothing to tune: its own values are trial 0
RANKING, CONFIRMING = "tune", "tune-confirm"  # names of the two suites of cells
LEAST_KNOWN = 4  # trials with an estimate after as many updates, before others are stopped by it
PROPOSALS = 50  # of which all were tried before: the space is exhausted
STARTUP = 8  # random trials before the sampler learns from them
ALGORITHM = "algorithm"


@dataclass(frozen=True)
class Search:
    """Everything that trials and their ranking depend on, besides code and machine."""

    dataset: str  # a name or a file
    title: str  # its name in tables, whose presets apply
    reading: dict[str, Any]  # of a table: its columns by role, and the units of its actions
    preset: str
    space: Space
    automatic: dict[str, Any]  # fields of trial 0 that were given one value
    trials: int
    updates: int  # of each trial
    seeds: int = 1  # trained together in each trial
    checks: int = 2  # estimates before the last one, after which a trial may be stopped
    hold_out: float = (
        0.2  # share of the episodes that no trial is trained on: one half ranks, the other confirms
    )
    hold_out_seed: int = 0
    seed: int = 0  # of the proposals, and the first of the trials' own
    most_unseen: float = 0.5  # share of actions that the log never has, above which a policy is refused
    settings: Settings = field(default_factory=lambda: Settings(support_cost=SEARCH_COST))  # of the estimates

    def check(self) -> None:
        """Raise ValueError for numbers that no search can have."""
        self.settings.check()
        for name, least in (("trials", 1), ("updates", 1), ("seeds", 1), ("checks", 0), ("seed", 0)):
            if (value := getattr(self, name)) < least:
                raise ValueError(f"--{name} is {value}; it must be at least {least}")
        if not 0 < self.hold_out < 1:
            raise ValueError(f"--hold-out is {self.hold_out:g}; it must be above 0 and below 1")
        if not 0 <= self.most_unseen <= 1:
            raise ValueError(f"--most-unseen is {self.most_unseen:g}; it must be from 0 to 1")
        if self.checks >= self.updates:
            raise ValueError(
                f"--checks is {self.checks}; it must be below --updates, which is {self.updates}"
            )

    @property
    def after(self) -> tuple[int, ...]:
        """The numbers of updates after which a trial is estimated."""
        return (*(self.every * number for number in range(1, self.checks + 1)), self.updates)

    @property
    def every(self) -> int:
        """Updates between estimates."""
        return self.updates // (self.checks + 1)

    def cell(self, trial: "Trial", confirm: bool = False) -> Cell:
        """The trial as a worker runs it."""
        plan = Plan.of(
            trial.algorithm,
            make_algorithm(trial.algorithm, self.title, self.preset, **trial.changes),
            dataset=self.dataset,
            name=self.title,
            preset=self.preset,
            environment=None,
            seeds=tuple(range(self.seed, self.seed + self.seeds)),
            updates=self.updates,
            evaluate_every=self.every,
            episodes=1,
            columns={role: name for role, name in self.reading.items() if role in FIELDS},
            hold_out=self.hold_out,
            hold_out_seed=self.hold_out_seed,
            **{name: value for name, value in self.reading.items() if name not in FIELDS},
        )
        estimated = Estimated(self.settings, self.after, () if confirm else trial.bars, confirm)
        return Cell(
            CONFIRMING if confirm else RANKING,
            f"trial {trial.number}",
            plan,
            scored=False,
            estimated=estimated,
        )


@dataclass(frozen=True)
class Trial:
    """An algorithm and the fields in which it differs from its preset."""

    number: int
    algorithm: str
    changes: dict[str, Any]
    automatic: bool = False  # the preset's own values
    bars: tuple[float, ...] = ()  # it is stopped if the lower limits of its estimates fall below these


@dataclass(frozen=True)
class Outcome:
    """A trial that ended."""

    trial: Trial
    found: Found | None  # None: it failed
    problem: str = ""  # why


@dataclass(frozen=True)
class Study:
    """A search and the trials that were proposed so far, as the file keeps them."""

    search: dict[str, Any]
    trials: tuple[Trial, ...] = ()

    @classmethod
    def open(cls, out: Path, search: Search) -> "Study":
        """The study in a folder, which must be of the same search, or a new one; trials may be added."""
        asked = json.loads(json.dumps(asdict(search)))
        path = out / FILE
        if not path.exists():
            return cls(asked)
        study = read_record(path, cls, "name another folder with --out")
        changed = [name for name in asked if name != "trials" and asked[name] != study.search.get(name)]
        if changed:
            name = changed[0]
            raise ValueError(
                f"{path}: is of another search: {name} was {study.search.get(name)}, now {asked[name]}. "
                "Repeat its flags to resume it, or name another folder with --out"
            )
        frozen = [replace(trial, changes=_frozen(trial.changes)) for trial in study.trials]
        return replace(study, search=asked, trials=tuple(frozen))

    def write(self, out: Path) -> None:
        """Write it whole."""
        out.mkdir(parents=True, exist_ok=True)
        write_whole(out / FILE, json.dumps(asdict(self), indent=2) + "\n")


def propose(search: Search, trials: Sequence[Trial], outcomes: Sequence[Outcome]) -> Trial | None:
    """The next trial: first the automatic values, then what Optuna proposes; None if everything was tried."""
    number = len(trials)
    automatic = {name: fixed_fields(search.space, name) for name in search.space}
    first = list(({AUTOMATIC: search.automatic} | automatic).items())
    if number < len(first):
        return Trial(number, *first[number], automatic=True)
    study = _study(search, outcomes, number)
    tried = [(trial.algorithm, trial.changes) for trial in trials]
    for _ in range(PROPOSALS):
        algorithm, changes = _suggest(study.ask(), search.space)
        if (algorithm, changes) not in tried:
            return Trial(number, algorithm, changes, bars=bars(search, outcomes))
    return None


def bars(search: Search, outcomes: Sequence[Outcome]) -> tuple[float, ...]:
    """The medians of the known estimates after as many updates; empty until enough are known."""
    found: list[float] = []
    for updates in search.after[:-1]:
        known = [
            outcome.found.after[updates].policy.lower
            for outcome in outcomes
            if outcome.found is not None and updates in outcome.found.after
        ]
        if len(known) < LEAST_KNOWN:
            break
        found.append(median(known))
    return tuple(found)


def refused(search: Search, found: Found) -> bool:
    """Whether a policy leaves the log so often that its estimate means nothing."""
    last = found.after[max(found.after)]
    return last.policy.unseen > search.most_unseen


def _study(search: Search, outcomes: Sequence[Outcome], number: int) -> optuna.Study:
    """The outcomes as Optuna keeps them."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=search.seed + number, n_startup_trials=STARTUP)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for outcome in outcomes:
        trial, found = outcome.trial, outcome.found
        if found is None or trial.algorithm not in search.space:
            continue
        params, distributions = _known(trial, search.space)
        values = {updates: pair.policy.lower for updates, pair in found.after.items()}
        whole = not found.stopped and not refused(search, found)
        state = optuna.trial.TrialState.COMPLETE if whole else optuna.trial.TrialState.PRUNED
        study.add_trial(
            optuna.trial.create_trial(
                params=params,
                distributions=distributions,
                value=values[max(values)],
                state=state,
                intermediate_values=values,
            )
        )
    return study


def _suggest(trial: optuna.Trial, space: Space) -> tuple[str, dict[str, Any]]:
    algorithm = str(trial.suggest_categorical(ALGORITHM, list(space)))
    changes = fixed_fields(space, algorithm)
    for name, choices in space[algorithm].items():
        key = f"{algorithm}.{name}"
        if isinstance(choices, OneOf):
            if len(choices.values) > 1:
                changes[name] = choices.values[int(trial.suggest_int(key, 0, len(choices.values) - 1))]
        elif choices.whole:
            changes[name] = trial.suggest_int(key, int(choices.low), int(choices.high), log=choices.log)
        else:
            changes[name] = _rounded(
                trial.suggest_float(key, choices.low, choices.high, log=choices.log), choices
            )
    return algorithm, changes


def _known(trial: Trial, space: Space) -> tuple[dict[str, Any], dict[str, Any]]:
    """A trial's values that lie in the space; those of a preset may not."""
    params: dict[str, Any] = {ALGORITHM: trial.algorithm}
    distributions: dict[str, Any] = {ALGORITHM: optuna.distributions.CategoricalDistribution(list(space))}
    for name, value in trial.changes.items():
        choices = space[trial.algorithm].get(name)
        key = f"{trial.algorithm}.{name}"
        if choices is None or not choices.holds(value):
            continue
        if isinstance(choices, OneOf):
            if len(choices.values) > 1:
                params[key] = choices.values.index(value)
                distributions[key] = optuna.distributions.IntDistribution(0, len(choices.values) - 1)
        else:
            params[key] = value
            distributions[key] = _distribution(choices)
    return params, distributions


def _distribution(choices: Between) -> Any:
    if choices.whole:
        return optuna.distributions.IntDistribution(int(choices.low), int(choices.high), log=choices.log)
    return optuna.distributions.FloatDistribution(choices.low, choices.high, log=choices.log)


def _rounded(value: float, choices: Between) -> float:
    """Three digits, so that people can read and type it."""
    return min(max(float(f"{value:.3g}"), choices.low), choices.high)


def _frozen(changes: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in changes.items()}
