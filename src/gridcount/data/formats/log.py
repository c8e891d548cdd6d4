"""A log as read from a file: arrays with fixed names, not validated yet. Readers make it, and `check` and
training validate it.

Readers give a log in pieces, each a Log of some rows; `join` puts the pieces together in memory, `spooled` on
disk.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridcount.files import on_full_disk
from gridcount.files.memory import memory_limit
from gridcount.transitions import Bool, Float, Float32, Transitions, name_dimensions

NUMBERS = ("observation", "action", "reward", "next_observation")  # columns that may be left on disk,
KEYS = ("episode", "time")  # as may these, of a table
FLAGS = ("terminated", "truncated")  # a byte per row each: always in memory


class BadValue(ValueError):
    """A value of the wrong type, with its column and row."""

    def __init__(self, message: str, column: str, row: int | None) -> None:
        super().__init__(message)
        self.column, self.row = column, row


Problems = dict[
    str, BadValue
]  # column -> its first bad value; readers record it and continue, so that a check covers the rest


Arrays = Mapping[str, NDArray[Any]]
# Columns that may be text. An id keeps all digits, a time may be a date, and a label is never a number.
Kind = Literal["id", "time", "label"]
Kinds = Mapping[str, Kind]


class OpenTable(NamedTuple):
    """A file of named columns while it is open."""

    names: list[str]
    # reads these columns: the rows that the file states (0: it does not), and pieces of them
    read: Callable[[list[str], Kinds, Problems], tuple[int, Iterator[Arrays]]]
    notes: list[str]  # decisions of the reader, for the user; complete when all pieces are read
    # of text: decimal marks, with '?' where they may separate thousands -> a number with it; after `read`
    marks: Mapping[str, str] = MappingProxyType({})


class Remark(NamedTuple):
    """Something that the user should know about how a log was read."""

    problem: str
    advice: str
    column: str | None = None
    row: int | None = None


class Reading:
    """What reading a table finds out about its rows; complete after the last piece."""

    def __init__(self) -> None:
        self.ids: dict[Any, int] = {}  # episode id -> its number, in the order of the file
        self.starts: list[float] = []  # each episode's earliest time, where rows have a time
        self.returns = 0  # how often the id of an earlier episode comes back,
        self.returned: tuple[Any, int] | None = None  # and first: the id and its row
        self.late = 0  # rows that are earlier than the row above, in the same episode,
        self.first_late: int | None = None  # and the first of them
        self.categories: dict[int, tuple[str, dict[str, int]]] = {}  # observation -> column, label -> number


class TooLarge(ValueError):
    """A log that does not fit into memory or on disk."""


class Collected(NamedTuple):
    """The environment a log was collected in, as its file records it."""

    id: str  # as Gymnasium calls it
    options: tuple[str, ...]  # names of its options, which the id does not include


class Stored:
    """A column of numbers on disk; rows are read on demand."""

    def __init__(self, file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype, self._file = shape, dtype, file

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Float:
        start, stop, _ = rows.indices(len(self))
        values = np.empty((max(stop - start, 0), *self.shape[1:]), self.dtype)
        self._file.seek(start * values.itemsize * int(np.prod(self.shape[1:])))
        if values.size:
            self._file.readinto(values.data.cast("B"))  # type: ignore[attr-defined]
        return values


@dataclass(frozen=True)
class Log:
    """Columns of one log or of a piece of it, rows in time order, episodes one after the other; values are
    not validated."""

    source: str  # the file or folder, for messages
    observation: Float32  # [rows, observation_dim]; as the other numbers, an array or a Stored column
    action: Float  # [rows, action_dim] in the log's own units and precision, before scaling
    reward: Float32  # [rows]
    terminated: Bool  # [rows] the episode truly ended here
    truncated: Bool  # [rows] the episode was cut off here
    next_observation: Float32 | None = None  # [rows, observation_dim], where the file has it
    observation_names: tuple[str, ...] = ()  # what the file calls each dimension
    action_names: tuple[str, ...] = ()
    next_observation_names: tuple[str, ...] = ()
    reward_name: str = "reward"
    action_low: Float32 | None = None  # [action_dim] bounds the file declares
    action_high: Float32 | None = None
    environment: Collected | None = None  # the recorded environment of the log
    # [rows] number of the episode, if a column of the table has its id
    episode: NDArray[np.int64] | None = None
    time: NDArray[np.float64] | None = None  # [rows] if a column of the table has it
    reading: Reading | None = None  # of a table: what its rows need before they are in order
    notes: tuple[str, ...] = ()  # decisions of the reader, for the user
    remarks: tuple[Remark, ...] = ()  # those that may be wrong
    stated_rows: int = 0  # of a piece: rows of the whole log according to the file; 0: unknown
    problems: tuple[
        BadValue, ...
    ] = ()  # values that could not be read, up to and including these rows; NaN replaces them

    def __post_init__(self) -> None:
        """Validate the lengths of columns, and name the dimensions."""
        rows = len(self.observation)
        if rows == 0:
            raise _empty(self.source)
        for column in ("action", "reward", "terminated", "truncated", "next_observation"):
            array = getattr(self, column)
            if array is not None and len(array) != rows:
                raise ValueError(
                    f"{self.source}: '{column}' has {len(array)} rows, 'observation' has {rows}; the file is"
                    " inconsistent, get it again"
                )
        if self.next_observation is not None and self.next_observation.shape != self.observation.shape:
            raise ValueError(
                f"{self.source}: observations have shape {self.observation.shape} and next observations"
                f" {self.next_observation.shape};"
                " name the same columns for both"
            )
        name_dimensions(self)
        if len(self.next_observation_names) != len(self.observation_names):
            object.__setattr__(
                self, "next_observation_names", tuple(f"next {name}" for name in self.observation_names)
            )

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def end(self) -> Bool:
        """[rows] last row of an episode; the last row of the log always is one."""
        end: Bool = self.terminated | self.truncated
        end[-1] = True
        return end


Gather = Callable[[Iterable[Log]], Log]
Finish = Callable[[Log, Gather], Log]  # works on a whole log, and gathers the pieces of a new one


def join(source: str, pieces: Iterable[Log], limit: float | None = None, finish: Finish | None = None) -> Log:
    """One log of its pieces, in memory; TooLarge beyond `limit` bytes, by default all that this process
    may fill."""

    def gather(pieces: Iterable[Log]) -> Log:
        return _gather(source, pieces, _InMemory, memory_limit() if limit is None else limit, "memory")

    return gather(pieces) if finish is None else finish(gather(pieces), gather)


@contextmanager
def spooled(source: str, pieces: Iterable[Log], folder: Path, finish: Finish | None = None) -> Iterator[Log]:
    """One log of its pieces, with its numbers in temporary files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        older = stack.enter_context(ExitStack())

        def gather(pieces: Iterable[Log]) -> Log:
            nonlocal older
            files, free = stack.enter_context(ExitStack()), shutil.disk_usage(folder).free

            def sink() -> _OnDisk:
                return _OnDisk(files.enter_context(tempfile.TemporaryFile(dir=folder)))

            log = _gather(source, pieces, sink, free, f"disk ({folder})")
            older.close()  # the log from which this one was made
            older = files
            return log

        with on_full_disk(folder):
            log = gather(pieces)
            if finish is not None:
                log = finish(log, gather)
        yield log


