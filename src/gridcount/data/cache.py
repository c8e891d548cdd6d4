"""Where files that were made, downloaded or imported are kept."""

import os
from pathlib import Path


def cache_directory() -> Path:
    """$GRIDCOUNT_HOME, or $XDG_CACHE_HOME/gridcount, or ~/.cache/gridcount."""
    if home := os.environ.get("GRIDCOUNT_HOME"):
        return Path(home).expanduser()
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "gridcount"
