"""The paper's values for its 21 datasets (Shen and Huang 2024, hyper-parameter table of the appendix)."""

from typing import NamedTuple


class PaperRow(NamedTuple):
    """One line of the table."""

    action_dim: int
    bins: int  # column m
    reward_mean: float
    reward_middle: float  # (max + min) / 2
    pessimism: float  # column alpha
    epochs: int  # of 1,000 updates


PAPER = {
    "hopper-random-v2": PaperRow(3, 15, 0.83, 1.35, 1.0, 1000),
    "hopper-medium-replay-v2": PaperRow(3, 15, 2.37, 2.57, 3.0, 3000),
    "hopper-medium-v2": PaperRow(3, 15, 3.11, 3.25, 4.0, 3000),
    "hopper-medium-expert-v2": PaperRow(3, 25, 3.36, 3.56, 5.0, 3000),
    "hopper-expert-v2": PaperRow(3, 25, 3.61, 3.76, 5.0, 3000),
    "halfcheetah-random-v2": PaperRow(6, 5, -0.29, -0.41, 0.0, 1000),
    "halfcheetah-medium-replay-v2": PaperRow(6, 5, 3.09, 2.16, 2.0, 1000),
    "halfcheetah-medium-v2": PaperRow(6, 5, 4.77, 2.75, 3.0, 1000),
    "halfcheetah-medium-expert-v2": PaperRow(6, 5, 7.71, 5.42, 6.0, 1000),
    "halfcheetah-expert-v2": PaperRow(6, 7, 10.66, 5.42, 6.0, 3000),
    "walker2d-random-v2": PaperRow(6, 6, 0.10, 0.20, 2.0, 200),
    "walker2d-medium-replay-v2": PaperRow(6, 6, 2.47, 1.92, 3.0, 1000),
    "walker2d-medium-v2": PaperRow(6, 6, 3.39, 2.96, 4.0, 1000),
    "walker2d-medium-expert-v2": PaperRow(6, 6, 4.16, 2.96, 5.0, 1000),
    "walker2d-expert-v2": PaperRow(6, 6, 4.92, 3.27, 5.0, 1000),
    "maze2d-umaze-v1": PaperRow(2, 30, 0.08, 0.50, 0.2, 1000),  # "maze-d" in the table
    "maze2d-medium-v1": PaperRow(2, 30, 0.02, 0.50, 0.2, 1000),
    "maze2d-large-v1": PaperRow(2, 30, 0.01, 0.50, 0.2, 1000),
    "pen-expert-v1": PaperRow(24, 1, 29.25, 27.38, 30.0, 1000),
    "hammer-expert-v1": PaperRow(26, 1, 61.88, 55.7, 70.0, 1000),
    "door-expert-v1": PaperRow(28, 1, 14.55, 9.75, 15.0, 1000),
}
