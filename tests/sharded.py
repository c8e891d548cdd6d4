"""Four and five seeds for a few updates on whatever devices there are; prints their weights. Run by
test_sharding.py."""

import json
from typing import Any

import jax
import numpy as np

from gridcount.algorithms.gpc_sac import GPCSAC
from gridcount.training.loop import make_learners, seed_keys
from gridcount.transitions import Transitions

rng = np.random.default_rng(0)
flags = np.zeros(200, np.bool_)
states = rng.normal(size=(2, 200, 3)).astype(np.float32)
action, reward = rng.uniform(-1, 1, (200, 2)).astype(np.float32), rng.uniform(size=200).astype(np.float32)
prepared = GPCSAC(hidden=(8,), batch_size=16).prepare(
    Transitions(states[0], action, reward, states[1], flags, flags)
)


def learn(seeds: int) -> dict[str, Any]:
    """What becomes of some seeds, and where they were."""
    keys = [seed_keys(seed) for seed in range(seeds)]
    start = [prepared.algorithm.init(key, prepared.rows) for key, _ in keys]
    learners = make_learners(prepared.algorithm, 10, start, prepared.rows, [key for _, key in keys])
    learners.advance(0)
    learners.advance(10)
    weights = [
        np.asarray(state.learner.policy.trunk.weights[0]).reshape(-1).tolist() for state in learners.states
    ]
    placed = {
        device
        for leaf in jax.tree.leaves(getattr(learners, "_stacked", []))
        for device in leaf.sharding.device_set
    }
    return {"devices": len(jax.devices()), "placed": len(placed), "weights": weights}


print(json.dumps({seeds: learn(seeds) for seeds in (4, 5)}))
