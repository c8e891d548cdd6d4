"""Tables that are not made for reinforcement learning: .npz, Parquet and CSV, read through a mapping of columns to roles."""

import math
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcount.data.columns import Columns, assign
from gridcount.data.csv_table import csv_names, csv_pieces
from gridcount.data.log import BadValue, Log, Problems, actions, flags, matrix, refuse_no_matrix, refuse_text, rewards
from gridcount.data.transitions import Bool, chunk_rows, chunks

Arrays = Mapping[str, NDArray[Any]]


def table_pieces(path: str | Path, columns: Columns | None = None) -> Iterator[Log]:
    """The log in a .npz, .parquet or .csv file, its columns found by `columns` or by the names everyone uses."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file; check the path")
    names_of, read = _READERS[path.suffix.lower()]
    roles = assign(str(path), names_of(path), columns or Columns())
    text_is_fine = tuple(roles.get("episode", ()))  # an episode's id is only compared with its neighbour's
    problems: Problems = {}
    ids = _EpisodeIds(str(path), roles["episode"][0], problems) if "episode" in roles else None
    start, held = 0, None
    for arrays in read(path, [name for members in roles.values() for name in members], text_is_fine, problems):
        ended, last = (False, None) if ids is None else ids.changes(arrays[ids.name])
        if held is not None:
            held.truncated[-1] |= ended  # only the next row's id tells whether a piece's last row ends an episode
            yield held
        held = _to_log(str(path), roles, arrays, last, start, problems)
        start += len(held)
    if held is not None:
        held.truncated[-1] |= ids is not None
        yield held


def _to_log(source: str, roles: Mapping[str, list[str]], arrays: Arrays, last: Bool | None, start: int, problems: Problems) -> Log:
    observation, observation_names = _stack(source, roles["observation"], arrays)
    action, action_names = _stack(source, roles["action"], arrays, actions)
    following, next_names = _stack(source, roles["next_observation"], arrays) if "next_observation" in roles else (None, ())
    given = {
        role: flags(source, roles[role][0], arrays[roles[role][0]], start, problems)
        for role in ("terminated", "truncated")
        if role in roles
    }
    notes = []
    if not given and last is None:
        notes.append("no column says where episodes end, so the whole log is one episode; name one with --episode or --truncated")
    truncated = given.get("truncated", np.zeros(len(observation), dtype=bool))
    return Log(
        source=source,
        observation=observation,
        action=action,
        reward=rewards(source, roles["reward"][0], arrays[roles["reward"][0]]),
        terminated=given.get("terminated", np.zeros(len(observation), dtype=bool)),
        truncated=truncated if last is None else truncated | last,
        next_observation=following,
        observation_names=observation_names,
        action_names=action_names,
        next_observation_names=next_names,
        reward_name=roles["reward"][0],
        notes=tuple(notes),
        problems=tuple(problems.values()),
    )


def _stack(
    source: str, names: list[str], arrays: Arrays, as_numbers: Callable[[str, str, NDArray[Any]], Any] = matrix
) -> tuple[Any, tuple[str, ...]]:
    """Columns side by side as [rows, dims], and what each dimension is called."""
    parts, labels = [], []
    for name in names:
        column = arrays[name][:, None] if arrays[name].ndim == 1 else arrays[name]
        parts.append(as_numbers(source, name, column))
        labels += [name] if column.shape[1] == 1 else [f"{name}[{i}]" for i in range(column.shape[1])]
    return (parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)), tuple(labels)


class _EpisodeIds:
    """Where an episode's id changes, piece after piece; an id that comes back later means that the rows are not in order."""

    def __init__(self, source: str, name: str, problems: Problems) -> None:
        self.source, self.name, self.problems = source, name, problems
        self.rows, self.last = 0, None
        self.seen: set[Any] = set()

    def changes(self, ids: NDArray[Any]) -> tuple[bool, Bool]:
        """Whether an episode ended with the row before these, and [rows] where one of these is the last of its episode."""
        if ids.ndim != 1:
            raise ValueError(f"{self.source}: '{self.name}' has shape {ids.shape}; an episode's id is one value per row")
        last = np.append(np.asarray(ids[1:] != ids[:-1], dtype=bool), False)  # of the very last row the next piece tells
        ended = self.rows > 0 and bool(ids[0] != self.last)
        starts = np.flatnonzero(last) + 1
        for row in [0, *starts.tolist()] if ended or not self.rows else starts.tolist():
            key = ids[row] if ids[row] == ids[row] else None  # one missing id is an episode, two are not
            if key in self.seen:
                self._returns(ids[row], self.rows + row)
            self.seen.add(key)
        self.rows, self.last = self.rows + len(ids), ids[-1]
        return ended, last

    def _returns(self, value: Any, row: int) -> None:
        message = (
            f"{self.source}: '{self.name}' returns to {value!s} at row {row}, after other episodes; sort the rows by episode and time first"
        )
        self.problems.setdefault(self.name, BadValue(message, self.name, row))


