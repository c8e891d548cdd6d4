"""Maze2D with D4RL's physics: a particle pushed through a maze, one at a time (Gymnasium) or many at once.

Positions are D4RL's: a map cell (row, column) is the observed position (row, column). Its walls stand
elsewhere, because the wall of a cell is centred at world (row + 1, column + 1) while the particle's joints
are zero at world (1.2, 1.2). So an observed position plus WALL_OFFSET is the position on the map, where cell
(row, column) spans row +- 0.5 and column +- 0.5.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import gymnasium
import mujoco
import numpy as np
from mujoco import rollout
from numpy.typing import ArrayLike, NDArray

from gridcount.catalogue import FAMILIES, MAZE_NAMES, family_of, unknown

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]

MAPS = {  # row = x, column = y; '#' wall, 'O' free, 'G' goal
    "umaze": "##### #GOO# ###O# #OOO# #####",
    "medium": "######## #OO##OO# #OO#OOO# ##OOO### #OO#OOO# #O#OO#O# #OOO#OG# ########",
    "large": "############ #OOOO#OOOOO# #O##O#O#O#O# #OOOOOO#OOO# #O####O###O# #OO#O#OOOOO# ##O#O#O#O### #OO#OOO#OGO# ############",
}
WALL_OFFSET = 0.2  # map position - observed position
PARTICLE_RADIUS = 0.1
GOAL_RADIUS = 0.5  # the sparse reward's reach
START_JITTER = 0.1  # a start, like a goal of the data's controller, lies within this of its cell
# per axis, enforced before a step, so an observed velocity can exceed it by one step's acceleration
MAX_SPEED = 5.0
SPEED_BOUND = 10.0  # no observed velocity reaches this
PIXELS = 48  # per cell of a picture


@dataclass(frozen=True, eq=False)
class Task:
    """A maze task: its map, goal, reward and episode limit."""

    name: str
    maze: str  # umaze, medium or large
    dense: bool  # reward exp(-distance) rather than 1 near the goal
    limit: int  # steps per episode
    walls: Bool  # [rows, columns]
    # [cells, 2] where a particle may start: all free cells and the goal
    cells: NDArray[np.int64] = field(repr=False)
    goal: NDArray[np.int64]  # [2]

    def reward(self, position: NDArray[Any]) -> Float64:
        """Per position [..., 2]: 1 within 0.5 of the goal, or exp(-distance to the goal) where dense."""
        distance: Float64 = np.sqrt(np.square(position.astype(np.float64) - self.goal).sum(axis=-1))
        return np.exp(-distance) if self.dense else (distance <= GOAL_RADIUS).astype(np.float64)

    def start(self, rng: np.random.Generator, count: int) -> Float64:
        """Start states [count, 4]: a uniform cell +-0.1, velocity N(0, 0.1^2)."""
        cell = self.cells[rng.integers(len(self.cells), size=count)]
        position = cell + rng.uniform(-START_JITTER, START_JITTER, size=(count, 2))
        return np.concatenate([position, rng.normal(0.0, 0.1, size=(count, 2))], axis=1)


@cache
def task(name: str) -> Task:
    """The task of a dataset name such as 'maze2d-medium-dense-v1'."""
    family = family_of(name)
    if name not in MAZE_NAMES or family is None:
        raise unknown("maze", name, MAZE_NAMES)
    maze = name.split("-")[1]
    tiles = np.array([list(row) for row in MAPS[maze].split()])
    return Task(
        name=name,
        maze=maze,
        dense="-dense" in name,
        limit=FAMILIES[family].limit,
        walls=tiles == "#",
        cells=np.argwhere(tiles != "#"),
        goal=np.argwhere(tiles == "G")[0],
    )


def model_xml(walls: Bool) -> str:
    """D4RL's MuJoCo model of a maze, without its decoration."""
    boxes = "\n".join(
        f'<geom type="box" pos="{row + 1} {column + 1} 0" size=".5 .5 .2"/>'
        for row, column in np.argwhere(walls)
    )
    return f"""
    <mujoco model="point_maze">
      <compiler inertiafromgeom="true" angle="radian"/>
      <option timestep="0.01" gravity="0 0 0" iterations="20" integrator="Euler"/>
      <default>
        <joint damping="1" limited="false"/>
        <geom friction=".5 .1 .1" density="1000" margin="0.002" condim="1" contype="2" conaffinity="1"/>
      </default>
      <worldbody>
        <geom type="plane" size="40 40 0.25" pos="0 0 -0.1" contype="1" conaffinity="0"/>
        <body name="particle" pos="1.2 1.2 0">
          <geom type="sphere" size="{PARTICLE_RADIUS}" contype="1"/>
          <joint name="ball_x" type="slide" axis="1 0 0"/>
          <joint name="ball_y" type="slide" axis="0 1 0"/>
        </body>
        {boxes}
      </worldbody>
      <actuator>
        <motor joint="ball_x" gear="100" ctrllimited="true" ctrlrange="-1 1"/>
        <motor joint="ball_y" gear="100" ctrllimited="true" ctrlrange="-1 1"/>
      </actuator>
    </mujoco>"""


