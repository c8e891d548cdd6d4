"""One log of a plant in every state in which logs arrive, for tests to import by the commands of the docs."""

import gzip
import sqlite3
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet

Rows = list[list[Any]]
NAMES = ["episode", "time", "obs_temperature", "obs_pressure", "action_valve", "reward"]
UNITS = ["", "s", "°C", "Pa", "%", "€"]


def clean_rows(episodes: int = 6, length: int = 40) -> Rows:
    """Numbers with few digits, so that all ways of writing are exact; the pressure changes every fourth
    step."""
    rng, rows = np.random.default_rng(0), []
    for episode in range(episodes):
        temperature, pressure = 20.0, 101_325.0
        for step in range(length):
            temperature = round(temperature + float(rng.normal()) / 2, 2)
            pressure = round(pressure + float(rng.normal()) * 20, 1) if step % 4 == 0 else pressure
            valve, reward = round(float(rng.uniform(0, 100)), 1), round(float(rng.normal()), 3)
            rows.append([episode, 60 * step, temperature, pressure, valve, reward])
    return rows


def text(rows: Iterable[list[Any]], delimiter: str = ",", write: Callable[[Any], str] = str) -> str:
    lines = [delimiter.join(NAMES), *(delimiter.join(write(value) for value in row) for row in rows)]
    return "\n".join(lines) + "\n"


def with_comma(value: Any) -> str:
    return str(value).replace(".", ",")


def with_groups(value: Any) -> str:
    """1,234.5 as a German spreadsheet writes it: 1.234,5."""
    return f"{value:,}".translate(str.maketrans(",.", ".,")) if isinstance(value, float) else str(value)


def write_messy(folder: Path) -> Rows:
    """Write all variants; returns the clean rows."""
    rows = clean_rows()
    (folder / "plant.csv").write_text(text(rows))
    names, *lines = text(rows, ";", with_comma).splitlines(keepends=True)
    (folder / "comma.csv").write_text("".join([names, ";".join(UNITS) + "\n", *lines]))
    (folder / "thousands.tsv").write_text(text(rows, "\t", with_groups))
    (folder / "packed.csv.gz").write_bytes(gzip.compress(text(rows).encode()))
    (folder / "latin.txt").write_bytes(";".join([*NAMES, "Prüfer"]).encode("latin-1") + b"\n")
    with (folder / "latin.txt").open("ab") as file:
        file.writelines(";".join([*map(str, row), "Jürgen"]).encode("latin-1") + b"\n" for row in rows)
    (folder / "wide.csv").write_bytes(text(rows, ";").encode("utf-16"))
    shuffled = [rows[i] for i in np.random.default_rng(1).permutation(len(rows))]
    (folder / "unsorted.csv").write_text(text(shuffled))
    (folder / "interleaved.csv").write_text(text(sorted(rows, key=lambda row: (row[1], row[0]))))
    same = [False, *(a[0] == b[0] and a[3] == b[3] for a, b in pairwise(rows))]
    held = [[*row[:3], "" if again else row[3], *row[4:]] for row, again in zip(rows, same, strict=True)]
    (folder / "on_change.csv").write_text(text(held))
    broken = [[6, 60 * step, 20.0 + step, "" if step == 7 else 1e5, 50.0, 0.0] for step in range(20)]
    (folder / "incomplete.csv").write_text(text(rows + broken))
    _write_parts(folder, rows)
    with sqlite3.connect(folder / "plant.db") as connection:
        connection.execute(f"create table log ({', '.join(NAMES)})")
        connection.executemany(f"insert into log values ({', '.join('?' * len(NAMES))})", rows)
        connection.execute("create table operators (name)")
    connection.close()
    return rows


def _write_parts(folder: Path, rows: Rows) -> None:
    """Twelve parts, of which the tenth comes after the second by number only."""
    (folder / "parts").mkdir()
    (folder / "parquet" / "2026").mkdir(parents=True)
    for part, chosen in enumerate(np.array_split(np.arange(len(rows)), 12), 1):
        own = [rows[i] for i in chosen]
        (folder / "parts" / f"part-{part}.csv").write_text(text(own))
        columns = dict(zip(NAMES, map(list, zip(*own, strict=True)), strict=True))
        parquet.write_table(arrow.table(columns), folder / "parquet" / "2026" / f"part-{part}.parquet")
