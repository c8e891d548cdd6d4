"""Estimates that are kept in files and compared later: values by episode and network."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridcount.estimation.estimate import (
    Settings,
    first_state_values,
    fit_policies,
    unseen_share,
)
from gridcount.estimation.fitted_q import Fitted
from gridcount.estimation.intervals import Interval, of_members
from gridcount.estimation.problem import LOG, Rule
from gridcount.estimation.runs import Evaluated
from gridcount.transitions import Transitions

DIGITS = 7  # that a value is kept with
SEARCH_COST = 1.0  # support cost of a search, which meets uncertainty at the log's own states only


@dataclass(frozen=True)
class Measured:
    """Values of one policy, or the mean of several seeds', at the first states of the evaluated episodes.

    Policies that are measured on the same log with the same settings share initial networks, bootstraps and
    batches, whichever process fits them. So they are compared member by member and episode by episode.
    """

    worth: tuple[tuple[float | None, ...], ...]  # [members][episodes]; None where the member saw the episode
    cost: float = 0.0  # what leaving the log may cost
    unseen: float = 0.0  # share of its actions that the log never has in the state's cell

    @property
    def naive(self) -> Interval:
        """The estimate without a cost of leaving the log."""
        return _interval(self._array())

    @property
    def cautious(self) -> float:
        """The estimate less what leaving the log may cost."""
        return self.naive.value - self.cost

    @property
    def interval(self) -> Interval:
        """The cautious estimate; the upper limit is that of the estimate without the cost."""
        naive = self.naive
        return Interval(naive.value - self.cost, naive.low - self.cost, naive.high)

    @property
    def lower(self) -> float:
        """What policies are ranked by: its networks also disagree where a policy leaves the log."""
        return self.interval.low

    def minus(self, other: "Measured") -> Interval:
        """The difference of two cautious estimates of the same episodes."""
        mine, theirs = self._array(), other._array()
        if mine.shape != theirs.shape:
            raise ValueError(
                f"estimates of shapes {mine.shape} and {theirs.shape} are not of the same episodes"
            )
        plain = _interval(mine - theirs)
        value = plain.value - self.cost + other.cost
        return Interval(value, plain.low - self.cost, plain.high + other.cost)

    def _array(self) -> NDArray[np.float64]:
        return np.array(self.worth, np.float64)  # None becomes NaN


def measure(
    policies: Mapping[str, Rule], found: Evaluated, settings: Settings, counted: Transitions | None = None
) -> tuple[Measured, Measured]:
    """The mean of some policies, seeds of one setting, and the log's own policy."""
    fitted, _ = fit_policies(policies, found, settings, counted)
    unseen = fitted.unseen[fitted.problem.evaluated].T
    worth, unsure = first_state_values(fitted)
    costs = [leaving_cost(fitted, settings, unsure[name] - unsure[LOG]) for name in policies]
    shares = [unseen_share(fitted.problem, rule) for rule in policies.values()]
    mean = np.mean([worth[name] for name in policies], axis=0)
    mine = Measured(_kept(mean, unseen), float(np.mean(costs)), float(np.mean(shares)))
    return mine, Measured(_kept(worth[LOG], unseen), 0.0, unseen_share(fitted.problem, None))


def leaving_cost(fitted: Fitted, settings: Settings, more_unsure: NDArray[np.float64]) -> float:
    """What leaving the log may cost a policy that is by [members, episodes] more unsure than the log's own."""
    problem = fitted.problem
    excess = of_members(more_unsure, fitted.unseen[problem.evaluated].T).value
    return settings.support_cost * problem.units.spread * max(0.0, excess)


def _kept(worth: NDArray[np.float64], unseen: NDArray[np.bool_]) -> tuple[tuple[float | None, ...], ...]:
    return tuple(
        tuple(float(f"{value:.{DIGITS}g}") if shown else None for value, shown in zip(*member, strict=True))
        for member in zip(worth, unseen, strict=True)
    )


def _interval(worth: NDArray[np.float64]) -> Interval:
    return of_members(np.nan_to_num(worth), ~np.isnan(worth))
