"""`gridcount data make`, `import`, `check`, `info`, `list` and `remove`: each returns the exit code."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gridcount.algorithms import make_algorithm
from gridcount.catalogue import MAZE_NAMES, unknown
from gridcount.counts.grid import StateResolution
from gridcount.data.formats.columns import Columns
from gridcount.data.formats.cut import ActionUnits
from gridcount.data.load import Source, free_name, load, open_log, store
from gridcount.data.quality import check as checks
from gridcount.data.quality import describe as descriptions
from gridcount.data.quality.check import check
from gridcount.data.quality.describe import describe
from gridcount.data.store.local import imported, imported_directory, imported_names
from gridcount.data.store.mazes import make
from gridcount.files import on_full_disk, remove_folder, remove_leftovers
from gridcount.terminal import make_console, validate_flags, with_bar
from gridcount.transitions import Transitions

Actions = Annotated[ActionUnits, tyro.conf.arg(name="")]
Mapping = Annotated[
    Columns, tyro.conf.arg(name="")
]  # its fields become flags of their own: --observation, --action, ...


USAGE = """\
  gridcount data make DATASET              generate a Maze2D dataset
  gridcount data import FILE --name NAME   import your own dataset; NAME can then be used like a dataset name
  gridcount data check DATASET|FILE        list all problems
  gridcount data info DATASET|FILE         describe it and suggest hyper-parameters
  gridcount data list                      list the imported datasets
  gridcount data remove NAME               remove an imported dataset, after a question
"""


@dataclass(frozen=True)
class Make:
    """Generate a Maze2D dataset with D4RL's recipe."""

    dataset: tyro.conf.Positional[str]  # a Maze2D name such as maze2d-large-v1
    transitions: int = 1_000_000  # rows
    seed: int = 0  # the same seed gives the same file
    directory: Path | None = None  # where to put it; by default the cache


@dataclass(frozen=True)
class Import:
    """Import a dataset into the fast local format; its name can then be used like any dataset name."""

    # a table (.csv, .tsv, .txt, .parquet, .npz), many of them as a folder or a pattern ('logs/*.csv'), .hdf5,
    # a Minari folder, a SQLite file or postgresql://HOST/DATABASE
    file: tyro.conf.Positional[str]
    name: str  # what to call it: letters, digits, '-' and '_'
    columns: Mapping = field(default_factory=Columns)  # which columns are what, for tables
    actions: Actions = field(default_factory=ActionUnits)  # how actions are scaled to [-1, 1]
    replace: bool = False  # overwrite an imported dataset of this name


@dataclass(frozen=True)
class Check:
    """List all problems of a dataset. The exit code is 0 if there are only notes or nothing, 1 with
    warnings, 2 with errors."""

    data: tyro.conf.Positional[str]  # a dataset's name, a file or a folder
    columns: Mapping = field(default_factory=Columns)  # which columns are what, for tables
    actions: Actions = field(default_factory=ActionUnits)  # how actions are scaled to [-1, 1]
    json: bool = False  # print the findings as JSON


@dataclass(frozen=True)
class Info:
    """Describe a dataset: size, episodes, ranges, coverage of the grid, suggested hyper-parameters."""

    data: tyro.conf.Positional[str]  # a dataset's name, a file or a folder
    columns: Mapping = field(default_factory=Columns)  # which columns are what, for tables
    actions: Actions = field(default_factory=ActionUnits)  # how actions are scaled to [-1, 1]
    source: Source = "auto"  # for Maze2D names: D4RL's file or one generated here
    # partitions per dimension of the coverage's grid; default: those of GPC-SAC's fast preset, as in `train`
    bins: int | None = None
    plot: bool = False  # write pictures
    out: Path | None = None  # folder for the pictures; by default one named after the dataset
    json: bool = False  # print the description as JSON


@dataclass(frozen=True)
class List:
    """List the imported datasets: rows, size on disk, and where each came from."""

    json: bool = False  # print the list as JSON


@dataclass(frozen=True)
class Remove:
    """Remove an imported dataset. The file it was made from stays."""

    name: tyro.conf.Positional[str]  # as `gridcount data list` shows it
    yes: bool = False  # do not ask


