"""Run directories of `gridcount train` as a report takes them: rows as the results store has them."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from gridcount.catalogue import NAMES
from gridcount.report.experiments import RUNS
from gridcount.training.history import evaluations_of
from gridcount.training.logs import Row
from gridcount.training.plan import read_plan
from gridcount.training.results import facts_of, with_facts


def rows_of_runs(directories: Sequence[Path]) -> list[Row]:
    """Rows of plain runs as the results store has them; facts that a run directory does not record are
    left out."""
    found: list[Row] = []
    owner: dict[tuple[str, int], Path] = {}
    for directory in directories:
        plan, name = read_plan(directory), directory.resolve().name
        what = json.dumps([plan.identity()], sort_keys=True)
        key = f"{plan.algorithm}--{plan.title}--{hashlib.sha256(what.encode()).hexdigest()[:10]}"
        while any(
            (key, seed) in owner for seed in plan.seeds
        ):  # the same plan and seed again, perhaps with other code
            key += f"--{name}"
        owner |= {(key, seed): directory for seed in plan.seeds}
        source = plan.source or (None if plan.dataset in NAMES else "own")
        facts = facts_of(plan, directory, suite=RUNS, key=key, run=name, source=source)
        found += with_facts(facts, directory, evaluations_of(directory, plan))
    return found
