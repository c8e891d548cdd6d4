"""The results store: Parquet files, one row per evaluation of a seed, one file per cell; reading several
merges them."""

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gridcount.algorithms import ALGORITHMS
from gridcount.algorithms.contract import with_new_names
from gridcount.data.formats.arrow_files import open_arrow
from gridcount.files import convert_record, decode_record, whole_file
from gridcount.files.memory import memory_limit
from gridcount.files.records import Real, Whole
from gridcount.training.logs import Row
from gridcount.training.results import COLUMNS, VOLATILE

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    raise ImportError(
        f"results are kept as Parquet ({error}). Install it with: pip install 'gridcount[benchmark]'"
    ) from error

RUN = ("suite", "key", "seed")  # whose rows belong together
SUFFIX = ".parquet"
BATCH = 10_000  # rows read together
VALUE_BYTES = 100  # that a value of a row takes in memory, about


def write_rows(path: Path, rows: list[Row]) -> Path:
    """Write rows completely or not at all."""
    # algorithms differ in their metrics: what one lacks is null
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    with whole_file(path) as file:
        pq.write_table(table, file, compression="zstd")
    return path


def read_results(*places: Path) -> list[Row]:
    """All rows of files and folders, in the order of suite, experiment, seed and update.

    A seed's run in two places is read from the longer one; contradictory runs raise ValueError.
    """
    found: dict[tuple[Any, ...], tuple[list[Row], Path]] = {}
    for path in [file for place in places for file in _files(place)]:
        runs: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
        for row in _read(path):
            runs[tuple(row[name] for name in RUN)].append(row)
        for identity, rows in runs.items():
            known, where = found.get(identity, ([], path))
            once = {row["updates"]: row for row in reversed(rows)}  # a duplicate row of a file is used once
            for other, place in ((rows, path), (known, where)):
                _validate_consistent(other, place, list(once.values()), path)
            if len(once) > len(known):
                found[identity] = (list(once.values()), path)
    _validate_same_data(found)
    return [
        row
        for identity in sorted(found)
        for row in sorted(found[identity][0], key=lambda row: int(row["updates"]))
    ]


def finished_seeds(rows: Iterable[Row], suite: str | None, key: str) -> set[int]:
    """Seeds of an experiment whose last evaluation is in the store, or which diverged.

    Without a suite: seeds of all suites.
    """
    own = [row for row in rows if row["suite"] == (suite or row["suite"]) and row["key"] == key]
    return {row["seed"] for row in own if row["updates"] == row["planned_updates"] or "diverged" in row}


def _validate_consistent(known: list[Row], where: Path, rows: list[Row], path: Path) -> None:
    before = {row["updates"]: _figures(row) for row in known}
    for row in rows:
        if row["updates"] in before and before[row["updates"]] != _figures(row):
            what = f"{row['algorithm']} on {row['dataset']}, seed {row['seed']}, update {row['updates']:,}"
            if where == path:
                raise ValueError(
                    f"{path} has two different results for {what}; use the files it was made from instead"
                )
            raise ValueError(
                f"{path} and {where} have different results for {what}: they come from different code or"
                " machines. Leave one of them out"
            )


def _validate_same_data(found: dict[tuple[Any, ...], tuple[list[Row], Path]]) -> None:
    """Raise ValueError if seeds of one experiment were trained on different data."""
    seen: dict[str, tuple[Row, Path]] = {}
    for rows, path in found.values():
        known, where = seen.setdefault(rows[0]["key"], (rows[0], path))
        if known["fingerprint"] != rows[0]["fingerprint"]:
            seeds = f"seed {known['seed']} ({where}) and seed {rows[0]['seed']} ({path})"
            raise ValueError(
                f"{known['algorithm']} on {known['dataset']}: {seeds} were trained on different data. Leave"
                " one of them out"
            )


def _figures(row: Row) -> str:
    """The content that two records of one evaluation share: all numbers except times, the setting and the
    data."""
    numbers = {
        name: value for name, value in row.items() if isinstance(value, int | float) and name not in VOLATILE
    }
    return json.dumps([sorted(numbers.items()), row["config"], row["fingerprint"]])


def _files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise FileNotFoundError(f"{place}: there is no such file or folder")
    if not (files := sorted(path for path in place.rglob(f"*{SUFFIX}") if path.is_file())):
        raise FileNotFoundError(
            f"{place}: no results in it ({SUFFIX} files); gridcount benchmark writes them"
        )
    return files


def _read(path: Path) -> list[Row]:
    with open_arrow(path) as file:
        if twice := [name for name in file.names if file.names.count(name) > 1]:
            raise ValueError(f"{path}: not a file of results; two columns are called '{twice[0]}'")
        size = file.rows * len(file.names) * VALUE_BYTES
        if size > (limit := memory_limit()):
            needed = f"its {file.rows:,} rows of {len(file.names):,} columns take about {size / 2**30:.1f} GiB of memory"
            raise ValueError(
                f"{path}: {needed}, but only {limit / 2**30:.1f} GiB are available; leave it out"
            )
        rows: list[Row] = [row for table in file.batches(BATCH) for row in table.to_pylist()]
    if not rows:
        raise ValueError(f"{path}: no rows in it; delete it, or leave it out")
    for number, row in enumerate(rows, start=1):
        source, way_out = f"{path}, row {number}", "this is not a file of results; leave it out"
        for kind in COLUMNS:
            convert_record(row, kind, source, way_out)
        convert_record(row, dict[str, str | Whole | Real | bool | None], source, way_out)
    for config in {row["config"] for row in rows}:
        decode_record(
            config.encode(),
            dict[str, Any],
            f"{path}: its column 'config'",
            "This is not a file of results; leave it out",
        )
    today = {made: _with_new_names(*made) for made in {(row["algorithm"], row["config"]) for row in rows}}
    rows = [row | {"config": today[row["algorithm"], row["config"]]} for row in rows]
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def _with_new_names(algorithm: str, config: str) -> str:
    """The configuration with the present names of values."""
    if algorithm not in ALGORITHMS:
        return config
    return json.dumps(with_new_names(ALGORITHMS[algorithm], json.loads(config)), sort_keys=True)
