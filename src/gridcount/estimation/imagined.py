"""Every policy and a clone of the log's own, rolled out in a model of the log from the same first states."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridcount.algorithms.contract import Report, ignore_report
from gridcount.estimation.behaviour import moments
from gridcount.estimation.fitted_q import Fitted, bootstrap_weights
from gridcount.estimation.intervals import Interval, of_members
from gridcount.estimation.model import Act, Dynamics, fit_model, roll_out
from gridcount.estimation.problem import Rule
from gridcount.networks import MLP

STARTS = 100  # first states at most, drawn from the evaluated episodes


class Visits(NamedTuple):
    """What one policy meets and earns in the model."""

    worth: Interval
    unsure: float  # mean of 1 / sqrt(n + 1) over its steps, where the log has its action n times


def imagine(
    fitted: Fitted, clones: list[MLP], learner: Dynamics, seed: int, report: Report = ignore_report
) -> dict[str, Visits]:
    """By name what policies do in a model; the log's own is the clone of its fold, with the noise it had."""
    problem = fitted.problem
    model = fit_model(problem, bootstrap_weights(fitted.unseen, seed), learner, seed, report)
    drawn = np.random.default_rng([seed, 3]).permutation(np.flatnonzero(problem.evaluated))[:STARTS]
    observation = np.asarray(problem.data.observation[problem.starts[drawn]], np.float32)
    found = {}
    for done, (name, rule) in enumerate(problem.policies.items(), 1):
        act = clone(fitted, clones, seed) if rule is None else _of_rule(fitted, rule)
        rolled = roll_out(model, act, observation, lambda *row, name=name: fitted.values(name, *row)[0])
        unseen = fitted.unseen[drawn].T
        found[name] = Visits(of_members(rolled.worth, unseen), float(rolled.unsure[unseen].mean()))
        report("roll-outs", done, len(problem.policies))
    return found


def clone(fitted: Fitted, clones: list[MLP], seed: int) -> Act:
    """Actions of the log's policy as it was fitted, drawn with its noise; a member uses its fold's."""
    problem, members = fitted.problem, fitted.unseen.shape[1]
    rng = np.random.default_rng([seed, 4])

    def act(observation: NDArray[np.float32], step: int) -> NDArray[np.float32]:
        seen = problem.seen(observation, np.full(len(observation), step))
        parts = np.split(seen, members)
        drawn = []
        for member, part in enumerate(parts):
            mean, log_std = (np.asarray(each) for each in moments(clones[member % len(clones)], part))  # type: ignore[arg-type]
            drawn.append(mean + np.exp(log_std) * rng.standard_normal(mean.shape))
        found: NDArray[np.float32] = np.clip(np.concatenate(drawn), -1, 1).astype(np.float32)
        return found

    return act


def _of_rule(fitted: Fitted, rule: Rule) -> Act:
    problem = fitted.problem
    return lambda observation, _: problem.actions(rule, observation, np.arange(len(observation)))
