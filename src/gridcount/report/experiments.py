"""Experiments of a report: rows of results grouped into experiments, and experiments into sections of
suites."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gridcount.report.analysis import Analysis
from gridcount.report.scores import Scores, headline
from gridcount.training.logs import Row
from gridcount.training.results import is_metric

RUNS = "runs"  # the name for runs without a suite
UNRECORDED = "not recorded"
SOURCES = {
    "d4rl": "D4RL's own",
    "generated": "generated",
    "re-collected": "re-collected",
    "own": "the user's own",
}
THRESHOLDS = 101  # of a performance profile
METRIC_ORDER = (
    "success",
    "return",
    "in_log",
    "action_distance",
    "q_data",
    "q_policy",
    "critic_loss",
    "uncertainty",
)
WORDS = {
    "score": "normalised score",
    "in_log": "share of actions in the log",
    "action_distance": "distance to the log's actions",
}


@dataclass(frozen=True)
class Layout:
    """The layout of a suite's tables and figures."""

    name: str
    title: str
    kind: str = "scores"  # "ablation": a figure over variants; "cost": seconds per 1,000 updates
    datasets: tuple[str, ...] = ()  # orders of lines, columns and settings
    algorithms: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    # algorithm -> dataset -> mean, and spread where printed
    published: dict[str, dict[str, list[float]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Curve:
    """A figure of every seed at every evaluation, NaN where a seed has none."""

    updates: NDArray[np.int64]  # [evaluations]
    seeds: tuple[int, ...]
    values: NDArray[np.float64]  # [seeds, evaluations]


@dataclass(frozen=True)
class Experiment:
    """One algorithm in one setting on one dataset, all its seeds."""

    key: str
    rows: tuple[Row, ...]
    note: str = ""  # distinguishes it from others with the same algorithm, dataset and variant

    @property
    def algorithm(self) -> str:
        """Its name in the registry."""
        return str(self.rows[0]["algorithm"])

    @property
    def dataset(self) -> str:
        """As tables call it."""
        return str(self.rows[0]["dataset"])

    @property
    def variant(self) -> str:
        """An ablation's setting."""
        return str(self.rows[0].get("variant", ""))

    @property
    def method(self) -> str:
        """What a table's column and a legend call it."""
        return " · ".join(filter(None, (self.algorithm, self.variant, self.note)))

    @property
    def setting(self) -> str:
        """What an ablation's axis calls it."""
        return " · ".join(filter(None, (self.variant or "preset", self.note)))

    @cached_property
    def scores(self) -> Scores | None:
        """The headline; None where nothing was scored."""
        return headline(list(self.rows))

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """In order."""
        return tuple(sorted({row["seed"] for row in self.rows}))

    @property
    def scored_seeds(self) -> tuple[int, ...]:
        """The seeds with scores: without those that diverged before an evaluation; all seeds if nothing is
        scored."""
        return tuple(self.scores.seeds) if self.scores else self.seeds

    @cached_property
    def diverged(self) -> dict[int, str]:
        """Seeds that diverged -> how."""
        return {row["seed"]: row["diverged"] for row in self.rows if row.get("diverged")}

    @property
    def source(self) -> str:
        """Where its data comes from, in words."""
        return SOURCES.get(str(self.rows[0].get("source")), UNRECORDED)

    def recorded(self, name: str) -> list[str]:
        """The distinct recorded values of a column; all rows of a seed have the same one."""
        return list(dict.fromkeys(str(row[name]) for row in self._firsts if row.get(name) not in (None, "")))

    @cached_property
    def _firsts(self) -> list[Row]:
        return list({row["seed"]: row for row in reversed(self.rows)}.values())[::-1]

    @cached_property
    def metrics(self) -> list[str]:
        """Figures its rows have besides the score."""
        values: Row = {}
        for row in self.rows:
            values |= {name: value for name, value in row.items() if value is not None}
        return [name for name, value in values.items() if is_metric(name, value)]

    def curve(self, metric: str) -> Curve | None:
        """A figure over updates; None where no row has it."""
        found = {
            (row["seed"], row["updates"]): row[metric] for row in self.rows if row.get(metric) is not None
        }
        if not found:
            return None
        seeds, updates = sorted({seed for seed, _ in found}), sorted({update for _, update in found})
        values = np.array(
            [[found.get((seed, update), np.nan) for update in updates] for seed in seeds], float
        )
        return Curve(np.array(updates), tuple(seeds), values)

    def seconds_per_1000(self) -> dict[tuple[int, int], float]:
        """Training time of 1,000 updates by how many seeds shared it on how many cores, without the first
        interval, which also compiles.

        The median over intervals between evaluations: a pause of the machine does not count.
        """
        found = defaultdict(list)
        for seed in self.seeds:
            timed = sorted(
                (row["updates"], row["seconds"], _shared(row))
                for row in self.rows
                if row["seed"] == seed and _timed(row)
            )
            intervals = [
                1000 * (after[1] - before[1]) / (after[0] - before[0]) for before, after in pairwise(timed)
            ]
            if intervals:
                found[timed[-1][2]].append(float(np.median(intervals)))
        return {shared: float(np.mean(rates)) for shared, rates in sorted(found.items())}

    def gigabytes(self, shared: tuple[int, int]) -> float | None:
        """The most memory that training held where so many seeds shared so many cores; None where it was
        not recorded."""
        return max(
            (
                row["gigabytes"]
                for row in self.rows
                if row.get("gigabytes") is not None and _shared(row) == shared
            ),
            default=None,
        )


@dataclass(frozen=True)
class Section:
    """A suite's experiments, in the order its tables have."""

    layout: Layout
    experiments: tuple[Experiment, ...]

    @cached_property
    def datasets(self) -> tuple[str, ...]:
        """The table's lines."""
        return tuple(
            dict.fromkeys(
                each.dataset
                for each in sorted(self.experiments, key=lambda e: rank(self.layout.datasets, e.dataset))
            )
        )

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """The table's columns."""
        return tuple(dict.fromkeys(each.method for each in self.experiments))

    @property
    def scored(self) -> tuple[Experiment, ...]:
        """Those with scores, or returns where nothing normalises them."""
        return tuple(each for each in self.experiments if each.scores is not None)

    def scored_datasets(self) -> tuple[str, ...]:
        """Datasets with a score."""
        scored = {each.dataset for each in self.scored}
        return tuple(dataset for dataset in self.datasets if dataset in scored)

    def drawn_datasets(self) -> tuple[str, ...]:
        """Datasets with curves: of scores, or of what else runs logged where nothing was scored."""
        drawn = {each.dataset for each in self.experiments if each.scores or each.metrics}
        return tuple(dataset for dataset in self.datasets if dataset in drawn)

    def shown_metric(self, dataset: str) -> str:
        """What a dataset's curves show: the score, else the return, else the most informative figure."""
        own = [each for each in self.experiments if each.dataset == dataset]
        return [*(each.scores.metric for each in own if each.scores), *other_metrics(own)][0]

    def find(self, dataset: str, method: str) -> Experiment | None:
        """A cell of the table."""
        return next(
            (each for each in self.experiments if (each.dataset, each.method) == (dataset, method)), None
        )

    def published(self, dataset: str, algorithm: str) -> list[float] | None:
        """The paper's mean, and its spread where it is printed."""
        return self.layout.published.get(algorithm, {}).get(dataset)

    def compared(self) -> tuple[str, ...]:
        """Methods that are compared over datasets: those scored on at least half of them."""
        have = {method: sum(each.method == method for each in self.scored) for method in self.methods}
        return tuple(method for method, count in have.items() if 2 * count >= len(self.datasets))

    def common(self) -> dict[str, list[NDArray[np.float64]]]:
        """Normalised scores / 100 of every compared method on the datasets that all of them have: method
        -> dataset -> seeds."""
        shared = self.common_datasets()
        found: dict[str, list[NDArray[np.float64]]] = {}
        for method in self.compared():
            cells = [self.find(dataset, method) for dataset in shared]
            found[method] = [
                np.array(list(cell.scores.seeds.values())) / 100 for cell in cells if cell and cell.scores
            ]
        return found if shared else {}

    def common_datasets(self) -> tuple[str, ...]:
        """Datasets with a normalised score of every compared method."""
        normalised = {
            (each.dataset, each.method)
            for each in self.scored
            if each.scores and each.scores.metric == "score"
        }
        methods = self.compared()
        return tuple(
            dataset
            for dataset in self.datasets
            if methods and all((dataset, method) in normalised for method in methods)
        )

    @cached_property
    def analysis(self) -> Analysis:
        """Its estimates, computed when they are first needed."""
        return Analysis(dict(self.common()), self.thresholds())

    def aggregated(self) -> tuple[Experiment, ...]:
        """Experiments that `common` is from."""
        shared, methods = self.common_datasets(), self.compared()
        return tuple(each for each in self.scored if each.dataset in shared and each.method in methods)

    def thresholds(self) -> NDArray[np.float64]:
        """Of a performance profile: from the lowest to the highest run, and from 0 to 1 at least."""
        scores = [value for tasks in self.common().values() for task in tasks for value in task]
        return np.asarray(
            np.linspace(min([0.0, *scores]), max([1.0, *scores]), THRESHOLDS), np.float64
        ).round(4)


def other_metrics(experiments: Sequence[Experiment]) -> list[str]:
    """Figures that experiments have besides the score, the most informative first."""
    found = dict.fromkeys(name for each in experiments for name in each.metrics)
    return [name for name in METRIC_ORDER if name in found] + sorted(
        name for name in found if name not in METRIC_ORDER
    )


def in_words(metric: str) -> str:
    """The axis label of a metric."""
    return WORDS.get(metric, metric.replace("_", " "))


def rank(order: Sequence[str], name: str) -> tuple[int, list[tuple[float, str]]]:
    """A place in an order; what is not in it comes after, with numbers in names compared as numbers."""
    if name in order:
        return order.index(name), []
    parts = re.findall(r"(\d+(?:\.\d+)?(?:e-?\d+)?)|(\D+)", name)
    return len(order), [(float(number), "") if number else (-1.0, word) for number, word in parts]


def _shared(row: Row) -> tuple[int, int]:
    """How many seeds were trained together, on how many cores: a seed uses one."""
    together = row.get("seeds_together") or 1
    return together, min(row.get("cores_used") or 1, together)


def _timed(row: Row) -> bool:
    return row.get("seconds") is not None and row.get("seeds_together") is not None and row["updates"] > 0
