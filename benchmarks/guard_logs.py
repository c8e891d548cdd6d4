"""The defaults of a guard on logs of 4 to 46 columns: how many of the log's own decisions they hold back, and
how many that are wrong.

    python benchmarks/guard_logs.py maze2d-umaze-v1 hopper-medium-v2.hdf5 pen-expert-v1.hdf5 [--keep]

Wrong decisions are made of right ones: states whose columns are drawn from different rows, and actions of
other rows. With --keep the figures go to results/guard-logs.json, which the docs show.
"""

import argparse
import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import gridcount as gc
from gridcount.policy.actor import Actor, Perceptron
from gridcount.policy.counts import LogCounts
from gridcount.policy.policy import Policy
from gridcount.policy.store import Facts
from gridcount.transitions import Transitions

KEPT = Path(__file__).parent.parent / "results" / "guard-logs.json"
ASKED = 20_000  # decisions made of others
TIMED = 3_000  # decisions, one at a time


def measure(data: Transitions) -> dict[str, Any]:
    """Everything about one log."""
    started = time.process_time()
    counts = LogCounts.fit(data)
    seconds = time.process_time() - started
    guard = counts.guard
    assert guard is not None
    rng = np.random.default_rng(1)
    rows = rng.integers(len(data), size=(data.observation_dim, min(ASKED, len(data))))
    mixed = np.stack([data.observation[own, column] for column, own in enumerate(rows)], axis=1)
    states = np.asarray(data.observation[rows[0]])
    elsewhere = np.asarray(data.action[rng.permutation(rows[0])])
    times = _timed(policy_of(data, counts), states)
    return {
        "rows": len(data),
        "columns": data.observation_dim,
        "actions": data.action_dim,
        "group": guard.seen.groups.shape[1],
        "groups": len(guard.seen.groups),
        "resolution": guard.resolution,
        "min_count": guard.min_count,
        "window": guard.window,
        "held_back": guard.held_back,
        "mixed_states_held": float(np.mean(guard.seen.resolution(mixed) < guard.resolution)),
        "other_actions_held": float(np.mean(counts(states, elsewhere) < guard.min_count)),
        "megabytes": sum(array.nbytes for array in counts.arrays().values()) / 1e6,
        "fit_cpu_seconds": seconds,
        "decide_microseconds": {"median": float(np.median(times)), "p99": float(np.quantile(times, 0.99))},
    }


def policy_of(data: Transitions, counts: LogCounts, width: int = 256) -> Policy:
    """A policy of a usual size with random weights; a decision takes as long as that of a trained one."""
    rng = np.random.default_rng(0)
    sizes = (data.observation_dim, width, width, data.action_dim)
    weights = [(rng.normal(size=pair) / np.sqrt(pair[0])).astype(np.float32) for pair in pairwise(sizes)]
    network = Perceptron(weights, [np.zeros(size, np.float32) for size in sizes[1:]], [], [])
    low, high = tuple(data.action_low.tolist()), tuple(data.action_high.tolist())
    facts = Facts("", {}, data.name, "", (0,), data.observation_names, data.action_names, low, high, "")
    return Policy(Actor(network), facts, seed=0, updates=0, counts=counts)


def _timed(policy: Policy, states: np.ndarray[Any, Any]) -> list[float]:
    """Microseconds of CPU time of single decisions: other processes on the machine do not count."""
    guard, found = gc.Guard(), []
    for state in states[:TIMED]:
        started = time.thread_time_ns()
        policy.decide(state, guard)
        found.append((time.thread_time_ns() - started) / 1000)
    return found


def main() -> None:
    """Measure each log, print, and keep."""
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("logs", nargs="+")
    flags.add_argument("--keep", action="store_true", help="write results/guard-logs.json")
    given = flags.parse_args()
    found = {}
    for name in given.logs:
        found[Path(name).stem] = measure(gc.load(name))
        print(Path(name).stem, found[Path(name).stem], flush=True)
    if given.keep:
        KEPT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
