"""Roll-outs: many episodes at once with the deterministic policy; the same seed gives the same episodes."""

from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gridcount.catalogue import MAZE_NAMES, normalised_score
from gridcount.evaluation.environments import Environment, find

InUnits = Callable[
    [NDArray[Any]], NDArray[Any]
]  # actions in [-1, 1] -> actions in the log's, and so the environment's, own units
Act = Callable[[NDArray[np.float32]], NDArray[np.float32]]  # observations [episodes, dim] -> actions


class VectorEnvironment(Protocol):
    """Episodes of one task in lockstep."""

    def reset(self) -> NDArray[np.float32]:
        """First observations."""

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Observations, rewards, terminated, truncated."""

    def success(self, observation: NDArray[np.float32]) -> NDArray[np.bool_] | None:
        """Which episodes achieved the task; None if the task does not define it."""

    def close(self) -> None:
        """Close the environments."""


class Evaluation(NamedTuple):
    """The result of a policy's episodes."""

    returns: NDArray[np.float64]  # [episodes]
    success: (
        NDArray[np.bool_] | None
    )  # [episodes] the task was achieved at some step; None: the environment does not report it
    scores: NDArray[np.float64] | None  # [episodes] normalised; None: there is no reference to normalise by
    observations: NDArray[np.float32]  # [steps + 1, episodes, dim]

    def __repr__(self) -> str:
        means = ", ".join(f"{name} {value:.4g}" for name, value in self.summary().items())
        return f"<Evaluation of {len(self.returns)} episodes: mean {means}>"

    def summary(self) -> dict[str, float]:
        """Means over episodes by metric name; unknown ones are left out."""
        columns = {"score": self.scores, "return": self.returns, "success": self.success}
        return {name: float(column.mean()) for name, column in columns.items() if column is not None}


def evaluate(
    act: Act,
    name: str,
    episodes: int,
    seed: int,
    *,
    in_units: InUnits | None = None,
    observation_dim: int | None = None,
) -> Evaluation:
    """Roll a policy out for `episodes` episodes from start states drawn by `seed`.

    `in_units` maps the policy's actions to the environment's units; `observation_dim` selects an observation
    of a goal environment.
    """
    task = find(name)
    with closing(_open(task, episodes, seed, observation_dim)) as environment:
        observation = environment.reset()
        running = np.ones(episodes, np.bool_)
        returns, success = np.zeros(episodes), None
        path = [observation]
        while running.any():
            action = act(observation)
            observation, reward, terminated, truncated = environment.step(
                action if in_units is None else in_units(action)
            )
            returns += np.where(running, reward, 0.0)
            if not np.isfinite(returns).all():
                raise ValueError(
                    f"{name}: the environment returned a reward of {reward[~np.isfinite(returns)][0]} in"
                    f" step {len(path)} of an episode"
                )
            if (achieved := environment.success(observation)) is not None:
                success = (False if success is None else success) | (running & achieved)
            running &= ~(terminated | truncated)
            path.append(observation)
    family = task.family
    scores = None if family is None else np.array([normalised_score(family, value) for value in returns])
    return Evaluation(returns, success, scores, np.stack(path))


def _open(task: Environment, episodes: int, seed: int, observation_dim: int | None) -> VectorEnvironment:
    """Mazes run as one batch; other environments side by side."""
    if task.name in MAZE_NAMES:
        from gridcount.envs.maze2d import BatchedMaze

        return BatchedMaze(task.name, episodes, seed)
    from gridcount.envs.episodes import GymnasiumEpisodes

    return GymnasiumEpisodes(
        task.id, episodes, seed, task.limit, observation_dim=observation_dim, **task.options
    )
