"""The folder of generated, downloaded and imported files."""

import os
from pathlib import Path


def cache_directory() -> Path:
    """$GRIDCOUNT_HOME, or $XDG_CACHE_HOME/gridcount, or ~/.cache/gridcount."""
    if home := os.environ.get("GRIDCOUNT_HOME"):
        return Path(home).expanduser()
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "gridcount"


def make_cache_folder(name: str) -> Path:
    """Create a folder of the cache; raises OSError if it is not writable."""
    folder = cache_directory() / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError("it is read-only")
    except OSError as error:
        raise OSError(
            f"{folder}: datasets cannot be stored there ({error}); set the environment variable"
            " GRIDCOUNT_HOME to another folder"
        ) from error
    return folder
