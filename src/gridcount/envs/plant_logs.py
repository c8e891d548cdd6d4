"""Logs of the simulated plants: what their controllers and operators did, in memory or as CSV."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridcount.catalogue import unknown
from gridcount.envs.plants import PLANTS, Control, Process, names_of

Float32 = NDArray[np.float32]


class PlantLog(NamedTuple):
    """What a controller and its operators did, in time order, one row per step."""

    observation: Float32  # [rows, sensors] before the action
    action: Float32  # [rows, actuators] in engineering units
    reward: NDArray[np.float64]  # [rows]
    episode: NDArray[np.int64]  # [rows] counted from 0
    terminated: NDArray[np.bool_]  # [rows] the process ended here; an episode that ends otherwise was cut off
    observation_names: tuple[str, ...]
    action_names: tuple[str, ...]

    def table(self) -> dict[str, NDArray[Any]]:
        """The columns of a file by name."""
        observation = dict(zip(self.observation_names, self.observation.T, strict=True))
        action = dict(zip(self.action_names, self.action.T, strict=True))
        ends = {"episode": self.episode, "terminated": self.terminated.astype(np.int64)}
        return {**observation, **action, "reward": self.reward, **ends}


def log_of(name: str, steps: int, seed: int) -> PlantLog:
    """`steps` rows of a plant that its controller and operators run, episode after episode."""
    if steps < 1:
        raise ValueError(f"{name}: a log needs at least one step, got {steps}")
    process = _process(name)
    plant, rng = process.plant(), np.random.default_rng([seed, 1])
    names, action_names = names_of(plant.sensors), names_of(plant.actuators)
    observations = np.empty((steps, len(names)), np.float32)
    actions = np.empty((steps, len(action_names)), np.float32)
    rewards, episodes, terminated = np.empty(steps), np.empty(steps, np.int64), np.zeros(steps, np.bool_)
    observation, _ = plant.reset(seed=seed)
    episode = age = 0
    for row in range(steps):
        settings = process.controller(dict(zip(names, observation.tolist(), strict=True)))
        observations[row], episodes[row] = observation, episode
        actions[row] = process.operators(settings, rng)  # in single precision, and so it acts
        observation, rewards[row], terminated[row], _, _ = plant.step(actions[row])
        age += 1
        if terminated[row] or age == plant.limit:
            observation, _ = plant.reset()
            episode, age = episode + 1, 0
    return PlantLog(observations, actions, rewards, episodes, terminated, names, action_names)


def write_log(name: str, path: str | Path, steps: int, seed: int) -> Path:
    """Write `log_of` as CSV, with the columns that `gridcount data check` and `gridcount train` read.

    The file holds no next observations. So the last row of an episode that was cut off has no successor
    and is dropped when the file is read. A terminated row is kept.
    """
    table = log_of(name, steps, seed).table()
    with Path(path).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*(_cells(column) for column in table.values()), strict=True))
    return Path(path)


def policy_of(name: str, control: Control | None = None) -> Callable[[Float32], Float32]:
    """A controller as a policy: observations [rows, sensors] -> actions in engineering units.

    Without `control` it is the plant's own controller, undisturbed by operators.
    """
    process = _process(name)
    names, decide = names_of(process.plant.sensors), control or process.controller

    def act(observation: Float32) -> Float32:
        rows = [decide(dict(zip(names, row, strict=True))) for row in observation.tolist()]
        return np.array(rows, np.float32)

    return act


def behaviour_of(name: str, seed: int) -> Callable[[Float32], Float32]:
    """What makes a log, as a policy: the plant's controller with its operators, who draw from `seed`."""
    control, operate, rng = policy_of(name), _process(name).operators, np.random.default_rng([seed, 1])

    def act(observation: Float32) -> Float32:
        settings = (tuple(row) for row in control(observation).tolist())
        return np.array([operate(each, rng) for each in settings], np.float32)

    return act


def _process(name: str) -> Process:
    if name not in PLANTS:
        raise unknown("plant", name, list(PLANTS))
    return PLANTS[name]


def _cells(column: NDArray[Any]) -> list[str]:
    """Numbers as text with as many digits as it takes to read the same number back."""
    digits = "d" if column.dtype == np.int64 else ".9g" if column.dtype == np.float32 else ".17g"
    return [format(value, digits) for value in column.tolist()]