class Physics:
    """One step of the maze as a pure function of (states, actions): the result does not depend on other
    states or on the past."""

    def __init__(self, walls: Bool) -> None:
        self._model = mujoco.MjModel.from_xml_string(model_xml(walls))
        self._data = mujoco.MjData(self._model)

    def step(self, state: Float64, action: ArrayLike) -> Float64:
        """Next states [count, 4] of states [count, 4] = (x, y, vx, vy) under actions [count, 2], clipped
        to [-1, 1]."""
        push = np.asarray(action, dtype=np.float64)
        if push.shape != (len(state), 2) or not np.isfinite(push).all():
            raise ValueError(
                f"maze2d: actions must be finite and of shape {(len(state), 2)}; got shape {push.shape}:"
                f" {push}"
            )
        full = np.zeros(
            (len(state), 5)
        )  # MuJoCo's state: time, position, velocity; nothing here depends on time
        full[:, 1:3] = state[:, :2]
        full[:, 3:5] = np.clip(state[:, 2:], -MAX_SPEED, MAX_SPEED)
        # A roll-out of one step starts its contact solver anew, so the step depends on the state only.
        after, _ = rollout.rollout(self._model, self._data, full, np.clip(push, -1.0, 1.0)[:, None, :])
        return np.asarray(after[:, 0, 1:], dtype=np.float64)


class BatchedMaze:
    """Many episodes of one maze in lockstep, for evaluation: the same seed gives the same start states, in
    order."""

    def __init__(self, name: str, episodes: int, seed: int = 0) -> None:
        if episodes < 1:
            raise ValueError(f"{name}: needs at least one episode, got {episodes}")
        self.task = task(name)
        self.episodes = episodes
        self.state: Float64 = np.zeros(
            (episodes, 4)
        )  # double precision; observations are its single-precision copy
        self._physics = Physics(self.task.walls)
        self._rng = np.random.default_rng(seed)
        self._steps = self.task.limit  # so that a step before the first reset is an error

    def reset(self) -> Float32:
        """Fresh episodes; their first observations [episodes, 4]."""
        self.state = self.task.start(self._rng, self.episodes)
        self._steps = 0
        return self.state.astype(np.float32)

    def step(self, action: ArrayLike) -> tuple[Float32, Float64, Bool, Bool]:
        """Observations, rewards, terminated (never) and truncated (all at once, at the limit) after
        actions [episodes, 2]."""
        if self._steps >= self.task.limit:
            raise RuntimeError(f"{self.task.name}: the episodes are over; call reset() first")
        self.state = self._physics.step(self.state, action)
        self._steps += 1
        truncated = np.full(self.episodes, self._steps >= self.task.limit)
        return (
            self.state.astype(np.float32),
            self.task.reward(self.state[:, :2]),
            np.zeros(self.episodes, dtype=bool),
            truncated,
        )

    def success(self, observation: Float32) -> Bool:
        """Where the particle is within the goal's reach."""
        return np.asarray(np.hypot(*(observation[:, :2] - self.task.goal).T) <= GOAL_RADIUS)

    def close(self) -> None:
        """Nothing is held open."""


