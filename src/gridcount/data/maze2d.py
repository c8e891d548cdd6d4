"""Generated Maze2D data with D4RL's method: a controller follows waypoints from one random goal to the next."""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from gridcount.data.cache import cache_directory, make_cache_folder
from gridcount.data.catalogue import MAZE_NAMES, MAZES, unknown
from gridcount.data.d4rl import write_hdf5

FORMAT = 1  # of the recipe and the file; a cached file of another format is made again
STREAMS = 64  # particles simulated in parallel, each on a long uninterrupted walk
SHORTEST_STREAM = 3000  # rows; fewer streams rather than shorter ones
REACHED = 0.1  # distance at which a waypoint or the goal counts as reached
WAYPOINT_SHIFT = 0.2  # waypoints but the last move by up to this towards the middle of the corridor, which is at -0.2
NOISE = 0.5  # standard deviation of the action noise
GENERATOR = "gridcount waypoint controller, after D4RL's"
MOVES = ((0, -1), (0, 1), (-1, 0), (1, 0))  # in D4RL's order, which decides between shortest paths

Progress = Callable[[int, int], None]  # rows done, rows in all


def make(
    name: str, transitions: int = 1_000_000, seed: int = 0, directory: str | Path | None = None, progress: Progress | None = None
) -> Path:
    """The D4RL-layout file of a generated maze dataset, generated if it does not exist (about ten seconds per million rows)."""
    _check(name, transitions, seed)
    folder = cache_directory() / "datasets" if directory is None else Path(directory)
    path = folder / f"{name}-{transitions}-seed{seed}.hdf5"
    attributes: dict[str, str | int | float] = {
        "generator": GENERATOR,
        "format": FORMAT,
        "name": name,
        "transitions": transitions,
        "seed": seed,
    }
    if not _holds(path, attributes):
        if directory is None:
            make_cache_folder("datasets")
        write_hdf5(path, generate(name, transitions, seed, progress), attributes)
    return path


