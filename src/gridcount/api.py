"""The Python API for training, policies and evaluation; it does the same as the command line."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from gridcount.algorithms import ALGORITHMS, make_algorithm
from gridcount.algorithms.presets import Preset, default_algorithm, planned_updates
from gridcount.data.formats.columns import Columns
from gridcount.data.formats.cut import Bounds
from gridcount.data.load import load, resolve_source, resolved_name
from gridcount.data.quality import check as checks
from gridcount.estimation import runs as of_runs
from gridcount.estimation.estimate import Settings
from gridcount.estimation.estimate import estimate as estimate_rules
from gridcount.estimation.result import Estimates
from gridcount.evaluation.environments import trust, validate_dimensions
from gridcount.evaluation.rollouts import Evaluation
from gridcount.evaluation.rollouts import evaluate as roll_out
from gridcount.files.archive import numbered
from gridcount.policy.policy import Policy
from gridcount.terminal import make_console
from gridcount.training import run as runs
from gridcount.training.compiled import keep_compiled
from gridcount.training.directories import claim
from gridcount.training.experiment import (
    Experiment,
    drop_unfit_environment,
    find_environment,
    load_whole,
    validate_findings,
)
from gridcount.training.logs import Row, read_rows
from gridcount.training.machine import limit_threads
from gridcount.training.plan import EPISODES, EVALUATE_EVERY, Plan, read_plan
from gridcount.training.policies import policies_of
from gridcount.training.progress import ConsoleDisplay, Display, Silent
from gridcount.training.run import Stops, never_stop
from gridcount.transitions import Transitions


class Acts(Protocol):
    """A policy or a rule: observations [rows, observation_dim] -> actions [rows, action_dim], both in the
    environment's units."""

    def __call__(self, observation: NDArray[np.float32], /) -> Any:
        """The action at each observation."""


def train(
    data: Transitions | str | Path,
    algorithm: str | Any = "",
    *,
    preset: Preset = "fast",
    seeds: int = 1,
    seed: int = 0,
    updates: int | None = None,
    env: str | None = None,
    evaluate_every: int = EVALUATE_EVERY,
    episodes: int = EPISODES,
    hold_out: float = 0.0,
    hold_out_seed: int = 0,
    out: str | Path | None = None,
    keep: int = 2,
    keep_policies: int | None = None,
    checkpoint_seconds: float = 60.0,
    progress: bool = True,
    callback: Stops = never_stop,
    **changes: Any,
) -> "Run":
    """Train a policy from logged data; returns the run, which is also on disk.

    Args:
        data: transitions, or what `load` takes: a dataset's name or a file.
        algorithm: a name such as "gpc-sac" with its preset, or an algorithm such as `GPCSAC(pessimism=2.0)`
            with exactly its fields.
            By default "gpc-anchor", and "gpc-sac" for a published dataset.
        preset: "fast" (small networks for an ordinary machine) or "paper", for an algorithm given by name.
        seeds: how many seeds to train together.
        seed: the first seed.
        updates: gradient updates; by default the preset's.
        env: where to score policies: a dataset's name or a Gymnasium id. By default the dataset's own, if it
            has one.
        evaluate_every: updates between evaluations.
        episodes: episodes per evaluation and seed.
        hold_out: share of the episodes that training never sees, for `estimate`.
        hold_out_seed: which episodes are held out.
        out: the run directory; by default a new one under runs/.
        keep: checkpoints kept.
        keep_policies: policies kept, one per checkpoint; by default as many as checkpoints.
        checkpoint_seconds: least time between checkpoints.
        progress: whether to print progress, in a terminal or a notebook.
        callback: called with each row of metrics, one per seed and evaluation. Training stops, and can be
            resumed, if it returns True.
        changes: fields of the algorithm that differ from its preset, such as `pessimism=2.0`.
    """
    if env is not None:
        trust(env)
    keep_compiled()
    limit_threads()
    console = _console(progress)
    loaded = data if isinstance(data, Transitions) else load(data, memory_map=None, console=console)
    report = check(loaded)
    validate_findings(
        loaded.name, list(report), lambda name, findings: console.print(checks.render(name, findings))
    )
    name, made = _algorithm(algorithm, loaded.name, preset, changes)
    environment, unscored = find_environment(loaded.name, env)
    plan = Plan.of(
        name,
        made,
        dataset=loaded.name if isinstance(data, Transitions) else resolved_name(str(data)),
        environment=environment,
        seeds=tuple(range(seed, seed + seeds)),
        updates=planned_updates(name, loaded.name, preset) if updates is None else updates,
        evaluate_every=evaluate_every,
        episodes=episodes,
        source=resolve_source(loaded.name),
        preset=preset if isinstance(algorithm, str) else "",
        hold_out=hold_out,
        hold_out_seed=hold_out_seed,
    )
    plan.check()
    if env is None:
        plan, misfit = drop_unfit_environment(plan, loaded)
        unscored = misfit or unscored
    runs.Kept.checked(keep, keep_policies, checkpoint_seconds)  # before a directory is made
    experiment = Experiment.prepare(plan, loaded)
    directory = claim(None if out is None else Path(out), f"{Path(loaded.name).stem}-{name}")
    for line in _introduction(experiment, loaded, unscored, directory):
        console.print(line, soft_wrap=True)
    return _carry_out(
        experiment, directory, console, progress, callback, keep, keep_policies, checkpoint_seconds
    )


