"""The results store: Parquet, a row per evaluation of a seed, a file per cell, merged by reading several places at once."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gridcount.training.logs import Row

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    raise ImportError(f"results are kept as Parquet ({error}). Install it with: pip install 'gridcount[benchmark]'") from error

IDENTITY = ("suite", "key", "seed", "updates")  # what makes a row the one it is
SUFFIX = ".parquet"


def write_rows(path: Path, rows: list[Row]) -> Path:
    """Write rows whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(name for row in rows for name in row))  # algorithms differ in their metrics: what one lacks is null
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    partial = path.with_suffix(".partial")
    pq.write_table(table, partial, compression="zstd")
    partial.replace(path)
    return path


def read_results(*places: Path) -> list[Row]:
    """All rows of files and folders, each once, in the order of suite, experiment, seed and update.

    The same row from two places is one; two different rows with the same identity are refused.
    """
    found: dict[tuple[Any, ...], tuple[Row, Path]] = {}
    for path in [file for place in places for file in _files(place)]:
        for row in _read(path):
            identity = tuple(row[name] for name in IDENTITY)
            if identity in found and _figures(found[identity][0]) != _figures(row):
                where = f"{row['algorithm']} on {row['dataset']}, seed {row['seed']}, update {row['updates']:,}"
                raise ValueError(f"{path} and {found[identity][1]} disagree about {where}: they come from different code or machines")
            found[identity] = (row, path)
    return [found[identity][0] for identity in sorted(found)]


def finished_seeds(rows: Iterable[Row], suite: str, key: str) -> set[int]:
    """Seeds of an experiment whose last evaluation is in the store."""
    return {row["seed"] for row in rows if row["suite"] == suite and row["key"] == key and row["updates"] == row["planned_updates"]}


def _figures(row: Row) -> str:
    return json.dumps([row.get("score"), row.get("return"), row["config"], row["fingerprint"]])


def _files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise FileNotFoundError(f"{place}: there is no such file or folder")
    if not (files := sorted(place.rglob(f"*{SUFFIX}"))):
        raise FileNotFoundError(f"{place}: no results in it ({SUFFIX} files); gridcount benchmark writes them")
    return files


def _read(path: Path) -> list[Row]:
    try:
        rows: list[Row] = pq.read_table(path).to_pylist()
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path}: not a Parquet file, or damaged ({error})") from error
    if rows and (
        missing := [name for name in (*IDENTITY, "algorithm", "dataset", "planned_updates", "config", "fingerprint") if name not in rows[0]]
    ):
        raise ValueError(f"{path}: not a file of results; it has no column '{missing[0]}'")
    return [{name: value for name, value in row.items() if value is not None} for row in rows]
