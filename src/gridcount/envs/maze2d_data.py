"""Generated Maze2D data with D4RL's method: a controller follows waypoints from one random goal to the
next."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridcount.catalogue import MAZE_NAMES, MAZES, unknown

if TYPE_CHECKING:  # its module needs the optional simulator
    from gridcount.envs.maze2d import Task

STREAMS = 64  # particles simulated in parallel, each on a long uninterrupted walk
SHORTEST_STREAM = 3000  # rows; fewer streams rather than shorter ones
REACHED = 0.1  # distance at which a waypoint or the goal counts as reached
WAYPOINT_SHIFT = 0.2  # waypoints but the last move by up to this towards the middle of the corridor, at -0.2
NOISE = 0.5  # standard deviation of the action noise
MOVES = ((0, -1), (0, 1), (-1, 0), (1, 0))  # in D4RL's order, which decides between shortest paths

Progress = Callable[[int, int], None]  # rows done, rows in all


def generate(
    name: str, transitions: int, seed: int, progress: Progress | None = None
) -> dict[str, NDArray[Any]]:
    """`transitions` rows in D4RL's columns, in time order, one stream after the other.

    Sparse and dense mazes differ only in rewards. `timeouts` marks the rows at which the goal switches (the
    particle moves on without a reset) and each stream's last row. The reward of a row is that of its own
    observation, as in D4RL's files.
    """
    validate_request(name, transitions, seed)
    from gridcount.envs.maze2d import Physics, task  # the optional simulator; reading a made file needs none

    maze = task(name)
    physics = Physics(maze.walls)
    rng = np.random.default_rng([seed, MAZES.index(maze.maze)])
    streams = int(np.clip(transitions // SHORTEST_STREAM, 1, STREAMS))
    length = -(-transitions // streams)  # rounded up; the surplus is cut from the last stream
    state = maze.start(rng, streams)
    walkers = Walkers(maze, streams, rng)

    walk = Walk.empty(length, streams)
    for row in range(length):
        walkers.set_goals(state)
        action = walkers.act(state)
        walk.observations[row], walk.actions[row] = state, np.clip(action, -1.0, 1.0)
        walk.goals[row], walk.timeouts[row] = walkers.goal, walkers.switch
        state = physics.step(state, walk.actions[row])  # the recorded single-precision action is applied
        if progress is not None and (row % 1000 == 999 or row == length - 1):
            progress(min((row + 1) * streams, transitions), transitions)
    walk.timeouts[-1] = True
    return walk.columns(maze, transitions)


class Walk(NamedTuple):
    """What is recorded of all particles, step by step."""

    observations: NDArray[np.float32]  # [length, streams, 4]
    actions: NDArray[np.float32]  # [length, streams, 2]
    goals: NDArray[np.float32]  # [length, streams, 2]
    timeouts: NDArray[np.bool_]  # [length, streams]

    @classmethod
    def empty(cls, length: int, streams: int) -> "Walk":
        """Room for `length` steps."""
        observations, actions, goals = (np.empty((length, streams, dims), np.float32) for dims in (4, 2, 2))
        return cls(observations, actions, goals, np.zeros((length, streams), dtype=bool))

    def columns(self, maze: "Task", rows: int) -> dict[str, NDArray[Any]]:
        """The first `rows` rows in D4RL's columns, one stream after the other."""
        observation, ends = _in_order(self.observations, rows), _in_order(self.timeouts, rows)
        ends[-1] = True
        return {
            "observations": observation,
            "actions": _in_order(self.actions, rows),
            "rewards": maze.reward(observation[:, :2]).astype(np.float32),
            "terminals": np.zeros(rows, dtype=bool),
            "timeouts": ends,
            "infos/goal": _in_order(self.goals, rows),
            "infos/qpos": observation[:, :2],
            "infos/qvel": observation[:, 2:],
        }


