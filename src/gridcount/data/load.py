"""Load a dataset name, an imported name, a file or a Minari folder as validated Transitions."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console

from gridcount.catalogue import MAZE_NAMES, NAMES, unknown
from gridcount.data.formats.columns import Columns
from gridcount.data.formats.cut import Bounds, Cut, cut, to_transitions
from gridcount.data.formats.d4rl import hdf5_pieces
from gridcount.data.formats.databases import is_postgres, validate_no_password
from gridcount.data.formats.log import Collected, Log, TooLarge, join, log_of, spooled
from gridcount.data.formats.minari import (
    PREFIX,
    find_minari,
    is_minari,
    minari_environment,
    minari_folder,
    minari_pieces,
)
from gridcount.data.formats.tables import SUFFIXES, find_parts, is_glob, is_table, table_pieces
from gridcount.data.formats.tidy import tidy
from gridcount.data.store import local, mazes
from gridcount.data.store.download import fetch, published
from gridcount.files import locked
from gridcount.files.cache import cache_directory
from gridcount.files.memory import memory_limit
from gridcount.transitions import Transitions

if TYPE_CHECKING:  # importing the simulator takes time, and it is optional
    from gridcount.envs.maze2d_data import Progress

HDF5_SUFFIXES = (".hdf5", ".h5")
Source = Literal["auto", "d4rl", "generated"]


def load(
    name: str | Path,
    columns: Columns | None = None,
    *,
    source: Source = "auto",
    memory_map: bool | None = False,
    scale_actions: bool = False,
    action_bounds: Bounds | None = None,
    console: Console | None = None,
    progress: "Progress | None" = None,
    judge: Callable[[Log], None] | None = None,
) -> Transitions:
    """The transitions of a D4RL or imported name, a file (.hdf5, .h5, .npz, .parquet, .csv) or a Minari
    folder or id.

    `columns` sets the role of each column of a table. `source` chooses, for Maze2D names, between D4RL's file
    and one generated here: "auto" takes D4RL's where it was downloaded before and generates otherwise.
    `memory_map` leaves the columns on disk (None: where they would fill more than half of the memory); a
    named dataset is unpacked once for it, a file must be imported first. `scale_actions` and `action_bounds`
    bring actions to [-1, 1], as `cut` says. Nothing is downloaded without saying so on `console`; `progress`
    follows the generation of a maze. `judge` receives the raw log before transitions are made, if the log is
    in memory.
    """
    folder = _local_folder(str(name))
    if folder is not None:
        _validate_no_source(str(name), source)
        _validate_no_bounds(str(name), action_bounds)
        _validate_no_columns(str(name), columns)
        return local.read_local(folder, memory_map=_is_large(folder) if memory_map is None else memory_map)
    path = _locate(str(name), source, console, progress)
    large = memory_map is None and _is_large(*_on_disk(path))
    if not memory_map and not (large and str(name) in NAMES):
        advice = (
            f"more than half of this machine's memory; import it first, so that it stays on disk:"
            f" gridcount data import {name} --name NAME (with the same flags for columns), then use NAME"
        )
        if large:
            raise ValueError(f"{name}: takes {_bytes(*_on_disk(path)) / 2**30:.1f} GiB, {advice}")
        try:
            log = join(path, _pieces(path, columns), _share(memory_map), tidy(columns or Columns()))
        except TooLarge as error:
            if memory_map is not None:
                raise
            if str(name) not in NAMES:
                raise TooLarge(f"{error}\nIt takes {advice}") from error
        else:
            if judge is not None:
                judge(log)
            return to_transitions(log, _title(str(name), path), scale_actions, action_bounds)
    if str(name) not in NAMES:
        raise ValueError(
            f"{name}: only imported or named datasets can be memory-mapped; run: gridcount data import"
            f" {name} --name NAME"
        )
    _validate_no_bounds(str(name), action_bounds)
    _validate_no_columns(str(name), columns)
    return _unpacked(str(name), Path(path))


def read_log(
    name: str | Path,
    columns: Columns | None = None,
    *,
    source: Source = "auto",
    console: Console | None = None,
) -> Log:
    """The raw log of a name or a path, in memory and not validated."""
    with open_log(name, columns, source=source, console=console, on_disk=False) as log:
        return log


def open_log(
    name: str | Path,
    columns: Columns | None = None,
    *,
    source: Source = "auto",
    console: Console | None = None,
    on_disk: bool | None = None,
) -> AbstractContextManager[Log]:
    """The raw log of a name or a path; by default on disk if it would fill more than half of the memory."""
    folder = _local_folder(str(name))
    if folder is not None:
        _validate_no_columns(str(name), columns)
        return nullcontext(
            log_of(local.read_local(folder, memory_map=_is_large(folder) if on_disk is None else on_disk))
        )
    path = _locate(str(name), source, console)
    finish = tidy(columns or Columns())
    if not (_is_large(*_on_disk(path)) if on_disk is None else on_disk):
        try:
            return nullcontext(join(path, _pieces(path, columns), _share(on_disk), finish))
        except TooLarge:
            if on_disk is not None:
                raise
    return spooled(path, _pieces(path, columns), cache_directory() / "spool", finish)


def import_log(
    path: str | Path,
    name: str,
    columns: Columns | None = None,
    *,
    scale_actions: bool = False,
    action_bounds: Bounds | None = None,
    replace: bool = False,
) -> Transitions:
    """Import a log into the local layout in chunks, for `load(name)`. Returns it memory-mapped."""
    free_name(name, replace)
    with open_log(path, columns, on_disk=True) as log:
        store(log, name, scale_actions=scale_actions, action_bounds=action_bounds, replace=replace)
    return load(name, memory_map=True)


def store(
    log: Log,
    name: str,
    *,
    scale_actions: bool = False,
    action_bounds: Bounds | None = None,
    replace: bool = False,
) -> Cut:
    """Import an open log; returns the stored dataset."""
    target = free_name(name, replace)
    data = cut(log, name, scale_actions, action_bounds)
    facts: dict[str, Any] = {"source": log.source}
    if log.environment is not None:
        facts["environment"] = log.environment._asdict()
    local.write_local(target, data, facts, replace)
    return data


def recorded_environment(name: str) -> Collected | None:
    """The environment in which a Minari dataset was collected; None for other datasets."""
    folder = _local_folder(name)
    if folder is not None:
        facts = local.read_meta(folder).environment
        return None if facts is None else Collected(facts.id, facts.options)
    path = Path(name)
    if name in NAMES or is_postgres(name) or is_glob(name) or path.is_file():
        return None
    if name.startswith(PREFIX) or (path.is_dir() and is_minari(path)):
        return minari_environment(name)
    found = find_minari(name) if name and not path.is_absolute() else None
    return None if found is None else minari_environment(found)


def free_name(name: str, replace: bool = False) -> Path:
    """The folder of an import with this name; raises ValueError if the name cannot be used."""
    local.check_name(name)
    target = local.imported_directory() / name
    if target.exists() and not replace:
        raise ValueError(
            f"there is an imported dataset '{name}' already ({target}); choose another name or give --replace"
        )
    return target


def known_names() -> tuple[str, ...]:
    """Every name `load` understands: published and imported."""
    return NAMES + local.imported_names()


def resolved_name(dataset: str) -> str:
    """A name as it is, and otherwise an absolute path, so that a run finds its data from any folder."""
    if dataset in known_names() or is_postgres(dataset):
        return dataset
    if is_glob(dataset):
        return str(Path(dataset).absolute())
    return str(Path(dataset).resolve()) if Path(dataset).exists() else dataset


def _local_folder(name: str) -> Path | None:
    """The folder of an imported dataset, by name or by path."""
    if name in local.imported_names():
        return local.imported_directory() / name
    return Path(name) if (Path(name) / "meta.json").is_file() and name not in NAMES else None


def _locate(name: str, source: Source, console: Console | None, progress: "Progress | None" = None) -> str:
    """The file or folder to read; a name has priority over an equal path, so that results do not depend on
    the folder."""
    if name in NAMES:
        return str(_published(name, source, console, progress))
    validate_no_password(name)
    _validate_no_source(name, source)
    path = Path(name)
    if name.startswith(PREFIX) or path.is_file() or is_postgres(name) or (path.is_dir() and is_minari(path)):
        return name
    if is_glob(name):
        if not find_parts(name):
            raise FileNotFoundError(
                f"{name}: no table matches this pattern; tables are {', '.join(SUFFIXES)}"
            )
        return name
    minari = find_minari(name) if name and not path.is_absolute() else None
    if minari is not None:
        return str(minari)
    if path.is_dir():
        if find_parts(name):
            return name
        raise ValueError(
            f"{path}: is a folder, but not a dataset; expected tables, a Minari folder or one made by"
            " gridcount data import"
        )
    if path.suffix.lower() in (*HDF5_SUFFIXES, *SUFFIXES) or len(path.parts) > 1:
        hint = "" if path.suffix else f" (a Minari dataset's id is written {PREFIX}{name})"
        raise FileNotFoundError(f"{path}: there is no such file; check the path{hint}")
    raise unknown("dataset", name, known_names())


def resolve_source(name: str, source: Source = "auto") -> Literal["", "d4rl", "generated"]:
    """The source of a published dataset on this machine; "" for a file or an imported name."""
    if name not in NAMES:
        return ""
    if source == "auto":
        return "generated" if name in MAZE_NAMES and not published()[name].target.is_file() else "d4rl"
    return source


def _published(name: str, source: Source, console: Console | None, progress: "Progress | None") -> Path:
    if source not in ("auto", "d4rl", "generated"):
        raise unknown("source", source, ("auto", "d4rl", "generated"))
    if name not in MAZE_NAMES:
        _validate_no_source(name, "auto" if source == "d4rl" else source)
        return fetch(name, console)
    if resolve_source(name, source) == "d4rl":
        return fetch(name, console)
    return mazes.make(name, progress=progress)


def _validate_no_source(name: str, source: Source) -> None:
    if source != "auto":
        raise ValueError(
            f"{name}: source '{source}' applies to published datasets only, and 'generated' to Maze2D only"
        )


def _validate_no_bounds(name: str, bounds: Bounds | None) -> None:
    if bounds is not None:
        raise ValueError(
            f"{name}: action bounds apply to files only; set them at the import: gridcount data import FILE"
            " --action-low ..."
        )


def _validate_no_columns(name: str, columns: Columns | None) -> None:
    if columns is not None and (given := columns.given()):
        flag = "--" + next(iter(given)).replace("_", "-")
        raise ValueError(
            f"{name}: {flag} applies to tables only; this dataset's columns were chosen when it was"
            " imported. Leave the flag out, or import"
            f" the table again: gridcount data import FILE --name {Path(name).name} --replace {flag} ..."
        )


def _on_disk(path: str) -> list[Path]:
    """The files or the folder of a dataset; none for a database."""
    if is_postgres(path):
        return []
    if path.startswith(PREFIX) or (Path(path).is_dir() and is_minari(Path(path))):
        return [minari_folder(path)]
    return find_parts(path) if is_table(path) else [Path(path)]


def _is_large(*paths: Path) -> bool:
    """Whether files or folders would fill more than half of the machine's memory."""
    return _bytes(*paths) > memory_limit() / 2