class Run:
    """A trained run, from `train` or from its directory.

    >>> run = gridcount.Run("runs/x")
    >>> run.metrics["score"]             # a column of metrics, one entry per seed and evaluation
    >>> run.policy()(observation)
    """

    def __init__(self, directory: str | Path):
        self.directory = Path(directory)
        read_plan(self.directory)  # raises an error if it is not a run

    @property
    def config(self) -> dict[str, Any]:
        """Everything the run's results depend on, besides code and machine."""
        return asdict(read_plan(self.directory))

    @property
    def metrics(self) -> dict[str, NDArray[np.float64]]:
        """Columns of metrics by name, `updates` and `seed` among them; NaN where a row has no such metric."""
        rows = read_rows(self.directory)
        names = list(dict.fromkeys(name for row in rows for name in row))
        return {
            name: np.array([np.nan if row.get(name) is None else row[name] for row in rows], np.float64)
            for name in names
        }

    def policy(self, seed: int | None = None, at: int | Literal["last", "oracle"] = "last") -> Policy:
        """The policy of a seed (by default the first) after a kept number of updates (by default the last).

        "oracle" is the kept policy with the best score in training: selecting it needs an environment.
        """
        return policies_of(self.directory, seed=self.config["seeds"][0] if seed is None else seed, at=at)[0]

    def resume(
        self,
        data: Transitions | None = None,
        *,
        updates: int | None = None,
        keep: int = 2,
        keep_policies: int | None = None,
        checkpoint_seconds: float = 60.0,
        progress: bool = True,
        callback: Stops = never_stop,
    ) -> Self:
        """Resume a stopped run, or make it longer. Data that was not read from a file must be passed
        again."""
        keep_compiled()
        limit_threads(self.directory)
        plan = read_plan(self.directory)
        try:
            data = load_whole(self.directory, data)
        except ValueError as error:
            raise ValueError(
                f"{error}. Give the data that the run was trained on: run.resume(data)"
            ) from error
        plan = replace(plan, updates=plan.updates if updates is None else updates)
        experiment = Experiment.prepare(plan, data, resumed=self.directory)
        _carry_out(
            experiment,
            self.directory,
            _console(progress),
            progress,
            callback,
            keep,
            keep_policies,
            checkpoint_seconds,
        )
        return self

    def plot(self, path: str | Path | None = None) -> Any:
        """The learning curve, as a Matplotlib figure; written to a file where a path is given."""
        from gridcount.report.pictures import curves_figure, save_figure

        figure = curves_figure([self.directory])
        if path is not None:
            save_figure(figure, Path(path))
        return figure

    def __repr__(self) -> str:
        plan = read_plan(self.directory)
        saved = numbered(self.directory / "checkpoints")
        done = int(saved[-1].stem) if saved else 0
        updates = f"{done:,} updates" if done == plan.updates else f"{done:,} of {plan.updates:,} updates"
        return f"<Run {self.directory}: {plan.algorithm} on {Path(plan.dataset).name}, seeds {list(plan.seeds)}, {updates}>"


class Report(Sequence[checks.Finding]):
    """What is wrong with a dataset: a sequence of findings that prints, and shows in a notebook, as a
    table."""

    def __init__(self, source: str, findings: Sequence[checks.Finding]):
        self.source, self._findings = source, tuple(findings)

    @property
    def ok(self) -> bool:
        """Whether training would start: there are no errors."""
        return not any(finding.severity == "error" for finding in self._findings)

    def __len__(self) -> int:
        return len(self._findings)

    def __getitem__(self, index: Any) -> Any:
        return self._findings[index]

    def __iter__(self) -> Iterator[checks.Finding]:
        return iter(self._findings)

    def __repr__(self) -> str:
        console = make_console(file=StringIO(), record=True, width=120)
        console.print(checks.render(self.source, list(self._findings)))
        return console.export_text().rstrip()

    def _repr_html_(self) -> str:
        console = make_console(file=StringIO(), record=True, width=120)
        console.print(checks.render(self.source, list(self._findings)))
        return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")


def check(
    data: Transitions | str | Path,
    columns: Columns | None = None,
    *,
    scale_actions: bool = False,
    action_bounds: Bounds | None = None,
) -> Report:
    """Everything wrong with a dataset, errors first: transitions, or a name or file with the same options
    as `load`."""
    source = data.name if isinstance(data, Transitions) else str(data)
    return Report(source, checks.check(data, columns, scale_actions, action_bounds))


