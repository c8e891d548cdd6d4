"""The `benchmark` command: run a suite's cells and store their results."""

from dataclasses import dataclass, replace
from pathlib import Path

import tyro
from rich.console import Console
from rich.measure import Measurement
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from gridcount.algorithms import ALGORITHMS
from gridcount.algorithms.contract import pretraining_fields
from gridcount.benchmark.cells import Cell
from gridcount.benchmark.executor import executor_named, run_cells
from gridcount.benchmark.local import default_workers
from gridcount.benchmark.remaining import missing, reuse_finished
from gridcount.benchmark.store import read_results, write_rows
from gridcount.benchmark.suites import Suite, narrow, read_suite, suite_names
from gridcount.catalogue import unknown
from gridcount.evaluation.environments import dimensions, find, trust
from gridcount.files import locked, on_full_disk
from gridcount.interrupts import STOPPED
from gridcount.terminal import make_console, validate_flags
from gridcount.training.compiled import keep_compiled
from gridcount.training.loop import available_cores
from gridcount.training.progress import duration

UNLIMITED = 10_000  # columns of a terminal without a width
ON_FULL_DISK = "Finished cells and all checkpoints are kept: free disk space and run the same command again"


@dataclass(frozen=True)
class Benchmark:
    """Run the experiments (cells) of a table or a figure. Finished cells are skipped and stopped cells are
    resumed."""

    suite: tyro.conf.Positional[str] = ""  # a suite's name or a TOML file; leave it out to list the suites
    out: Path | None = None  # where runs and results go; by default runs/SUITE
    only: tuple[
        str, ...
    ] = ()  # run only these algorithms, datasets or variants; patterns such as 'maze2d-*' are allowed
    seeds: int | None = None  # seeds per cell; by default the suite's
    updates: int | None = None  # updates per run; by default the suite's
    scale: float = 1.0  # share of the updates, for a quick test
    preset: str | None = None  # "fast" or "paper"; by default the suite's
    # updates between evaluations; by default the suite's (a shorter run is evaluated five times)
    evaluate_every: int | None = None
    episodes: int | None = None  # episodes per evaluation and seed; by default the suite's
    data: tuple[
        str, ...
    ] = ()  # files to read datasets from, as in hopper-medium-v2=FILE, or a folder of files called NAME.hdf5
    env: tuple[
        str, ...
    ] = ()  # environments of your own modules that the suite may use, as in my_module:MyTask-v0
    workers: int | None = None  # cells at once; by default one per core
    # run on a Ray cluster: its address (HOST:PORT), or "auto" or nothing for the cluster of this machine
    ray: str | None = None
    cell_cores: int = 1  # cores per cell on the cluster
    cell_accelerators: float = 0.0  # accelerators per cell on the cluster
    dry_run: bool = False  # only print what would run and the expected time on this machine


def benchmark(words: list[str]) -> int:
    """Run a suite, or print what it would run."""
    validate_flags(words, Benchmark)
    options = tyro.cli(Benchmark, args=with_address(words), prog="gridcount benchmark")
    console = make_console()
    if not options.suite:
        return _list_suites(console)
    _validate_flags_apply(options)
    for name in options.env:
        trust(name)
    keep_compiled()
    suite = _narrowed(read_suite(options.suite), options)
    out = options.out or Path("runs") / suite.name
    cells = narrow(suite, options.only, options.scale)
    # a cluster's nodes may have other environments, and a dry run imports nothing
    _validate_environments(options.suite, cells, make=options.ray is None and not options.dry_run)
    if not options.dry_run:
        reuse_finished(cells, out)
    left = missing(cells, out)
    console.print(_preset_in_words(suite), soft_wrap=True)
    console.print(
        f"{suite.title}: {len(cells)} cells, {len(left)} to run; everything goes to {out}", soft_wrap=True
    )
    if options.dry_run:
        return _dry_run(left, options.workers, console)
    problems = _run(left, out, options, console) if left else {}
    if problems is None:
        return STOPPED
    for label, problem in problems.items():
        console.print(f"failed: {label}: {problem}", soft_wrap=True)
    if any((out / "results").glob("*.parquet")):
        with (
            on_full_disk(out, ON_FULL_DISK),
            locked(out / "results.parquet"),
        ):  # suites that share the folder may end at the same time
            path = write_rows(out / "results.parquet", read_results(out / "results"))  # of all of them
        console.print(_headline(suite, cells, out, console))
        for line in _diverged(suite, cells, out):
            console.print(line, soft_wrap=True)
        console.print(f"results: {path}", soft_wrap=True)
    return 1 if problems else 0


