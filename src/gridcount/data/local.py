"""The local layout: a folder per dataset, one .npy per column and meta.json, there whole or not at all, ready to be memory-mapped."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from gridcount.data.cache import cache_directory
from gridcount.data.catalogue import NAMES
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


def write_local(folder: Path, data: Transitions, facts: dict[str, Any] | None = None, replace: bool = False) -> None:
    """Write a dataset; `folder` appears complete or not at all, and an older one stays until the new one is whole."""
    if folder.exists() and not replace:
        raise ValueError(f"{folder}: there is a dataset of this name already; choose another name or give --replace")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    meta = {
        **(facts or {}),
        "format": FORMAT,
        "name": data.name,
        "rows": len(data),
        "columns": {column: {"dtype": str(getattr(data, column).dtype), "shape": getattr(data, column).shape} for column in COLUMNS},
        "action_low": data.action_low.tolist(),
        "action_high": data.action_high.tolist(),
        "observation_names": data.observation_names,
        "action_names": data.action_names,
    }
    try:
        partial.mkdir()
        for column in COLUMNS:
            np.save(partial / f"{column}.npy", getattr(data, column), allow_pickle=False)
        (partial / "meta.json").write_text(json.dumps(meta, indent=2))
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
            array = np.load(path, mmap_mode="r" if memory_map else None, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise ValueError(f"{path}: missing or damaged ({error}); import the dataset again") from error
        recorded = meta["columns"].get(column, {})
        if [str(array.dtype), list(array.shape)] != [recorded.get("dtype"), recorded.get("shape")]:
            raise ValueError(f"{path}: is {array.dtype} {array.shape}, meta.json says {recorded}; import the dataset again")
        columns[column] = array
    low, high = (np.asarray(meta[end], np.float32) for end in ("action_low", "action_high"))
    return Transitions(
        **columns,
        name=folder.name if name is None else name,
        action_low=low,
        action_high=high,
        observation_names=tuple(meta.get("observation_names", ())),
        action_names=tuple(meta.get("action_names", ())),
    )
