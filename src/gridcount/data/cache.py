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


@contextmanager
def alone(target: Path) -> Iterator[None]:
    """Hold others off while one process makes `target`: many runs on the same name start at the same moment."""
    if sys.platform == "win32":
        yield
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(target.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
