"""One door to all data: a name or a path in, checked transitions out."""

from collections.abc import Callable
from pathlib import Path

from gridcount.data.catalogue import MAZE_NAMES, NAMES, unknown
from gridcount.data.d4rl import read_hdf5
from gridcount.data.maze2d import cache_directory, make
from gridcount.data.transitions import Transitions


def load(name: str, progress: Callable[[int, int], None] | None = None) -> Transitions:
    """The transitions of a dataset name (Maze2D is generated on first use) or of an HDF5 file in D4RL's layout."""
    if name.endswith((".hdf5", ".h5")):
        return read_hdf5(Path(name))
    if name in MAZE_NAMES:
        return read_hdf5(make(name, progress=progress), name)
    if name not in NAMES:
        raise unknown("dataset", name, NAMES)
    path = cache_directory() / "datasets" / f"{name}.hdf5"
    if not path.exists():
        raise FileNotFoundError(f"{name}: not on this machine; put D4RL's file at {path}, or name an .hdf5 file instead")
    return read_hdf5(path, name)
