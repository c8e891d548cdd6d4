"""The results store: Parquet, a row per evaluation of a seed, a file per cell, merged by reading several places at once."""

import json
import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gridcount.algorithms import ALGORITHMS
from gridcount.algorithms.contract import with_new_names
from gridcount.data.arrow_files import open_arrow
from gridcount.training.logs import Row

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    raise ImportError(f"results are kept as Parquet ({error}). Install it with: pip install 'gridcount[benchmark]'") from error

RUN = ("suite", "key", "seed")  # whose rows belong together
WORDS = ("suite", "key", "algorithm", "dataset", "config", "fingerprint")  # what every row has
WHOLE = ("seed", "updates", "planned_updates")
FREE = {  # may differ between two records of the same run, or be missing from the older one
    *("seconds", "gigabytes", "seeds_together", "cores_used"),
    *("in_log", "in_log_expected", "action_distance", "action_distance_expected"),
}
SUFFIX = ".parquet"
BATCH = 10_000  # rows read together


def write_rows(path: Path, rows: list[Row]) -> Path:
    """Write rows whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(name for row in rows for name in row))  # algorithms differ in their metrics: what one lacks is null
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    partial = path.with_suffix(f".{os.getpid()}.partial")  # nobody else's, should two processes write the same rows
    pq.write_table(table, partial, compression="zstd")
    partial.replace(path)
    return path


def read_results(*places: Path) -> list[Row]:
    """All rows of files and folders, in the order of suite, experiment, seed and update.

    A seed's run that lies in two places is taken whole from the one that has more of it; runs that contradict each other are refused.
    """
    found: dict[tuple[Any, ...], tuple[list[Row], Path]] = {}
    for path in [file for place in places for file in _files(place)]:
        runs: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
        for row in _read(path):
            runs[tuple(row[name] for name in RUN)].append(row)
        for identity, rows in runs.items():
            known, where = found.get(identity, ([], path))
            once = {row["updates"]: row for row in reversed(rows)}  # of a row that stands twice in a file, one
            for other, place in ((rows, path), (known, where)):
                _refuse_contradiction(other, place, list(once.values()), path)
            if len(once) > len(known):
                found[identity] = (list(once.values()), path)
    _refuse_other_data(found)
    return [row for identity in sorted(found) for row in sorted(found[identity][0], key=lambda row: int(row["updates"]))]


def finished_seeds(rows: Iterable[Row], suite: str | None, key: str) -> set[int]:
    """Seeds of an experiment whose last evaluation is in the store, or what there is of them before their numbers exploded.

    Without a suite: whichever suite ran them.
    """
    own = [row for row in rows if row["suite"] == (suite or row["suite"]) and row["key"] == key]
    return {row["seed"] for row in own if row["updates"] == row["planned_updates"] or "diverged" in row}


def _refuse_contradiction(known: list[Row], where: Path, rows: list[Row], path: Path) -> None:
    before = {row["updates"]: _figures(row) for row in known}
    for row in rows:
        if row["updates"] in before and before[row["updates"]] != _figures(row):
            what = f"{row['algorithm']} on {row['dataset']}, seed {row['seed']}, update {row['updates']:,}"
            if where == path:
                raise ValueError(f"{path} says two things about {what}; give the files it was made from instead")
            raise ValueError(f"{path} and {where} disagree about {what}: they come from different code or machines. Leave one of them out")


def _refuse_other_data(found: dict[tuple[Any, ...], tuple[list[Row], Path]]) -> None:
    """Refuse seeds of one experiment that were trained on different data, as two versions of a simulator generate it."""
    seen: dict[str, tuple[Row, Path]] = {}
    for rows, path in found.values():
        known, where = seen.setdefault(rows[0]["key"], (rows[0], path))
        if known["fingerprint"] != rows[0]["fingerprint"]:
            seeds = f"seed {known['seed']} ({where}) and seed {rows[0]['seed']} ({path})"
            raise ValueError(f"{known['algorithm']} on {known['dataset']}: {seeds} were trained on different data. Leave one of them out")


def _figures(row: Row) -> str:
    """What two records of the same evaluation agree in: every number but times, the setting and the data."""
    numbers = {name: value for name, value in row.items() if isinstance(value, int | float) and name not in FREE}
    return json.dumps([sorted(numbers.items()), row["config"], row["fingerprint"]])


def _files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise FileNotFoundError(f"{place}: there is no such file or folder")
    if not (files := sorted(path for path in place.rglob(f"*{SUFFIX}") if path.is_file())):
        raise FileNotFoundError(f"{place}: no results in it ({SUFFIX} files); gridcount benchmark writes them")
    return files


def _read(path: Path) -> list[Row]:
    with open_arrow(path) as file:
        if twice := [name for name in file.names if file.names.count(name) > 1]:
            raise ValueError(f"{path}: not a file of results; two columns are called '{twice[0]}'")
        rows: list[Row] = [row for table in file.batches(BATCH) for row in table.to_pylist()]
    if not rows:
        raise ValueError(f"{path}: no rows in it; delete it, or leave it out")
    for name in (*WORDS, *WHOLE):
        if name not in rows[0]:
            raise ValueError(f"{path}: not a file of results; it has no column '{name}'")
        kind = str if name in WORDS else int
        if bad := [row[name] for row in rows if not isinstance(row[name], kind)]:
            raise ValueError(f"{path}: not a file of results; its column '{name}' holds {bad[0]!r}")
    for config in {row["config"] for row in rows}:
        _refuse_no_object(path, config)
    today = {made: _with_new_names(*made) for made in {(row["algorithm"], row["config"]) for row in rows}}
    rows = [row | {"config": today[row["algorithm"], row["config"]]} for row in rows]
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def _with_new_names(algorithm: str, config: str) -> str:
    """What was set, in the names values have today, as a record would be written now."""
    if algorithm not in ALGORITHMS:
        return config
    return json.dumps(with_new_names(ALGORITHMS[algorithm], json.loads(config)), sort_keys=True)


def _refuse_no_object(path: Path, config: str) -> None:
    try:
        found = json.loads(config)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: its column 'config' holds {config!r}, which is not JSON ({error})") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path}: its column 'config' holds {config!r}, which is not a table of settings")
