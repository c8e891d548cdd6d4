"""Adroit's hand with D4RL's rewards and terminations, which Gymnasium-Robotics changed in two places."""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from gridcount.envs.episodes import make_environment, register_robotics

PEN_HEIGHT = 26  # where an observation of pen holds the pen's height
DROPPED = 0.075  # below this height D4RL ends the episode; Gymnasium-Robotics continues with penalties
REACH = {  # where an observation holds the palm and what it reaches for, or the difference of both
    "hammer": (slice(33, 36), slice(36, 39)),
    "door": (slice(29, 32), slice(32, 35)),
    "relocate": (slice(30, 33), None),
}
REACH_COST = 0.1  # per metre between palm and object; Gymnasium-Robotics' v1 rewards it instead

Float64 = NDArray[np.float64]
Hand = gymnasium.Env[Float64, NDArray[np.float32]]


def make(task: str, **options: Any) -> Hand:
    """The task 'pen', 'hammer', 'door' or 'relocate' with D4RL's reward and end of an episode."""
    register_robotics()
    return AsInD4RL(make_environment(f"AdroitHand{task.title()}-v1", **options).unwrapped, task)


class AsInD4RL(gymnasium.Wrapper[Float64, NDArray[np.float32], Float64, NDArray[np.float32]]):
    """Ends pen where the pen was dropped, and makes distance to the object a cost in the other three."""

    def __init__(self, environment: Hand, task: str) -> None:
        super().__init__(environment)
        self.task = task

    def step(self, action: NDArray[np.float32]) -> tuple[Float64, Any, bool, bool, dict[str, Any]]:
        """One step of the hand."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self.task == "pen":
            return observation, reward, terminated or bool(observation[PEN_HEIGHT] < DROPPED), truncated, info
        palm, thing = REACH[self.task]
        distance = float(np.linalg.norm(observation[palm] - (observation[thing] if thing else 0.0)))
        return observation, float(reward) - 2 * REACH_COST * distance, terminated, truncated, info