def _gather(
    source: str, pieces: Iterable[Log], sink: Callable[[], "_InMemory | _OnDisk"], limit: float, where: str
) -> Log:
    sinks: dict[str, _InMemory | _OnDisk] = {}
    last, taken = None, 0
    for last in pieces:
        columns = (getattr(last, column) for column in (*NUMBERS, *KEYS, *FLAGS))
        size = sum(column.nbytes for column in columns if column is not None)
        taken = max(taken + size, size * last.stated_rows // len(last) if not sinks else 0)
        if taken > limit:  # checked before more is unpacked: a small file can unpack to any size
            raise TooLarge(
                f"{source}: unpacks to {taken / 2**30:.1f} GiB or more, but only {limit / 2**30:.1f} GiB of"
                f" {where} are available;"
                " if it should be smaller, do not trust the file"
            )
        for column in (*NUMBERS, *KEYS, *FLAGS):
            rows = getattr(last, column)
            if rows is not None:
                if column not in sinks:
                    sinks[column] = _InMemory() if column in FLAGS else sink()
                sinks[column].add(rows)
    if last is None:
        raise _empty(source)
    return replace(last, **{column: sink.column() for column, sink in sinks.items()})


class _InMemory:
    """An array that grows in place: np.concatenate would hold the pieces in memory twice."""

    def __init__(self) -> None:
        self._array: NDArray[Any] | None = None

    def add(self, rows: NDArray[Any]) -> None:
        if self._array is None:
            self._array = np.array(rows, order="C")
            return
        if self._array.shape[1:] != rows.shape[1:]:
            raise ValueError(f"rows of shape {rows.shape[1:]} after rows of shape {self._array.shape[1:]}")
        filled = len(self._array)
        self._array.resize((filled + len(rows), *rows.shape[1:]), refcheck=False)
        self._array[filled:] = rows

    def column(self) -> Any:
        return self._array


class _OnDisk:
    """A file that grows."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._rows, self._dims, self._dtype = file, 0, tuple[int, ...](), np.dtype(np.float32)

    def add(self, rows: NDArray[Any]) -> None:
        if self._rows and self._dims != rows.shape[1:]:
            raise ValueError(f"rows of shape {rows.shape[1:]} after rows of shape {self._dims}")
        if not self._rows:
            self._dtype = rows.dtype
        self._file.write(np.ascontiguousarray(rows, self._dtype).data)
        self._rows, self._dims = self._rows + len(rows), rows.shape[1:]

    def column(self) -> Any:
        return Stored(self._file, (self._rows, *self._dims), self._dtype)


def _empty(source: str) -> ValueError:
    return ValueError(
        f"{source}: 'observations' is empty; the file holds no transition. Generate or download it again"
    )


def log_of(data: Transitions) -> Log:
    """Transitions as a log, so that the check before training uses the training data."""
    truncated = data.episode_end & ~data.terminated
    return Log(
        source=data.name,
        observation=data.observation,
        action=data.action,
        reward=data.reward,
        terminated=data.terminated,
        truncated=truncated,
        next_observation=data.next_observation,
        observation_names=data.observation_names,
        action_names=data.action_names,
    )


def validate_numeric(source: str, key: str, dtype: np.dtype[Any]) -> None:
    """Raise BadValue if a column does not hold numbers or booleans."""
    if dtype.kind not in "biuf":
        raise BadValue(
            f"{source}: '{key}' has dtype {dtype}; it must hold numbers or booleans, so convert it first",
            key,
            None,
        )


def validate_matrix(source: str, key: str, shape: tuple[int, ...]) -> None:
    """Raise ValueError if a column does not hold one vector per row."""
    if len(shape) != 2 or not shape[1]:
        raise ValueError(
            f"{source}: '{key}' has shape {shape}; expected (rows, dimensions), so reshape it first"
        )


def validate_vector(source: str, key: str, shape: tuple[int, ...]) -> None:
    """Raise ValueError if a column does not hold one value per row."""
    if len(shape) != 1 and (len(shape) != 2 or shape[1] != 1):
        raise ValueError(
            f"{source}: '{key}' has shape {shape}; expected (rows,) or (rows, 1), so reshape it first"
        )


def matrix(source: str, key: str, column: NDArray[Any]) -> Float32:
    """A column of vectors, in single precision."""
    validate_matrix(source, key, column.shape)
    with np.errstate(
        over="ignore"
    ):  # a number beyond single precision becomes inf, which is reported with its row
        return column.astype(np.float32, copy=False)


def actions(source: str, key: str, column: NDArray[Any]) -> Float:
    """A column of actions: unchanged in single precision, else in double precision, which scaling may
    need."""
    validate_matrix(source, key, column.shape)
    return column if column.dtype == np.float32 else column.astype(np.float64, copy=False)


def rewards(source: str, key: str, column: NDArray[Any]) -> Float32:
    """A column of rewards, in single precision; replay sets keep them as (rows, 1)."""
    validate_vector(source, key, column.shape)
    with np.errstate(over="ignore"):
        return column.reshape(len(column)).astype(np.float32, copy=False)


def flags(source: str, key: str, column: NDArray[Any], start: int, problems: Problems) -> Bool:
    """A column of zeros and ones, of any type; the first other value is recorded. `start` is the piece's
    first row."""
    validate_vector(source, key, column.shape)
    column = column.reshape(len(column))
    as_flags: Bool = column.astype(bool)
    odd = np.flatnonzero(column != as_flags)
    if len(odd):
        row = start + int(odd[0])
        message = f"{source}: '{key}' holds {column[odd[0]]} at row {row}; a flag must be 0 or 1, so repair that row"
        problems.setdefault(key, BadValue(message, key, row))
    return as_flags