def _share(chosen: bool | None) -> float:
    """Bytes that a log in memory may take: half of the memory by default, all of it if the user chose
    memory."""
    return memory_limit() / 2 if chosen is None else memory_limit()


def _bytes(*paths: Path) -> int:
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path])]
    return sum(file.stat().st_size for file in files if file.is_file())


def _pieces(path: str, columns: Columns | None) -> Iterator[Log]:
    try:
        yield from _format_pieces(path, columns)
    except (ValueError, IndexError, MemoryError) as error:  # errors of libraries rarely name the damaged file
        if any(str(part) in str(error) for part in (path, *_on_disk(path))):
            raise
        raise ValueError(f"{path}: truncated or damaged ({error}); get the file again") from error


def _format_pieces(path: str, columns: Columns | None) -> Iterator[Log]:
    suffix = Path(path).suffix.lower()
    folder = path.startswith(PREFIX) or (Path(path).is_dir() and is_minari(Path(path)))
    if not folder and is_table(path):
        return table_pieces(path, columns)
    if columns is not None and replace(columns, missing=None) != Columns():
        raise ValueError(
            f"{path}: columns can be chosen for tables only ({', '.join(SUFFIXES)}); this format has fixed"
            " columns"
        )
    if folder:
        return minari_pieces(path)
    if suffix in HDF5_SUFFIXES:
        return hdf5_pieces(path)
    known = ", ".join((*HDF5_SUFFIXES, *SUFFIXES))
    raise ValueError(f"{path}: files ending in '{suffix}' are not supported; use {known} or a Minari folder")


def _title(name: str, path: str) -> str:
    return name if name in NAMES else path


def _unpacked(name: str, path: Path) -> Transitions:
    """A named dataset in the local layout, unpacked again whenever its file has changed."""
    facts = path.stat()
    origin: dict[str, Any] = {"source": path.name, "bytes": facts.st_size, "modified": facts.st_mtime_ns}
    folder = cache_directory() / "unpacked" / name
    with locked(folder):
        try:
            meta = local.read_meta(folder)
            fresh = {key: getattr(meta, key) for key in origin} == origin
        except ValueError:
            fresh = False
        if not fresh:
            with spooled(str(path), hdf5_pieces(path), folder.parent) as log:
                local.write_local(folder, cut(log, name), origin, replace=True)
    return local.read_local(folder, name, memory_map=True)
