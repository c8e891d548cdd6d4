"""A search from what a user gives: a dataset's name, a file or transitions, and a space of settings."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from gridcount.algorithms.presets import planned_updates
from gridcount.catalogue import NAMES
from gridcount.data.formats.columns import Columns
from gridcount.data.formats.cut import ActionUnits
from gridcount.data.load import resolved_name
from gridcount.data.store.local import read_local, write_transitions
from gridcount.estimation.estimate import Settings
from gridcount.training.directories import RUNS
from gridcount.training.plan import fingerprint
from gridcount.transitions import Transitions
from gridcount.tuning.space import fixed_fields, make_space
from gridcount.tuning.study import AUTOMATIC, Search

SHORTER = 4  # times, than the preset's runs


def make_search(
    dataset: str,
    *,
    algorithms: Sequence[str],
    space: Mapping[str, Any],
    preset: str,
    updates: int | None,
    reading: dict[str, Any],
    settings: Settings,
    **numbers: Any,
) -> Search:
    """A search, checked before anything is computed."""
    if not algorithms:
        raise ValueError("no algorithm to search; name at least one with --algorithms")
    title = dataset if dataset in NAMES else Path(dataset).name
    whole = make_space(list(dict.fromkeys((*algorithms, AUTOMATIC))), space, title, preset)
    search = Search(
        dataset=resolved_name(dataset),
        title=title,
        reading=reading,
        preset=preset,
        space={name: whole[name] for name in algorithms},
        automatic=fixed_fields(whole, AUTOMATIC),
        updates=planned_updates(AUTOMATIC, title, preset) // SHORTER if updates is None else updates,
        settings=settings,
        **numbers,
    )
    search.check()
    return search


def reading_of(columns: Columns, units: ActionUnits) -> dict[str, Any]:
    """How a table is read, as a search records it: only what was given."""
    return columns.given() | {name: value for name, value in asdict(units).items() if value}


def out_folder(dataset: str) -> Path:
    """Where a search goes by default: always the same place, so that the same command resumes it."""
    return RUNS / f"{Path(dataset).stem}-tune"


def write_log(data: Transitions, out: Path) -> Path:
    """Transitions as a folder that worker processes and `gridcount train` read, with names and units."""
    path = out / "log"
    if path.exists():
        before = read_local(path)
        units = ("action_low", "action_high", "observation_names", "action_names")
        same = all(np.array_equal(getattr(before, each), getattr(data, each)) for each in units)
        if not same or fingerprint(before) != fingerprint(data):
            raise ValueError(f"{path}: holds other data than was given; name another folder with out=")
    else:
        out.mkdir(parents=True, exist_ok=True)
        write_transitions(path, data)
    return path
