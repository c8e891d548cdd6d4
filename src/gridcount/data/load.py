"""One way in: a dataset's name, an imported name, a file or a Minari folder becomes checked Transitions."""

from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from gridcount.data import local, maze2d
from gridcount.data.cache import alone, cache_directory
from gridcount.data.catalogue import MAZE_NAMES, NAMES, unknown
from gridcount.data.columns import Columns
from gridcount.data.d4rl import read_hdf5_log
from gridcount.data.download import fetch, published
from gridcount.data.log import Log, log_of, to_transitions
from gridcount.data.minari import PREFIX, find_minari, is_minari, read_minari_log
from gridcount.data.tables import SUFFIXES, read_table_log
from gridcount.data.transitions import Transitions

HDF5_SUFFIXES = (".hdf5", ".h5")
Source = Literal["auto", "d4rl", "generated"]


def load(
    name: str | Path,
    columns: Columns | None = None,
    *,
    source: Source = "auto",
    memory_map: bool = False,
    scale_actions: bool = False,
    console: Console | None = None,
    progress: maze2d.Progress | None = None,
) -> Transitions:
    """The transitions of a D4RL or imported name, a file (.hdf5, .h5, .npz, .parquet, .csv) or a Minari folder or id.

    `columns` says which columns of a table are what. `source` chooses, for Maze2D names, between D4RL's file and one generated here:
    "auto" takes D4RL's where it was downloaded before and generates otherwise. `memory_map` leaves the columns on disk; a named
    dataset is unpacked once for it, a file must be imported first. Nothing is downloaded without saying so on `console`;
    `progress` follows the generation of a maze.
    """
    folder = _local_folder(str(name))
    if folder is not None:
        _refuse_source(str(name), source)
        return local.read_local(folder, memory_map=memory_map)
    log_path = _locate(str(name), source, console, progress)
    if not memory_map:
        log = _read(log_path, columns)
        return to_transitions(log, _title(str(name), log_path), scale_actions)
    if str(name) not in NAMES:
        raise ValueError(f"{name}: only imported or named datasets can be memory-mapped; run: gridcount data import {name} --name NAME")
    return _unpacked(str(name), Path(log_path))


def read_log(name: str | Path, columns: Columns | None = None, *, source: Source = "auto", console: Console | None = None) -> Log:
    """The raw log behind a name or a path, its values not yet judged: what `check` looks at."""
    folder = _local_folder(str(name))
    if folder is not None:
        return log_of(local.read_local(folder))
    return _read(_locate(str(name), source, console), columns)


def import_log(
    path: str | Path, name: str, columns: Columns | None = None, *, scale_actions: bool = False, replace: bool = False
) -> Transitions:
    """Store a log once in the local layout; afterwards `load(name)` finds it."""
    free_name(name, replace)
    return store(read_log(path, columns), name, scale_actions=scale_actions, replace=replace)


def store(log: Log, name: str, *, scale_actions: bool = False, replace: bool = False) -> Transitions:
    """Store a log that was already read."""
    target = free_name(name, replace)
    data = to_transitions(log, name, scale_actions)
    local.write_local(target, data, {"source": log.source}, replace)
    return data


def free_name(name: str, replace: bool = False) -> Path:
    """The folder an import of this name goes to, or an error where the name cannot be taken."""
    local.check_name(name)
    target = local.imported_directory() / name
    if target.exists() and not replace:
        raise ValueError(f"there is an imported dataset '{name}' already ({target}); choose another name or give --replace")
    return target


def known_names() -> tuple[str, ...]:
    """Every name `load` understands: published and imported."""
    return NAMES + local.imported_names()


def stored_bytes(name: str) -> int:
    """How much memory an imported dataset would take; 0 for what is not in the local layout."""
    folder = _local_folder(name)
    return 0 if folder is None else sum(path.stat().st_size for path in folder.glob("*.npy"))


def _local_folder(name: str) -> Path | None:
    """The folder of an imported dataset, by name or by path."""
    if name in local.imported_names():
        return local.imported_directory() / name
    return Path(name) if (Path(name) / "meta.json").is_file() and name not in NAMES else None


