"""A clone of the log's behaviour, trained with every run: what a guard can fall back on."""

from typing import Any

from gridcount.algorithms.bc import BC
from gridcount.algorithms.contract import EPOCH, Report
from gridcount.policy.actor import Actor
from gridcount.training.loop import make_learners, seed_keys
from gridcount.transitions import Transitions

UPDATES = 10_000  # of the clone, and never more than of the run
LEAST = EPOCH  # updates of a run; a shorter one is a trial, and has no clone


def train_clone(algorithm: Any, data: Transitions, updates: int, report: Report) -> Actor:
    """Behavioural cloning with networks as large as the run's own; it shares no random number with the
    run."""
    clone = BC(hidden=getattr(algorithm, "hidden", BC.hidden))
    rows = clone.prepare(data).rows
    init_key, train_key = seed_keys(0)
    learners = make_learners(clone, EPOCH, [clone.init(init_key, rows)], rows, [train_key])
    total = min(updates, UPDATES) // EPOCH * EPOCH
    for done in range(0, total, EPOCH):
        learners.advance(done)
        report("clone of the log's behaviour", done + EPOCH, total)
    return clone.actor(learners.states[0])
