"""Estimates against truth: python benchmarks/estimates.py RUNS OUT [--only umaze hopper pen] [--step train
estimate truth report].

Policies are checkpoints of GPC-SAC or GPC-Anchor along training, SAC or TD3 (which leave the data), BC, a
rule that does nothing, and the policy that made the log; all are trained with --hold-out 0.1 (step train).
Truth is the mean discounted return of roll-outs in the environment, and of the log's own episodes for its
policy. Finished parts are kept in RUNS and OUT, and skipped.
"""

import argparse
import json
import math
import sys
import time
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import spearmanr

import gridcount
from gridcount.data.split import Split
from gridcount.envs.episodes import GymnasiumEpisodes
from gridcount.envs.maze2d import BatchedMaze
from gridcount.estimation.estimate import Settings, estimate
from gridcount.estimation.problem import LOG
from gridcount.estimation.runs import Evaluated
from gridcount.evaluation.environments import dimensions, find
from gridcount.training.compiled import keep_compiled

DISCOUNT = 0.99
HELD_OUT = Split(0.1, 0)
RESULT = Path(__file__).parent.parent / "results" / "estimates.json"


class Setting(NamedTuple):
    """A log, its environment, and the kept policies that are estimated."""

    data: str
    environment: str
    policies: dict[str, tuple[str, int]]  # name -> run, updates
    episodes: int  # per policy, for the truth
    hidden: tuple[int, ...]  # layers of the policies' networks
    steps: int  # per episode: what lies beyond is worth less than 1 % of a return


SETTINGS = {
    "umaze": Setting(
        "maze2d-umaze-v1",
        "maze2d-umaze-v1",
        {f"gpc-sac {k}k": ("umaze-gpc-sac", 1000 * k) for k in (4, 12, 20, 28, 40)}
        | {f"sac {k}k": ("umaze-sac", 1000 * k) for k in (4, 20)}
        | {"bc": ("umaze-bc", 10_000)},
        episodes=500,
        hidden=(64, 64),
        steps=600,
    ),
    "hopper": Setting(
        "hopper-medium-v2.hdf5",
        "hopper-medium-v2",
        {f"gpc-anchor {k / 1000:g}k": ("hopper-gpc-anchor", k) for k in (1500, 3000, 6000, 10_500, 15_000)}
        | {"td3 3k": ("hopper-td3", 3000), "bc": ("hopper-bc", 5000)},
        episodes=40,
        hidden=(128, 128),
        steps=1000,
    ),
    "pen": Setting(
        "pen-expert-v1.hdf5",
        "pen-expert-v1",
        {f"gpc-anchor {k / 1000:g}k": ("pen-gpc-anchor", k) for k in (1500, 3000, 6000, 10_500, 15_000)}
        | {"td3 3k": ("pen-td3", 3000), "bc": ("pen-bc", 5000)},
        episodes=40,
        hidden=(128, 128),
        steps=500,
    ),
}


def train(name: str, runs: Path, folder: Path) -> None:
    """Train the runs of a log."""
    setting = SETTINGS[name]
    path = folder / setting.data
    for run in dict.fromkeys(run for run, _ in setting.policies.values()):
        if (runs / run).exists():
            continue
        kept = [updates for each, updates in setting.policies.values() if each == run]
        gridcount.train(
            path if path.is_file() else setting.data,
            run.removeprefix(f"{name}-"),
            env=setting.environment,
            updates=max(kept),
            evaluate_every=math.gcd(*kept),
            episodes=2,
            hold_out=HELD_OUT.share,
            keep_policies=100,
            checkpoint_seconds=0,
            out=runs / run,
            hidden=setting.hidden,
        )


def nothing(observation: Any, action_dim: int) -> Any:
    """A rule that always gives the action 0."""
    return np.zeros((len(observation), action_dim))


def load(setting: Setting, folder: Path) -> gridcount.Transitions:
    """The log, by name or from the folder of re-collected files."""
    path = folder / setting.data
    return gridcount.load(path if path.is_file() else setting.data)


