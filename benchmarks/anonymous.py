"""Make the logs of the suite `anonymous`, import each under a name that says nothing, and score what was
learnt.

The three plants are simulated here, and so is the maze unless D4RL's file of it was downloaded before. The
others are taken from D4RL-format files in a folder, which may lack some:

    python benchmarks/anonymous.py FOLDER                 # with hopper-medium-v2.hdf5 and so on
    gridcount benchmark anonymous --out OUT
    python benchmarks/anonymous.py --score OUT results/anonymous.json      # for the table in the docs

The last command rolls out the last policy of every cell, and of the plants also the people who made the log.
Returns vary much between episodes (rain, faults), so each mean has its standard error.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import gridcount as gc
from gridcount.benchmark.suites import read_suite
from gridcount.cli import main
from gridcount.data.load import load
from gridcount.data.store.local import imported_names
from gridcount.envs.plant_logs import behaviour_of, write_log
from gridcount.training.plan import fingerprint

PLANTS = {  # plant -> rows, columns of the action, their ends in the plant's units
    "tank": (20_000, "valve,heater", ("0", "0"), ("100", "100")),
    "fan": (30_000, "fan", ("0",), ("100",)),
    "dosing": (20_000, "dose", ("0",), ("10",)),
}
PREFIX = "stranger-"
EPISODES = 200  # per policy
STARTS = 1000  # the seed of their starts, which training does not use
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


def score(out: Path, results: Path) -> None:
    """Write what each log returns, and what the last policy of every finished cell in `out` returns.

    Cells whose score is kept are skipped, and each score is kept as soon as it is there.
    """
    kept: dict[str, Any] = json.loads(results.read_text()) if results.exists() else {}
    suite = read_suite("anonymous")
    for name in [name for name in imported_names() if name in suite.datasets]:
        entry = kept.setdefault(name, {})
        log = load(name, memory_map=True)
        facts = {"transitions": len(log), "fingerprint": fingerprint(log)}
        entry["log"] = facts | summary(log.episode_returns)
        plant = name.removeprefix(PREFIX)
        if plant in PLANTS and "behaviour" not in entry:
            entry["behaviour"] = rolled_out(behaviour_of(plant, seed=STARTS), suite.environments[name])
    for directory in sorted((out / "cells").iterdir()):
        run = gc.Run(directory)
        name, algorithm = run.config["dataset"], run.config["algorithm"]
        policies = kept.setdefault(name, {}).setdefault("policies", {})
        done = policies.get(algorithm, {}).get("cell") == directory.name
        if name not in suite.datasets or done or not (directory / "policy").exists():
            continue
        policy = run.policy()
        if policy.updates == run.config["updates"]:
            facts = {"cell": directory.name, "updates": policy.updates, "seed": policy.seed}
            policies[algorithm] = facts | rolled_out(policy, suite.environments[name])
            print(name, algorithm, f"{policies[algorithm]['mean']:.1f}", flush=True)
            write(kept, results)
    write(kept, results)


def write(kept: dict[str, Any], results: Path) -> None:
    """Keep the scores, with a line for each list of returns."""
    text = json.dumps(kept, indent=1)
    text = re.sub(r"\[[^][{}]*\]", lambda found: " ".join(found.group().split()), text)
    results.write_text(text + "\n")


def rolled_out(policy: Any, environment: str) -> dict[str, Any]:
    """Returns of episodes that start as those of every other policy here, so that they can be compared one
    by one."""
    returns = gc.evaluate(policy, environment, episodes=EPISODES, seed=STARTS).returns
    return summary(returns) | {"returns": [round(float(each), 2) for each in returns]}


def summary(returns: Any) -> dict[str, Any]:
    """The mean of returns and its standard error."""
    error = float(np.std(returns, ddof=1) / len(returns) ** 0.5)
    return {"episodes": len(returns), "mean": float(np.mean(returns)), "standard_error": error}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, help="D4RL-format files to import")
    parser.add_argument(
        "--score", nargs=2, type=Path, metavar=("OUT", "RESULTS"), help="score instead of import"
    )
    options = parser.parse_args()
    if options.score:
        score(*options.score)
    else:
        make(options.folder)
