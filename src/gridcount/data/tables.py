"""Tables that are not made for reinforcement learning: .npz, Parquet and CSV, read through a mapping of columns to roles."""

import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcount.data.columns import Columns, assign
from gridcount.data.csv_table import csv_names, read_csv_columns
from gridcount.data.log import BadValue, Log, flags, matrix, numbers, rewards
from gridcount.data.transitions import Bool, Float32

Arrays = Mapping[str, NDArray[Any]]


def read_table_log(path: str | Path, columns: Columns | None = None) -> Log:
    """The log in a .npz, .parquet or .csv file, its columns found by `columns` or by the names everyone uses."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file; check the path")
    names_of, read = _READERS[path.suffix.lower()]
    roles = assign(str(path), names_of(path), columns or Columns())
    text_is_fine = tuple(roles.get("episode", ()))  # an episode's id is only compared with its neighbour's
    arrays = read(path, [name for members in roles.values() for name in members], text_is_fine)
    return _to_log(str(path), roles, arrays)


def _to_log(source: str, roles: Mapping[str, list[str]], arrays: Arrays) -> Log:
    observation, observation_names = _stack(source, roles["observation"], arrays)
    action, action_names = _stack(source, roles["action"], arrays)
    rows = len(observation)
    key = roles["reward"][0]
    reward = rewards(source, key, numbers(source, key, arrays[key]))
    given = {role: flags(source, roles[role][0], arrays[roles[role][0]]) for role in ("terminated", "truncated") if role in roles}
    none = np.zeros(rows, dtype=bool)
    notes = []
    if not given and "episode" not in roles:
        notes.append("no column says where episodes end, so the whole log is one episode; name one with --episode or --truncated")
    truncated = given.get("truncated", none)
    if "episode" in roles and rows:
        truncated = truncated | _changes(source, roles["episode"][0], arrays[roles["episode"][0]])
    return Log(
        source=source,
        observation=observation,
        action=action,
        reward=reward,
        terminated=given.get("terminated", none),
        truncated=truncated,
        next_observation=_stack(source, roles["next_observation"], arrays)[0] if "next_observation" in roles else None,
        observation_names=observation_names,
        action_names=action_names,
        notes=tuple(notes),
    )


def _stack(source: str, names: list[str], arrays: Arrays) -> tuple[Float32, tuple[str, ...]]:
    """Columns side by side as [rows, dims], and what each dimension is called."""
    parts, labels = [], []
    for name in names:
        column = numbers(source, name, arrays[name])
        column = column[:, None] if column.ndim == 1 else column
        parts.append(matrix(source, name, column))
        labels += [name] if column.shape[1] == 1 else [f"{name}[{i}]" for i in range(column.shape[1])]
        if len(column) != len(parts[0]):
            raise ValueError(f"{source}: '{name}' has {len(column)} rows, '{names[0]}' has {len(parts[0])}; they must agree")
    return (parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)), tuple(labels)


def _changes(source: str, name: str, episode: NDArray[Any]) -> Bool:
    """True at the last row of each run of equal ids; an id that comes back later means the rows are not in order."""
    if episode.ndim != 1:
        raise ValueError(f"{source}: '{name}' has shape {episode.shape}; an episode's id is one value per row")
    last = np.append(episode[1:] != episode[:-1], True)
    starts = np.append(0, np.flatnonzero(last)[:-1] + 1)
    ids, first = np.unique(episode[starts], return_index=True)
    if len(ids) != len(starts):
        again = np.setdiff1d(np.arange(len(starts)), first)[0]
        raise ValueError(
            f"{source}: '{name}' returns to {episode[starts[again]]!s} at row {starts[again]}, after other episodes;"
            " sort the rows by episode and time first"
        )
    return last


def _npz_names(path: Path) -> list[str]:
    with _open_npz(path) as archive:
        return list(archive.files)


def _read_npz(path: Path, names: list[str], text_is_fine: tuple[str, ...]) -> Arrays:
    with _open_npz(path) as archive:
        arrays = {}
        for name in names:
            try:
                arrays[name] = archive[name]
            except ValueError as error:
                raise ValueError(
                    f"{path}: '{name}' holds Python objects or is damaged ({error}); save plain numbers, for pickled data is never read"
                ) from error
            except (zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError, RuntimeError, NotImplementedError) as error:
                raise ValueError(f"{path}: '{name}' is truncated or damaged ({error}); get the file again") from error
            if arrays[name].ndim == 0:
                raise ValueError(f"{path}: '{name}' is a single value; expected one per row")
            if name not in text_is_fine:
                numbers(str(path), name, arrays[name])
    return arrays


@contextmanager
def _open_npz(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:  # opened here, for NumPy leaves its own handle open where the archive is damaged
        try:
            archive = np.load(file, allow_pickle=False)
        except (ValueError, OSError, EOFError, zipfile.BadZipFile, KeyError, NotImplementedError) as error:
            raise ValueError(f"{path}: not a readable .npz archive ({error}); save it with numpy.savez") from error
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError(f"{path}: holds a single array, not an .npz archive; save it with numpy.savez")
        yield archive


def _parquet(path: Path) -> Any:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ValueError(f"{path}: Parquet needs pyarrow ({error}). Install it with: pip install 'gridcount[tables]'") from error
    try:
        return parquet.ParquetFile(path)
    except (arrow.ArrowException, OSError) as error:
        raise ValueError(f"{path}: not a readable Parquet file ({error}); write or get it again") from error


def _parquet_names(path: Path) -> list[str]:
    with _parquet(path) as file:
        return list(file.schema_arrow.names)


def _read_parquet(path: Path, names: list[str], text_is_fine: tuple[str, ...]) -> Arrays:
    with _parquet(path) as file:
        import pyarrow as arrow

        try:
            table = file.read(columns=names)
        except (arrow.ArrowException, OSError) as error:
            raise ValueError(f"{path}: truncated or damaged Parquet ({error}); get the file again") from error
    return {name: from_arrow(str(path), name, table.column(name), name in text_is_fine) for name in names}


def from_arrow(source: str, name: str, column: Any, text_is_fine: bool = False) -> NDArray[Any]:
    """An Arrow column as [rows] or, from a list column, as [rows, dims]; a null is NaN."""
    import pyarrow as arrow
    import pyarrow.compute as compute

    kind, column = column.type, column.combine_chunks()
    if arrow.types.is_dictionary(kind) and text_is_fine:
        kind, column = kind.value_type, column.dictionary_decode()
    if arrow.types.is_list(kind) or arrow.types.is_large_list(kind) or arrow.types.is_fixed_size_list(kind):
        lengths = np.unique(compute.list_value_length(column).to_numpy(zero_copy_only=False))
        if len(lengths) != 1 or np.isnan(lengths[0]):
            raise ValueError(f"{source}: '{name}' holds lists of different lengths or none; every row needs the same dimensions")
        flat = from_arrow(source, name, arrow.chunked_array([compute.list_flatten(column)]))
        return flat.reshape(len(column), int(lengths[0]))
    if arrow.types.is_floating(kind) or arrow.types.is_integer(kind) or arrow.types.is_boolean(kind) or arrow.types.is_decimal(kind):
        column = column.cast(arrow.float64()) if column.null_count or arrow.types.is_decimal(kind) else column
        values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return values
    if text_is_fine:
        return np.array(column.to_pylist(), dtype=str)
    value = column[0].as_py() if len(column) else ""
    raise text_refused(source, name, str(value), 0)


def text_refused(source: str, name: str, value: str, row: int) -> ValueError:
    """The advice for a column of text or categories where numbers are needed."""
    return BadValue(
        f"{source}: column '{name}' holds '{value[:60]}' at row {row}, which is not a number; encode categories as numbers"
        " (one 0/1 column per category) or leave the column out",
        name,
        row,
    )


def _read_csv(path: Path, names: list[str], text_is_fine: tuple[str, ...]) -> Arrays:
    return read_csv_columns(path, names, text_is_fine, refuse=lambda name, value, row: text_refused(str(path), name, value, row))


_READERS: dict[str, tuple[Callable[[Path], list[str]], Callable[[Path, list[str], tuple[str, ...]], Arrays]]] = {
    ".npz": (_npz_names, _read_npz),
    ".parquet": (_parquet_names, _read_parquet),
    ".csv": (csv_names, _read_csv),
}
SUFFIXES = tuple(_READERS)
