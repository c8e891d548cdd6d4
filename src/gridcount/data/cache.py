"""Where files that were made, downloaded or imported are kept, and how processes keep out of each other's way there."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":  # there, two processes must not make the same file at once
    import fcntl


def cache_directory() -> Path:
    """$GRIDCOUNT_HOME, or $XDG_CACHE_HOME/gridcount, or ~/.cache/gridcount."""
    if home := os.environ.get("GRIDCOUNT_HOME"):
        return Path(home).expanduser()
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "gridcount"


def make_cache_folder(name: str) -> Path:
    """A folder of the cache, there and writable, before anything is made or fetched that should go into it."""
    folder = cache_directory() / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError("it is read-only")
    except OSError as error:
        raise OSError(f"{folder}: datasets cannot be kept there ({error}); name another folder in the variable GRIDCOUNT_HOME") from error
    return folder


@contextmanager
def alone(target: Path, busy: str | None = None) -> Iterator[None]:
    """Hold others off while one process makes `target`: many runs on the same name start at the same moment.

    Where another holds it already, wait; or, with `busy`, refuse in these words.
    """
    if sys.platform == "win32":
        yield
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(target.name + ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError as error:
            raise RuntimeError(busy) from error
        yield
