"""Make the logs of the suite `anonymous` and import each under a name that says nothing to gridcount.

The three plants are simulated here, and so is the maze unless D4RL's file of it was downloaded before. The others are taken from
D4RL-format files in a folder:

    python benchmarks/anonymous.py FOLDER      # with hopper-medium-v2.hdf5 and so on; without some, name the others with --only
    gridcount benchmark anonymous
    python benchmarks/anonymous.py --describe results/anonymous.json    # what the logs themselves return, for the docs' table
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from gridcount.cli import main
from gridcount.data.load import load
from gridcount.data.store.local import imported_names
from gridcount.envs.plant_logs import write_log

PLANTS = {  # plant -> rows, columns of the action, their ends in the plant's units
    "tank": (20_000, "valve,heater", ("0", "0"), ("100", "100")),
    "fan": (30_000, "fan", ("0",), ("100",)),
    "dosing": (20_000, "dose", ("0",), ("10",)),
}
PREFIX = "stranger-"
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
    if main(["data", "import", source, "--name", f"{PREFIX}{name}", *flags]) not in (
        0,
        1,
    ):  # 1: imported, with warnings
        sys.exit(f"{source} could not be imported")


def describe(out: Path) -> None:
    """Write how large each log is and what its own episodes return on average."""
    found = {name: load(name, memory_map=True) for name in imported_names() if name.startswith(PREFIX)}
    facts = {
        name: {
            "transitions": len(data),
            "episodes": len(data.episode_returns),
            "mean_return": float(data.episode_returns.mean()),
        }
        for name, data in found.items()
    }
    out.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--describe"]:
        describe(Path(sys.argv[2]))
        sys.exit()
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
