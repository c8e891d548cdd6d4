"""A run's evaluations, checked against its plan."""

from itertools import chain
from pathlib import Path

from gridcount.files.archive import numbered
from gridcount.training.logs import METRICS, Row, read_rows
from gridcount.training.plan import Plan


def evaluations_of(directory: Path, plan: Plan) -> list[Row]:
    """A run's rows; raises ValueError if a row is not part of the plan, or if a written row is missing."""
    # read first, because a running process writes rows before it saves
    saved = numbered(directory / "checkpoints")
    reached = min(int(saved[-1].stem), plan.updates) if saved else 0
    path = directory / METRICS
    rows = read_rows(directory) if path.exists() else []
    for number, row in enumerate(rows, start=1):
        if row["seed"] not in plan.seeds or row["updates"] > plan.updates:
            message = (
                f"seed {row['seed']} at update {row['updates']:,} is not part of the run's plan (config.json)"
            )
            raise ValueError(f"{path}, line {number}: {message}")
    for seed in plan.seeds:
        missing = _first_missing({row["updates"] for row in rows if row["seed"] == seed}, plan, reached)
        if missing is not None:
            message = f"the evaluation of seed {seed} at update {missing:,} is missing"
            raise ValueError(f"{path}: {message}. Restore the file as the run wrote it, or leave the run out")
    return rows


def _first_missing(found: set[int], plan: Plan, reached: int) -> int | None:
    """The first evaluation of a seed that is missing before its last one, or up to the newest checkpoint."""
    regular = range(plan.evaluate_every, max([*found, reached]) + 1, plan.evaluate_every)
    last = [plan.updates] if reached == plan.updates else []
    return next((updates for updates in chain(regular, last) if updates not in found), None)
