"""Choosing without an environment, against the truth.

    python benchmarks/tune.py FOLDER [--only umaze tank] [--keep]

Each case is a search of `gridcount tune` in which no trial is stopped early. Its settings are scored in the
environment afterwards. Finished trials and scores are kept in FOLDER and skipped, so the script can be
stopped at any time. Trials run in this process, one after the other: on a busy machine that saves the start
of a worker for each. --keep writes results/tune.json.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gridcount.benchmark.cells import Cell
from gridcount.benchmark.estimated import run_estimated
from gridcount.benchmark.store import write_rows
from gridcount.data.store.mazes import make
from gridcount.envs.plant_logs import write_log
from gridcount.estimation.estimate import Settings
from gridcount.evaluation.rollouts import evaluate
from gridcount.files import write_whole
from gridcount.terminal import make_console
from gridcount.training.compiled import keep_compiled
from gridcount.training.policies import policies_of
from gridcount.tuning.search import CarryOut, run_search
from gridcount.tuning.start import make_search
from gridcount.tuning.study import Search, Study

RESULT = Path(__file__).parent.parent / "results" / "tune.json"
SETTINGS = Settings(updates=3_000, members=4)


class Case(NamedTuple):
    """A search and where its settings are scored."""

    rows: int
    environment: str
    algorithms: tuple[str, ...]
    space: dict[str, str]
    trials: int
    updates: int
    reading: dict[str, Any]
    metric: str  # "score", or "return" where there is no reference
    episodes: int


CASES = {
    "umaze": Case(
        200_000,
        "maze2d-umaze-v1",
        ("gpc-anchor", "gpc-sac", "td3-bc"),
        {"hidden": "64x64"},
        10,
        10_000,
        {},
        "score",
        200,
    ),
    "tank": Case(
        40_000,
        "gridcount/tank-v0",
        ("gpc-anchor", "td3-bc", "td3", "sac"),
        {"hidden": "64x64"},
        4,
        10_000,
        {
            "observation": "*",
            "action": "valve,heater",
            "reward": "reward",
            "episode": "episode",
            "terminated": "terminated",
            "action_low": (0.0, 0.0),
            "action_high": (100.0, 100.0),
        },
        "return",
        50,
    ),
}


def log_of(name: str, case: Case, folder: Path) -> Path:
    """The case's log, made once."""
    if case.environment.startswith("maze2d"):
        return make(case.environment, case.rows, 0, folder)
    path = folder / f"{name}.csv"
    return path if path.exists() else write_log(name, path, case.rows, seed=0)


def in_this_process(out: Path) -> CarryOut:
    """Run cells one after the other, as a worker does."""

    def carry_out(cells: Sequence[Cell]) -> dict[str, str]:
        for cell in cells:
            directory = cell.directory(out / "cells")
            directory.mkdir(parents=True, exist_ok=True)
            (out / "results").mkdir(exist_ok=True)
            write_rows(cell.results(out / "results"), run_estimated(cell, directory))
        return {}

    return carry_out


def scores_of(search: Search, case: Case, ranking: list[dict[str, Any]], out: Path) -> dict[str, float]:
    """What each trial's policy is worth in the environment, which no ranking saw; kept in a file."""
    path = out / "truth.json"
    found: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
    trials = {trial.number: trial for trial in Study.open(out, search).trials}
    for each in ranking:
        number = each["number"]
        if str(number) in found or each["status"] == "failed":
            continue
        directory = search.cell(trials[number]).directory(out / "cells")
        policy = policies_of(directory)[0]
        dims = len(policy.observation_names)
        result = evaluate(policy, case.environment, case.episodes, 0, observation_dim=dims)
        found[str(number)] = result.summary()[case.metric]
        write_whole(path, json.dumps(found))
        print(f"trial {number}: {case.metric} {found[str(number)]:.4g}", flush=True)
    return found


def run_case(name: str, folder: Path) -> dict[str, Any]:
    """A search, and its settings' true scores afterwards."""
    case, out = CASES[name], folder / name
    search = make_search(
        str(log_of(name, case, folder)),
        algorithms=case.algorithms,
        space=case.space,
        preset="fast",
        updates=case.updates,
        reading=dict(case.reading),
        settings=SETTINGS,
        trials=case.trials,
        checks=0,
    )
    found = run_search(search, out, make_console(), in_this_process(out), at_once=1)
    found.render(make_console())
    facts = found.to_dict()
    truth = scores_of(search, case, facts["ranking"], out)
    for each in facts["ranking"]:
        each["truth"] = truth.get(str(each["number"]))
    facts["search"] = {
        "trials": case.trials,
        "updates": case.updates,
        "rows": case.rows,
        "hold_out": search.hold_out,
    }
    facts["environment"], facts["metric"], facts["episodes"] = case.environment, case.metric, case.episodes
    return facts


def main() -> None:
    """Run the cases that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    keep_compiled()
    options.folder.mkdir(parents=True, exist_ok=True)
    kept: dict[str, Any] = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for name in options.only:
        kept[name] = run_case(name, options.folder.resolve())
        if options.keep:
            text = json.dumps(kept, indent=1) + "\n"
            write_whole(RESULT, text.replace(f"{options.folder.resolve()}/", ""))


if __name__ == "__main__":
    main()