class Walkers:
    """D4RL's controller for several particles of a maze: each heads for waypoints, one goal after the
    other."""

    def __init__(self, maze: "Task", streams: int, rng: np.random.Generator) -> None:
        self._maze, self._rng, self._routes = maze, rng, Routes(maze.walls)
        self._every = np.arange(streams)
        self.goal = np.zeros(
            (streams, 2)
        )  # as recorded, +-0.1; the controller heads for the middle of its cell
        self.switch = np.ones(streams, dtype=bool)  # whether the next row needs a new goal
        self._waypoints = np.zeros((streams, self._routes.longest, 2))
        self._current = np.zeros(streams, dtype=np.int64)  # index of the waypoint being headed for
        self._last = np.zeros(streams, dtype=np.int64)  # index of the last one, the goal's cell
        self._age = np.zeros(streams, dtype=np.int64)  # rows since the goal was set

    def set_goals(self, state: NDArray[np.float64]) -> None:
        """Draw a goal, and the way to it, for each particle that needs one."""
        from gridcount.envs.maze2d import START_JITTER, WALL_OFFSET

        cells, rng = self._maze.cells, self._rng
        for stream in np.flatnonzero(self.switch):
            target = int(rng.integers(len(cells)))
            self.goal[stream] = cells[target] + rng.uniform(-START_JITTER, START_JITTER, size=2)
            path = self._routes.between(state[stream, :2] + WALL_OFFSET, target).astype(np.float64)
            path[:-1] -= rng.uniform(0.0, WAYPOINT_SHIFT, size=(len(path) - 1, 2))
            self._waypoints[stream, : len(path)] = path
            self._current[stream], self._last[stream], self._age[stream] = 0, len(path) - 1, 0

    def act(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        """The noisy action of each particle, before it is clipped; moves on to the next waypoints."""
        position, velocity = state[:, :2], state[:, 2:]
        heading = self._waypoints[self._every, self._current] - position
        # D4RL clips the controller's action before it adds the noise, so the noise always has an effect
        action = np.clip(10.0 * heading - velocity, -1.0, 1.0)
        action += self._rng.normal(0.0, NOISE, size=action.shape)
        arrived = _norm(self._waypoints[self._every, self._last] - position) < REACHED
        # at the limit a walk has limit + 1 observations, hence limit transitions
        self.switch = arrived | (self._age >= self._maze.limit)
        self._current = np.minimum(self._current + (_norm(heading) < REACHED), self._last)
        self._age += 1
        return action


class Routes:
    """Shortest paths between the free cells of a maze, over its four neighbours."""

    def __init__(self, walls: NDArray[np.bool_]) -> None:
        self.cells = np.argwhere(~walls)
        self._index = np.full(walls.shape, -1)
        self._index[tuple(self.cells.T)] = np.arange(len(self.cells))
        self._neighbours = [
            [int(i) for move in MOVES if (i := self._index[tuple(cell + move)]) >= 0] for cell in self.cells
        ]
        distances = [self._distances_to(goal) for goal in range(len(self.cells))]
        self.longest = max(map(max, distances)) + 1
        # [goal][cell] -> the neighbour to move to: the nearest to the goal, of equals the first; at the goal,
        # the goal
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
        """Cells [steps, 2] to pass from a position on the map to cell number `goal`, without the first,
        with the last."""
        row, column = np.rint(position).astype(int)
        cell = int(self._index[row, column])
        path = [cell := self._next[goal][cell]]
        while cell != goal:
            path.append(cell := self._next[goal][cell])
        return self.cells[path]


def validate_request(name: str, transitions: int, seed: int) -> None:
    """Raise ValueError for a maze, a size or a seed that cannot be generated."""
    if name not in MAZE_NAMES:
        raise unknown("maze", name, MAZE_NAMES)
    if transitions < 2 or seed < 0:
        raise ValueError(
            f"{name}: needs at least 2 transitions and a seed of 0 or more, got {transitions} and {seed}"
        )


def _norm(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    norm: NDArray[np.float64] = np.sqrt(np.square(vectors).sum(axis=-1))
    return norm


def _in_order(steps: NDArray[Any], rows: int) -> NDArray[Any]:
    """[length, streams, ...] -> [rows, ...], one stream after the other."""
    return np.ascontiguousarray(np.swapaxes(steps, 0, 1).reshape(-1, *steps.shape[2:])[:rows])
