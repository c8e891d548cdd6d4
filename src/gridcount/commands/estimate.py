"""`gridcount estimate`: what a policy is worth, from logged data alone."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from numpy.typing import NDArray
from rich.progress import Progress

from gridcount.data.formats.columns import Columns
from gridcount.data.formats.cut import ActionUnits
from gridcount.data.load import load
from gridcount.estimation.estimate import Settings
from gridcount.estimation.estimate import estimate as estimate_rules
from gridcount.estimation.runs import Evaluated, given, held_out_of, rules_of
from gridcount.files import write_whole
from gridcount.terminal import make_console, validate_flags
from gridcount.training.compiled import keep_compiled
from gridcount.training.plan import read_plan


@dataclass(frozen=True)
class Estimate:
    """Estimate the policies of runs from logged data alone, beside the policy that made the log."""

    run: tyro.conf.Positional[tuple[Path, ...]]  # run directories, or folders policy/ copied from them
    # data that the policies were not trained on; by default the episodes that the runs held out
    data: str | None = None
    columns: Annotated[Columns, tyro.conf.arg(name="")] = field(
        default_factory=Columns
    )  # of a table: which columns are what
    actions: Annotated[ActionUnits, tyro.conf.arg(name="")] = field(
        default_factory=ActionUnits
    )  # of a file: how actions are scaled to [-1, 1]
    # column of a table with the log-density of each logged action, in the log's own units; by default a model
    # is fitted
    behaviour_log_prob: str | None = None
    at: str = "last"  # "last", or a number of updates whose policy was kept
    settings: Annotated[Settings, tyro.conf.arg(name="")] = field(default_factory=Settings)
    json: Path | None = None  # also write the estimates to this file


def estimate(words: list[str]) -> int:
    """Estimate and print."""
    keep_compiled()
    validate_flags(words, Estimate)
    unprefixed: Any = tyro.conf.OmitArgPrefixes
    options: Estimate = tyro.cli(unprefixed[Estimate], args=words, prog="gridcount estimate")
    options.settings.check()
    if not options.run:
        raise ValueError("name at least one run directory: gridcount estimate RUN")
    if options.at != "last" and not options.at.isdecimal():
        raise ValueError(f"--at is '{options.at}'; it must be last or a number of updates")
    runs = {str(path): path for path in options.run}
    rules = rules_of(runs, "last" if options.at == "last" else int(options.at))
    found = held_out_of(runs) if options.data is None else given(_load(options, options.columns), rules, runs)
    log_prob = _log_prob(options, found)
    console = make_console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("fitting values", total=options.settings.updates)
        result = estimate_rules(
            rules,
            found,
            options.settings,
            log_prob,
            lambda what, done, total: bar.update(
                task, description=f"fitting {what}", completed=done, total=total
            ),
        )
    result.render(make_console())
    if options.json is not None:
        write_whole(options.json, json.dumps(result.to_dict(), indent=2) + "\n")
    return 0


def _load(options: Estimate, columns: Columns) -> Any:
    units = options.actions
    assert options.data is not None
    return load(
        options.data,
        columns,
        memory_map=None,
        scale_actions=units.scale_actions,
        action_bounds=units.bounds,
        console=make_console(stderr=True),
    )


def _log_prob(options: Estimate, found: Evaluated) -> NDArray[np.float64] | None:
    """The column of log-densities, read in place of the reward, so that the same rows are kept."""
    if options.behaviour_log_prob is None:
        return None
    column = options.behaviour_log_prob
    if options.data is not None:
        table = _load(options, replace(options.columns, reward=column))
    else:
        plan = read_plan(options.run[0])
        columns = replace(Columns.of(plan.dataset, plan.columns), reward=column)
        units = plan.action_units()
        table = load(plan.dataset, columns, scale_actions=units.scale_actions, action_bounds=units.bounds)
    if len(table) != len(found.data):
        raise ValueError(f"column '{column}' has {len(table):,} rows for {len(found.data):,} transitions")
    if not np.array_equal(table.action, found.data.action):  # other rows were left out as missing
        raise ValueError(
            f"column '{column}' and the reward are missing in different rows, so they do not belong together;"
            " fill in the column, or leave those rows out of the table"
        )
    return np.asarray(table.reward, np.float64)