def _npz_names(path: Path) -> list[str]:
    with _open_npz(path) as archive:
        return list(archive.files)


def _npz_pieces(path: Path, names: list[str], text_is_fine: tuple[str, ...], problems: Problems) -> Iterator[Arrays]:
    with _open_npz(path) as archive:
        members: dict[str, _Member] = {}
        for name in names:
            with _npz_errors(path, name):
                members[name] = _Member(archive.zip, name)
            shape, dtype = members[name].shape, members[name].dtype
            if not shape:
                raise ValueError(f"{path}: '{name}' is a single value; expected one per row")
            if len(shape) > 1:
                refuse_no_matrix(str(path), name, shape)
            if shape[0] != members[names[0]].shape[0]:
                first = members[names[0]].shape[0]
                raise ValueError(f"{path}: '{name}' has {shape[0]} rows, '{names[0]}' has {first}; they must agree")
            if name not in text_is_fine:
                try:
                    refuse_text(str(path), name, dtype)
                except BadValue as problem:
                    problems.setdefault(name, problem)
        row_bytes = sum(member.row_bytes for member in members.values())
        for rows in chunks(members[names[0]].shape[0], row_bytes):
            arrays = {}
            for name, member in members.items():
                with _npz_errors(path, name):
                    values = member.read(rows.stop - rows.start)
                arrays[name] = np.full(values.shape, np.nan, np.float32) if name in problems and name not in text_is_fine else values
            yield arrays


