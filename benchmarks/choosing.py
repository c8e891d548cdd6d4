"""One trial of GPC-Anchor's settings: python benchmarks/choosing.py OUT "what is tried" --set dosing --seed 10.

Settings are chosen on re-collected hopper-medium and pen-expert, on generated maze2d-large and on the plants
fan and dosing, with seeds 10 and 11; everything else is measured with what was chosen. The plant tank,
maze2d-umaze, walker2d-medium-replay, halfcheetah-medium-expert, halfcheetah-expert and the first 30,000 rows
of it are there to look for causes. The seed is that of training, and of a plant's log too. A trial's scores
along training, and on a plant what the last policy gains over those who made the log, are added to
results/choosing/trials.json. Fields of the algorithm are changed with --field anchor=0.1. A change of the
code is named in the trial's words.
"""

import argparse
import ast
import json
from pathlib import Path
from typing import Any

import numpy as np

import gridcount as gc
from gridcount.data.split import take_episodes
from gridcount.envs.plant_logs import behaviour_of, log_of

PLANTS = {  # rows, range of the actions
    "dosing": (20_000, (0.0, 10.0)),
    "fan": (30_000, (0.0, 100.0)),
    "tank": (20_000, (0.0, 100.0)),
}
FILES = {
    "hopper-medium": "hopper-medium-v2",
    "pen-expert": "pen-expert-v1",
    "walker2d-medium-replay": "walker2d-medium-replay-v2",
    "halfcheetah-medium-expert": "halfcheetah-medium-expert-v2",
    "halfcheetah-expert": "halfcheetah-expert-v2",
    "halfcheetah-expert-small": "halfcheetah-expert-v2",
}
SMALL = 30_000  # rows of the latter
EPISODES = dict.fromkeys((*FILES, "maze2d-large"), 20) | {"pen-expert": 50, "maze2d-umaze": 50}
PLANT_EPISODES, GAIN_EPISODES = 100, 400
STARTS = 1000  # the seed of the starts from which a gain is measured
KEPT = Path(__file__).parent.parent / "results" / "choosing" / "trials.json"


def data_of(name: str, seed: int, folder: Path) -> tuple[gc.Transitions | str | Path, str]:
    """A set to choose on, and the environment that scores it."""
    if name in FILES:
        path = folder / f"{FILES[name]}.hdf5"
        return path if name.removesuffix("-small") == name else first_episodes(path), FILES[name]
    if name not in PLANTS:
        return f"{name}-v1", f"{name}-v1"
    rows, (low, high) = PLANTS[name]
    log = log_of(name, rows, seed)
    data = gc.Transitions.from_arrays(
        log.observation,
        log.action,
        log.reward,
        terminated=log.terminated,
        episode=log.episode,
        action_low=low,
        action_high=high,
        name=f"{name}-{seed}",
    )
    return data, f"gridcount/{name}-v0"


def first_episodes(path: Path) -> gc.Transitions:
    """The whole episodes among the first rows of a file."""
    data = gc.load(path)
    return take_episodes(data, np.cumsum(data.episode_lengths) <= SMALL)


def gain(policy: Any, plant: str, seed: int) -> tuple[float, float]:
    """What a policy returns more than those who made a plant's log, from the same starts, and its standard
    error."""
    environment = f"gridcount/{plant}-v0"
    rules = policy, behaviour_of(plant, seed)
    ours, theirs = (
        gc.evaluate(rule, environment, episodes=GAIN_EPISODES, seed=STARTS).returns for rule in rules
    )
    more = ours - theirs
    return float(more.mean()), float(more.std(ddof=1) / len(more) ** 0.5)


def main() -> None:
    """Train, score and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="the run directory")
    parser.add_argument("trial", help="what is tried, in words")
    parser.add_argument("--set", required=True, choices=[*PLANTS, *EPISODES])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--updates", type=int, required=True)
    parser.add_argument("--every", type=int, default=10_000, help="updates between evaluations")
    parser.add_argument("--algo", default="gpc-anchor")
    parser.add_argument("--field", action="append", default=[], help="NAME=VALUE")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the re-collected files")
    parser.add_argument("--keep", type=Path, default=KEPT, help="the file that the trial is added to")
    options = parser.parse_args()
    fields = {name: ast.literal_eval(value) for name, value in (each.split("=") for each in options.field)}
    data, environment = data_of(options.set, options.seed, options.data)
    run = gc.train(
        data,
        options.algo,
        seed=options.seed,
        updates=options.updates,
        env=environment,
        evaluate_every=options.every,
        episodes=EPISODES.get(options.set, PLANT_EPISODES),
        out=options.out,
        progress=False,
        **fields,
    )
    columns = run.metrics
    scored = next(name for name in ("score", "return") if name in columns)
    trial: dict[str, Any] = {
        "trial": options.trial,
        "dataset": options.set,
        "seed": options.seed,
        "updates": [int(done) for done in columns["updates"]],
        "scores": [round(float(score), 1) for score in columns[scored]],
    }
    if options.set in PLANTS:
        trial["gain"] = [round(number, 1) for number in gain(run.policy(), options.set, options.seed)]
    if "came_true" in columns:
        trial["came_true"] = round(float(columns["came_true"][-1]), 2)
    kept = json.loads(options.keep.read_text()) if options.keep.exists() else []
    options.keep.write_text("[\n" + ",\n".join(json.dumps(each) for each in [*kept, trial]) + "\n]\n")
    print(json.dumps(trial))


if __name__ == "__main__":
    main()
