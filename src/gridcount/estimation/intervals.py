"""Intervals of a mean over episodes whose values several networks estimate."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
# networks share errors that their disagreement does not show: it counts this much (chosen on Maze2D)
SHARED_ERROR = 2.0
RESAMPLES = 2_000  # of the episodes, in a bootstrap


@dataclass(frozen=True)
class Interval:
    """An estimate and the limits that contain the truth with a confidence of 95 %."""

    value: float
    low: float
    high: float

    def widened(self, by: float) -> "Interval":
        """The same with limits that lie further out."""
        return Interval(self.value, self.low - by, self.high + by)

    def decides(self) -> bool:
        """Whether it lies on one side of 0."""
        return self.low > 0 or self.high < 0

    def shifted(self, by: float) -> "Interval":
        """The same, moved."""
        return Interval(self.value + by, self.low + by, self.high + by)

    def reaching(self, other: float) -> "Interval":
        """The same with limits that also hold another estimate of the same number."""
        return Interval(self.value, min(self.low, other), max(self.high, other))


def of_members(values: NDArray[np.float64], unseen: NDArray[np.bool_]) -> Interval:
    """The mean over episodes of [members, episodes] values, each by the members that never saw the episode.

    Two sources of error add up: members, each fitted to a bootstrap of the log, disagree; and the episodes'
    first states are a sample. The members are few, so the limits are Student's.
    """
    from scipy.special import stdtrit  # here, so that commands that estimate nothing start without it

    shown = np.where(unseen, values, np.nan)
    each = np.nanmean(shown, axis=0)  # [episodes]
    of_member = np.nanmean(shown, axis=1)  # [members]
    groups = np.unique(unseen, axis=0, return_inverse=True)[1].reshape(
        -1
    )  # members of a fold estimate the same episodes
    apart = of_member - np.array([of_member[groups == group].mean() for group in groups])
    freedom = len(values) - len(np.unique(groups))
    fitting = SHARED_ERROR**2 * (apart**2).sum() / max(freedom, 1)
    starts = each.var(ddof=1) / len(each) if len(each) > 1 else 0.0
    reach = float(stdtrit(max(freedom, 1), (1 + CONFIDENCE) / 2) * np.sqrt(fitting + starts))
    mean = float(each.mean())
    return Interval(mean, mean - reach, mean + reach)


def bootstrap(statistic: NDArray[np.float64], seed: int = 0) -> Interval:
    """The mean of one number per episode, with the limits of a bootstrap over episodes."""
    rng = np.random.default_rng(seed)
    draws = rng.integers(0, len(statistic), (RESAMPLES, len(statistic)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(statistic[draws].mean(axis=1), [tail, 1 - tail])
    return Interval(float(statistic.mean()), float(low), float(high))