def _locate(name: str, source: Source, console: Console | None, progress: maze2d.Progress | None = None) -> str:
    """The file or folder to read; a name comes before a path of the same spelling, so that results do not depend on the folder."""
    if name in NAMES:
        return str(_published(name, source, console, progress))
    _refuse_source(name, source)
    path = Path(name)
    if name.startswith(PREFIX) or path.is_file() or (path.is_dir() and is_minari(path)):
        return name
    minari = find_minari(name) if name and not path.is_absolute() else None
    if minari is not None:
        return str(minari)
    if path.is_dir():
        raise ValueError(f"{path}: is a folder but no dataset; expected a Minari folder or one made by gridcount data import")
    if path.suffix.lower() in (*HDF5_SUFFIXES, *SUFFIXES) or len(path.parts) > 1:
        hint = "" if path.suffix else f" (a Minari dataset's id is written {PREFIX}{name})"
        raise FileNotFoundError(f"{path}: there is no such file; check the path{hint}")
    raise unknown("dataset", name, known_names())


def settled_source(name: str, source: Source = "auto") -> Literal["", "d4rl", "generated"]:
    """Which data a published name means here and now; "" for a file or an imported name, which mean themselves."""
    if name not in NAMES:
        return ""
    if source == "auto":
        return "generated" if name in MAZE_NAMES and not published()[name].target.is_file() else "d4rl"
    return source


def _published(name: str, source: Source, console: Console | None, progress: maze2d.Progress | None) -> Path:
    if source not in ("auto", "d4rl", "generated"):
        raise unknown("source", source, ("auto", "d4rl", "generated"))
    if name not in MAZE_NAMES:
        _refuse_source(name, "auto" if source == "d4rl" else source)
        return fetch(name, console)
    if settled_source(name, source) == "d4rl":
        return fetch(name, console)
    return maze2d.make(name, progress=progress)


def _refuse_source(name: str, source: Source) -> None:
    if source != "auto":
        raise ValueError(f"{name}: source '{source}' is a choice for published names only, and 'generated' for Maze2D")


def _read(path: str, columns: Columns | None) -> Log:
    try:
        return _read_format(path, columns)
    except (ValueError, IndexError, MemoryError) as error:  # what a library says of a damaged file seldom names the file
        if path in str(error):
            raise
        raise ValueError(f"{path}: truncated or damaged ({error}); get the file again") from error


def _read_format(path: str, columns: Columns | None) -> Log:
    suffix = Path(path).suffix.lower()
    if not path.startswith(PREFIX) and Path(path).is_file() and suffix in SUFFIXES:
        return read_table_log(path, columns)
    if columns is not None and columns != Columns():
        raise ValueError(f"{path}: columns can be chosen for tables only ({', '.join(SUFFIXES)}); this format names its own")
    if path.startswith(PREFIX) or Path(path).is_dir():
        return read_minari_log(path)
    if suffix in HDF5_SUFFIXES:
        return read_hdf5_log(path)
    known = ", ".join((*HDF5_SUFFIXES, *SUFFIXES))
    raise ValueError(f"{path}: files ending in '{suffix}' are not understood; there are {known}, and Minari folders")


def _title(name: str, path: str) -> str:
    return name if name in NAMES else path


def _unpacked(name: str, path: Path) -> Transitions:
    """A named dataset in the local layout, unpacked again whenever its file has changed."""
    facts = path.stat()
    origin: dict[str, Any] = {"source": path.name, "bytes": facts.st_size, "modified": facts.st_mtime_ns}
    folder = cache_directory() / "unpacked" / name
    with alone(folder):
        try:
            fresh = {key: local.read_meta(folder).get(key) for key in origin} == origin
        except ValueError:
            fresh = False
        if not fresh:
            local.write_local(folder, to_transitions(read_hdf5_log(path), name), origin, replace=True)
    return local.read_local(folder, name, memory_map=True)