def rules_of(setting: Setting, runs: Path, action_dim: int) -> dict[str, Any]:
    """The policies by name."""
    rules: dict[str, Any] = {
        name: gridcount.load_policy(runs / run, at=updates)
        for name, (run, updates) in setting.policies.items()
    }
    return rules | {"nothing": lambda observation: nothing(observation, action_dim)}


def roll_out(rule: Any, setting: Setting, starts: Any) -> Any:
    """[episodes] discounted returns; mazes begin in the log's own first states."""
    task = find(setting.environment)
    dimensions(setting.environment)  # registers it
    if task.family is not None and setting.environment.startswith("maze2d"):
        environment: Any = BatchedMaze(setting.environment, len(starts), 0)
        environment.task = replace(environment.task, limit=setting.steps)
    else:
        environment = GymnasiumEpisodes(task.id, setting.episodes, 0, setting.steps, **task.options)
    with closing(environment):
        observation = environment.reset()
        if isinstance(environment, BatchedMaze):
            environment.state = starts.astype(np.float64)
            observation = starts
        running, total, power = np.ones(len(observation), bool), np.zeros(len(observation)), 1.0
        for _ in range(setting.steps):
            observation, reward, terminated, truncated = environment.step(rule(observation))
            total += power * np.where(running, reward, 0.0)
            running &= ~(terminated | truncated)
            power *= DISCOUNT
            if not running.any():
                break
    return total


def log_truth(setting: Setting, data: gridcount.Transitions) -> Any:
    """[episodes] discounted returns of the log's own policy; None where its episodes are cut off and did
    not go on."""
    lengths = data.episode_lengths
    starts = np.cumsum(lengths) - lengths
    goes_on = setting.environment.startswith("maze2d")  # a maze's log is one trajectory, whose goal changes
    if not goes_on and not data.terminated.any():
        return None
    ends = np.minimum(starts + setting.steps, len(data)) if goes_on else starts + lengths
    powers = DISCOUNT ** np.arange(int((ends - starts).max()))
    pairs = zip(starts, ends, strict=True)
    sums = np.array([np.dot(data.reward[start:end], powers[: end - start]) for start, end in pairs])
    return sums[starts + setting.steps < len(data)] if goes_on else sums[:-1]


def truth(name: str, runs: Path, folder: Path, out: Path) -> None:
    """Measure what every policy is worth."""
    setting, path = SETTINGS[name], out / f"{name}-truth.json"
    data = load(setting, folder)
    held = HELD_OUT.held_out(data)
    first = (np.cumsum(data.episode_lengths) - data.episode_lengths)[held]
    starts = data.observation[first[: setting.episodes]]
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for policy, rule in rules_of(setting, runs, data.action_dim).items():
        if policy not in found:
            found[policy] = _summary(roll_out(rule, setting, starts))
            path.write_text(json.dumps(found, indent=1))
            print(name, policy, found[policy], flush=True)
    own = log_truth(setting, data)
    if own is not None:
        found[LOG] = _summary(own)
    path.write_text(json.dumps(found, indent=1))
    if own is None:
        within(name, runs, data, out)


def within(name: str, runs: Path, data: gridcount.Transitions, out: Path) -> None:
    """Measure what policies are worth within as many steps as were logged, because the log's own policy is
    known within these only."""
    path = out / f"{name}-within.json"
    if path.exists():
        return
    steps = int(data.episode_lengths.max())
    setting = SETTINGS[name]._replace(steps=steps)
    starts = np.cumsum(data.episode_lengths) - data.episode_lengths
    powers = DISCOUNT ** np.arange(steps)
    pairs = zip(starts, data.episode_lengths, strict=True)
    own = np.array([np.dot(data.reward[at : at + length], powers[:length]) for at, length in pairs])
    rules = rules_of(setting, runs, data.action_dim)
    found = {policy: _summary(roll_out(rule, setting, None)) for policy, rule in rules.items()}
    path.write_text(json.dumps(found | {LOG: _summary(own)}, indent=1))


def _summary(returns: Any) -> dict[str, float]:
    return {
        "value": float(returns.mean()),
        "error": float(returns.std(ddof=1) / np.sqrt(len(returns))),
        "episodes": len(returns),
    }


