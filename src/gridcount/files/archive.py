"""Arrays by name in one file: written completely or not at all, and safe to read from untrusted sources.

The format is NumPy's uncompressed `.npz`. Arrays that are mostly zeros are stored as positions and values.
The zip format's checksums catch a damaged file.
"""

import io
import math
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from gridcount.files.opening import open_plain
from gridcount.files.whole import whole_file

BLOCK = 1 << 18  # bytes read together
LONGEST_HEADER = 12_000  # bytes; NumPy itself refuses longer ones
MOST_DEFLATED = 1100  # times that deflate can shrink anything
MOST_DIMENSIONS = 64  # of an array; NumPy has no more
WRITTEN_BY_NUMPY = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # Python unpacks other compressions all at once
SPARSE_BELOW = 0.25  # store positions and values where fewer than this share is not zero
SPARSE_FROM = 1 << 20  # and the array has at least this many entries

Arrays = dict[str, NDArray[Any]]
Damaged = Callable[[Path, str], ValueError]  # makes the error for a file that cannot be used


class Described(Protocol):
    """The dtype and shape of an array."""

    @property
    def shape(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def dtype(self) -> np.dtype[Any]: ...  # noqa: D102


class ConfigurationMismatch(ValueError):
    """A valid file of another configuration."""


class Readable(Described, Protocol):
    """An array of a file that is not read yet."""

    def read(self) -> NDArray[Any]: ...  # noqa: D102


def save_arrays(path: Path, arrays: Arrays) -> None:
    """Write a file; it gets its final name when it is complete on disk."""
    with whole_file(path) as file:
        np.savez(file, **cast(Any, _packed(arrays)))


@contextmanager
def open_arrays(path: Path, damaged: Damaged) -> Iterator[Mapping[str, Readable]]:
    """The arrays of a file, with only headers read; errors are raised as `damaged` returns them."""
    try:
        with open_plain(path, "rb") as opened, zipfile.ZipFile(opened) as archive:
            if packed := [
                each.filename for each in archive.infolist() if each.compress_type != zipfile.ZIP_STORED
            ]:
                raise ValueError(
                    f"'{packed[0]}' is compressed, but gridcount does not write compressed files"
                )  # it could unpack to any size
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            yield _stored({name: Member(archive, name) for name in names})
    except (MemoryError, ConfigurationMismatch):
        raise
    except Exception as error:  # a damaged zip file can raise many kinds of errors
        raise damaged(path, str(error)) from error


class Member:
    """An array of an archive; its header and the archive must declare the same size."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        info = archive.getinfo(f"{name}.npy" if f"{name}.npy" in archive.namelist() else name)
        if info.compress_type not in WRITTEN_BY_NUMPY:
            raise ValueError(
                "it is compressed in a way that NumPy does not write; save it with numpy.savez_compressed"
            )
        self._file = cast(zipfile.ZipExtFile, archive.open(info))
        (self.shape, self.by_columns, self.dtype), start = _header(self._file)
        if self.dtype.hasobject:
            raise ValueError("Object arrays cannot be loaded when allow_pickle=False")
        self.size = size = self.dtype.itemsize * math.prod(self.shape)
        if (
            min(self.shape, default=0) < 0
            or start + size != info.file_size
            or size > MOST_DEFLATED * info.compress_size
        ):
            raise ValueError(
                f"shape {self.shape} takes {size:,} bytes, but the archive declares"
                f" {info.file_size - start:,}"
            )
        self._file.read(start)  # read, not seek: the checksum needs all bytes in order

    def read(self) -> NDArray[Any]:
        """All values, in memory; the caller has checked `size`."""
        values = np.empty(self.size, np.uint8)
        for start in range(0, self.size, BLOCK):
            values[start : start + BLOCK] = np.frombuffer(
                self.next_bytes(min(BLOCK, self.size - start)), np.uint8
            )
        return values.view(self.dtype).reshape(self.shape, order="F" if self.by_columns else "C")

    def next_bytes(self, count: int) -> bytes:
        """The next bytes of its values, in the order in which they are stored."""
        found = self._file.read(count)
        if len(found) < count:
            raise ValueError(f"EOF: reading array data, expected {count} bytes got {len(found)}")
        return found


def _header(file: zipfile.ZipExtFile) -> tuple[tuple[tuple[int, ...], bool, np.dtype[Any]], int]:
    """An array's shape, whether it is stored by columns, and its type; and where its values start."""
    head = io.BytesIO(file.peek(LONGEST_HEADER)[:LONGEST_HEADER])  # no more, whatever length it declares
    version = np.lib.format.read_magic(head)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy warns about old headers, which does not matter here
            return read(head), head.tell()
    except Exception as error:  # parsing a header can raise many kinds of errors
        raise ValueError(f"its header cannot be read: {error}") from error


class _Sparse:
    """An array that is stored as positions and values of its non-zero entries."""

    def __init__(self, shape: Member, positions: Member, values: Member) -> None:
        if len(shape.shape) != 1 or shape.shape[0] > MOST_DIMENSIONS:
            raise ValueError(f"the shape of a sparse array has {shape.shape} numbers")
        self.shape, self.dtype = tuple(map(int, shape.read())), values.dtype
        self._positions, self._values = positions, values

    def read(self) -> NDArray[Any]:
        whole = np.zeros(math.prod(self.shape), self.dtype)
        whole[self._positions.read()] = self._values.read()
        return whole.reshape(self.shape)


def _packed(arrays: Arrays) -> Arrays:
    packed: Arrays = {}
    for name, array in arrays.items():
        positions = np.flatnonzero(array) if array.size >= SPARSE_FROM else None
        if positions is not None and len(positions) < SPARSE_BELOW * array.size:
            packed |= {
                f"{name}|shape": np.array(array.shape),
                f"{name}|at": positions,
                f"{name}|is": array.reshape(-1)[positions],
            }
        else:
            packed[name] = array
    return packed


def _stored(members: dict[str, Member]) -> dict[str, Member | _Sparse]:
    """Arrays by name, not read yet."""
    found: dict[str, Member | _Sparse] = {name: member for name, member in members.items() if "|" not in name}
    for name in (key.removesuffix("|shape") for key in members if key.endswith("|shape")):
        found[name] = _Sparse(*(members[f"{name}|{part}"] for part in ("shape", "at", "is")))
    return found


def numbered(folder: Path) -> list[Path]:
    """Files that are named by a number of updates, the earliest first."""
    return sorted(
        (path for path in folder.glob("*.npz") if re.fullmatch("[0-9]+", path.stem)),
        key=lambda path: int(path.stem),
    )


def prune(folder: Path, keep: int) -> None:
    """Remove all but the newest `keep` of them, and the leftovers of interrupted writes."""
    for path in [*numbered(folder)[:-keep], *folder.glob("[0-9]*.partial")]:
        path.unlink()
