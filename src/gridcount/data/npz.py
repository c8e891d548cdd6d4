"""NumPy's .npz archives, read from front to back and never beyond the size that they state."""

import io
import math
import shutil
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gridcount.data import transitions
from gridcount.data.cache import make_cache_folder
from gridcount.data.log import Arrays, BadValue, OpenTable, Problems, refuse_no_matrix, refuse_text
from gridcount.data.transitions import chunks
from gridcount.files import DiskFull, on_full_disk

BLOCK = 1 << 18  # bytes read together
LONGEST_HEADER = 12_000  # bytes; NumPy itself refuses longer ones
MOST_DEFLATED = 1100  # times that deflate can shrink anything
WRITTEN_BY_NUMPY = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # Python unpacks other compressions all at once
IDS = "biufUSmM"  # kinds of values that an episode can be told by
NOT_READABLE = (ValueError, OSError, EOFError, zipfile.BadZipFile, KeyError, NotImplementedError, RuntimeError, MemoryError)


@contextmanager
def open_npz(path: Path) -> Iterator[OpenTable]:
    """The arrays of an archive as columns."""
    with path.open("rb") as file:
        if file.read(6) == np.lib.format.MAGIC_PREFIX:
            raise ValueError(f"{path}: holds a single array, not an .npz archive; save it with numpy.savez")
        try:
            archive = zipfile.ZipFile(file)
        except NOT_READABLE as error:
            raise ValueError(f"{path}: not a readable .npz archive ({error}); save it with numpy.savez") from error
        names = [name.removesuffix(".npy") for name in archive.namelist()]

        def read(names: list[str], text_is_fine: tuple[str, ...], problems: Problems) -> tuple[int, Iterator[Arrays]]:
            members: dict[str, Member] = {}
            for name in names:
                with _named_errors(path, name):
                    members[name] = Member(archive, name)
                _validate(path, name, members[name], members[names[0]].shape, name in text_is_fine, problems)
            _validate_room(path, sum(member.spooled for member in members.values()))
            return members[names[0]].shape[0], _pieces(path, members, text_is_fine, problems)

        yield OpenTable(names, read)


def _pieces(path: Path, members: dict[str, "Member"], text_is_fine: tuple[str, ...], problems: Problems) -> Iterator[Arrays]:
    row_bytes = sum(member.row_bytes for member in members.values())
    for rows in chunks(next(iter(members.values())).shape[0], row_bytes):
        arrays = {}
        for name, member in members.items():
            with _named_errors(path, name):
                values = member.read(rows)
            unread = name in problems and name not in text_is_fine
            arrays[name] = np.full(values.shape, np.nan, np.float32) if unread else values
        yield arrays


def _validate(path: Path, name: str, member: "Member", first: tuple[int, ...], text_is_fine: bool, problems: Problems) -> None:
    """Refuse an array that cannot be a column; one of a wrong type is noted."""
    shape = member.shape
    if not shape:
        raise ValueError(f"{path}: '{name}' is a single value; expected one per row")
    if len(shape) > 1:
        refuse_no_matrix(str(path), name, shape)
    if shape[0] != first[0]:
        raise ValueError(f"{path}: '{name}' has {shape[0]} rows, the first column has {first[0]}; they must agree")
    if text_is_fine:
        if member.dtype.kind not in IDS or not member.dtype.itemsize:
            raise ValueError(f"{path}: '{name}' has dtype {member.dtype}; an episode's id is a number or text")
        return
    try:
        refuse_text(str(path), name, member.dtype)
    except BadValue as problem:
        problems.setdefault(name, problem)


def _validate_room(path: Path, size: int) -> None:
    """Refuse arrays that would fill the disk, before the first of them is unpacked."""
    if size and size > (free := shutil.disk_usage(folder := make_cache_folder("spool")).free):
        raise ValueError(
            f"{path}: unpacks to {size:,} bytes, and {folder} has {free:,} free; free some room, or name another folder"
            " in the variable GRIDCOUNT_HOME; if that is not the size it should have, do not trust the file"
        )