def estimates(name: str, runs: Path, folder: Path, out: Path, settings: Settings) -> None:
    """Estimate every policy from the log."""
    path = out / f"{name}-estimate.json"
    if path.exists():
        return
    data = load(SETTINGS[name], folder)
    rules = rules_of(SETTINGS[name], runs, data.action_dim)
    began = time.process_time()
    found = estimate(rules, Evaluated(data, HELD_OUT.held_out(data)), settings, report=_progress)
    print(found, flush=True)
    facts = {"settings": asdict(settings), "seconds": time.process_time() - began}
    path.write_text(json.dumps({**facts, **found.to_dict()}, indent=1))


def _progress(what: str, done: int, total: int) -> None:
    print(what, done, total, file=sys.stderr, flush=True)


def report(out: Path) -> None:
    """Write the small file that the docs are rendered from."""
    made = {}
    for name in SETTINGS:
        paths = [out / f"{name}-{part}.json" for part in ("estimate", "truth")]
        if not all(path.exists() for path in paths):
            continue
        estimated, measured = (json.loads(path.read_text()) for path in paths)
        rows = [
            _row(each, measured[each["name"]]) for each in estimated["policies"] if each["name"] in measured
        ]
        columns = {
            "fitted Q": [row["fitted_q"] for row in rows],
            "fitted Q, lower limit": [[row["fitted_q"][1], *row["fitted_q"][1:]] for row in rows],
            "fitted Q, cautious": [[row["cautious"], *row["fitted_q"][1:]] for row in rows],
            "roll-outs in a model": [row["rolled_out"] for row in rows],
        } | {key: [_finite(row["others"][key]) for row in rows] for key in rows[0]["others"]}
        true = np.array([row["truth"]["value"] for row in rows])
        scores = {key: _scores(np.array(values)[:, :3], true) for key, values in columns.items()}
        effective = {
            key: float(np.median([row["others"][key][3] for row in rows])) for key in rows[0]["others"]
        }
        made[name] = {
            "scores": scores,
            "effective": effective,
            "policies": rows,
            "settings": estimated["settings"],
            "seconds": estimated.get("seconds"),  # of a core
        }
        if (out / f"{name}-within.json").exists():
            made[name]["within"] = json.loads((out / f"{name}-within.json").read_text())
    RESULT.write_text(json.dumps(made, indent=1) + "\n")


def _row(each: dict[str, Any], truth: dict[str, float]) -> dict[str, Any]:
    """What the docs show of one policy."""
    return {
        "policy": each["name"],
        "truth": truth,
        "fitted_q": list(each["fitted_q"].values()),
        "cautious": each["cautious"],
        "rolled_out": list(each["rolled_out"].values()),
        "uncertainty": each["uncertainty"],
        "unseen": each["unseen"],
        "better": each["better"],
        "others": {
            key: [*(value["interval"] or value["meaningless"]).values(), value["effective"]]
            for key, value in each["others"].items()
        },
    }


def _finite(values: list[float | None]) -> list[float]:
    """The same with infinity where a product of weights overflowed."""
    return [math.inf if value is None else value for value in values]


def _scores(values: Any, true: Any) -> dict[str, float]:
    """Rank correlation, how many intervals hold the truth, and what choosing by the estimate loses."""
    value, low, high = np.nan_to_num(values, posinf=1e300, neginf=-1e300).T
    return {
        "rank": float(spearmanr(value, true).statistic),
        "covered": float(((low <= true) & (true <= high)).mean()),
        "regret": float((true.max() - true[value.argmax()]) / (true.max() - true.min())),
    }


def main() -> None:
    """Carry out the steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the re-collected files")
    parser.add_argument("--only", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--step", nargs="+", default=["train", "estimate", "truth", "report"])
    parser.add_argument("--updates", type=int, default=Settings.updates)
    options = parser.parse_args()
    keep_compiled()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        if "train" in options.step:
            train(name, options.runs, options.data)
        if "estimate" in options.step:
            estimates(name, options.runs, options.data, options.out, Settings(updates=options.updates))
        if "truth" in options.step:
            truth(name, options.runs, options.data, options.out)
    if "report" in options.step:
        report(options.out)


if __name__ == "__main__":
    main()
