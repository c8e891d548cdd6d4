"""Random walks as logs, and policies that need no training."""

import numpy as np

from gridcount.policy.actor import Actor, Perceptron
from gridcount.policy.counts import LogCounts
from gridcount.policy.policy import Policy
from gridcount.policy.store import Facts
from gridcount.transitions import Transitions

LOW, HIGH = 0.0, 100.0  # of the action, in the log's units


def walk(rows: int = 20_000, dims: int = 2, seed: int = 0, hole: bool = False) -> Transitions:
    """Random walks over the unit cube in short episodes; with a hole, without the states of a square in
    its middle."""
    rng = np.random.default_rng(seed)
    length = 50
    start = rng.uniform(0, 1, (rows // length, 1, dims))
    steps = rng.normal(0, 0.03, (rows // length, length, dims)).cumsum(axis=1)
    state = np.abs((start + steps) % 2 - 1).astype(np.float32)  # reflected at the walls
    action = np.clip(state[..., :1] - 0.5 + rng.normal(0, 0.1, (*state.shape[:2], 1)), -1, 1).astype(
        np.float32
    )
    state, action = state.reshape(-1, dims), action.reshape(-1, 1)
    if hole:
        outside = np.abs(state[:, :2] - 0.5).max(axis=1) > 0.15
        state, action = state[outside], action[outside]
    end = np.arange(1, len(state) + 1) % length == 0
    following = np.where(end[:, None], state, np.roll(state, -1, axis=0))
    return Transitions(
        state, action, -np.abs(state[:, 0] - 0.5), following, np.zeros(len(state), np.bool_), end,
        action_low=np.array([LOW]), action_high=np.array([HIGH]),
    )  # fmt: skip


def constant(action: float, dims: int = 2) -> Actor:
    """A policy that takes the same action everywhere."""
    weights = [np.zeros((dims, 1), np.float32)]
    return Actor(Perceptron(weights, [np.full(1, np.arctanh(action), np.float32)], [], []))


def policy_of(
    data: Transitions, action: float = 0.0, clone: Actor | None = None, counts: LogCounts | None = None
) -> Policy:
    facts = Facts(
        "sac", {}, "walk", "", (0,), data.observation_names, data.action_names,
        tuple(data.action_low.tolist()), tuple(data.action_high.tolist()), "0",
    )  # fmt: skip
    fitted = LogCounts.fit(data) if counts is None else counts
    return Policy(
        constant(action, data.observation_dim), facts, seed=0, updates=1, counts=fitted, clone=clone
    )
