"""Locks between processes; the system releases them when their process ends."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from gridcount.files.opening import open_plain


@contextmanager
def locked(target: Path, busy: str | None = None) -> Iterator[None]:
    """Lock `target` while one process writes it: many runs may start at the same time.

    If another process holds the lock, wait; with `busy`, raise an error with this message.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with open_plain(target.with_name(target.name + ".lock"), "ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError as error:
            raise RuntimeError(busy) from error
        yield


def lock(file: IO[Any] | int) -> None:
    """Wait for the lock of an open file or folder; a file system without locks is ignored."""
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX)


def try_lock(file: IO[Any] | int) -> bool:
    """Lock an open file or folder; False if it is locked, or if the file system has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
