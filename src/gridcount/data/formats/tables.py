"""Tables (.npz, Parquet and CSV), read with a mapping of columns to roles."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcount.data.formats.arrow_files import open_arrow
from gridcount.data.formats.columns import Columns, assign
from gridcount.data.formats.csv_table import csv_names, csv_pieces
from gridcount.data.formats.log import (
    Arrays,
    BadValue,
    Log,
    OpenTable,
    Problems,
    actions,
    flags,
    matrix,
    rewards,
)
from gridcount.data.formats.npz import open_npz
from gridcount.transitions import Bool, chunk_rows


def table_pieces(path: str | Path, columns: Columns | None = None) -> Iterator[Log]:
    """The log in a .npz, .parquet or .csv file, its columns found by `columns` or by common names."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file; check the path")
    with _OPEN[path.suffix.lower()](path) as table:
        yield from read_table(str(path), table, columns or Columns())


def read_table(source: str, table: OpenTable, columns: Columns) -> Iterator[Log]:
    """The log in an open table, a piece at a time."""
    roles = assign(source, table.names, columns)
    text_is_fine = tuple(roles.get("episode", ()))  # episode ids are only compared with the next one
    problems: Problems = {}
    ids = _EpisodeIds(source, roles["episode"][0], problems) if "episode" in roles else None
    start, held = 0, None
    stated, pieces = table.read(
        [name for members in roles.values() for name in members], text_is_fine, problems
    )
    for arrays in pieces:
        ended, last = (False, None) if ids is None else ids.changes(arrays[ids.name])
        if held is not None:
            held.truncated[-1] |= (
                ended  # the last row of a piece ends an episode if the next row has another id
            )
            yield held
        held = replace(_to_log(source, roles, arrays, last, start, problems), stated_rows=stated)
        start += len(held)
    if held is not None:
        held.truncated[-1] |= ids is not None
        yield held


def _to_log(
    source: str,
    roles: Mapping[str, list[str]],
    arrays: Arrays,
    last: Bool | None,
    start: int,
    problems: Problems,
) -> Log:
    observation, observation_names = _stack(source, roles["observation"], arrays)
    action, action_names = _stack(source, roles["action"], arrays, actions)
    following, next_names = (
        _stack(source, roles["next_observation"], arrays) if "next_observation" in roles else (None, ())
    )
    given = {
        role: flags(source, roles[role][0], arrays[roles[role][0]], start, problems)
        for role in ("terminated", "truncated")
        if role in roles
    }
    notes = []
    if not given and last is None:
        notes.append(
            "no column marks where episodes end, so the whole log is one episode; name one with --episode or --truncated"
        )
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
    source: str,
    names: list[str],
    arrays: Arrays,
    as_numbers: Callable[[str, str, NDArray[Any]], Any] = matrix,
) -> tuple[Any, tuple[str, ...]]:
    """Columns side by side as [rows, dims], and what each dimension is called."""
    parts, labels = [], []
    for name in names:
        column = arrays[name][:, None] if arrays[name].ndim == 1 else arrays[name]
        parts.append(as_numbers(source, name, column))
        labels += [name] if column.shape[1] == 1 else [f"{name}[{i}]" for i in range(column.shape[1])]
    return (parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)), tuple(labels)


class _EpisodeIds:
    """Where an episode's id changes, piece after piece; an id that occurs again later means that rows are not sorted."""

    def __init__(self, source: str, name: str, problems: Problems) -> None:
        self.source, self.name, self.problems = source, name, problems
        self.rows, self.last = 0, None
        self.seen: set[Any] = set()

    def changes(self, ids: NDArray[Any]) -> tuple[bool, Bool]:
        """Whether an episode ended with the row before these, and [rows] where one of these is the last of its episode."""
        if ids.ndim != 1:
            raise ValueError(
                f"{self.source}: '{self.name}' has shape {ids.shape}; an episode's id is one value per row"
            )
        last = np.append(
            np.asarray(ids[1:] != ids[:-1], dtype=bool), False
        )  # the next piece decides about the last row
        ended = self.rows > 0 and bool(ids[0] != self.last)
        starts = np.flatnonzero(last) + 1
        for row in [0, *starts.tolist()] if ended or not self.rows else starts.tolist():
            key = (
                ids[row] if ids[row] == ids[row] else None
            )  # one missing id is an episode, a second one is an error
            if key in self.seen:
                self._returns(ids[row], self.rows + row)
            self.seen.add(key)
        self.rows, self.last = self.rows + len(ids), ids[-1]
        return ended, last

    def _returns(self, value: Any, row: int) -> None:
        message = f"{self.source}: '{self.name}' returns to {value!s} at row {row}, after other episodes; sort the rows by episode and time first"
        self.problems.setdefault(self.name, BadValue(message, self.name, row))