def generate(name: str, transitions: int, seed: int, progress: Progress | None = None) -> dict[str, NDArray[Any]]:
    """`transitions` rows in D4RL's columns, in time order, one stream after the other; sparse and dense differ only in rewards.

    `timeouts` marks the rows at which the goal switches (the particle moves on without a reset) and each stream's last row. The
    reward of a row is that of its own observation, as in D4RL's files.
    """
    _check(name, transitions, seed)
    from gridcount.envs.maze2d import START_JITTER, WALL_OFFSET, Physics, task  # needs the optional simulator; reading a made file does not

    maze = task(name)
    physics = Physics(maze.walls)
    routes = Routes(maze.walls)
    rng = np.random.default_rng([seed, MAZES.index(maze.maze)])
    streams = int(np.clip(transitions // SHORTEST_STREAM, 1, STREAMS))
    length = -(-transitions // streams)  # rounded up; the surplus is cut from the last stream
    every = np.arange(streams)

    state = maze.start(rng, streams)
    goal = np.zeros((streams, 2))  # as recorded, +-0.1; the controller heads for the middle of its cell, like D4RL's
    waypoints = np.zeros((streams, routes.longest, 2))
    current = np.zeros(streams, dtype=np.int64)  # index of the waypoint being headed for
    last = np.zeros(streams, dtype=np.int64)  # index of the last one, the goal's cell
    age = np.zeros(streams, dtype=np.int64)  # rows since the goal was set
    switch = np.ones(streams, dtype=bool)

    observations = np.empty((length, streams, 4), dtype=np.float32)
    actions = np.empty((length, streams, 2), dtype=np.float32)
    goals = np.empty((length, streams, 2), dtype=np.float32)
    timeouts = np.zeros((length, streams), dtype=bool)
    for row in range(length):
        for stream in np.flatnonzero(switch):
            target = int(rng.integers(len(maze.cells)))
            goal[stream] = maze.cells[target] + rng.uniform(-START_JITTER, START_JITTER, size=2)
            path = routes.between(state[stream, :2] + WALL_OFFSET, target).astype(np.float64)
            path[:-1] -= rng.uniform(0.0, WAYPOINT_SHIFT, size=(len(path) - 1, 2))
            waypoints[stream, : len(path)] = path
            current[stream], last[stream], age[stream] = 0, len(path) - 1, 0

        position, velocity = state[:, :2], state[:, 2:]
        heading = waypoints[every, current] - position
        # D4RL clips the controller's action before it adds the noise, so the noise always has an effect
        action = np.clip(10.0 * heading - velocity, -1.0, 1.0) + rng.normal(0.0, NOISE, size=(streams, 2))
        arrived = _norm(waypoints[every, last] - position) < REACHED
        # at the limit a walk has limit + 1 observations, hence limit transitions
        switch = arrived | (age >= maze.limit)
        observations[row], actions[row], goals[row], timeouts[row] = state, np.clip(action, -1.0, 1.0), goal, switch

        current = np.minimum(current + (_norm(heading) < REACHED), last)
        age += 1
        state = physics.step(state, actions[row])  # the recorded single-precision action is applied
        if progress is not None and (row % 1000 == 999 or row == length - 1):
            progress(min((row + 1) * streams, transitions), transitions)
    timeouts[-1] = True

    observation, ends = _in_order(observations, transitions), _in_order(timeouts, transitions)
    ends[-1] = True
    return {
        "observations": observation,
        "actions": _in_order(actions, transitions),
        "rewards": maze.reward(observation[:, :2]).astype(np.float32),
        "terminals": np.zeros(transitions, dtype=bool),
        "timeouts": ends,
        "infos/goal": _in_order(goals, transitions),
        "infos/qpos": observation[:, :2],
        "infos/qvel": observation[:, 2:],
    }


class Routes:
    """Shortest paths between the free cells of a maze, over its four neighbours."""

    def __init__(self, walls: NDArray[np.bool_]) -> None:
        self.cells = np.argwhere(~walls)
        self._index = np.full(walls.shape, -1)
        self._index[tuple(self.cells.T)] = np.arange(len(self.cells))
        self._neighbours = [[int(i) for move in MOVES if (i := self._index[tuple(cell + move)]) >= 0] for cell in self.cells]
        distances = [self._distances_to(goal) for goal in range(len(self.cells))]
        self.longest = max(map(max, distances)) + 1
        # [goal][cell] -> the neighbour to move to: the nearest to the goal, of equals the first; at the goal, the goal
        self._next = [[min(near, key=to.__getitem__) for near in self._neighbours] for to in distances]
        for goal, step in enumerate(self._next):
            step[goal] = goal

    def _distances_to(self, goal: int) -> list[int]:
        distance = [-1] * len(self.cells)
        distance[goal] = 0
        queue = deque([goal])
        while queue:
            cell = queue.popleft()
            for neighbour in self._neighbours[cell]:
                if distance[neighbour] < 0:
                    distance[neighbour] = distance[cell] + 1
                    queue.append(neighbour)
        return distance

    def between(self, position: NDArray[np.float64], goal: int) -> NDArray[np.int64]:
        """Cells [steps, 2] to pass from a position on the map to cell number `goal`, without the first, with the last."""
        row, column = np.rint(position).astype(int)
        cell = int(self._index[row, column])
        path = [cell := self._next[goal][cell]]
        while cell != goal:
            path.append(cell := self._next[goal][cell])
        return self.cells[path]


def _check(name: str, transitions: int, seed: int) -> None:
    if name not in MAZE_NAMES:
        raise unknown("maze", name, MAZE_NAMES)
    if transitions < 2 or seed < 0:
        raise ValueError(f"{name}: needs at least 2 transitions and a seed of 0 or more, got {transitions} and {seed}")


def is_generated(path: Path) -> bool:
    """Whether `make` wrote a file."""
    try:
        with h5py.File(path, "r") as file:
            return bool(file.attrs.get("generator") == GENERATOR)
    except OSError:
        return False


def _holds(path: Path, attributes: dict[str, str | int | float]) -> bool:
    """Whether the file is complete and has exactly these attributes."""
    try:
        with h5py.File(path, "r") as file:
            return dict(file.attrs) == attributes and file["observations"].shape == (attributes["transitions"], 4)
    except (OSError, KeyError):
        return False


def _norm(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    norm: NDArray[np.float64] = np.sqrt(np.square(vectors).sum(axis=-1))
    return norm


def _in_order(steps: NDArray[Any], rows: int) -> NDArray[Any]:
    """[length, streams, ...] -> [rows, ...], one stream after the other."""
    return np.ascontiguousarray(np.swapaxes(steps, 0, 1).reshape(-1, *steps.shape[2:])[:rows])
