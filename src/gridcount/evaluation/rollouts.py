"""Roll-outs: many episodes at once with the deterministic policy, the same for the same seed."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gridcount.data.catalogue import MAZE_NAMES, normalised_score

DIMENSIONS = dict.fromkeys(MAZE_NAMES, (4, 2))  # numbers in an observation and in an action of each environment
ENVIRONMENTS = tuple(DIMENSIONS)  # names whose policies can be rolled out
Act = Callable[[NDArray[np.float32]], NDArray[np.float32]]  # observations [episodes, dim] -> actions


class VectorEnvironment(Protocol):
    """Episodes of one task in lockstep."""

    def reset(self) -> NDArray[np.float32]:
        """First observations."""

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Observations, rewards, terminated, truncated."""

    def success(self, observation: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Where the task counts as achieved."""


class Evaluation(NamedTuple):
    """What a policy did in its episodes."""

    returns: NDArray[np.float64]  # [episodes]
    success: NDArray[np.bool_]  # [episodes] the task was achieved at some step
    scores: NDArray[np.float64]  # [episodes] normalised
    observations: NDArray[np.float32]  # [steps + 1, episodes, dim]

    def summary(self) -> dict[str, float]:
        """Means over episodes, as metrics name them."""
        return {"score": float(self.scores.mean()), "return": float(self.returns.mean()), "success": float(self.success.mean())}


def has_environment(name: str) -> bool:
    """Whether policies for this dataset can be rolled out here."""
    return name in ENVIRONMENTS


def refuse_misfit(name: str, observation_dim: int, action_dim: int) -> None:
    """Refuse to roll out a policy in an environment that speaks of other observations or actions."""
    if (observation_dim, action_dim) != DIMENSIONS[name]:
        wanted = "an environment of {} observation and {} action dimensions"
        raise ValueError(
            f"the data calls for {wanted.format(observation_dim, action_dim)}, but {name} is {wanted.format(*DIMENSIONS[name])}; "
            "name another with --env, or leave it out to train without scores"
        )


def evaluate(act: Act, name: str, episodes: int, seed: int) -> Evaluation:
    """Roll a policy out for `episodes` episodes from start states drawn by `seed`."""
    from gridcount.envs.maze2d import BatchedMaze

    environment: VectorEnvironment = BatchedMaze(name, episodes, seed)
    observation = environment.reset()
    running = np.ones(episodes, np.bool_)
    returns, success = np.zeros(episodes), np.zeros(episodes, np.bool_)
    path = [observation]
    while running.any():
        observation, reward, terminated, truncated = environment.step(act(observation))
        returns += np.where(running, reward, 0.0)
        success |= running & environment.success(observation)
        running &= ~(terminated | truncated)
        path.append(observation)
    scores = np.array([normalised_score(name, value) for value in returns])
    return Evaluation(returns, success, scores, np.stack(path))
