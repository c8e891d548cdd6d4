"""Locks between processes; the system releases them when their holder ends, however it ends."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from gridcount.files.opening import open_plain

if sys.platform != "win32":  # there, two processes must not make the same file at once
    import fcntl


@contextmanager
def locked(target: Path, busy: str | None = None) -> Iterator[None]:
    """Hold others off while one process makes `target`: many runs on the same name start at the same moment.

    Where another holds it already, wait; or, with `busy`, refuse in these words.
    """
    if sys.platform == "win32":
        yield
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with open_plain(target.with_name(target.name + ".lock"), "ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError as error:
            raise RuntimeError(busy) from error
        yield


def try_lock(file: IO[Any] | int) -> bool:
    """Take the lock on an open file or folder if nobody holds it; False where somebody does, or the system cannot tell."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