class Member:
    """An array of an archive, read some rows at a time or whole; its size is what its header, and the archive, say it is."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        info = archive.getinfo(f"{name}.npy" if f"{name}.npy" in archive.namelist() else name)
        if info.compress_type not in WRITTEN_BY_NUMPY:
            raise ValueError("it is compressed in a way that NumPy does not write; save it with numpy.savez_compressed")
        self._file = cast(zipfile.ZipExtFile, archive.open(info))
        (self.shape, self._fortran, self.dtype), start = _header(self._file)
        if self.dtype.hasobject:
            raise ValueError("Object arrays cannot be loaded when allow_pickle=False")
        self.row_bytes = self.dtype.itemsize * math.prod(self.shape[1:])
        self.size = size = self.dtype.itemsize * math.prod(self.shape)
        if min(self.shape, default=0) < 0 or start + size != info.file_size or size > MOST_DEFLATED * info.compress_size:
            raise ValueError(f"shape {self.shape} takes {size:,} bytes, the archive states {info.file_size - start:,}")
        self._file.read(start)  # not sought: the archive's checksum is that of bytes read one after the other
        self._by_columns = self._fortran and len(self.shape) == 2 and size > 0
        self._unpacked: NDArray[Any] | None = None

    @property
    def spooled(self) -> int:
        """Bytes that reading it by rows takes on the disk."""
        return self.size if self._by_columns and self.size > transitions.CHUNK_BYTES else 0

    def read(self, rows: slice) -> NDArray[Any]:
        """The next rows."""
        if self._by_columns:
            self._unpacked = self._unpack() if self._unpacked is None else self._unpacked
            return np.array(self._unpacked[rows], order="C")
        count = rows.stop - rows.start
        return np.frombuffer(self._bytes(count * self.row_bytes), self.dtype).reshape(count, *self.shape[1:])

    def whole(self) -> NDArray[Any]:
        """All values, in memory; whoever asks has looked at `size`."""
        values = np.empty(self.size, np.uint8)
        for start in range(0, self.size, BLOCK):
            values[start : start + BLOCK] = np.frombuffer(self._bytes(min(BLOCK, self.size - start)), np.uint8)
        return values.view(self.dtype).reshape(self.shape, order="F" if self._fortran else "C")

    def _unpack(self) -> NDArray[Any]:
        """An array that is stored one column after the other, unpacked once: beyond some megabytes into a nameless file."""
        if not self.spooled:
            return self.whole()
        folder = make_cache_folder("spool")
        with on_full_disk(folder), tempfile.TemporaryFile(dir=folder) as spool:  # the mapping outlives the handle
            for part in chunks(self.size, 1):
                spool.write(self._bytes(part.stop - part.start))
            spool.flush()
            return np.memmap(spool, self.dtype, "r", shape=self.shape, order="F")

    def _bytes(self, count: int) -> bytes:
        found = self._file.read(count)
        if len(found) < count:
            raise ValueError(f"EOF: reading array data, expected {count} bytes got {len(found)}")
        return found


def _header(file: zipfile.ZipExtFile) -> tuple[tuple[tuple[int, ...], bool, np.dtype[Any]], int]:
    """An array's shape, whether it is stored by columns, and its type; and where its values start."""
    head = io.BytesIO(file.peek(LONGEST_HEADER)[:LONGEST_HEADER])  # no more, however long it says it is
    version = np.lib.format.read_magic(head)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy tells who wrote a header in an old way, which is nothing to act on
            return read(head), head.tell()
    except Exception as error:  # a header is parsed as Python, and what is wrong with it has many names
        raise ValueError(f"its header cannot be read: {error}") from error


@contextmanager
def _named_errors(path: Path, name: str) -> Iterator[None]:
    try:
        yield
    except DiskFull:
        raise
    except ValueError as error:
        raise ValueError(
            f"{path}: '{name}' holds Python objects or is damaged ({error}); save plain numbers, for pickled data is never read"
        ) from error
    except (*NOT_READABLE, zlib.error, OverflowError) as error:
        raise ValueError(f"{path}: '{name}' is truncated or damaged ({error}); get the file again") from error
