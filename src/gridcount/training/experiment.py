"""An experiment: load, check, prepare, train. The command line, benchmark cells and Python calls all go
through here."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gridcount.algorithms.contract import Prepared
from gridcount.data.formats.columns import Columns
from gridcount.data.formats.log import Log
from gridcount.data.load import load, recorded_environment
from gridcount.data.quality import check as checks
from gridcount.evaluation.environments import (
    dimensions,
    has_environment,
    validate_dimensions,
    why_no_environment,
)
from gridcount.training import run as runs
from gridcount.training.judging import LogJudge
from gridcount.training.logs import Row
from gridcount.training.plan import (
    Plan,
    algorithm_of,
    fingerprint,
    read_plan,
    settings,
    validate_plan,
    validate_same_plan,
)
from gridcount.training.progress import Display
from gridcount.training.run import Stops, never_stop
from gridcount.transitions import Transitions

if TYPE_CHECKING:  # importing the simulator takes time, and it is optional
    from gridcount.envs.maze2d_data import Progress

ShowFindings = Callable[[str, list[checks.Finding]], None]  # shows a dataset's problems to the user


@dataclass(frozen=True)
class Experiment:
    """An experiment that is ready to be trained: a plan without automatic values, and its data."""

    plan: Plan
    prepared: Prepared
    data: Transitions  # what it is trained on: the log without the episodes that are held out
    judge: LogJudge

    @classmethod
    def prepare(cls, plan: Plan, data: Transitions, *, resumed: Path | None = None) -> "Experiment":
        """Set the automatic values from the data, and validate the plan before a directory is created.

        A resumed run must be the same experiment. `data` is the whole log: its held-out part is left out
        here.
        """
        whole, data = data, plan.split().training_part(data)
        prepared = plan.make_algorithm().prepare(data)
        plan = replace(plan, fields=settings(prepared.algorithm), fingerprint=fingerprint(whole))
        validate_plan(plan, prepared)
        if resumed:
            validate_same_plan(resumed, plan)
        return cls(plan, prepared, data, LogJudge.fit(data, prepared))

    def train(
        self,
        directory: Path,
        display: Display,
        *,
        keep: int = 2,
        keep_policies: int | None = None,
        save_every: float = 60.0,
        callback: Stops = never_stop,
        clone: bool = True,
    ) -> list[Row]:
        """Train in a directory, from its newest checkpoint if there is one; returns all rows of metrics."""
        return runs.train(
            self.plan,
            self.prepared,
            directory,
            display,
            keep=keep,
            keep_policies=keep_policies,
            save_every=save_every,
            data=self.data,
            judge=self.judge,
            callback=callback,
            clone=clone,
        )


def load_checked(
    plan: Plan, *, memory_map: bool = False, show: ShowFindings, progress: "Progress | None" = None
) -> Transitions:
    """Load a plan's data and show all its problems; raises ValueError if there are errors.

    The data stays on disk if `memory_map` is set, or if it would fill more than half of the memory.
    """
    findings: list[checks.Finding] | None = None
    units = plan.action_units()

    def judge(log: Log) -> None:
        nonlocal findings
        findings = checks.check(log, None, units.scale_actions, units.bounds)

    try:
        data = _load(plan, memory_map, judge, progress)
    except ValueError:
        _show_problems(plan.dataset, findings or [], show)
        raise
    if findings is None:  # imported or on disk: the log was checked at the import
        findings = checks.check(data)
    validate_findings(plan.dataset, findings, show)
    return data


def validate_findings(name: str, findings: list[checks.Finding], show: ShowFindings) -> None:
    """Show a dataset's errors and warnings, and raise ValueError if it has errors."""
    _show_problems(name, findings, show)
    if errors := [finding for finding in findings if finding.severity == "error"]:
        problems = "; ".join(
            f"'{finding.column}' {finding.problem}" if finding.column else finding.problem
            for finding in errors
        )
        raise ValueError(
            f"{name}: {problems}. Repair the errors before training; `gridcount data check` lists them with"
            " their rows"
        )


def load_again(run: Path) -> tuple[Prepared, Transitions]:
    """The prepared algorithm of a run and the data it was trained on, as when it started."""
    algorithm = algorithm_of(run)
    data = read_plan(run).split().training_part(load_whole(run))
    return algorithm.prepare(data), data


def load_whole(run: Path, data: Transitions | None = None) -> Transitions:
    """The log of a run with the episodes it held out; `data` is used if it is given."""
    plan = read_plan(run)
    if data is None:
        try:
            data = _load(plan)
        except (ValueError, OSError) as error:
            raise ValueError(
                f"{run}: the run needs the data it was trained on, which could not be loaded from"
                f" {plan.dataset}: {error}"
            ) from error
    if (found := fingerprint(data)) != plan.fingerprint:
        raise ValueError(
            f"{plan.dataset} is not the data this run was trained on (fingerprint {found}, not"
            f" {plan.fingerprint})"
        )
    return data


def find_environment(dataset: str, wanted: str | None) -> tuple[str | None, str]:
    """The environment that scores policies, or None and the reason; training must not need a simulator."""
    if wanted is not None:
        return wanted, ""
    if has_environment(dataset):
        try:
            dimensions(dataset)
        except ImportError as error:
            return None, str(error)
        return dataset, ""
    collected = recorded_environment(dataset)
    if collected is None:
        return None, why_no_environment(dataset)
    if collected.options:
        return (
            None,
            f"the log was collected in {collected.id} with non-default options"
            f" ({', '.join(collected.options)})",
        )
    try:
        dimensions(collected.id)
    except (ImportError, ValueError) as error:
        message = f"{dataset}: the log was collected in {collected.id}"
        return None, f"{message}, which cannot be created here: {str(error).splitlines()[0]}"
    return collected.id, ""


def drop_unfit_environment(plan: Plan, data: Transitions) -> tuple[Plan, str]:
    """The plan without a default environment that does not match the data, and the reason."""
    if plan.environment is None:
        return plan, ""
    try:
        validate_dimensions(plan.environment, data.observation_dim, data.action_dim)
    except ValueError as error:
        return replace(plan, environment=None), str(error).split(";")[0]
    return plan, ""


def _load(
    plan: Plan,
    memory_map: bool = False,
    judge: Callable[[Log], None] | None = None,
    progress: "Progress | None" = None,
) -> Transitions:
    units, source = plan.action_units(), plan.source or "auto"
    reading: dict[str, Any] = {
        "source": source,
        "scale_actions": units.scale_actions,
        "action_bounds": units.bounds,
    }
    columns = Columns.of(plan.dataset, plan.columns)
    return load(
        plan.dataset, columns, memory_map=memory_map or None, judge=judge, progress=progress, **reading
    )


def _show_problems(name: str, findings: list[checks.Finding], show: ShowFindings) -> None:
    if serious := [finding for finding in findings if finding.severity != "note"]:
        show(name, serious)
