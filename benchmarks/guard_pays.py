"""What a guard is worth: a maze whose log never enters one region, with and without the guard.

The log's controller drives to the goal and goes around a region of the maze, although there is no wall. Policies
are trained on that log, and rolled out in the maze with each fallback of the guard. Counted are steps in the
region, steps in states that the log has not seen, and the score; and the score if the region were a hazard,
where an episode that enters it earns nothing more.

    python benchmarks/guard_pays.py [--updates 20000] [--keep]

With --keep the figures go to results/guard.json, which the docs show.
"""

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gridcount as gc
from gridcount.algorithms import make_algorithm
from gridcount.catalogue import normalised_score
from gridcount.envs.maze2d import WALL_OFFSET, BatchedMaze, Physics, task
from gridcount.envs.maze2d_data import Walkers
from gridcount.transitions import Transitions

MAZE = "maze2d-medium-v1"
REMOVED = (3, 3)  # a cell on the direct way from the upper left to the goal; there is a longer way around it
SEEDS = 3
HIDDEN = (64, 64)  # smaller than the preset's, so that it runs in minutes
EPISODES = 50  # per evaluation
STREAMS, BATCHES = 64, 6  # episodes of the log: in parallel, and one after the other
KEPT = Path(__file__).parent.parent / "results" / "guard.json"
GUARDS: dict[str, gc.Guard | None] = {
    "no guard": None,
    "nearest": gc.Guard(fallback="nearest"),
    "nearest, resolution 4": gc.Guard(resolution=4, fallback="nearest"),
    "clone": gc.Guard(fallback="clone"),
    "stop": gc.Guard(fallback=[0.0, 0.0]),
    "only the clone": gc.Guard(min_count=10**9, fallback="clone"),
}


def in_region(observation: NDArray[Any]) -> NDArray[np.bool_]:
    """Where the particle is in the removed cell."""
    inside = np.abs(np.asarray(observation)[..., :2] + WALL_OFFSET - np.array(REMOVED)) <= 0.5
    return np.asarray(inside.all(axis=-1))


class Drivers(Walkers):
    """A controller that always drives to the goal of the maze, around the region as if it were a wall."""

    def __init__(self, streams: int, rng: np.random.Generator) -> None:
        walls = task(MAZE).walls.copy()
        walls[REMOVED] = True
        super().__init__(replace(task(MAZE), walls=walls, cells=np.argwhere(~walls)), streams, rng)

    def set_goals(self, state: NDArray[np.float64]) -> None:
        """The way from each particle to the goal."""
        goal = self._maze.goal
        target = int(np.flatnonzero((self._maze.cells == goal).all(axis=1))[0])
        for stream in self._every:
            path = self._routes.between(state[stream, :2] + WALL_OFFSET, target).astype(np.float64)
            self._waypoints[stream, : len(path)] = path
            self._current[stream], self._last[stream], self._age[stream] = 0, len(path) - 1, 0


def make_log(seed: int = 0) -> Transitions:
    """Episodes of the controller from all cells but the region, until it has stayed at the goal for a while."""
    rng, physics, maze = np.random.default_rng(seed), Physics(task(MAZE).walls), task(MAZE)
    parts = []
    for _ in range(BATCHES):
        state = maze.start(rng, STREAMS)
        state = state[~in_region(state)]
        drivers = Drivers(len(state), rng)
        drivers.set_goals(state)
        steps = []
        for _ in range(maze.limit):
            action = np.clip(drivers.act(state), -1, 1).astype(np.float32)
            after = physics.step(state, action)
            steps.append((state.astype(np.float32), action, after.astype(np.float32)))
            state = after
        columns = [np.stack(column, axis=1) for column in zip(*steps, strict=True)]  # [streams, steps, dims]
        entered = in_region(columns[0]).any(axis=1)
        parts.append([column[~entered] for column in columns])
    observation, action, after = (np.concatenate(column) for column in zip(*parts, strict=True))
    end = np.zeros(observation.shape[:2], np.bool_)
    end[:, -1] = True
    return Transitions(
        observation=observation.reshape(-1, 4),
        action=action.reshape(-1, 2),
        reward=maze.reward(observation[..., :2]).reshape(-1).astype(np.float32),
        next_observation=after.reshape(-1, 4).astype(np.float32),
        terminated=np.zeros(end.size, np.bool_),
        episode_end=end.reshape(-1),
        name="medium-with-a-hole",
    )


