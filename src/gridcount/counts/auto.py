"""The paper's rules for hyper-parameters nobody tuned, each with a sentence that says where the value came from."""

import numpy as np


def auto_bins(action_dim: int) -> tuple[int, str]:
    """Partitions per dimension: 12 <= sqrt(bins) * action_dim <= 16, aimed at its middle."""
    bins = int(np.clip(round((14 / action_dim) ** 2), 1, 30))
    return bins, f"{bins}: sqrt(bins) * {action_dim} action dimensions nearest to 14 (the paper: 12 to 16), within 1 to 30"


def auto_pessimism(low: float, high: float, mean: float) -> tuple[float, str]:
    """Scale of the uncertainty: near the mean reward and the mid-range, by magnitude."""
    middle = (low + high) / 2
    # The paper's rule with magnitudes: rewards that are costs need as much pessimism as rewards that are gains.
    pessimism = (abs(mean) + abs(middle)) / 2
    return pessimism, f"{pessimism:.3g}: between the magnitudes of the mean reward {mean:.3g} and the mid-range {middle:.3g}"


def auto_q_floor(low: float, discount: float) -> tuple[float, str]:
    """Below what no value can lie: 0 where no reward is negative, else the smallest reward for ever."""
    floor = 0.0 if low >= 0 else low / (1 - discount)
    return floor, f"{floor:.4g}: " + ("no reward is negative" if low >= 0 else f"the smallest reward {low:.3g} for ever")
