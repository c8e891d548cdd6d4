"""The `algorithms` command: list the algorithms."""

import json
import math
from dataclasses import dataclass
from importlib.resources import files

import tyro
from rich.table import Table

from gridcount.algorithms import ALGORITHMS, describe
from gridcount.files import decode_record
from gridcount.terminal import make_console, validate_flags


@dataclass(frozen=True)
class Algorithms:
    """List the algorithms: family, paper, cost of an update relative to SAC's as measured, and what
    counting adds."""

    json: bool = False  # print JSON


def algorithms(words: list[str]) -> int:
    """Print them, the cheapest first."""
    validate_flags(words, Algorithms)
    options = tyro.cli(Algorithms, args=words, prog="gridcount algorithms")
    measured = files("gridcount.algorithms").joinpath("cost.json")
    cost = decode_record(measured.read_bytes(), dict[str, float], str(measured), "install gridcount again")
    entries = [
        {
            "name": name,
            "idea": (kind.__doc__ or "").splitlines()[0],
            **describe(name)._asdict(),
            "cost": cost.get(name),
        }
        for name, kind in sorted(ALGORITHMS.items(), key=lambda entry: cost.get(entry[0], math.inf))
    ]
    if options.json:
        print(json.dumps(entries, indent=2))
        return 0
    table = Table(show_lines=True)
    for heading in ("name", "family", "idea", "paper", "cost", "what the count adds"):
        width = len("arXiv:2006.04779;") if heading == "paper" else None  # so that it can be copied
        table.add_column(
            heading,
            justify="right" if heading == "cost" else "left",
            no_wrap=heading == "name",
            min_width=width,
        )
    for entry in entries:
        words = [str(entry[name]) for name in ("name", "family", "idea", "paper")]
        table.add_row(
            *words, "" if entry["cost"] is None else f"{entry['cost']:.2f}", str(entry["count_adds"])
        )
    console = make_console()
    console.print(table)
    console.print(
        "cost: time of an update relative to SAC's with each paper's networks, measured by `make bench` on"
        " one core.\n"
        "Train one with: gridcount train DATASET --algo NAME; each is explained in docs/algorithms/.",
        soft_wrap=True,
    )
    return 0
