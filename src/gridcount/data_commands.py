"""`gridcount data import`, `check` and `info`: flags in, one call, a picture out. Each returns the exit code."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from gridcount.data import check as checks
from gridcount.data import describe as descriptions
from gridcount.data.check import check
from gridcount.data.columns import Columns
from gridcount.data.describe import describe
from gridcount.data.load import Source, free_name, load, read_log, store
from gridcount.data.local import imported_directory

Mapping = Annotated[Columns, tyro.conf.arg(name="")]  # its fields become flags of their own: --observation, --action, ...


@dataclass(frozen=True)
class Import:
    """Store a log once in the fast local layout; its name then works wherever a dataset's does."""

    file: tyro.conf.Positional[str]  # .csv, .parquet, .npz, .hdf5 or a Minari folder
    name: str  # what to call it: letters, digits, '-' and '_'
    columns: Mapping = field(default_factory=Columns)  # which columns are what, for tables
    scale_actions: bool = False  # map each action dimension to [-1, 1] and remember its units
    replace: bool = False  # overwrite an imported dataset of this name


@dataclass(frozen=True)
class Check:
    """Look for everything wrong with a dataset. Exits with 0 if there are at most notes, 1 with warnings, 2 with errors."""

    data: tyro.conf.Positional[str]  # a dataset's name, a file or a folder
    columns: Mapping = field(default_factory=Columns)  # which columns are what, for tables
    json: bool = False  # print the findings for a machine


@dataclass(frozen=True)
class Info:
    """Describe a dataset: size, episodes, ranges, coverage of the grid, suggested hyper-parameters."""

    data: tyro.conf.Positional[str]  # a dataset's name, a file or a folder
    columns: Mapping = field(default_factory=Columns)  # which columns are what, for tables
    scale_actions: bool = False  # map each action dimension to [-1, 1] first
    source: Source = "auto"  # for Maze2D names: D4RL's file or one generated here
    bins: int | None = None  # partitions per dimension of the coverage's grid; default: the suggested number
    plot: Path | None = None  # folder to write pictures into
    json: bool = False  # print the description for a machine


def import_command(options: Import, console: Console | None = None) -> int:
    """Import a log, showing what the check has to say about it; errors stop it."""
    console = console or Console()
    free_name(options.name, options.replace)
    log = read_log(options.file, options.columns)
    findings = check(log, scale_actions=options.scale_actions)
    if findings:
        console.print(checks.render(options.file, findings))
    if checks.exit_code(findings) == 2:
        console.print("Not imported: repair the errors first.", style="bold red")
        return 2
    data = store(log, options.name, scale_actions=options.scale_actions, replace=options.replace)
    console.print(
        f"Imported {len(data):,} transitions in {len(data.episode_lengths):,} episodes as '{options.name}'"
        f" ({imported_directory() / options.name})",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    return 0


def check_command(options: Check, console: Console | None = None) -> int:
    """Print every finding and return 0, 1 or 2."""
    console = console or Console()
    findings = check(options.data, options.columns)
    if options.json:
        print(json.dumps(checks.as_json(options.data, findings)), file=console.file)
    else:
        console.print(checks.render(options.data, findings))
    return checks.exit_code(findings)


def info_command(options: Info, console: Console | None = None) -> int:
    """Print the description, and write pictures where asked."""
    console = console or Console()
    data = load(options.data, options.columns, source=options.source, scale_actions=options.scale_actions)
    description = describe(data, options.bins)
    if options.json:
        print(json.dumps(description.as_json()), file=console.file)
    else:
        console.print(descriptions.render(description))
    if options.plot is not None:
        from gridcount.report.dataset import plot_description  # only then is matplotlib needed

        for path in plot_description(data, options.plot, description):
            if not options.json:
                console.print(f"wrote {path}", highlight=False, markup=False, soft_wrap=True)
    return 0