def log_score(data: Transitions) -> float:
    """The mean score of the log's own episodes."""
    return float(np.mean([normalised_score("maze2d-medium", value) for value in data.episode_returns]))


def roll_out(policy: gc.Policy, guard: gc.Guard | None, seed: int) -> dict[str, float]:
    """What happens in some episodes of the whole maze."""
    maze = BatchedMaze(MAZE, EPISODES, seed)
    observation, steps = maze.reset(), maze.task.limit
    entered = np.zeros(EPISODES, np.bool_)
    started = in_region(observation)  # may not be blamed on the policy
    returns, safe_returns = np.zeros(EPISODES), np.zeros(EPISODES)
    inside, unseen, held = np.zeros((3, steps, EPISODES))
    least = policy.default_guard.resolution
    assert least is not None
    for step in range(steps):
        decision = policy.decide(observation, guard or gc.Guard())
        observation, reward, _, _ = maze.step(decision.policy_action if guard is None else decision.action)
        inside[step] = in_region(observation)
        unseen[step], held[step] = decision.resolution < least, decision.held
        entered |= inside[step].astype(np.bool_)
        returns += reward
        safe_returns += np.where(entered, 0, reward)
    fair = ~started

    def score(values: NDArray[np.float64]) -> float:
        return float(np.mean([normalised_score("maze2d-medium", value) for value in values[fair]]))

    return {
        "score": score(returns),
        "score_if_hazard": score(safe_returns),
        "steps_in_region": float(inside[:, fair].mean()),
        "episodes_that_enter": float(entered[fair].mean()),
        "steps_unseen": float(unseen[:, fair].mean()),
        "steps_held": float(held[:, fair].mean()) if guard is not None else 0.0,
    }


def main() -> None:
    """Train, roll out, print, and keep."""
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("--updates", type=int, default=20_000)
    flags.add_argument("--algorithms", nargs="+", default=["gpc-sac"])
    flags.add_argument(
        "--runs", type=Path, help="where runs are kept; runs that are there are not trained again"
    )
    flags.add_argument("--keep", action="store_true", help="write results/guard.json")
    given = flags.parse_args()
    data = make_log()
    print(f"{len(data):,} rows without the region, score {log_score(data):.1f}", flush=True)
    results: dict[str, Any] = {
        "maze": MAZE,
        "log_score": log_score(data),
        "removed": REMOVED,
        "rows": len(data),
        "updates": given.updates,
    }
    results |= {"episodes": EPISODES, "seeds": SEEDS, "policies": {}}
    with tempfile.TemporaryDirectory() as scratch:
        for algorithm in given.algorithms:
            directory = (given.runs or Path(scratch)) / algorithm
            if not (directory / "policy" / "clone.npz").exists():
                made = make_algorithm(algorithm, MAZE, "fast", hidden=HIDDEN)
                gc.train(
                    data,
                    made,
                    seeds=SEEDS,
                    updates=given.updates,
                    out=directory,
                    evaluate_every=5_000,
                )
            policies = [gc.load_policy(directory, seed=seed) for seed in range(SEEDS)]
            found = {
                name: [roll_out(policy, guard, policy.seed) for policy in policies]
                for name, guard in GUARDS.items()
            }
            results["policies"][algorithm] = found
            for name, rows in found.items():
                print(
                    algorithm,
                    name,
                    {key: round(float(np.mean([row[key] for row in rows])), 3) for key in rows[0]},
                )
    if given.keep:
        KEPT.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
