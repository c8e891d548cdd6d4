"""The local layout: a folder per dataset, one .npy per column and meta.json, there whole or not at all, ready to be memory-mapped."""

import json
import os
import re
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from gridcount.data.cache import cache_directory
from gridcount.data.catalogue import NAMES
from gridcount.data.cut import Cut
from gridcount.data.transitions import Transitions

FORMAT = 1  # of the folder; another is refused with the advice to import again
COLUMNS = ("observation", "action", "reward", "next_observation", "terminated", "episode_end")


def imported_directory() -> Path:
    """Where imported datasets are kept."""
    return cache_directory() / "imported"


def imported_names() -> tuple[str, ...]:
    """Names of the datasets that were imported here."""
    return tuple(sorted(meta.parent.name for meta in imported_directory().glob("*/meta.json")))


def check_name(name: str) -> None:
    """Refuse names that could not be told from a path, a file or a published dataset."""
    if name in NAMES:
        raise ValueError(f"'{name}' is the name of a published dataset; choose another")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", name):
        raise ValueError(f"'{name}' cannot be a dataset's name; use letters, digits, '-' and '_', at most 100")


def write_local(folder: Path, data: Cut, facts: dict[str, Any] | None = None, replace: bool = False) -> None:
    """Write a dataset; `folder` appears complete or not at all, and an older one stays until the new one is whole."""
    if folder.exists() and not replace:
        raise ValueError(f"{folder}: there is a dataset of this name already; choose another name or give --replace")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    try:
        partial.mkdir()
        _write(partial, data, facts or {})
        for file in partial.iterdir():  # the bytes reach the disk before the name does
            with file.open("rb") as written:
                os.fsync(written.fileno())
        if folder.exists():
            os.rename(folder, old)
        os.rename(partial, folder)
    finally:
        if old.exists() and not folder.exists():
            os.rename(old, folder)
        shutil.rmtree(old, ignore_errors=True)
        shutil.rmtree(partial, ignore_errors=True)


def _write(folder: Path, data: Cut, facts: dict[str, Any]) -> None:
    """One .npy per column, filled some rows at a time, and meta.json."""
    log, rows = data.log, len(data)
    dims = {"observation": log.observation.shape[1], "next_observation": log.observation.shape[1], "action": log.action.shape[1]}
    shapes = {column: (rows, dims[column]) if column in dims else (rows,) for column in COLUMNS}
    types = {column: np.dtype(np.bool_ if column in ("terminated", "episode_end") else np.float32) for column in COLUMNS}
    with ExitStack() as stack:
        files = {column: stack.enter_context((folder / f"{column}.npy").open("wb")) for column in COLUMNS}
        for column, file in files.items():
            header = {"descr": np.lib.format.dtype_to_descr(types[column]), "fortran_order": False, "shape": shapes[column]}
            np.lib.format.write_array_header_1_0(file, header)
        for piece in data.pieces():
            for column, file in files.items():
                file.write(np.ascontiguousarray(piece[column], types[column]).data)
    low, high = data.units or tuple(np.full(dims["action"], end, np.float64) for end in (-1, 1))
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


def read_meta(folder: Path) -> dict[str, Any]:
    """What is recorded of a dataset."""
    try:
        meta = json.loads((folder / "meta.json").read_text())
        found, _ = meta["format"], (meta["rows"], meta["columns"], meta["action_low"], meta["action_high"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder / 'meta.json'}: cannot be read ({error}); import the dataset again") from error
    if found != FORMAT:
        raise ValueError(f"{folder}: was written in format {found}, this is {FORMAT}; import the dataset again")
    return dict(meta)


def read_local(folder: Path, name: str | None = None, memory_map: bool = False) -> Transitions:
    """The dataset in a folder; `memory_map` leaves its columns on disk until they are touched."""
    meta = read_meta(folder)
    columns = {}
    for column in COLUMNS:
        path = folder / f"{column}.npy"
        try:
            if not path.is_file():  # a pipe would be waited for
                raise FileNotFoundError("there is no such file")
            mapped = np.lib.format.open_memmap(path, mode="r")  # which refuses a shape that the file does not hold
            array = mapped if memory_map else np.array(mapped)
        except (OSError, ValueError, EOFError, TypeError, OverflowError) as error:
            raise ValueError(f"{path}: missing or damaged ({error}); import the dataset again") from error
        recorded = meta["columns"].get(column, {})
        if [str(array.dtype), list(array.shape)] != [recorded.get("dtype"), recorded.get("shape")]:
            raise ValueError(f"{path}: is {array.dtype} {array.shape}, meta.json says {recorded}; import the dataset again")
        columns[column] = array
    low, high = (np.asarray(meta[end], np.float64) for end in ("action_low", "action_high"))
    return Transitions(
        **columns,
        name=folder.name if name is None else name,
        action_low=low,
        action_high=high,
        observation_names=tuple(meta.get("observation_names", ())),
        action_names=tuple(meta.get("action_names", ())),
    )
