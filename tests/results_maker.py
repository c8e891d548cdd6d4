"""Results in the store's own schema, of experiments that never ran: their numbers are drawn from a seeded
generator."""

import csv
import io
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gridcount.benchmark.store import read_results
from gridcount.report.experiments import Layout
from gridcount.report.sections import sections
from gridcount.training.logs import Row

HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=2>\"'&_$%|"

FACTS = {
    "commit": "0123abc",
    "versions": json.dumps({"gridcount": "0.1.0", "jax": "0.7.0"}),
    "machine": "Linux, 2 cores, cpu:0",
    "started": "2026-01-02T03:04:05Z",
}


def make_rows(
    suite: str,
    algorithm: str,
    dataset: str,
    variant: str = "",
    seeds: Sequence[int] = (0, 1, 2),
    evaluations: int = 20,
    every: int = 5000,
    level: float = 80.0,
    scored: bool = True,
    config: dict[str, Any] | None = None,
    source: str = "generated",
) -> list[Row]:
    """An experiment's rows: scores that climb to a level with noise, and a few other figures."""
    settings = {"batch_size": 256, "hidden": [64, 64]} | (config or {})
    key = "--".join(
        filter(None, (algorithm, dataset, variant.replace(" ", "-"), f"{len(json.dumps(settings)):04d}"))
    )
    facts = FACTS | {
        "suite": suite,
        "algorithm": algorithm,
        "dataset": dataset,
        "variant": variant,
        "key": key,
        "preset": "fast",
        "config": json.dumps(settings, sort_keys=True),
        "planned_updates": evaluations * every,
        "episodes": 20,
        "source": source,
        "fingerprint": "90b77ef87c283b96",
        "seeds_together": len(seeds),
    }
    rows = []
    for seed in seeds:
        rng = np.random.default_rng([seed, *map(ord, f"{suite}{algorithm}{dataset}{variant}")])
        top = level + rng.normal(0, 6)
        for i in range(1, evaluations + 1):
            score = top * (1 - np.exp(-4 * i / evaluations)) + rng.normal(0, 5)
            figures = (
                {"score": score, "return": 3 * score, "success": min(max(score / 100, 0.0), 1.0)}
                if scored
                else {}
            )
            losses = {
                "critic_loss": 20 * np.exp(-3 * i / evaluations) + rng.uniform(),
                "uncertainty": 1 / np.sqrt(i),
            }
            time = {"seconds": 10.0 + 2.5 * len(seeds) * every / 1000 * i, "updates": i * every, "seed": seed}
            rows.append(facts | time | {name: float(value) for name, value in (figures | losses).items()})
    return rows


def make_results(hostile: str = "") -> list[Row]:
    """A table beside the paper's, an ablation and a cost suite; `hostile` is a dataset's name that must
    not become markup."""
    mazes = ("maze2d-umaze-v1", "maze2d-medium-v1", "maze2d-large-v1")
    levels = {"gpc-sac": 120.0, "sac": 30.0, "cql": 55.0, "iql": 60.0}
    rows = [
        row
        for maze in mazes
        for name, level in levels.items()
        for row in make_rows("paper/maze2d", name, maze, level=level)
    ]
    bins = ("bins 5", "bins 15", "bins 30")
    for dataset, source in (("hopper-medium-v2", "re-collected"), ("walker2d-medium-v2", "d4rl")):
        for i, name in enumerate(bins):
            short = (dataset, name) == (
                "walker2d-medium-v2",
                "bins 5",
            )  # one run is not as long as the others
            settings: dict[str, Any] = {
                "level": 50 + 15 * i,
                "config": {"bins": int(name[5:])},
                "evaluations": 10 if short else 20,
            }
            rows += make_rows("bins", "gpc-sac", dataset, name, source=source, **settings)
    rows += make_rows("speed", "sac", "hopper-medium-v2", scored=False, evaluations=3)
    if hostile:
        rows += make_rows(hostile, "sac", hostile, hostile, seeds=(0,), evaluations=4)
    return rows


def section_of(rows: list[Any], **facts: Any) -> Any:
    """The only section of some rows, laid out as `facts` say."""
    name = rows[0]["suite"]
    return sections(rows, {name: Layout(name, "a title", **facts)})[0]


def headlines(path: Path) -> dict[tuple[str, str, str, str], list[float]]:
    """Each seed's mean of its last three scores, from the file itself: (suite, algorithm, variant,
    dataset) -> seeds."""
    scores: dict[tuple[str, str, str, str], dict[int, list[tuple[int, float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in read_results(path):
        if "score" in row:
            scores[row["suite"], row["algorithm"], row["variant"], row["dataset"]][row["seed"]].append(
                (row["updates"], row["score"])
            )
    return {
        cell: [float(np.mean([v for _, v in sorted(own)[-3:]])) for own in seeds.values()]
        for cell, seeds in scores.items()
    }


def read_csv(path: Path) -> list[dict[str, str]]:
    """A table's lines."""
    return list(csv.DictReader(io.StringIO(path.read_text())))
