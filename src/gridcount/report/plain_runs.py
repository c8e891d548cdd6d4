"""Run directories of `gridcount train` as a report takes them: rows as the results store has them."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from gridcount.catalogue import NAMES
from gridcount.report.experiments import RUNS
from gridcount.training.history import evaluations_of
from gridcount.training.logs import Row
from gridcount.training.machine import describe_starts
from gridcount.training.run import read_plan
from gridcount.training.times import read_times


def rows_of_runs(directories: Sequence[Path]) -> list[Row]:
    """Rows of plain runs as the results store has them; facts that a run directory does not record are left out."""
    found: list[Row] = []
    owner: dict[tuple[str, int], Path] = {}
    for directory in directories:
        plan = read_plan(directory)
        rows = evaluations_of(directory, plan)
        starts = describe_starts(directory)
        seconds = {entry.updates: entry.seconds for entry in read_times(directory)}
        dataset = Path(plan.dataset).name
        what = json.dumps([plan.record() | {"seeds": []}], sort_keys=True)
        key = f"{plan.algorithm}--{dataset}--{hashlib.sha256(what.encode()).hexdigest()[:10]}"
        while any(
            (key, seed) in owner for seed in plan.seeds
        ):  # the same plan and seed again, perhaps with other code
            key += f"--{directory.resolve().name}"
        owner |= {(key, seed): directory for seed in plan.seeds}
        facts = {
            "suite": RUNS,
            "algorithm": plan.algorithm,
            "dataset": dataset,
            "variant": "",
            "key": key,
            "run": directory.resolve().name,
            "config": json.dumps(plan.fields, sort_keys=True),
            "planned_updates": plan.updates,
            "episodes": plan.episodes,
            "source": plan.source or (None if plan.dataset in NAMES else "own"),
            "fingerprint": plan.fingerprint,
            "commit": ", ".join(dict.fromkeys(start.commit for start in starts if start.commit)) or None,
            "versions": json.dumps(starts[-1].versions, sort_keys=True),
            "machine": starts[-1].machine,
            "started": starts[0].started,
            "seeds_together": len(plan.seeds),
            "cores_used": starts[-1].cores_used,
        }
        found += [facts | {"seconds": seconds.get(row["updates"])} | row for row in rows]
    return found
