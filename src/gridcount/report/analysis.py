"""Bootstrap estimates of a section, computed once: tables, the page and figures render them."""

from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

from gridcount.report import statistics
from gridcount.report.statistics import Array, Estimate, Tasks

AGGREGATES = {
    "IQM": statistics.interquartile_mean,
    "mean": statistics.mean,
    "optimality gap": statistics.optimality_gap,
}


@dataclass(frozen=True)
class Analysis:
    """Estimates over the datasets that all compared methods have."""

    scores: dict[str, Tasks]  # method -> dataset -> seeds
    thresholds: Array  # of performance profiles

    @cached_property
    def aggregates(self) -> dict[str, dict[str, Estimate]]:
        """Statistic -> method -> its estimate."""
        return {
            name: {method: statistics.estimate(tasks, statistic) for method, tasks in self.scores.items()}
            for name, statistic in AGGREGATES.items()
        }

    @cached_property
    def profiles(self) -> dict[str, tuple[Array, Array | None]]:
        """Method -> the share of runs above each threshold, and its intervals."""
        return {
            method: statistics.estimate_profile(tasks, self.thresholds)
            for method, tasks in self.scores.items()
        }

    @cached_property
    def improvements(self) -> dict[tuple[str, str], Estimate]:
        """The probability that a run of the first method scores higher than a run of the second."""
        return {
            (a, b): statistics.estimate_improvement(self.scores[a], self.scores[b])
            for a, b in permutations(self.scores, 2)
        }
