"""A Gymnasium environment whose returns are known: it pays the valve's setting, and ends where its start
says."""

import csv
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
LIMIT = 6


class Corridor(gymnasium.Env[Float32, Float32]):
    """Observes (steps to go, steps made); the action is a valve from 0 to 100, paid as the reward."""

    def __init__(
        self, reports_success: bool = True, only_success: bool = False, broken: bool = False
    ) -> None:
        self.observation_space = gymnasium.spaces.Box(0, 10, (2,), np.float32)
        self.action_space = gymnasium.spaces.Box(0, 100, (1,), np.float32)
        self.reports_success, self.only_success, self.broken = reports_success, only_success, broken
        self.length, self.steps = 0, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float32, dict[str, Any]]:
        super().reset(seed=seed)
        self.length, self.steps = (
            int(self.np_random.integers(2, 10)),
            0,
        )  # some end before the limit, some would after
        return self._observation(), {}

    def step(self, action: Float32) -> tuple[Float32, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        assert self.steps < self.length, "stepped after its end"
        self.steps += 1
        ended = self.steps == self.length
        info = {"is_success": ended} if self.reports_success and (ended or not self.only_success) else {}
        reward = float("nan") if self.broken and self.steps == 2 else float(action[0])
        return self._observation(), reward, ended, False, info

    def _observation(self) -> Float32:
        return np.array([self.length - self.steps, self.steps], np.float32)


gymnasium.register(id="known/Corridor-v0", entry_point="corridor:Corridor", max_episode_steps=LIMIT)
gymnasium.register(
    id="known/Silent-v0",
    entry_point="corridor:Corridor",
    max_episode_steps=LIMIT,
    kwargs={"reports_success": False},
)
gymnasium.register(id="known/Endless-v0", entry_point="corridor:Corridor")
gymnasium.register(
    id="known/Rare-v0",
    entry_point="corridor:Corridor",
    max_episode_steps=LIMIT,
    kwargs={"only_success": True},
)
gymnasium.register(id="known/Broken-v0", entry_point="corridor:Corridor", kwargs={"broken": True})


def corridor_log(path: Path, rows: int = 400) -> Path:
    """A log of it as CSV: five steps an episode, actions from 0 to 100."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["observation_0", "observation_1", "action", "reward", "terminated"])
        for t in range(rows):
            step, valve = t % 5, rng.uniform(0, 100)
            writer.writerow([5 - step, step, valve, valve, int(step == 4)])
    return path
