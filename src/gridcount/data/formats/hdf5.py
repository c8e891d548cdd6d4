"""HDF5 datasets within one file: links to other files raise ValueError before a value is read."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gridcount.files.memory import memory_limit

if TYPE_CHECKING:  # importing it takes time, and only HDF5 files need it
    import h5py

MOST_COMPRESSED = 2000  # the compression of HDF5 files cannot exceed this factor
SLACK = 1 << 16  # bytes that a compression may add to values that cannot be compressed
MOST_LINKS = 16  # soft links one after the other


@contextmanager
def open_hdf5(path: Path, what: str = "HDF5", again: str = "file") -> "Iterator[h5py.File]":
    """An HDF5 file while it is read; ValueError names the file where it is damaged."""
    import h5py

    if not path.is_file():  # a pipe would be waited for
        raise FileNotFoundError(f"{path}: there is no such file; check the path")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError, KeyError, TypeError, MemoryError) as error:
        raise ValueError(f"{path}: truncated or damaged {what} ({error}); get the {again} again") from error


def find_in_file(file: "h5py.File", key: str) -> Any:
    """The dataset or group at `a/b/c`, or None; links and storage in another file raise ValueError.

    HDF5 follows such links when an object is opened, so each link is checked first.
    """
    import h5py

    place = _resolve_links(file, key, key, MOST_LINKS)
    found = None if place is None else file[place]
    if isinstance(found, h5py.Dataset):
        if found.external:
            raise _external_error(
                file, key, f"its values are stored in another file ('{found.external[0][0]}')"
            )
        if found.is_virtual:
            raise _external_error(file, key, "it is a virtual dataset, composed of other files")
    return found


def _resolve_links(file: "h5py.File", path: str, key: str, hops: int) -> str | None:
    """Resolve soft links in a path; `key` is its name in messages."""
    import h5py

    place = ""
    for part in filter(None, path.split("/")):
        if part == ".":
            continue
        group = file[place or "/"]
        link = group.get(part, getlink=True) if isinstance(group, h5py.Group) and _has(group, part) else None
        if link is None:
            return None
        if isinstance(link, h5py.ExternalLink):
            raise _external_error(file, key, f"it is a link to another file ('{link.filename}')")
        if isinstance(link, h5py.SoftLink):
            if not hops:
                raise ValueError(f"{file.filename}: '{key}' is a broken link; get the file again")
            target = link.path if link.path.startswith("/") else f"{place}/{link.path}"
            followed = _resolve_links(file, target, key, hops - 1)
            if followed is None:
                return None
            place = followed
        else:
            place = f"{place}/{part}"
    return place or "/"


def _has(group: "h5py.Group", part: str) -> bool:
    """Whether a group has a link of this name; `in` would follow it."""
    return bool(group.id.links.exists(part.encode()))


def _external_error(file: "h5py.File", key: str, how: str) -> ValueError:
    return ValueError(f"{file.filename}: '{key}' is not read: {how}; write the values into the file itself")


def validate_size(source: str, key: str, dataset: "h5py.Dataset") -> None:
    """Raise ValueError for a shape that the file cannot hold, or chunks that do not fit into memory."""
    piece = dataset.dtype.itemsize * math.prod(dataset.chunks or (0,))
    most = MOST_COMPRESSED * Path(dataset.file.filename).stat().st_size
    if dataset.nbytes > most or piece > most:
        raise ValueError(
            f"{source}: '{key}' claims shape {dataset.shape}, more than the file can hold; it is damaged,"
            " get it again"
        )
    if len(_compressions(dataset)) > 1:
        raise ValueError(
            f"{source}: '{key}' is compressed more than once, so its size is unknown; write it with one"
            " compression"
        )
    if (largest := _largest_stored(dataset)) > 2 * piece + SLACK:
        size = f"stored in a chunk of {largest:,} bytes, but its values take {piece:,}"
        raise ValueError(f"{source}: '{key}' is {size}; it is damaged, get it again")
    if piece > memory_limit() / 2:
        raise ValueError(
            f"{source}: '{key}' is stored in chunks of {piece / 2**30:.1f} GiB, too large for this machine's"
            " memory"
        )


def _compressions(dataset: "h5py.Dataset") -> list[int]:
    """The filters of a dataset that may change the size."""
    from h5py import h5z

    made = dataset.id.get_create_plist()
    filters = [made.get_filter(i)[0] for i in range(made.get_nfilters())]
    return [each for each in filters if each not in (h5z.FILTER_SHUFFLE, h5z.FILTER_FLETCHER32)]


def _largest_stored(dataset: "h5py.Dataset") -> int:
    """Bytes of the largest stored chunk of a dataset."""
    sizes = [0]
    if dataset.chunks and dataset.size:
        dataset.id.chunk_iter(lambda info: sizes.append(info.size))
    return max(sizes)