def data(words: list[str]) -> int:
    """The `gridcount data` commands."""
    commands: dict[str, tuple[type[Any], Callable[[Any], int]]] = {
        "make": (Make, make_command),
        "import": (Import, import_command),
        "check": (Check, check_command),
        "info": (Info, info_command),
        "list": (List, list_command),
        "remove": (Remove, remove_command),
    }
    if not words or words[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    if words[0] not in commands:
        raise unknown("data command", words[0], tuple(commands))
    kind, command = commands[words[0]]
    validate_flags(words[1:], kind)
    return command(tyro.cli(kind, args=words[1:], prog=f"gridcount data {words[0]}"))


def make_command(options: Make) -> int:
    """Generate a maze's data, unless it exists."""
    if options.dataset not in MAZE_NAMES:
        raise unknown("maze", options.dataset, MAZE_NAMES)
    console = make_console()
    path = with_bar(
        options.dataset,
        lambda progress: make(
            options.dataset, options.transitions, options.seed, options.directory, progress
        ),
    )
    console.print(str(path), soft_wrap=True)
    return 0


def import_command(options: Import, console: Console | None = None) -> int:
    """Import a log and show the findings of the check; errors stop the import."""
    console = console or make_console()
    target = free_name(options.name, options.replace)
    for leftover in remove_leftovers(imported_directory()):
        _say(console, f"removed {leftover}, left by an import that was killed")
    kept = "Nothing was imported, and existing datasets are kept: free disk space, or set the environment variable"
    with (
        on_full_disk(target, f"{kept} GRIDCOUNT_HOME to another folder, and run the same command again"),
        open_log(options.file, options.columns, on_disk=True) as log,
    ):
        findings = check(log, None, options.actions.scale_actions, options.actions.bounds)
        if findings:
            console.print(checks.render(options.file, findings))
        if checks.exit_code(findings) == 2:
            console.print("Not imported: repair the errors first.", style="bold red")
            return 2
        data = store(
            log,
            options.name,
            scale_actions=options.actions.scale_actions,
            action_bounds=options.actions.bounds,
            replace=options.replace,
        )
    _say(
        console,
        f"Imported {len(data):,} transitions in {data.episodes:,} episodes as '{options.name}'"
        f" ({imported_directory() / options.name})",
    )
    if dropped := len(data.log) - len(data):
        _say(
            console,
            f"{dropped:,} of {len(data.log):,} rows were left out: the last row of an episode that was cut"
            " off"
            " has no next observation",
        )
    return 0


def check_command(options: Check, console: Console | None = None) -> int:
    """Print every finding and return 0, 1 or 2."""
    console = console or make_console()
    findings = check(options.data, options.columns, options.actions.scale_actions, options.actions.bounds)
    if options.json:
        print(json.dumps(checks.as_json(options.data, findings)), file=console.file)
    else:
        console.print(checks.render(options.data, findings))
    return checks.exit_code(findings)


def info_command(options: Info, console: Console | None = None) -> int:
    """Print the description, and write pictures with --plot."""
    console = console or make_console()
    data = with_bar(
        options.data,
        lambda progress: load(
            options.data,
            options.columns,
            source=options.source,
            memory_map=None,
            scale_actions=options.actions.scale_actions,
            action_bounds=options.actions.bounds,
            progress=progress,
        ),
    )
    description = (
        describe(data, options.bins) if options.bins is not None else describe(data, *_trained_grid(data))
    )
    if options.json:
        print(json.dumps(description.as_json()), file=console.file)
    else:
        console.print(descriptions.render(description))
    if options.plot:
        from gridcount.report.dataset import plot_description  # matplotlib is needed only here

        for path in plot_description(
            data, options.out or Path(f"{Path(options.data).stem}-pictures"), description
        ):
            if not options.json:
                _say(console, f"wrote {path}")
    return 0


def list_command(options: List, console: Console | None = None) -> int:
    """Print the imported datasets."""
    console = console or make_console()
    found = [imported(name) for name in imported_names()]
    if options.json:
        print(json.dumps([each._asdict() for each in found]), file=console.file)
        return 0
    if not found:
        _say(
            console,
            f"No dataset was imported yet into {imported_directory()}; run:"
            " gridcount data import FILE --name NAME",
        )
        return 0
    table = Table("name", "transitions", "size", "made from")
    for each in found:
        rows = "" if each.rows is None else f"{each.rows:,}"
        table.add_row(Text(each.name), rows, f"{each.bytes / 2**20:,.1f} MiB", Text(each.source))
    console.print(table)
    return 0


def remove_command(options: Remove, console: Console | None = None) -> int:
    """Remove an imported dataset, if the user agrees."""
    console = console or make_console()
    if options.name not in imported_names():
        raise unknown("imported dataset", options.name, imported_names())
    found = imported(options.name)
    if not options.yes:
        if not sys.stdin.isatty():
            raise ValueError(
                f"'{options.name}' was not removed, because nobody can be asked; give --yes to remove it"
            )
        answer = input(
            f"Remove '{found.name}' ({found.bytes / 2**20:,.1f} MiB, made from {found.source})? [y/N] "
        )
        if answer.strip().lower() not in ("y", "yes"):
            _say(console, f"'{options.name}' was kept")
            return 1
    remove_folder(imported_directory() / options.name)
    _say(console, f"Removed '{options.name}'. Runs that were trained on it need it to be resumed.")
    return 0


def _say(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def _trained_grid(data: Transitions) -> tuple[int | None, int | None, StateResolution]:
    """The grid `gridcount train` counts on by default: bins, bins of states, and the state resolution."""
    algorithm = make_algorithm("gpc-sac", data.name, "fast")
    return (
        None if algorithm.bins == "auto" else algorithm.bins,
        algorithm.state_bins,
        algorithm.state_resolution,
    )
