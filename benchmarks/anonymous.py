"""Make the logs of the suite `anonymous` and import each under a name that says nothing to gridcount.

The three plants are simulated here, and so is the maze unless D4RL's file of it was downloaded before. The others are taken from
D4RL-format files in a folder:

    python benchmarks/anonymous.py FOLDER      # with hopper-medium-v2.hdf5 and so on; without some, name the others with --only
    gridcount benchmark anonymous
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from gridcount.cli import main
from gridcount.envs.plant_logs import write_log

PLANTS = {  # plant -> rows, columns of the action, their ends in the plant's units
    "tank": (20_000, "valve,heater", ("0", "0"), ("100", "100")),
    "fan": (30_000, "fan", ("0",), ("100",)),
    "dosing": (20_000, "dose", ("0",), ("10",)),
}
COPIES = {
    f"{family}-{tier}": f"{family}-{tier}-v2.hdf5"
    for family in ("hopper", "walker2d", "halfcheetah")
    for tier in ("medium", "medium-replay")
} | {"pen-expert": "pen-expert-v1.hdf5"}


def make(folder: Path | None) -> None:
    """Import every log that can be had."""
    with TemporaryDirectory() as scratch:
        for plant, (rows, action, low, high) in PLANTS.items():
            log = write_log(plant, Path(scratch) / f"{plant}.csv", rows, seed=0)
            columns = ["--observation", "*", "--action", action, "--reward", "reward", "--episode", "episode"]
            units = ["--terminated", "terminated", "--action-low", *low, "--action-high", *high]
            store(str(log), plant, *columns, *units)
    store("maze2d-umaze-v1", "maze")
    for name, file in COPIES.items():
        if folder is not None and (folder / file).is_file():
            store(str(folder / file), name)


def store(source: str, name: str, *flags: str) -> None:
    """Import one log as `stranger-NAME`."""
    if main(["data", "import", source, "--name", f"stranger-{name}", *flags]) not in (0, 1):  # 1: imported, with warnings
        sys.exit(f"{source} could not be imported")


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
