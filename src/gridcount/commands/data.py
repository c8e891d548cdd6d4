"""`gridcount data make`, `import`, `check` and `info`: each returns the exit code."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

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
from gridcount.data.store.local import imported_directory
from gridcount.data.store.mazes import make
from gridcount.files import on_full_disk, remove_leftovers
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

    file: tyro.conf.Positional[str]  # .csv, .parquet, .npz, .hdf5 or a Minari folder
    name: str  # what to call it: letters, digits, '-' and '_'
    columns: Mapping = field(default_factory=Columns)  # which columns are what, for tables
    actions: Actions = field(default_factory=ActionUnits)  # how actions are scaled to [-1, 1]
    replace: bool = False  # overwrite an imported dataset of this name


@dataclass(frozen=True)
class Check:
    """List all problems of a dataset. The exit code is 0 if there are only notes or nothing, 1 with warnings, 2 with errors."""

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
    bins: int | None = (
        None  # partitions per dimension of the coverage's grid; default: those of GPC-SAC's fast preset, which `train` uses
    )
    plot: bool = False  # write pictures
    out: Path | None = None  # folder for the pictures; by default one named after the dataset
    json: bool = False  # print the description as JSON


def data(words: list[str]) -> int:
    """The `gridcount data` commands."""
    commands: dict[str, tuple[type[Any], Callable[[Any], int]]] = {
        "make": (Make, make_command),
        "import": (Import, import_command),
        "check": (Check, check_command),
        "info": (Info, info_command),
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
        console.print(
            f"removed {leftover}, left by an import that was killed",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
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
    console.print(
        f"Imported {len(data):,} transitions in {data.episodes:,} episodes as '{options.name}' ({imported_directory() / options.name})",
        highlight=False,
        markup=False,
        soft_wrap=True,
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
                console.print(f"wrote {path}", highlight=False, markup=False, soft_wrap=True)
    return 0


def _trained_grid(data: Transitions) -> tuple[int | None, int | None, StateResolution]:
    """The grid `gridcount train` counts on by default: bins, bins of states, and the state resolution."""
    algorithm = make_algorithm("gpc-sac", data.name, "fast")
    return (
        None if algorithm.bins == "auto" else algorithm.bins,
        algorithm.state_bins,
        algorithm.state_resolution,
    )