class Maze2D(gymnasium.Env[Float32, Float32]):
    """Push a particle to the goal of a maze: observation (x, y, vx, vy), action a force in [-1, 1]^2,
    never terminated."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 100}  # noqa: RUF012  Gymnasium's own declaration

    def __init__(self, name: str = "maze2d-umaze-v1", render_mode: str | None = None) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"{name}: render_mode '{render_mode}' does not exist; use 'rgb_array' or None")
        self.render_mode = render_mode
        self.task = task(name)
        rows, columns = self.task.walls.shape
        self.observation_space = gymnasium.spaces.Box(
            np.array([-1, -1, -SPEED_BOUND, -SPEED_BOUND], dtype=np.float32),
            np.array([rows, columns, SPEED_BOUND, SPEED_BOUND], dtype=np.float32),
        )
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), dtype=np.float32)
        self._physics = Physics(self.task.walls)
        self._state: Float64 = np.concatenate(
            [self.task.cells[:1].astype(np.float64), np.zeros((1, 2))], axis=1
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float32, dict[str, Any]]:
        """A random start, or the one given as options={"state": (x, y, vx, vy)}."""
        super().reset(seed=seed)
        self._state = self.task.start(self.np_random, 1)
        if options and "state" in options:
            given = np.array(options["state"], dtype=np.float64)
            if not self.observation_space.contains(given.astype(np.float32)):
                raise ValueError(
                    f"{self.task.name}: options['state'] must be (x, y, vx, vy) within"
                    f" {self.observation_space}, got {given}"
                )
            self._state = given[None]
        return self._state[0].astype(np.float32), {"goal": self.task.goal.copy()}

    def step(self, action: ArrayLike) -> tuple[Float32, float, bool, bool, dict[str, Any]]:
        """Push for 0.01 s; the reward is that of the new position."""
        self._state = self._physics.step(self._state, np.asarray(action)[None])
        reward = float(self.task.reward(self._state[0, :2]))
        return self._state[0].astype(np.float32), reward, False, False, {"goal": self.task.goal.copy()}

    def render(self) -> NDArray[np.uint8] | None:
        """The maze from above as RGB [height, width, 3], rows downwards as in MAPS; None unless
        render_mode is 'rgb_array'."""
        return picture(self.task, self._state[0, :2]) if self.render_mode == "rgb_array" else None


def picture(task: Task, position: Float64) -> NDArray[np.uint8]:
    """The maze from above: dark walls, the goal's reach in green with its centre, the particle in blue."""
    rows, columns = task.walls.shape
    row = (np.arange(rows * PIXELS) + 0.5)[:, None] / PIXELS - 0.5  # map position of each pixel's centre
    column = (np.arange(columns * PIXELS) + 0.5)[None, :] / PIXELS - 0.5
    canvas = np.broadcast_to(np.array([245.0, 243.0, 238.0]), (rows * PIXELS, columns * PIXELS, 3)).copy()

    def paint(centre: NDArray[Any], radius: float, colour: tuple[int, int, int]) -> None:
        distance = np.hypot(row - centre[0] - WALL_OFFSET, column - centre[1] - WALL_OFFSET)
        cover = np.clip((radius - distance) * PIXELS + 0.5, 0.0, 1.0)[..., None]  # soft over the last pixel
        canvas[:] = canvas * (1 - cover) + np.array(colour) * cover

    paint(task.goal, GOAL_RADIUS, (190, 226, 190))
    paint(task.goal, 0.08, (46, 139, 87))
    canvas[np.repeat(np.repeat(task.walls, PIXELS, axis=0), PIXELS, axis=1)] = (61, 64, 75)
    paint(position, PARTICLE_RADIUS, (31, 100, 200))
    image: NDArray[np.uint8] = np.rint(canvas).astype(np.uint8)
    return image
