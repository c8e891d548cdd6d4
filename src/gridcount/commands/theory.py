"""`gridcount theory`: check the paper's statements on problems with known solutions, as tables, a file and
pictures."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from gridcount.files import write_whole
from gridcount.terminal import make_console, validate_flags
from gridcount.theory.checks import run_checks


@dataclass(frozen=True)
class Theory:
    """Check the paper's proofs, and show where they do not hold as written (docs/theory.md)."""

    out: Path = Path("theory")  # folder for theory.json and the pictures
    seed: int = 0  # the same seed gives the same figures
    plot: bool = True  # draw the pictures


def theory(words: list[str]) -> int:
    """Run every check, and print and write the results."""
    validate_flags(words, Theory)
    options = tyro.cli(Theory, args=words, prog="gridcount theory")
    console, started = make_console(), time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    result = run_checks(console.print, options.seed)
    path = options.out / "theory.json"
    write_whole(path, json.dumps(result, indent=1) + "\n")
    show(result, console)
    written = [path]
    if options.plot:
        from gridcount.report.theory import draw_theory  # matplotlib is needed only here

        written += draw_theory(result, options.out)
    for each in written:
        console.print(f"wrote {each}", soft_wrap=True)
    console.print(f"{time.monotonic() - started:.0f} s")
    return 0


def show(result: dict[str, Any], console: Console) -> None:
    """The main results of the checks as tables."""
    equal = result["tabular"]["equality"]
    console.print(
        "u and Gamma_lcb with one-hot features and ridge 1: equal to"
        f" {equal['largest_relative_difference']:.1e} at {equal['pairs']} pairs"
    )
    console.print(_coverage_table(result["tabular"]["coverage"]))
    console.print(_training_table(result["tabular"]["training"]))
    console.print(_grid_table(result["linear"]))
    console.print(_collision_table(result["codes"]["collisions"]))
    console.print(_improvement_table(result["guarantees"]["improvement"]))
    console.print(_selection_table(result["guarantees"]["selection"]))


def _coverage_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(
        "T",
        "promised",
        "V fixed: mean",
        "worst pair",
        "V learnt: mean",
        "worst pair",
        title="Tabular: |B̂V - BV| <= u, share of logs",
    )
    names = ("promise", "fixed_mean", "fixed_worst_pair", "learnt_mean", "learnt_worst_pair")
    for row in rows:
        table.add_row(str(row["epoch"]), *(f"{row[name]:.1%}" for name in names))
    return table


def _training_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(
        "epoch",
        "n of the log",
        "smallest c",
        "n of the policy's visits",
        "smallest c",
        title="Tabular: the same while a run trains",
    )
    for row in rows:
        cells = []
        for name in ("data", "policy"):
            cells += [f"{row[f'{name}_coverage']:.1%}", f"{row[f'{name}_smallest_c']:.2f}"]
        table.add_row(str(row["epoch"]), *cells)
    return table


def _grid_table(linear: dict[str, Any]) -> Table:
    table = Table(
        "rows",
        "bins",
        "visits per cell",
        "linear: c",
        "first c covers",
        "cells: c",
        "first c covers",
        title=f"Linear MDP: smallest c with a share of {1 - linear['failure']:.0%} under c u, and what the"
        " first c covers",
    )
    for row in linear["grids"]:
        cells = []
        for kind in ("linear", "cells"):
            cells += [f"{row[kind]['smallest_c']:.3f}", f"{row[kind]['fixed_c_coverage']:.1%}"]
        table.add_row(f"{row['rows']:,}", str(row["bins"]), f"{row['mean_count']:.1f}", *cells)
    return table


def _collision_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(
        "task",
        "cells",
        "Eq. 3 printed",
        "Eq. 3 meant",
        "published",
        "ours",
        title="Cells that share a code with another a small step away",
    )
    for row in rows:
        where = "actions beyond" if row["outside"] else "in range"
        theirs = (f"{row[name]:.1%}" for name in ("printed", "meant", "published"))
        table.add_row(row["task"], where, *theirs, f"{row['ours_near']} of {row['ours_strangers']:,}")
    return table


def _improvement_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(
        "Theorem A.3: u", "smallest gain in Q", "pairs that lose", title="Policy improvement, 200 tables"
    )
    for row in rows:
        table.add_row(row["case"], f"{row['smallest_gain']:.2e}", f"{row['pairs_worse']:.1%}")
    return table


def _selection_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(
        "kappa",
        "fails below, whole policy",
        "fails below, cut off",
        title="Theorem A.2: epsilon from which it holds",
    )
    for row in rows:
        table.add_row(str(row["base"]), f"{row['fails_below']:.1e}", f"{row['fails_below_cut_off']:.1e}")
    return table