class _Member:
    """An array of an .npz, read from front to back: by rows, or by rows of each column where the columns are stored one by one."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        member = f"{name}.npy" if f"{name}.npy" in archive.namelist() else name
        file, (self.shape, by_columns, self.dtype) = self._header(archive.open(member))
        if self.dtype.hasobject:
            raise ValueError("Object arrays cannot be loaded when allow_pickle=False")
        self.row_bytes = self.dtype.itemsize * math.prod(self.shape[1:])
        self._streams = [file]
        if by_columns and len(self.shape) == 2:
            self._streams += [self._header(archive.open(member))[0] for _ in range(1, self.shape[1])]
            for i, stream in enumerate(self._streams):
                stream.seek(i * self.shape[0] * self.dtype.itemsize, 1)
        self._step = self.dtype.itemsize if len(self._streams) > 1 else self.row_bytes

    @staticmethod
    def _header(file: Any) -> tuple[Any, tuple[tuple[int, ...], bool, np.dtype[Any]]]:
        version = np.lib.format.read_magic(file)
        return file, (np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0)(file)

    def read(self, rows: int) -> NDArray[Any]:
        """The next rows."""
        parts = [np.frombuffer(self._bytes(stream, rows * self._step), self.dtype) for stream in self._streams]
        return np.stack(parts, axis=1) if len(parts) > 1 else parts[0].reshape(rows, *self.shape[1:])

    @staticmethod
    def _bytes(stream: Any, count: int) -> bytes:
        found: bytes = stream.read(count)
        if len(found) < count:
            raise ValueError(f"EOF: reading array data, expected {count} bytes got {len(found)}")
        return found


@contextmanager
def _npz_errors(path: Path, name: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(
            f"{path}: '{name}' holds Python objects or is damaged ({error}); save plain numbers, for pickled data is never read"
        ) from error
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError, RuntimeError, NotImplementedError) as error:
        raise ValueError(f"{path}: '{name}' is truncated or damaged ({error}); get the file again") from error


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


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ValueError(f"{path}: Parquet needs pyarrow ({error}). Install it with: pip install 'gridcount[tables]'") from error
    try:
        file = parquet.ParquetFile(path, buffer_size=2**16, pre_buffer=False)  # read page by page, not a row group at once
    except (arrow.ArrowException, OSError) as error:
        raise ValueError(f"{path}: not a readable Parquet file ({error}); write or get it again") from error
    with file:
        try:
            yield file
        except (arrow.ArrowException, OSError) as error:
            raise ValueError(f"{path}: truncated or damaged Parquet ({error}); get the file again") from error


def _parquet_names(path: Path) -> list[str]:
    with _parquet(path) as file:
        return list(file.schema_arrow.names)


def _parquet_pieces(path: Path, names: list[str], text_is_fine: tuple[str, ...], problems: Problems) -> Iterator[Arrays]:
    with _parquet(path) as file:
        import pyarrow as arrow

        shapes: dict[str, tuple[int, ...]] = {}
        for batch in file.iter_batches(chunk_rows(_parquet_row_bytes(file.metadata)), columns=names, use_threads=False):
            table, arrays = arrow.table(batch), {}
            for name in names:
                try:
                    arrays[name] = from_arrow(str(path), name, table.column(name), name in text_is_fine)
                except BadValue as problem:
                    problems.setdefault(name, problem)
                    arrays[name] = np.full(len(table), np.nan, np.float32)
                if shapes.setdefault(name, arrays[name].shape[1:]) != arrays[name].shape[1:]:
                    raise _uneven(str(path), name)
            yield arrays


def _parquet_row_bytes(metadata: Any) -> int:
    """Bytes a row takes while it is unpacked, about: lists count by their elements, and Arrow holds a batch several times over."""
    if not metadata.num_row_groups:
        return 1
    group = metadata.row_group(0)
    return int(32 * sum(group.column(i).num_values for i in range(group.num_columns)) / max(group.num_rows, 1))


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
            raise _uneven(source, name)
        flat = from_arrow(source, name, arrow.chunked_array([compute.list_flatten(column)]))
        return flat.reshape(len(column), int(lengths[0]))
    if text_is_fine and (arrow.types.is_decimal(kind) or (arrow.types.is_integer(kind) and column.null_count)):
        return np.array([np.nan if value is None else value for value in column.to_pylist()], dtype=object)  # exact beyond 2^53 too
    if arrow.types.is_floating(kind) or arrow.types.is_integer(kind) or arrow.types.is_boolean(kind) or arrow.types.is_decimal(kind):
        column = column.cast(arrow.float64(), safe=False) if column.null_count or arrow.types.is_decimal(kind) else column
        values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return values
    if text_is_fine:
        return np.array(column.to_pylist(), dtype=str)
    value = column[0].as_py() if len(column) else ""
    raise text_refused(source, name, str(value), 0)


def _uneven(source: str, name: str) -> ValueError:
    return ValueError(f"{source}: '{name}' holds lists of different lengths or none; every row needs the same dimensions")


def text_refused(source: str, name: str, value: str, row: int) -> BadValue:
    """The advice for a column of text or categories where numbers are needed."""
    return BadValue(
        f"{source}: column '{name}' holds '{value[:60]}' at row {row}, which is not a number; encode categories as numbers"
        " (one 0/1 column per category) or leave the column out",
        name,
        row,
    )


def _csv_pieces(path: Path, names: list[str], text_is_fine: tuple[str, ...], problems: Problems) -> Iterator[Arrays]:
    def refuse(name: str, value: str, row: int) -> None:
        if name not in problems:
            problems[name] = text_refused(str(path), name, value, row)

    return csv_pieces(path, names, text_is_fine, refuse)


_READERS: dict[str, tuple[Callable[[Path], list[str]], Callable[[Path, list[str], tuple[str, ...], Problems], Iterator[Arrays]]]] = {
    ".npz": (_npz_names, _npz_pieces),
    ".parquet": (_parquet_names, _parquet_pieces),
    ".csv": (csv_names, _csv_pieces),
}
SUFFIXES = tuple(_READERS)
