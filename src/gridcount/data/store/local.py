"""The local layout: a folder per dataset, one .npy per column and meta.json, complete or absent, ready to
be memory-mapped."""

import json
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from gridcount.catalogue import NAMES
from gridcount.data.formats.cut import Cut, cut
from gridcount.data.formats.log import log_of
from gridcount.files import read_record, validate_no_links, whole_folder
from gridcount.files.cache import cache_directory
from gridcount.files.records import Count
from gridcount.transitions import Float, Transitions

FORMAT = 1  # of the folder; another format must be imported again
COLUMNS = ("observation", "action", "reward", "next_observation", "terminated", "episode_end")


class RecordedEnvironment(msgspec.Struct, frozen=True):
    """The recorded environment of a log."""

    id: str
    options: tuple[str, ...] = ()


class StoredColumn(msgspec.Struct, frozen=True):
    """The type and the shape of a column's file."""

    dtype: str
    shape: tuple[Count, ...]


class Meta(msgspec.Struct, frozen=True):
    """The content of `meta.json`."""

    format: int
    rows: Count
    columns: dict[str, StoredColumn]
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    observation_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    environment: RecordedEnvironment | None = None
    source: str | None = None  # the file it was made from, and of a published one its size and time
    bytes: int | None = None
    modified: int | None = None


def imported_directory() -> Path:
    """Where imported datasets are kept."""
    return cache_directory() / "imported"


def imported_names() -> tuple[str, ...]:
    """Names of the datasets that were imported here."""
    return tuple(sorted(meta.parent.name for meta in imported_directory().glob("*/meta.json")))


class Imported(NamedTuple):
    """An imported dataset."""

    name: str
    rows: int | None  # None if its record cannot be read
    bytes: int  # on disk
    source: str  # the file it was made from


def imported(name: str) -> Imported:
    """The facts of an imported dataset; a damaged one is listed too, so that it can be removed."""
    folder = imported_directory() / name
    size = sum(file.lstat().st_size for file in folder.iterdir())
    try:
        meta = read_meta(folder)
    except ValueError as error:
        return Imported(name, None, size, f"damaged: {error}")
    return Imported(name, meta.rows, size, meta.source or "")


def check_name(name: str) -> None:
    """Raise ValueError for a name that looks like a path, a file or a published dataset."""
    if name in NAMES:
        raise ValueError(f"'{name}' is the name of a published dataset; choose another")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", name):
        raise ValueError(
            f"'{name}' cannot be a dataset's name; use letters, digits, '-' and '_', at most 100"
        )


def write_local(folder: Path, data: Cut, facts: dict[str, Any] | None = None, replace: bool = False) -> None:
    """Write a dataset; `folder` appears complete or not at all, and an older one stays until then."""
    if folder.exists() and not replace:
        raise ValueError(
            f"{folder}: there is a dataset of this name already; choose another name or give --replace"
        )
    with whole_folder(folder) as partial:
        _write(partial, data, facts or {}, data.units)


def write_transitions(folder: Path, data: Transitions) -> None:
    """Write transitions, with their names and the units of their actions."""
    with whole_folder(folder) as partial:
        _write(partial, cut(log_of(data)), {}, (data.action_low, data.action_high))


def _write(folder: Path, data: Cut, facts: dict[str, Any], units: tuple[Float, Float] | None) -> None:
    """One .npy per column, filled some rows at a time, and meta.json."""
    log, rows = data.log, len(data)
    dims = {
        "observation": log.observation.shape[1],
        "next_observation": log.observation.shape[1],
        "action": log.action.shape[1],
    }
    shapes = {column: (rows, dims[column]) if column in dims else (rows,) for column in COLUMNS}
    types = {
        column: np.dtype(np.bool_ if column in ("terminated", "episode_end") else np.float32)
        for column in COLUMNS
    }
    with ExitStack() as stack:
        files = {column: stack.enter_context((folder / f"{column}.npy").open("wb")) for column in COLUMNS}
        for column, file in files.items():
            header = {
                "descr": np.lib.format.dtype_to_descr(types[column]),
                "fortran_order": False,
                "shape": shapes[column],
            }
            np.lib.format.write_array_header_1_0(file, header)
        for piece in data.pieces():
            for column, file in files.items():
                file.write(np.ascontiguousarray(piece[column], types[column]).data)
    low, high = units or tuple(np.full(dims["action"], end, np.float64) for end in (-1, 1))
    meta = {
        **facts,
        "format": FORMAT,
        "name": data.name,
        "rows": rows,
        "columns": {column: {"dtype": str(types[column]), "shape": shapes[column]} for column in COLUMNS},
        "action_low": low.tolist(),
        "action_high": high.tolist(),
        "observation_names": log.observation_names,
        "action_names": log.action_names,
    }
    (folder / "meta.json").write_text(json.dumps(meta, indent=2))


def read_meta(folder: Path) -> Meta:
    """The record of a dataset."""
    validate_no_links(folder)
    path, way_out = folder / "meta.json", "import the dataset again"
    try:
        meta = read_record(path, Meta, way_out)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error}); {way_out}") from error
    if meta.format != FORMAT:
        raise ValueError(
            f"{folder}: has format {meta.format}, but this version reads format {FORMAT}; {way_out}"
        )
    if meta.action_low and not all(
        low < high for low, high in zip(meta.action_low, meta.action_high, strict=False)
    ):
        raise ValueError(f"{path}: 'action_low' is not below 'action_high' everywhere; {way_out}")
    return meta


def read_local(folder: Path, name: str | None = None, memory_map: bool = False) -> Transitions:
    """The dataset in a folder; `memory_map` leaves its columns on disk until they are touched."""
    meta = read_meta(folder)
    columns: dict[str, Any] = {}
    for column in COLUMNS:
        path = folder / f"{column}.npy"
        try:
            if not path.is_file():  # reading a pipe would block
                raise FileNotFoundError("there is no such file")
            mapped = np.lib.format.open_memmap(
                path, mode="r"
            )  # raises an error if the file is too short for its shape
            array = mapped if memory_map else np.array(mapped)
        except (OSError, ValueError, EOFError, TypeError, OverflowError) as error:
            raise ValueError(f"{path}: missing or damaged ({error}); import the dataset again") from error
        recorded = meta.columns.get(column)
        if recorded != StoredColumn(str(array.dtype), array.shape):
            raise ValueError(
                f"{path}: is {array.dtype} {array.shape}, meta.json says {recorded}; import the dataset again"
            )
        columns[column] = array
    dims = columns["action"].shape[-1]
    for key, bounds in {"action_low": meta.action_low, "action_high": meta.action_high}.items():
        if len(bounds) != dims:
            problem = f"'{key}' has {len(bounds)} values for {dims} actions"
            raise ValueError(f"{folder / 'meta.json'}: {problem}; import the dataset again")
    low, high = (np.asarray(end, np.float64) for end in (meta.action_low, meta.action_high))
    return Transitions(
        **columns,
        name=folder.name if name is None else name,
        action_low=low,
        action_high=high,
        observation_names=meta.observation_names,
        action_names=meta.action_names,
    )
