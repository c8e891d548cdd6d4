"""The unit of a log's rewards, so that no setting depends on their scale."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridcount.transitions import Transitions

TAILS = 0.005  # share of the returns at each end that counts as outliers
ROUNDING = 1e-9  # returns below this share of the largest possible one are errors of summing
BLOCK = 256  # rows whose rewards are summed by one matrix multiplication
LEAST_EPISODES = 10  # that ended, before their equal lengths are taken for a rule


class RewardUnits(NamedTuple):
    """Units that make rewards comparable between logs: (reward - level) / spread."""

    level: float  # the mean reward where only differences between rewards can matter, else 0
    spread: float  # standard deviation of the log's discounted returns, without outliers
    steps: float  # discounted number of steps that are left, on average over the log
    worst: float  # the smallest discounted return of the log

    @classmethod
    def fit(cls, data: Transitions, discount: float) -> "RewardUnits":
        """Read a log's rewards once.

        If the length of episodes is fixed, a constant added to every reward changes no decision, so the mean
        is subtracted. Otherwise it is kept: a policy that earns it for longer is better.
        """
        reward = np.asarray(data.reward, np.float64)
        terminated = np.asarray(data.terminated)
        level = float(reward.mean()) if _length_is_fixed(data) else 0.0
        returns = returns_to_go(reward - level, terminated, np.asarray(data.episode_end), discount)
        low, high = np.quantile(returns, [TAILS, 1 - TAILS])
        # then the other rewards are not outliers
        alike = np.count_nonzero(reward == np.median(reward)) > len(reward) / 2
        spread = float((returns if alike else np.clip(returns, low, high)).std()) or 1.0
        steps = returns_to_go(np.ones_like(reward), terminated, np.asarray(data.episode_end), discount)
        left = float(steps.mean())
        return cls(level, spread, left, float(returns.min()) + level * left)


def returns_to_go(
    reward: NDArray[np.float64],
    terminated: NDArray[np.bool_],
    episode_end: NDArray[np.bool_],
    discount: float,
) -> NDArray[np.float64]:
    """[rows] the discounted sum of rewards from each row to the end of its episode.

    Truncated episodes continue at the mean reward.
    """
    ends = np.flatnonzero(np.append(episode_end[:-1], True))
    last = ends[np.searchsorted(ends, np.arange(len(reward)))]  # [rows] the last row of each one's episode
    whole = discounted_sums(reward, discount)  # on into the episodes that follow,
    following = np.append(whole[1:], 0.0)[last]  # which is taken out again
    beyond = np.where(terminated[last], 0.0, reward.mean() / (1 - discount))
    summed: NDArray[np.float64] = whole + discount ** (last - np.arange(len(reward)) + 1) * (
        beyond - following
    )
    summed[np.abs(summed) < ROUNDING * np.abs(reward).max() / (1 - discount)] = 0.0
    return summed


def discounted_sums(reward: NDArray[np.float64], discount: float) -> NDArray[np.float64]:
    """[rows] the discounted sum of all rewards from each row on, a block of rows at a time."""
    blocks = -(-len(reward) // BLOCK)
    padded = np.zeros(blocks * BLOCK)
    padded[: len(reward)] = reward
    power = np.arange(BLOCK)[:, None] - np.arange(BLOCK)  # [row that is summed, row that it is summed for]
    within = padded.reshape(blocks, BLOCK) @ np.where(power >= 0, discount ** np.maximum(power, 0), 0.0)
    left = discount ** np.arange(BLOCK, 0, -1)  # what a sum from the next block on counts for each row
    following = 0.0
    for block in range(blocks - 1, -1, -1):
        within[block] += left * following
        following = within[block, 0]
    return within.reshape(-1)[: len(reward)]


def _length_is_fixed(data: Transitions) -> bool:
    """Whether the length of episodes looks fixed in the log."""
    ended = int(np.count_nonzero(data.terminated))
    if ended == 0:
        return True
    # without a piece that was cut off
    lengths = data.episode_lengths if data.episode_end[-1] else data.episode_lengths[:-1]
    return ended >= LEAST_EPISODES and len(np.unique(lengths)) == 1
