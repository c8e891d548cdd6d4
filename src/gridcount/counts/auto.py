"""The paper's rules for automatic hyper-parameters, each with a sentence that explains the value."""

import numpy as np

# of half the rewards' range; for non-negative rewards the paper's rule gives at least twice this
LEAST_SHARE = 0.25


def auto_bins(action_dim: int) -> tuple[int, str]:
    """Partitions per dimension: 12 <= sqrt(bins) * action_dim <= 16, aimed at its middle."""
    bins = int(np.clip(round((14 / action_dim) ** 2), 1, 30))
    return (
        bins,
        f"{bins}: sqrt(bins) * {action_dim} action dimensions nearest to 14 (the paper: 12 to 16), within 1"
        " to 30",
    )


def auto_pessimism(low: float, high: float, mean: float) -> tuple[float, str]:
    """Scale of the uncertainty: between the magnitudes of the mean reward and the mid-range, with a
    minimum from the range of rewards."""
    middle = (low + high) / 2
    # The paper's rule with magnitudes: negative rewards need as much pessimism as positive ones.
    pessimism = (abs(mean) + abs(middle)) / 2
    # For rewards around 0 the rule gives almost no pessimism, and without pessimism GPC-SAC is SAC.
    least = LEAST_SHARE * (high - low) / 2
    if pessimism < least:
        return least, (
            f"{least:.3g}: {LEAST_SHARE:g} of half the range of rewards, {low:.3g} to {high:.3g}; around 0"
            " the paper's rule, between the"
            f" mean {mean:.3g} and the mid-range {middle:.3g}, would give only {pessimism:.3g}"
        )
    return (
        pessimism,
        f"{pessimism:.3g}: between the magnitudes of the mean reward {mean:.3g} and the mid-range"
        f" {middle:.3g}",
    )


def auto_q_floor(low: float, discount: float) -> tuple[float, str]:
    """A lower bound of all values: 0 if no reward is negative, else the smallest reward at every step."""
    floor = 0.0 if low >= 0 else low / (1 - discount)
    return floor, f"{floor:.4g}: " + (
        "no reward is negative" if low >= 0 else f"the smallest reward {low:.3g} at every step"
    )
