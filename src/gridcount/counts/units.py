"""The log's own unit of worth: what rewards are divided by, so that no setting depends on how somebody scaled them."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from gridcount.data.transitions import Transitions

TAILS = 0.005  # share of the returns at each end that counts as outliers


class RewardUnits(NamedTuple):
    """How rewards become numbers that mean the same in every log: (reward - level) / spread."""

    level: float  # the mean reward where only differences between rewards can matter, else 0
    spread: float  # standard deviation of the log's discounted returns, without outliers
    worst: float  # the smallest discounted return of the log, in these units

    @classmethod
    def fit(cls, data: Transitions, discount: float) -> "RewardUnits":
        """Read a log's rewards once.

        Where no episode of the log can be made longer or shorter, a reward added to every step changes no decision, so it is taken out.
        Elsewhere it stays: a policy that earns it for longer is the better one.
        """
        reward = np.asarray(data.reward, np.float64)
        terminated = np.asarray(data.terminated)
        fixed_length = not terminated.any() or len(np.unique(data.episode_lengths)) == 1
        level = float(reward.mean()) if fixed_length else 0.0
        returns = returns_to_go(reward - level, terminated, np.asarray(data.episode_end), discount)
        low, high = np.quantile(returns, [TAILS, 1 - TAILS])
        spread = float(np.clip(returns, low, high).std()) or float(returns.std()) or 1.0
        return cls(level, spread, float(returns.min()) / spread)

    def __call__(self, reward: Any) -> NDArray[np.float32]:
        """Rewards in these units."""
        return ((np.asarray(reward, np.float64) - self.level) / self.spread).astype(np.float32)


def returns_to_go(
    reward: NDArray[np.float64], terminated: NDArray[np.bool_], episode_end: NDArray[np.bool_], discount: float
) -> NDArray[np.float64]:
    """[rows] the discounted sum of rewards from each row to the end of its episode.

    Episodes that were cut off go on at the mean reward.
    """
    ends = np.flatnonzero(np.append(episode_end[:-1], True))
    last = ends[np.searchsorted(ends, np.arange(len(reward)))]  # [rows] the last row of each one's episode
    whole: NDArray[np.float64] = lfilter([1.0], [1.0, -discount], reward[::-1])[::-1]  # summed on into the episodes that follow,
    following = np.append(whole[1:], 0.0)[last]  # which is taken out again
    beyond = np.where(terminated[last], 0.0, reward.mean() / (1 - discount))
    summed: NDArray[np.float64] = whole + discount ** (last - np.arange(len(reward)) + 1) * (beyond - following)
    return summed
