"""A guard: below a minimum of support in the log, a fallback acts instead of the policy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from gridcount.counts.seen import MOST_BINS

Named = Literal["clone-or-abstain", "nearest-or-abstain", "nearest", "clone", "abstain"]
OR_ABSTAIN = "-or-abstain"  # ends the name of a fallback that acts within the log's range only
Fallback = Named | Sequence[float]


@dataclass(frozen=True)
class Guard:
    """How much support in the log a decision needs, and what acts without it.

    >>> policy.decide(observation, Guard())                       # support as the log's own decisions have,
    measured in training
    >>> policy.decide(observation, Guard(min_count=20, fallback=[50.0]))   # the action 50, in the log's
    units, where support is low
    """

    min_count: int | None = None  # of the action in the state's cell; None: as measured on the log
    # bins per column at which the state must have been seen; 0: any state; None: as measured on the log
    resolution: int | None = None
    # the log's nearest action in that cell, a policy cloned from the log, no action (NaN), or a fixed one;
    # with "-or-abstain", none outside of the log's range. None: that of an export's contract, else
    # clone-or-abstain, or nearest-or-abstain where there is no clone
    fallback: Fallback | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for values that no policy can be guarded with."""
        if self.min_count is not None and (type(self.min_count) is not int or self.min_count < 1):
            raise ValueError(f"min_count is {self.min_count!r}; it must be a whole number of at least 1")
        allowed = [0, *(1 << level for level in range(MOST_BINS.bit_length()))]
        if self.resolution is not None and (
            type(self.resolution) is not int or self.resolution not in allowed
        ):
            raise ValueError(
                f"resolution is {self.resolution!r}; it must be one of {', '.join(map(str, allowed))}"
            )
        if self.fallback is None:
            return
        if isinstance(self.fallback, str):
            if self.fallback not in get_args(Named):
                named = ", ".join(f"'{name}'" for name in get_args(Named))
                raise ValueError(
                    f"fallback is '{self.fallback}'; it must be {named} or a list of numbers, an action"
                )
            return
        try:
            fixed = tuple(float(value) for value in self.fallback)
        except (TypeError, ValueError) as error:
            raise ValueError(f"fallback is {self.fallback!r}; a fixed action is a list of numbers") from error
        if not np.isfinite(fixed).all():
            raise ValueError(f"fallback is {list(fixed)}; a fixed action needs finite numbers")
        object.__setattr__(self, "fallback", fixed)


class Decision(NamedTuple):
    """A guarded decision; for many observations, each field has an entry for each.

    Actions are in the log's units.
    """

    action: NDArray[
        Any
    ]  # what to do: the policy's action, or the fallback's where the guard held; NaN: abstain
    held: Any  # whether the guard replaced the policy's action
    # how often the log has the policy's action in the state's cell; 0 where it has not seen the state
    count: Any
    uncertainty: Any  # 1 / sqrt(count + 1): 1 where the log has nothing like it
    resolution: (
        Any  # bins per column of the finest grid on which the log has seen the state; 0: outside of its range
    )
    policy_action: NDArray[Any]  # what the policy would do
    nearest_action: NDArray[Any]  # of the log's actions in the state's cell, the nearest to the policy's

    def one(self) -> "Decision":
        """The first of many, with plain numbers."""
        return Decision(
            self.action[0],
            bool(self.held[0]),
            int(self.count[0]),
            float(self.uncertainty[0]),
            int(self.resolution[0]),
            self.policy_action[0],
            self.nearest_action[0],
        )