@contextmanager
def _open_parquet(path: Path) -> Iterator[OpenTable]:
    try:
        import pyarrow.parquet  # noqa: F401  which the process that reads it needs
    except ImportError as error:
        raise ValueError(
            f"{path}: Parquet needs pyarrow ({error}). Install it with: pip install 'gridcount[tables]'"
        ) from error
    with open_arrow(path) as file:

        def read(
            names: list[str], text_is_fine: tuple[str, ...], problems: Problems
        ) -> tuple[int, Iterator[Arrays]]:
            if twice := next((name for name in names if file.names.count(name) > 1), None):
                raise ValueError(f"{path}: two columns are called '{twice}'; give each its own name")
            tables = file.batches(chunk_rows(file.row_bytes), names)
            return file.rows, _parquet_pieces(path, tables, names, text_is_fine, problems)

        yield OpenTable(file.names, read)


def _parquet_pieces(
    path: Path, tables: Iterator[Any], names: list[str], text_is_fine: tuple[str, ...], problems: Problems
) -> Iterator[Arrays]:
    shapes: dict[str, tuple[int, ...]] = {}
    for table in tables:
        arrays = {}
        for name in names:
            try:
                arrays[name] = from_arrow(str(path), name, table.column(name), name in text_is_fine)
            except BadValue as problem:
                problems.setdefault(name, problem)
                arrays[name] = np.full(len(table), np.nan, np.float32)
            if shapes.setdefault(name, arrays[name].shape[1:]) != arrays[name].shape[1:]:
                raise _uneven(str(path), name)
        yield arrays


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
    if text_is_fine and (
        arrow.types.is_decimal(kind) or (arrow.types.is_integer(kind) and column.null_count)
    ):
        return np.array(
            [np.nan if value is None else value for value in column.to_pylist()], dtype=object
        )  # exact beyond 2^53 too
    if (
        arrow.types.is_floating(kind)
        or arrow.types.is_integer(kind)
        or arrow.types.is_boolean(kind)
        or arrow.types.is_decimal(kind)
    ):
        column = (
            column.cast(arrow.float64(), safe=False)
            if column.null_count or arrow.types.is_decimal(kind)
            else column
        )
        values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return values
    if text_is_fine:
        return np.array(column.to_pylist(), dtype=str)
    value = column[0].as_py() if len(column) else ""
    raise text_error(source, name, str(value), 0)


def _uneven(source: str, name: str) -> ValueError:
    return ValueError(
        f"{source}: '{name}' holds lists of different lengths or none; every row needs the same dimensions"
    )


def text_error(source: str, name: str, value: str, row: int) -> BadValue:
    """The error for text or categories in a numeric column."""
    return BadValue(
        f"{source}: column '{name}' holds '{value[:60]}' at row {row}, which is not a number; encode categories as numbers"
        " (one 0/1 column per category) or leave the column out",
        name,
        row,
    )


@contextmanager
def _open_csv(path: Path) -> Iterator[OpenTable]:
    def read(
        names: list[str], text_is_fine: tuple[str, ...], problems: Problems
    ) -> tuple[int, Iterator[Arrays]]:
        def report_text(name: str, value: str, row: int) -> None:
            if name not in problems:
                problems[name] = text_error(str(path), name, value, row)

        return 0, csv_pieces(path, names, text_is_fine, report_text)

    yield OpenTable(csv_names(path), read)


_OPEN: dict[str, Callable[[Path], AbstractContextManager[OpenTable]]] = {
    ".npz": open_npz,
    ".parquet": _open_parquet,
    ".csv": _open_csv,
}
SUFFIXES = tuple(_OPEN)