def _preset_in_words(suite: Suite) -> str:
    """The preset of a suite, as text."""
    if suite.preset == "paper":
        return f"{suite.name}, preset paper: the papers' own networks, hyper-parameters and epochs"
    message = f"{suite.name}, preset {suite.preset}: small networks and short runs for an ordinary machine"
    return f"{message}, not the papers' own (--preset paper runs those)"


def _validate_flags_apply(options: Benchmark) -> None:
    """Raise ValueError for flags that have no effect here, or for numbers that are too small."""
    for name in ("workers", "cell_cores"):
        if (value := getattr(options, name)) is not None and value < 1:
            raise ValueError(f"--{name.replace('_', '-')} is {value}; it must be at least 1")
    if options.cell_accelerators < 0:
        raise ValueError(f"--cell-accelerators is {options.cell_accelerators:g}; it must be at least 0")
    for name in options.env:
        if ":" not in name:
            raise ValueError(f"--env {name}: it names no module; write MODULE:ID, as in my_module:MyTask-v0")
    if options.ray and options.workers is not None:
        raise ValueError(
            "--workers applies to this machine only; on a cluster, --cell-cores sets the cores per cell"
        )
    if not options.ray and (options.cell_cores, options.cell_accelerators) != (1, 0):
        raise ValueError(
            "--cell-cores and --cell-accelerators apply to a cluster only (--ray); here --workers sets how"
            " many cells run at once"
        )


def _validate_environments(suite: str, cells: list[Cell], make: bool) -> None:
    """Raise ValueError for environments that are not allowed or, with `make`, cannot be created here."""
    for dataset, name in dict.fromkeys(
        (cell.dataset, name) for cell in cells if (name := cell.plan.named_environment) and cell.scored
    ):
        try:
            find(str(name))
            if make:
                dimensions(str(name))
        except (ImportError, ValueError) as error:
            raise ValueError(f"{suite}: [environments] {dataset}: {error}") from error


def with_address(words: list[str]) -> list[str]:
    """The arguments with the default address after a bare --ray."""
    if "--ray" not in words:
        return words
    place = words.index("--ray") + 1
    following = words[place] if place < len(words) else "--"
    bare = following.startswith("--") or following.endswith(".toml") or following in suite_names()
    return [*words[:place], "auto", *words[place:]] if bare else words


def _run(cells: list[Cell], out: Path, options: Benchmark, console: Console) -> dict[str, str] | None:
    """Run cells where the flags say; the errors by cell, or None if the user stopped them."""
    executor = executor_named("local" if options.ray is None else "ray", vars(options), out, console)
    try:
        with on_full_disk(out, ON_FULL_DISK):
            return run_cells(executor, cells, console)
    except KeyboardInterrupt:
        console.print(f"stopped; run the same command again: {executor.resumption}", soft_wrap=True)
        return None


def _narrowed(suite: Suite, options: Benchmark) -> Suite:
    """The suite with the values of the flags."""
    files: dict[str, str] = {}
    for entry in options.data:
        name, named, file = entry.partition("=")
        files |= {name: file} if named and not Path(entry).is_dir() else _in_folder(Path(entry), suite)
    for name, file in files.items():
        if name not in suite.datasets:
            raise unknown(f"dataset of {suite.name}", name, suite.datasets)
        if not Path(file).is_file():
            raise FileNotFoundError(f"--data {name}={file}: there is no such file; write NAME=FILE")
    given = {
        name: getattr(options, name) for name in ("seeds", "updates", "preset", "evaluate_every", "episodes")
    }
    return replace(
        suite, data=suite.data | files, **{name: value for name, value in given.items() if value is not None}
    )


def _in_folder(folder: Path, suite: Suite) -> dict[str, str]:
    """The datasets of a suite that a folder holds."""
    if not folder.is_dir():
        raise FileNotFoundError(f"--data {folder}: there is no such folder; write a folder, or NAME=FILE")
    found = {
        name: str(folder / f"{name}.hdf5") for name in suite.datasets if (folder / f"{name}.hdf5").is_file()
    }
    if not found:
        raise FileNotFoundError(
            f"--data {folder}: it holds no dataset of {suite.name}; a file is called NAME.hdf5, as in"
            f" {suite.datasets[0]}.hdf5"
        )
    return found


