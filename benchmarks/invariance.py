"""The same log written in other ways: python benchmarks/invariance.py OUT [--updates 30000] [--keep].

A log of the plant `tank` is changed in ways that should not matter: other units, another order, a column
that says nothing. GPC-Anchor trains on each with automatic values, and its last policy is rolled out from the
same starts. Other seeds on the unchanged log show how much returns differ without any change. With --keep the
figures go to results/invariance.json. Finished runs in OUT are not trained again.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gridcount as gc
from gridcount.envs.plant_logs import PlantLog, log_of

PLANT, ENVIRONMENT, ROWS = "tank", "gridcount/tank-v0", 20_000
PERCENT = 100.0  # the upper end of both actions
EPISODES, STARTS = 200, 1000
PROBES = 2000  # states of the log at which actions are compared
KEPT = Path(__file__).parent.parent / "results" / "invariance.json"
Array = Any


def same(values: Array) -> Array:
    """Nothing is changed."""
    return values


class Variant(NamedTuple):
    """A way to write the log, and how its policy sees observations and gives actions."""

    change: Callable[[PlantLog], PlantLog] = same
    seen: Callable[[Array], Array] = same  # an observation of the plant, as the log has it
    high: float = PERCENT  # of the actions: in the log they run from 0 to this


def shuffled(log: PlantLog) -> PlantLog:
    """Episodes in another order."""
    order = np.random.default_rng(0).permutation(log.episode.max() + 1)
    rows = np.concatenate([np.flatnonzero(log.episode == episode) for episode in order])
    columns = {name: getattr(log, name)[rows] for name in ("observation", "action", "reward", "terminated")}
    lengths = np.bincount(log.episode)[order]
    return log._replace(**columns, episode=np.repeat(np.arange(len(order)), lengths))


def observed(seen: Callable[[Array], Array]) -> Variant:
    """A log whose observations are written differently."""
    return Variant(lambda log: log._replace(observation=seen(log.observation)), seen)


def with_constant(observation: Array) -> Array:
    """A further column that is always 7."""
    return np.insert(observation, 2, 7, axis=1)


def turned(observation: Array) -> Array:
    """The columns in another order."""
    return observation[:, np.random.default_rng(0).permutation(observation.shape[1])]


VARIANTS = {
    "as it is": Variant(),
    "rewards x 300, and 5 more in every step": Variant(lambda log: log._replace(reward=300 * log.reward + 5)),
    "observations x 1.8 + 32": observed(lambda seen: (1.8 * seen + 32).astype(np.float32)),
    "columns of observations in another order": observed(turned),
    "a column that is always 7": observed(with_constant),
    "actions from 0 to 10 instead of 0 to 100": Variant(
        lambda log: log._replace(action=(log.action / 10).astype(np.float32)), high=10.0
    ),
    "episodes in another order": Variant(shuffled),
}


def train(variant: Variant, log: PlantLog, seed: int, updates: int, out: Path) -> gc.Policy:
    """The policy of a run, which is trained unless it is there."""
    if not (out / "policy").exists():
        changed = variant.change(log)
        data = gc.Transitions.from_arrays(
            changed.observation,
            changed.action,
            changed.reward,
            terminated=changed.terminated,
            episode=changed.episode,
            action_low=0.0,
            action_high=variant.high,
            name="log",
        )
        gc.train(replace(data, name=""), "gpc-anchor", seed=seed, updates=updates, out=out, progress=False)
    policy = gc.load_policy(out)
    if policy.updates != updates:
        raise SystemExit(f"{out} holds a run of {policy.updates:,} updates, not {updates:,}: delete it")
    return policy


def acting(policy: gc.Policy, variant: Variant) -> Callable[[Array], Array]:
    """The policy in the units of the plant."""
    return lambda observation: np.asarray(policy(variant.seen(observation))) * (PERCENT / variant.high)


def measure(out: Path, updates: int) -> dict[str, Any]:
    """Train on every variant, and compare actions and returns with those of the unchanged log."""
    log = log_of(PLANT, ROWS, seed=0)
    probes = log.observation[np.random.default_rng(1).choice(ROWS, PROBES, replace=False)]
    cases = {name: (variant, 0) for name, variant in VARIANTS.items()}
    cases |= {f"as it is, seed {seed}": (VARIANTS["as it is"], seed) for seed in (1, 2)}
    returns, actions = {}, {}
    for number, (name, (variant, seed)) in enumerate(cases.items()):
        rule = acting(train(variant, log, seed, updates, out / str(number)), variant)
        returns[name] = gc.evaluate(rule, ENVIRONMENT, episodes=EPISODES, seed=STARTS).returns
        actions[name] = rule(probes)
        print(f"{name}: {np.mean(returns[name]):.1f}", flush=True)
    usual = next(iter(cases))
    found = {
        name: {
            "return": float(np.mean(returns[name])),
            "difference": float(np.mean(returns[name] - returns[usual])),
            "error": float(np.std(returns[name] - returns[usual], ddof=1) / EPISODES**0.5),
            "apart": float(np.abs(actions[name] - actions[usual]).mean() / PERCENT),
        }
        for name in cases
    }
    return {"plant": PLANT, "rows": ROWS, "updates": updates, "episodes": EPISODES, "variants": found}


def main() -> None:
    """Measure, and keep it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--updates", type=int, default=30_000)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    found = measure(options.out, options.updates)
    if options.keep:
        KEPT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
