"""Generated Maze2D datasets, kept as files in D4RL's layout."""

from pathlib import Path
from typing import TYPE_CHECKING

from gridcount.data.formats.d4rl import write_hdf5
from gridcount.files.cache import cache_directory, make_cache_folder

if TYPE_CHECKING:  # importing the simulator takes time, and it is optional
    from gridcount.envs.maze2d_data import Progress

FORMAT = 1  # of the recipe and the file; a cached file of another format is made again
GENERATOR = "gridcount waypoint controller, after D4RL's"


def make(
    name: str,
    transitions: int = 1_000_000,
    seed: int = 0,
    directory: str | Path | None = None,
    progress: "Progress | None" = None,
) -> Path:
    """The D4RL-layout file of a generated maze dataset, generated if it does not exist (about ten seconds
    per million rows)."""
    from gridcount.envs.maze2d_data import generate, validate_request

    validate_request(name, transitions, seed)
    folder = cache_directory() / "datasets" if directory is None else Path(directory)
    path = folder / f"{name}-{transitions}-seed{seed}.hdf5"
    attributes: dict[str, str | int | float] = {
        "generator": GENERATOR,
        "format": FORMAT,
        "name": name,
        "transitions": transitions,
        "seed": seed,
    }
    if not _holds(path, attributes):
        if directory is None:
            make_cache_folder("datasets")
        write_hdf5(path, generate(name, transitions, seed, progress), attributes)
    return path


def is_generated(path: Path) -> bool:
    """Whether `make` wrote a file."""
    import h5py

    try:
        with h5py.File(path, "r") as file:
            return bool(file.attrs.get("generator") == GENERATOR)
    except OSError:
        return False


def _holds(path: Path, attributes: dict[str, str | int | float]) -> bool:
    """Whether the file is complete and has exactly these attributes."""
    import h5py

    try:
        with h5py.File(path, "r") as file:
            return dict(file.attrs) == attributes and file["observations"].shape == (
                attributes["transitions"],
                4,
            )
    except (OSError, KeyError):
        return False
