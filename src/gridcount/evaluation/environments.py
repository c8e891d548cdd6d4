"""Environments by name: D4RL's names, and every id registered with Gymnasium."""

import re
import shlex
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from gridcount.catalogue import ADROIT, FAMILIES, MAZE_NAMES, NAMES, family_of, unknown

GYMNASIUM_IDS = {
    "hopper": "Hopper-v4",
    "halfcheetah": "HalfCheetah-v4",
    "walker2d": "Walker2d-v4",
    "ant": "Ant-v4",
} | {family: f"gridcount/{family}-v1" for family in ADROIT}
OPTIONS: dict[str, dict[str, Any]] = {
    "ant": {"use_contact_forces": True}
}  # D4RL's ant observes them: 111 numbers
MISSING = {
    "antmaze": "Gymnasium-Robotics' AntMaze has a different ant (five times the torque, half the time step), "
    "so it cannot score a policy trained on D4RL's dataset",
    "kitchen": "no available environment matches D4RL's kitchen",
}
ENVIRONMENTS = MAZE_NAMES + tuple(
    name for name in NAMES if family_of(name) in GYMNASIUM_IDS
)  # dataset names with an environment
TRUSTED: set[str] = set()  # modules that the user named on the command line of this process
SAME_TASK = re.compile(
    r"(Hopper|HalfCheetah|Walker2d|Ant)-v[45]"
)  # ids with D4RL's reference scores: same reward, same limit


class Environment(NamedTuple):
    """Where policies are rolled out, and how their returns are read."""

    name: str  # as a dataset or the user calls it
    id: str  # as Gymnasium calls it
    limit: int | None = None  # steps per episode; None: the environment's own
    family: str | None = None  # whose reference scores normalise returns; None: returns stay as they are
    options: Mapping[str, Any] = {}  # for gymnasium.make; never written to


def has_environment(dataset: str) -> bool:
    """Whether a dataset's name comes with an environment."""
    return dataset in ENVIRONMENTS


def why_no_environment(dataset: str) -> str:
    """Why a dataset comes without an environment."""
    known = dataset.split("-")[0] if dataset in NAMES else ""
    return MISSING.get(known, "no environment is known for this dataset")


def trust(environment_id: str) -> None:
    """Allow the import of the module in a `module:id` that the user typed."""
    TRUSTED.add(environment_id.rpartition(":")[0])


def _validate_module(name: str) -> None:
    """Raise ValueError for a module that the user did not name: names also come from untrusted runs,
    datasets and suites."""
    module = name.rpartition(":")[0]
    if (
        module and module not in TRUSTED and module not in sys.modules
    ):  # importing a loaded module runs no code
        raise ValueError(
            f"'{name}' would import the module '{module}', which only the command line can allow; "
            f"if you trust that module, add --env {shlex.quote(name)}"
        )


def find(name: str) -> Environment:
    """The environment of a name, without importing or creating it. Every name is validated here before it
    is used."""
    _validate_module(name)
    family = family_of(name)
    if name in MAZE_NAMES and family is not None:
        return Environment(name, f"gridcount/{name}", FAMILIES[family].limit, family)
    if name in ENVIRONMENTS and family is not None:
        return Environment(
            name, GYMNASIUM_IDS[family], FAMILIES[family].limit, family, OPTIONS.get(family, {})
        )
    if name in NAMES:
        raise ValueError(
            f"{name} has no environment: {why_no_environment(name)}. Name another with --env, or leave it"
            " out to train without scores"
        )
    same = SAME_TASK.fullmatch(name)
    return Environment(name, name, None, same[1].lower() if same else None)


@cache
def dimensions(name: str) -> tuple[tuple[int, ...], int]:
    """Observation dimensions (a goal environment has two) and action dimension; creates the environment to
    find out."""
    from gridcount.envs.episodes import action_space, make_environment, observation_views

    environment = find(name)
    _register(environment)
    made = make_environment(environment.id, **environment.options)
    try:
        return tuple(observation_views(made)), action_space(made).shape[0]
    finally:
        made.close()


def _register(environment: Environment) -> None:
    """Register an environment with Gymnasium, or raise ValueError if it is unknown."""
    from gridcount.envs.episodes import is_registered, register_robotics

    if is_registered(environment.id):
        return
    hint = ""
    try:
        register_robotics()  # it may be an environment of Gymnasium-Robotics
    except ImportError as error:
        hint = f"\nIf it is an environment of Gymnasium-Robotics: {error}"
    if not is_registered(environment.id):
        near = unknown(
            "environment",
            environment.name,
            (*ENVIRONMENTS, *(id for id in GYMNASIUM_IDS.values() if "/" not in id)),
        )
        raise ValueError(
            f"{near}, and every id registered with Gymnasium, as in --env Hopper-v5 or --env"
            f" my_module:MyTask-v0{hint}"
        )


def validate_dimensions(name: str, observation_dim: int, action_dim: int) -> None:
    """Raise ValueError if an environment has other observation or action dimensions."""
    observations, actions = dimensions(name)
    if observation_dim not in observations or action_dim != actions:
        wanted = "an environment of {} observation and {} action dimensions"
        has = wanted.format(" or ".join(map(str, observations)), actions)
        raise ValueError(
            f"the dataset needs {wanted.format(observation_dim, action_dim)}, but {name} is {has}; "
            "name another with --env, or leave it out to train without scores"
        )
