"""Locks between processes; the system releases them when their holder ends, however it ends."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from gridcount.files.opening import open_plain


@contextmanager
def locked(target: Path, busy: str | None = None) -> Iterator[None]:
    """Hold others off while one process makes `target`: many runs on the same name start at the same moment.

    Where another holds it already, wait; or, with `busy`, refuse in these words.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with open_plain(target.with_name(target.name + ".lock"), "ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError as error:
            raise RuntimeError(busy) from error
        yield


def lock(file: IO[Any] | int) -> None:
    """Lock an open file or folder as soon as nobody else does; on a file system without locks it stays as it is."""
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX)


def try_lock(file: IO[Any] | int) -> bool:
    """Lock an open file or folder if nobody else does; False where somebody does, or the file system has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
