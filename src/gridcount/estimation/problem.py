"""What an estimate is about: the log's episodes, the rows values are fitted to, and the units of rewards."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcount.counts.units import RewardUnits
from gridcount.networks import column_moments
from gridcount.policy.counts import LogCounts
from gridcount.policy.policy import Policy
from gridcount.transitions import Transitions, chunks, scaled

Rule = Callable[[NDArray[np.float32]], Any]  # observations [rows, dim] -> actions in the log's units
LOG = "the log"  # the name of the policy that made the log
NEVER = -1  # the fold of episodes that are not estimated
LEAST_DEVIATION = 1e-3  # of an observation's column that is divided by its deviation


@dataclass(frozen=True)
class Units:
    """Rewards as networks see them, (reward - level) / spread, and the values that are possible."""

    level: float
    spread: float  # standard deviation of the log's returns
    # what a constant reward of 1 is worth where nothing terminates: 1 / (1 - discount), or the horizon
    steps: float
    low: float  # no return is smaller,
    high: float  # or larger, in these units

    @classmethod
    def fit(cls, data: Transitions, discount: float, horizon: int) -> "Units":
        """The level is the mean reward where no episode terminates, so that its part of a value is known
        exactly; else 0."""
        reward = np.asarray(data.reward, np.float64)
        ends = bool(np.any(data.terminated))
        level = 0.0 if ends else float(reward.mean())
        steps = float(horizon) if discount == 1 else 1 / (1 - discount)
        spread = (
            float(np.std(data.episode_returns)) or 1.0
            if discount == 1
            else RewardUnits.fit(data, discount).spread
        )
        smallest, largest = ((end - level) / spread for end in (reward.min(), reward.max()))
        low, high = smallest * steps, largest * steps
        return cls(
            level, spread, steps, min(low, smallest) if ends else low, max(high, largest) if ends else high
        )

    def scaled(self, reward: NDArray[Any]) -> NDArray[np.float32]:
        """Rewards as networks see them."""
        return ((np.asarray(reward, np.float64) - self.level) / self.spread).astype(np.float32)

    def in_log_units(self, value: NDArray[Any]) -> NDArray[np.float64]:
        """Values in the units of the log's rewards."""
        return np.asarray(value, np.float64) * self.spread + self.level * self.steps


@dataclass(frozen=True)
class Problem:
    """A log, the policies to estimate, and which episodes they are estimated on."""

    data: Transitions  # all episodes
    fold: NDArray[
        np.int64
        # [episodes] members of the same fold never see the episode, and estimate it; NEVER: it is not estimated
    ]
    policies: Mapping[str, Rule | None]  # name -> rule; None: the log's own actions
    discount: float  # 1: the undiscounted return within `horizon` steps
    horizon: int  # steps of the longest episode
    units: Units
    counts: LogCounts  # of the episodes that policies were trained on

    @classmethod
    def of(
        cls,
        data: Transitions,
        fold: NDArray[np.int64],
        policies: Mapping[str, Rule | None],
        discount: float,
        counts: LogCounts,
    ) -> "Problem":
        """Read the log's units."""
        horizon = int(data.episode_lengths.max())
        units = Units.fit(data, discount, horizon)
        return cls(data, fold, policies, discount, horizon, units, counts)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """[episodes] the first row of each."""
        lengths = self.data.episode_lengths
        return np.cumsum(lengths) - lengths

    @property
    def evaluated(self) -> NDArray[np.bool_]:
        """[episodes] those that are estimated."""
        return np.not_equal(self.fold, NEVER)

    @cached_property
    def step(self) -> NDArray[np.int64]:
        """[rows] steps since the start of the row's episode."""
        return np.arange(len(self.data)) - np.repeat(self.starts, self.data.episode_lengths)

    def actions(self, rule: Rule | None, observation: Any, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """[rows, action_dim] a policy's actions in [-1, 1] at observations; of the log, its actions at
        those rows."""
        if rule is None:
            return np.asarray(self.data.action[rows])
        found = np.empty((len(rows), self.data.action_dim), np.float32)
        for part in chunks(len(rows), 4 * self.data.observation_dim):
            found[part] = _act(rule, np.asarray(observation[rows[part]], np.float32), self.data)
        return found

    def next_actions(self, rule: Rule | None) -> NDArray[np.float32]:
        """[rows, action_dim] a policy's actions at the next observations; of the log, its next action,
        which ends of episodes lack."""
        every = np.arange(len(self.data))
        if rule is None:
            return self.actions(None, None, np.minimum(every + 1, len(every) - 1))
        return self.actions(rule, self.data.next_observation, every)

    def uncertainty(self, observation: Any, action: NDArray[np.float32]) -> NDArray[np.float32]:
        """[rows] 1 / sqrt(n + 1) of an action that the log has n times in the state's cell: 1 where it was
        never seen."""
        found = np.empty(len(action), np.float32)
        for part in chunks(len(action), 4 * self.data.observation_dim):
            count = self.counts(np.asarray(observation[part], np.float32), action[part])
            found[part] = 1 / np.sqrt(count + 1.0)
        return found

    def seen(self, observation: Any, step: NDArray[np.int64]) -> NDArray[np.float32]:
        """Observations as the networks see them: normalised, and without a discount with the share of the
        horizon that has passed."""
        mean, deviation = self._moments
        found = ((np.asarray(observation) - mean) / (deviation + LEAST_DEVIATION)).astype(np.float32)
        if self.discount < 1:
            return found
        return np.column_stack([found, (2 * step / self.horizon - 1).astype(np.float32)])

    def ended(self) -> NDArray[np.float32]:
        """[rows] 1 where nothing follows: the episode terminated or, without a discount, the horizon was
        reached."""
        ended = np.asarray(self.data.terminated)
        return (ended | (self.step >= self.horizon - 1) if self.discount == 1 else ended).astype(np.float32)

    @cached_property
    def _moments(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return column_moments(self.data.observation)


def _act(rule: Rule, observation: NDArray[np.float32], data: Transitions) -> NDArray[np.float32]:
    units = tuple(data.action_low.tolist()), tuple(data.action_high.tolist())
    if isinstance(rule, Policy) and (rule.facts.action_low, rule.facts.action_high) == units:
        return rule.scaled(observation)
    given = np.asarray(rule(observation), np.float64)
    wanted = (len(observation), data.action_dim)
    if given.shape != wanted:
        raise ValueError(
            f"the rule gave actions of shape {given.shape} for observations of shape {observation.shape};"
            f" expected {wanted}"
        )
    if not np.isfinite(given).all():
        raise ValueError(
            f"the rule gave an action of {given[~np.isfinite(given)][0]}; actions must be finite"
        )
    identity = bool((data.action_low == -1).all() and (data.action_high == 1).all())
    inside = given if identity else scaled(given, data.action_low, data.action_high)
    return np.clip(inside, -1, 1).astype(np.float32)
