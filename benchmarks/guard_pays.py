"""What a guard is worth: a maze whose log never enters one region, with and without the guard.

All walks of the log that touch a cell of the maze are removed, as if its controller avoided it. Policies are trained on the rest, and rolled
out in the whole maze with each fallback of the guard. Counted are steps inside of the region, steps in states that the log has not seen, and the score;
and the score if the region were a hazard, where an episode that enters it earns nothing more.

    python benchmarks/guard_pays.py [--updates 60000] [--keep]

With --keep the figures go to results/guard.json, which the docs show.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gridcount as gc
from gridcount.algorithms import make_algorithm
from gridcount.catalogue import normalised_score
from gridcount.envs.maze2d import WALL_OFFSET, BatchedMaze
from gridcount.transitions import Transitions

MAZE = "maze2d-medium-v1"
REMOVED = (3, 3)  # a cell on the direct way from the upper left to the goal; there is a longer way around it
SEEDS = 3
HIDDEN = (64, 64)  # smaller than the preset's, so that it runs in minutes
EPISODES = 50
KEPT = Path(__file__).parent.parent / "results" / "guard.json"
GUARDS: dict[str, gc.Guard | None] = {
    "no guard": None,
    "nearest": gc.Guard(fallback="nearest"),
    "clone": gc.Guard(fallback="clone"),
    "stop": gc.Guard(fallback=[0.0, 0.0]),
}


def in_region(observation: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Where the particle is in the removed cell."""
    inside = np.abs(observation[..., :2] + WALL_OFFSET - np.array(REMOVED)) <= 0.5
    return np.asarray(inside.all(axis=-1))


def log_without_region(data: Transitions) -> Transitions:
    """The walks of a log that never touch the region."""
    episode = np.append(0, np.cumsum(data.episode_end)[:-1])
    touched = np.unique(episode[in_region(data.observation) | in_region(data.next_observation)])
    keep = ~np.isin(episode, touched)
    columns = ("observation", "action", "reward", "next_observation", "terminated", "episode_end")
    kept: dict[str, Any] = {name: np.asarray(getattr(data, name))[keep] for name in columns}
    return Transitions(**kept, name="medium-with-a-hole")


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
    flags.add_argument("--updates", type=int, default=60_000)
    flags.add_argument("--algorithms", nargs="+", default=["sac", "gpc-sac"])
    flags.add_argument(
        "--runs", type=Path, help="where runs are kept; runs that are there are not trained again"
    )
    flags.add_argument("--keep", action="store_true", help="write results/guard.json")
    given = flags.parse_args()
    data = log_without_region(gc.load(MAZE))
    print(f"{len(data):,} rows without the region")
    results: dict[str, Any] = {"maze": MAZE, "removed": REMOVED, "rows": len(data), "updates": given.updates}
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
            found = {name: [roll_out(gc.load_policy(directory, seed=seed), guard, seed) for seed in range(SEEDS)] for name, guard in GUARDS.items()}  # fmt: skip
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