def _list_suites(console: Console) -> int:
    table = Table(title="suites")
    for heading in ("name", "content", "cells"):
        table.add_column(heading, justify="right" if heading == "cells" else "left")
    for name in suite_names():
        suite = read_suite(name)
        table.add_row(name, suite.title, str(len(suite.cells())))
    console.print(table)
    console.print("Run one with: gridcount benchmark NAME, or your own from a TOML file (docs/benchmark.md)")
    return 0


def _dry_run(cells: list[Cell], workers: int | None, console: Console) -> int:
    """Print what would run, and the expected time."""
    from gridcount.benchmark.calibrate import estimate

    per_update = _timed(cells, console)
    table = Table()
    variants = any(cell.variant for cell in cells)
    for heading in (
        "algorithm",
        "dataset",
        *["variant"] * variants,
        "seeds",
        "updates",
        "ms per\nupdate",
        "core\ntime",
    ):
        names = heading in ("algorithm", "dataset", "variant")
        table.add_column(
            heading, justify="left" if names else "right", no_wrap=heading != "variant"
        )  # numbers whole on 80 columns
    for cell in cells:
        seconds = per_update[cell.label]
        total = duration(seconds * cell.updates * len(cell.seeds))
        what = [cell.algorithm, cell.dataset, *[cell.variant] * variants]
        table.add_row(*what, str(len(cell.seeds)), f"{cell.updates:,}", f"{seconds * 1e3:.2f}", total)
    console.print(table)
    altogether = estimate(cells, per_update, len(available_cores()), workers or default_workers())
    algorithms = sorted({cell.algorithm for cell in cells})
    first = [(name, what) for name in algorithms for what in pretraining_fields(ALGORITHMS[name]).values()]
    learnt = [f"the {what} that {name} learns first" for name, what in first]
    left_out = " and ".join(["without evaluations", "compilation", *learnt])
    console.print(f"about {duration(altogether)} on this machine, {left_out}", soft_wrap=True)
    return 0


def _timed(cells: list[Cell], console: Console) -> dict[str, float]:
    """Seconds per update by cell, with a line for each kind that is timed, and a clock in a terminal."""
    from gridcount.benchmark.calibrate import seconds_per_update
    from gridcount.benchmark.timings import timings_file

    columns = (SpinnerColumn(), TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("timing updates", total=None)
        measured = []

        def report(what: str, number: int, count: int) -> None:
            measured.append(what)
            console.print(f"timing {number} of {count}: {what}", soft_wrap=True)
            bar.update(task, completed=number - 1, total=count)

        found = seconds_per_update(cells, report)
    if cells and not measured:
        console.print(
            f"timed before on this machine: {timings_file()} (delete it to time again)", soft_wrap=True
        )
    return found


def _diverged(suite: Suite, cells: list[Cell], out: Path) -> list[str]:
    """The seeds that diverged, and how."""
    labels = {cell.key(): cell.label for cell in cells}
    rows = [
        row
        for row in read_results(out / "results")
        if row["suite"] == suite.name and row["key"] in labels and "diverged" in row
    ]
    return list(
        dict.fromkeys(
            f"diverged: {labels[row['key']]}, seed {row['seed']}: {row['diverged']}" for row in rows
        )
    )


def _headline(suite: Suite, cells: list[Cell], out: Path, console: Console) -> Table:
    """The scores: a line per dataset, or a line per cell where the terminal is too narrow for that."""
    from gridcount.report.scores import headline_scores, in_words

    scores = headline_scores(read_results(out / "results"), suite.name)
    texts = {}
    for cell in cells:
        key, method = cell.key(), " ".join(filter(None, (cell.algorithm, cell.variant)))
        texts[cell.dataset, method] = in_words([scores[key]] if key in scores else [])
    datasets, methods = (list(dict.fromkeys(names)) for names in zip(*texts, strict=True))
    title = f"{suite.title}: mean of the last evaluations, ± over seeds; preset {suite.preset}"
    wide = Table("dataset", *(Column(method, justify="right") for method in methods), title=title)
    for dataset in datasets:
        wide.add_row(dataset, *(texts.get((dataset, method), "") for method in methods))
    if Measurement.get(console, console.options.update(width=UNLIMITED), wide).maximum <= console.width:
        return wide
    tall = Table(
        Column("dataset", no_wrap=True), "method", Column("score", justify="right", no_wrap=True), title=title
    )
    for (dataset, method), text in texts.items():
        tall.add_row(dataset, method, text)
    return tall
