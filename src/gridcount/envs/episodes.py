"""Episodes of any Gymnasium environment in lockstep, for evaluation."""

import io
import warnings
from contextlib import redirect_stderr
from importlib import import_module
from typing import Any

import gymnasium
import mujoco
import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]

SUCCESS = ("success", "is_success", "goal_achieved")  # keys of `info` that report success
GOAL_VIEWS = (
    ("observation",),
    ("achieved_goal", "observation"),
)  # entries of a goal environment's observation that make a flat one
ENDLESS_LIMIT = 1000  # steps per episode where neither D4RL nor the environment sets a limit


class GymnasiumEpisodes:
    """Many episodes of one environment in lockstep: episode i depends only on (seed, i) and the actions; a
    finished one is not stepped."""

    def __init__(
        self,
        environment_id: str,
        episodes: int,
        seed: int = 0,
        limit: int | None = None,
        *,
        observation_dim: int | None = None,  # of a goal environment: which of its views to show
        **options: Any,  # for gymnasium.make
    ) -> None:
        if episodes < 1:
            raise ValueError(f"{environment_id}: needs at least one episode, got {episodes}")
        self.environment_id = environment_id
        self._environments = [
            make_environment(environment_id, max_episode_steps=limit, **options) for _ in range(episodes)
        ]
        first = self._environments[0]
        own_limit = None if first.spec is None else first.spec.max_episode_steps
        self.limit = limit or own_limit or ENDLESS_LIMIT
        views = observation_views(first)
        self._view = views[next(iter(views)) if observation_dim is None else observation_dim]
        space = action_space(first)
        self._low, self._high = space.low, space.high
        self._rng = [np.random.default_rng([seed, i]) for i in range(episodes)]
        self._observation: Float32 = np.zeros((episodes, 0), np.float32)
        self._running = np.zeros(episodes, np.bool_)  # so that a step before the first reset is an error
        self._success: Bool | None = None
        self._steps = 0

    def reset(self) -> Float32:
        """Fresh episodes; their first observations [episodes, dim]."""
        pairs = zip(self._environments, self._rng, strict=True)
        firsts = [environment.reset(seed=int(rng.integers(2**31)))[0] for environment, rng in pairs]
        self._observation = np.stack([self._flat(each) for each in firsts])
        self._running[:] = True
        self._success, self._steps = None, 0
        return self._observation.copy()

    def step(self, action: NDArray[Any]) -> tuple[Float32, Float64, Bool, Bool]:
        """Observations, rewards, terminated and truncated after actions in the environment's units,
        clipped to its bounds."""
        if not self._running.any():
            raise RuntimeError(f"{self.environment_id}: the episodes are over; call reset() first")
        if not np.isfinite(action).all():
            raise ValueError(f"{self.environment_id}: actions must be finite, got {action}")
        self._steps += 1
        episodes = len(self._environments)
        reward, terminated, truncated = (
            np.zeros(episodes),
            np.zeros(episodes, np.bool_),
            np.zeros(episodes, np.bool_),
        )
        bounded = np.clip(action, self._low, self._high).astype(self._low.dtype)
        for i in np.flatnonzero(self._running):
            observation, reward[i], terminated[i], truncated[i], info = self._environments[i].step(bounded[i])
            self._observation[i] = self._flat(observation)
            success = next((info[key] for key in SUCCESS if key in info), None)
            if success is not None and self._success is None:
                self._success = np.zeros(episodes, np.bool_)
            if self._success is not None:
                self._success[i] = bool(success)  # some environments report only success, not failure
        truncated |= self._running & (self._steps >= self.limit)
        self._running &= ~(terminated | truncated)
        return self._observation.copy(), reward, terminated, truncated

    def success(self, observation: Float32) -> Bool | None:
        """Which environments reported success at the last step; None if they never report it."""
        return self._success

    def close(self) -> None:
        """Close the environments."""
        for environment in self._environments:
            environment.close()

    def _flat(self, observation: Any) -> Float32:
        if not self._view:
            return np.asarray(observation, np.float32)
        return np.concatenate([observation[key] for key in self._view]).astype(np.float32)


def is_registered(environment_id: str) -> bool:
    """Whether Gymnasium knows an id; the module of a `module:id` is imported, because the import registers
    it."""
    module, _, rest = environment_id.rpartition(":")
    if module:
        try:
            import_module(module)
        except Exception as error:  # the module's own code runs here
            reason = error if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
            raise ImportError(
                f"{environment_id}: {reason}; a module named with --env must be installed, or on PYTHONPATH"
            ) from error
    try:
        gymnasium.spec(rest)
    except gymnasium.error.Error:
        return False
    return True


def make_environment(environment_id: str, **options: Any) -> gymnasium.Env[Any, Any]:
    """An environment by id, `module:id` included; errors name the id."""
    heard = mujoco.get_mju_user_warning()
    try:
        mujoco.set_mju_user_warning(_print_mujoco_warning)
        with warnings.catch_warnings():
            # D4RL's data is of the older tasks, so the advice to use v5 does not apply.
            warnings.filterwarnings(
                "ignore", r".*is out of date\. You should consider upgrading", DeprecationWarning
            )
            return gymnasium.make(environment_id, disable_env_checker=True, **options)
    except ImportError:
        raise
    except Exception as error:  # an environment's own code runs here
        raise ValueError(
            f"{environment_id}: the environment cannot be created ({type(error).__name__}: {error})"
        ) from error
    finally:
        mujoco.set_mju_user_warning(heard)


def _print_mujoco_warning(message: str) -> None:
    """Print MuJoCo's warnings instead of writing them to a file, except those about Gymnasium's old
    models."""
    if "is deprecated" not in message:
        warnings.warn(message, stacklevel=2)


def register_robotics() -> None:
    """Register Gymnasium-Robotics' environments with Gymnasium."""
    try:
        with redirect_stderr(io.StringIO()):  # it prints a notice about rewards, which envs.adroit corrects
            import gymnasium_robotics  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"the environment needs Gymnasium-Robotics ({error}). Install it with: pip install"
            " 'gridcount[robotics]'"
        ) from error


def observation_views(environment: gymnasium.Env[Any, Any]) -> dict[int, tuple[str, ...]]:
    """The flat observations an environment can give: their dimension -> the entries they are made of
    (none: as it is)."""
    space = environment.observation_space
    if isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 1:
        return {space.shape[0]: ()}
    if isinstance(space, gymnasium.spaces.Dict):
        flat = {
            key: each.shape[0]
            for key, each in space.items()
            if isinstance(each, gymnasium.spaces.Box) and len(each.shape) == 1
        }
        views: dict[int, tuple[str, ...]] = {
            sum(flat[key] for key in view): view for view in GOAL_VIEWS if flat.keys() >= set(view)
        }
        if views:
            return views
    raise ValueError(
        f"{_name(environment)}: its observations are {space}; a policy needs a flat vector of numbers"
    )


def action_space(environment: gymnasium.Env[Any, Any]) -> gymnasium.spaces.Box:
    """An environment's actions, which must be a vector of numbers."""
    space = environment.action_space
    if isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 1:
        return space
    raise ValueError(
        f"{_name(environment)}: its actions are {space}; only a flat vector of continuous numbers is"
        " supported"
    )


def _name(environment: gymnasium.Env[Any, Any]) -> str:
    return "the environment" if environment.spec is None else environment.spec.id
