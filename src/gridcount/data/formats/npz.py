"""NumPy's .npz archives, read sequentially and never beyond their declared size."""

import math
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcount import transitions
from gridcount.data.formats.log import (
    Arrays,
    BadValue,
    Kinds,
    OpenTable,
    Problems,
    validate_matrix,
    validate_numeric,
)
from gridcount.files import DiskFull, on_full_disk
from gridcount.files.archive import Member
from gridcount.files.cache import make_cache_folder
from gridcount.transitions import chunks

IDS = "biufUSmM"  # types of values that can be an episode id
NOT_READABLE = (
    ValueError,
    OSError,
    EOFError,
    zipfile.BadZipFile,
    KeyError,
    NotImplementedError,
    RuntimeError,
    MemoryError,
)


@contextmanager
def open_npz(path: Path) -> Iterator[OpenTable]:
    """The arrays of an archive as columns."""
    with path.open("rb") as file:
        if file.read(6) == np.lib.format.MAGIC_PREFIX:
            raise ValueError(f"{path}: holds a single array, not an .npz archive; save it with numpy.savez")
        try:
            archive = zipfile.ZipFile(file)
        except NOT_READABLE as error:
            raise ValueError(
                f"{path}: not a readable .npz archive ({error}); save it with numpy.savez"
            ) from error
        names = [name.removesuffix(".npy") for name in archive.namelist()]

        def read(names: list[str], kinds: Kinds, problems: Problems) -> tuple[int, Iterator[Arrays]]:
            members: dict[str, Column] = {}
            for name in names:
                with _named_errors(path, name):
                    members[name] = Column(archive, name)
                _validate(path, name, members[name], members[names[0]].shape, name in kinds, problems)
            _validate_room(path, sum(member.spooled for member in members.values()))
            return members[names[0]].shape[0], _pieces(path, members, kinds, problems)

        yield OpenTable(names, read, [])


def _pieces(path: Path, members: dict[str, "Column"], kinds: Kinds, problems: Problems) -> Iterator[Arrays]:
    row_bytes = sum(member.row_bytes for member in members.values())
    for rows in chunks(next(iter(members.values())).shape[0], row_bytes):
        arrays = {}
        for name, member in members.items():
            with _named_errors(path, name):
                values = member.read(rows)
            unread = name in problems and name not in kinds
            arrays[name] = np.full(values.shape, np.nan, np.float32) if unread else values
        yield arrays


def _validate(
    path: Path, name: str, member: "Column", first: tuple[int, ...], text_is_fine: bool, problems: Problems
) -> None:
    """Raise ValueError for an array that cannot be a column; a wrong type is recorded."""
    shape = member.shape
    if not shape:
        raise ValueError(f"{path}: '{name}' is a single value; expected one per row")
    if len(shape) > 1:
        validate_matrix(str(path), name, shape)
    if shape[0] != first[0]:
        raise ValueError(
            f"{path}: '{name}' has {shape[0]} rows, the first column has {first[0]}; they must agree"
        )
    if text_is_fine:
        if member.dtype.kind not in IDS or not member.dtype.itemsize:
            raise ValueError(
                f"{path}: '{name}' has dtype {member.dtype}; an episode's id is a number or text"
            )
        return
    try:
        validate_numeric(str(path), name, member.dtype)
    except BadValue as problem:
        problems.setdefault(name, problem)


def _validate_room(path: Path, size: int) -> None:
    """Raise ValueError for arrays that would fill the disk, before the first is unpacked."""
    if size and size > (free := shutil.disk_usage(folder := make_cache_folder("spool")).free):
        raise ValueError(
            f"{path}: unpacks to {size:,} bytes, but {folder} has only {free:,} free; free disk space, or"
            " set the environment"
            " variable GRIDCOUNT_HOME to another folder; if it should be smaller, do not trust the file"
        )


class Column:
    """An array of an archive, read some rows at a time."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._member = member = Member(archive, name)
        self.shape, self.dtype = member.shape, member.dtype
        self.row_bytes = self.dtype.itemsize * math.prod(self.shape[1:])
        self._by_columns = member.by_columns and len(self.shape) == 2 and member.size > 0
        self._unpacked: NDArray[Any] | None = None

    @property
    def spooled(self) -> int:
        """Disk space that is needed to read it by rows."""
        return self._member.size if self._by_columns and self._member.size > transitions.CHUNK_BYTES else 0

    def read(self, rows: slice) -> NDArray[Any]:
        """The next rows."""
        if self._by_columns:
            self._unpacked = self._unpack() if self._unpacked is None else self._unpacked
            return np.array(self._unpacked[rows], order="C")
        count = rows.stop - rows.start
        return np.frombuffer(self._member.next_bytes(count * self.row_bytes), self.dtype).reshape(
            count, *self.shape[1:]
        )

    def _unpack(self) -> NDArray[Any]:
        """An array that is stored one column after the other, unpacked once; large ones into a temporary
        file."""
        if not self.spooled:
            return self._member.read()
        folder = make_cache_folder("spool")
        with (
            on_full_disk(folder),
            tempfile.TemporaryFile(dir=folder) as spool,
        ):  # the mapping stays valid after the file is closed
            for part in chunks(self._member.size, 1):
                spool.write(self._member.next_bytes(part.stop - part.start))
            spool.flush()
            return np.memmap(spool, self.dtype, "r", shape=self.shape, order="F")


@contextmanager
def _named_errors(path: Path, name: str) -> Iterator[None]:
    try:
        yield
    except DiskFull:
        raise
    except ValueError as error:
        raise ValueError(
            f"{path}: '{name}' holds Python objects or is damaged ({error}); save plain numbers, because"
            " pickled data is never read"
        ) from error
    except (*NOT_READABLE, zlib.error, OverflowError) as error:
        raise ValueError(f"{path}: '{name}' is truncated or damaged ({error}); get the file again") from error
