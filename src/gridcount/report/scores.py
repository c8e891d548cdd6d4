"""Scores of the results store as tables show them: the mean of the last evaluations; the best one only as
oracle."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from gridcount.training.logs import Row

LAST = 3  # evaluations that make the headline score


class Scores(NamedTuple):
    """An experiment's headline, seed by seed."""

    seeds: dict[int, float]  # seed -> mean of its last evaluations
    metric: str  # "score", or "return" where nothing normalises it
    rows: list[Row]  # all its evaluations

    @property
    def mean(self) -> float:
        """Over seeds."""
        return float(np.mean(list(self.seeds.values())))

    @property
    def spread(self) -> float:
        """Standard deviation over seeds, as np.std: divided by the number of seeds."""
        return float(np.std(list(self.seeds.values())))

    def oracle(self) -> dict[int, float]:
        """Each seed's best evaluation, whose selection needs the environment."""
        best: dict[int, float] = {}
        for row in self.rows:
            if row.get(self.metric) is not None:
                best[row["seed"]] = max(row[self.metric], best.get(row["seed"], -np.inf))
        return dict(sorted(best.items()))


def headline_scores(rows: Iterable[Row], suite: str | None = None) -> dict[str, Scores]:
    """By experiment (the store's key): each seed's mean over its last evaluations, of all that was scored."""
    experiments: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if suite is None or row["suite"] == suite:
            experiments[row["key"]].append(row)
    return {key: scores for key, found in experiments.items() if (scores := headline(found)) is not None}


def headline(rows: list[Row]) -> Scores | None:
    """One experiment's headline; None where nothing was scored."""
    metric = "score" if any(row.get("score") is not None for row in rows) else "return"
    seeds: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for row in rows:
        if row.get(metric) is not None:
            seeds[row["seed"]].append((row["updates"], row[metric]))
    if not seeds:
        return None
    means = {
        seed: float(np.mean([value for _, value in sorted(values)[-LAST:]]))
        for seed, values in sorted(seeds.items())
    }
    return Scores(means, metric, rows)


def in_words(found: list[Scores]) -> str:
    """A table's entry."""
    if not found:
        return ""
    scores = found[0]
    return f"{scores.mean:.1f} ± {scores.spread:.1f}" if len(scores.seeds) > 1 else f"{scores.mean:.1f}"
