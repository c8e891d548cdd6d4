"""What a run has evaluated, checked against what it planned."""

from pathlib import Path

from gridcount.training.checkpoints import numbered
from gridcount.training.logs import METRICS, Row, read_rows
from gridcount.training.run import Plan


def evaluations_of(directory: Path, plan: Plan) -> list[Row]:
    """A run's rows; refused where they are not its plan's, or one is missing before the last or before the newest checkpoint."""
    saved = numbered(directory / "checkpoints")  # first, for a live run writes rows before it saves
    reached = min(int(saved[-1].stem), plan.updates) if saved else 0
    rows, path = read_rows(directory), directory / METRICS
    for number, row in enumerate(rows, start=1):
        if row["seed"] not in plan.seeds or row["updates"] > plan.updates:
            told = f"seed {row['seed']} at update {row['updates']:,}"
            raise ValueError(f"{path}, line {number}: {told} is not part of the run's plan (config.json)")
    for seed in plan.seeds:
        found = {row["updates"] for row in rows if row["seed"] == seed}
        regular = sorted(each for each in found if each and each % plan.evaluate_every == 0)
        if len(regular) < max([*found, reached]) // plan.evaluate_every:
            hole = next(number for number, each in enumerate([*regular, 0], start=1) if each != number * plan.evaluate_every)
            told = f"the evaluation of seed {seed} at update {hole * plan.evaluate_every:,} is missing"
            raise ValueError(f"{path}: {told}. Put the file back as the run wrote it, or leave the run out")
    return rows