def evaluate(policy: Acts, env: str, *, episodes: int = 100, seed: int = 0) -> Evaluation:
    """Roll out a policy, or any function of observations [rows, observation_dim], from start states drawn
    by `seed`."""
    trust(env)
    dims = len(policy.observation_names) if isinstance(policy, Policy) else None
    if isinstance(policy, Policy):
        validate_dimensions(env, len(policy.observation_names), len(policy.action_names))
    if episodes < 1 or seed < 0:
        raise ValueError(
            f"episodes is {episodes} and seed is {seed}; episodes must be at least 1, and seed at least 0"
        )
    return roll_out(policy, env, episodes, seed, observation_dim=dims)


def estimate(
    policy: "Acts | Run | Mapping[str, Acts | Run]",
    data: Transitions | str | Path | None = None,
    *,
    behaviour_log_prob: NDArray[Any] | None = None,
    progress: bool = True,
    **settings: Any,
) -> Estimates:
    """What policies would be worth, from logged data alone, beside the policy that made the log.

    Args:
        policy: a run, a policy, or any function of observations [rows, observation_dim] that gives actions in
            the log's units; or
            several of them by name.
        data: a log that the policies were not trained on; by default the episodes that a run held out.
        behaviour_log_prob: [rows] the log-density of each logged action in the log's units, where it was
            logged; by default a model is fitted.
        progress: whether to print progress.
        settings: fields of `gridcount.estimation.estimate.Settings` such as `discount=0.95`; `discount=1`
            estimates undiscounted
            returns.
    """
    keep_compiled()
    console = _console(progress)
    named = dict(policy) if isinstance(policy, Mapping) else {_name_of(policy): policy}
    directories = {name: each.directory for name, each in named.items() if isinstance(each, Run)}
    rules: dict[str, Any] = of_runs.rules_of(directories)
    rules |= {name: each for name, each in named.items() if not isinstance(each, Run)}
    if data is None:
        found = of_runs.held_out_of(directories)
    else:
        loaded = data if isinstance(data, Transitions) else load(data, memory_map=None, console=console)
        found = of_runs.given(loaded, rules, directories)
    return estimate_rules(rules, found, Settings(**settings), behaviour_log_prob)


def _name_of(policy: Any) -> str:
    if isinstance(policy, Run):
        return policy.directory.name
    return policy.algorithm if isinstance(policy, Policy) else str(getattr(policy, "__name__", "policy"))


def _algorithm(algorithm: Any, dataset: str, preset: Preset, changes: dict[str, Any]) -> tuple[str, Any]:
    """The registered name of an algorithm, and the algorithm with its fields."""
    if isinstance(algorithm, str):
        name = algorithm or default_algorithm(dataset, preset)
        return name, make_algorithm(name, dataset, preset, **changes)
    name = next((each for each, kind in ALGORITHMS.items() if type(algorithm) is kind), "")
    if not name:
        raise TypeError(
            f"{algorithm!r} is not an algorithm; give a name such as 'gpc-sac' or an object such as GPCSAC()"
        )
    return name, replace(algorithm, **changes)


def _introduction(experiment: Experiment, data: Transitions, unscored: str, directory: Path) -> Iterator[str]:
    """Describe the training: the data, the automatic values and the run directory."""
    plan = experiment.plan
    yield (
        f"{len(experiment.data):,} transitions of {data.name}; {plan.algorithm}, seeds {list(plan.seeds)}; run"
        f" directory: {directory}"
    )
    yield from (f"  note: {note}" for note in data.notes)
    yield from (f"  {setting}: {note}" for setting, note in experiment.prepared.notes.items())
    if plan.environment is None:
        yield f"  {unscored}: the policy is trained but not scored (name one with env=)"


def _carry_out(
    experiment: Experiment,
    directory: Path,
    console: Console,
    progress: bool,
    callback: Stops,
    keep: int,
    keep_policies: int | None,
    checkpoint_seconds: float,
) -> Run:
    """Train; a run that the callback stopped is returned like a finished one, and can be resumed."""
    stopped = False

    def watching(row: Row) -> bool:
        nonlocal stopped
        stopped = bool(callback(row)) or stopped
        return stopped

    display: Display = ConsoleDisplay(console) if progress else Silent()
    kept: dict[str, Any] = {"keep": keep, "keep_policies": keep_policies, "save_every": checkpoint_seconds}
    try:
        experiment.train(directory, display, callback=watching, **kept)
    except runs.Interrupted as interrupted:
        if not stopped:
            raise KeyboardInterrupt(
                f"{interrupted}; resume with gridcount.Run({str(directory)!r}).resume()"
            ) from interrupted
    return Run(directory)


def _console(progress: bool) -> Console:
    return make_console(quiet=not progress, soft_wrap=True)
