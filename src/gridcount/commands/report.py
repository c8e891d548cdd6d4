"""The `report` command: write a page, tables and figures of results."""

from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console

from gridcount.benchmark.suites import Suite, read_suite, suite_names
from gridcount.files import on_full_disk, validate_no_link, write_whole
from gridcount.report.experiments import Layout, Section
from gridcount.report.plain_runs import rows_of_runs
from gridcount.report.sections import sections
from gridcount.terminal import make_console, validate_flags
from gridcount.training.history import evaluations_of
from gridcount.training.logs import Row
from gridcount.training.plan import read_plan


@dataclass(frozen=True)
class Report:
    """Write a page of results: tables with the paper's numbers, curves, statistics, costs, and the source
    of every number."""

    results: tyro.conf.Positional[
        tuple[Path, ...]
    ]  # results of `gridcount benchmark` (folders or Parquet files), or run directories
    # where the page, tables and figures go; by default the folder `report` beside the first results
    out: Path | None = None
    suite: tuple[Path, ...] = ()  # TOML files of your own suites, for their titles and published numbers
    figures: bool = True  # also draw PNG and PDF figures


def report(words: list[str]) -> int:
    """Write the report."""
    validate_flags(words, Report)
    options = tyro.cli(Report, args=words, prog="gridcount report")
    if not options.results:
        raise ValueError(
            "name the results to report: a folder of `gridcount benchmark`, its Parquet files, or run"
            " directories"
        )
    console = make_console()
    rows = _read(options.results, console)
    found = sections(rows, layouts({row["suite"] for row in rows}, options.suite))
    first = options.results[0]
    out = options.out or (first if first.is_dir() else first.parent) / "report"
    if options.out is None:
        validate_no_link(out)  # not typed by the user: it is part of possibly untrusted results
    for folder in ("tables", "figures"):
        validate_no_link(out / folder)
    with on_full_disk(
        out,
        "Each file there is complete, old or new: free disk space, or choose another folder with --out, and"
        " run the command again",
    ):
        _write(found, out, options.figures, console)
    return 0


def _write(found: list[Section], out: Path, figures: bool, console: Console) -> None:
    """Write tables, the page and figures; each file is complete or absent."""
    from gridcount.report.page import page, slugs
    from gridcount.report.table_formats import to_csv, to_latex, to_markdown
    from gridcount.report.tables import all_tables

    (out / "tables").mkdir(parents=True, exist_ok=True)
    names = slugs(found)
    for name, section in zip(names, found, strict=True):
        for table in all_tables(section):
            for suffix, write in (("md", to_markdown), ("tex", to_latex), ("csv", to_csv)):
                write_whole(out / "tables" / f"{name}-{table.name}.{suffix}", write(table), durable=False)
    path = write_whole(out / "report.html", page(found), durable=False)
    console.print(f"tables: {out / 'tables'}\nreport: {path}", soft_wrap=True)
    if figures:
        from gridcount.report.figures import draw_section

        for name, section in zip(names, found, strict=True):
            draw_section(section, out / "figures", name)
        console.print(f"figures: {out / 'figures'}", soft_wrap=True)


def _read(places: tuple[Path, ...], console: Console) -> list[Row]:
    """Rows of results and of plain runs, wherever they are."""
    stored, runs = [], []
    for place in places:
        if not place.exists():
            raise FileNotFoundError(f"{place}: there is no such file or folder")
        if place.is_file() or any(place.rglob("*.parquet")):
            stored.append(place)
        if place.is_dir():
            runs += [place] if _is_run(place) else sorted(each for each in place.iterdir() if _is_run(each))
        if place not in stored and place not in runs and not any(run.parent == place for run in runs):
            raise ValueError(
                f"{place}: neither results of `gridcount benchmark` nor a run of `gridcount train` is in it"
            )
    rows: list[Row] = []
    if stored:
        from gridcount.benchmark.store import read_results

        rows += read_results(*stored)
    evaluated = [run for run in dict.fromkeys(runs) if evaluations_of(run, read_plan(run))]
    young = [run for run in dict.fromkeys(runs) if run not in evaluated]
    if young and not (rows or evaluated):
        raise ValueError(f"{young[0]}: the run has not written an evaluation yet; wait until it has")
    for run in young:
        console.print(f"left out: {run}, which has not written an evaluation yet", soft_wrap=True)
    return rows + rows_of_runs(evaluated)


def _is_run(place: Path) -> bool:
    return (place / "config.json").is_file()


def layouts(names: set[str], files: tuple[Path, ...] = ()) -> dict[str, Layout]:
    """The layouts of suites: the user's files first, then those of gridcount."""
    suites = {suite.name: suite for suite in map(read_suite, map(str, files))}
    if unknown_suites := [file for file in files if file.stem not in names]:
        raise ValueError(
            f"--suite {unknown_suites[0]}: the results have no suite of this name; they have"
            f" {', '.join(sorted(names))}"
        )
    known = {name: read_suite(name) for name in names & set(suite_names()) if name not in suites}
    return {name: _layout(suite) for name, suite in (known | suites).items()}


def _layout(suite: Suite) -> Layout:
    variants = tuple(variant.name for variant in suite.variants)
    return Layout(
        suite.name, suite.title, suite.kind, suite.datasets, suite.algorithms, variants, suite.published
    )
