"""Estimates from the logged episodes themselves: importance weights, and with fitted values doubly robust."""

from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from gridcount.algorithms.contract import Report, ignore_report
from gridcount.estimation.behaviour import Behaviour, Calibration, calibration, log_density, moments
from gridcount.estimation.fitted_q import Fitted
from gridcount.estimation.importance import as_table, estimates
from gridcount.estimation.problem import NEVER, Problem, Rule
from gridcount.estimation.result import Weighted
from gridcount.networks import MLP
from gridcount.transitions import Batch

Float32 = NDArray[np.float32]


def by_importance(
    fitted: Fitted, log_prob: NDArray[Any] | None, clones: list[MLP]
) -> tuple[dict[str, dict[str, Weighted]], str]:
    """Each policy's estimates by importance weights, and how well the model of the log's policy is
    calibrated.

    `log_prob` is [rows] the log-density of the logged actions, in [-1, 1]; None: that of the clone which never
    saw the episode.
    """
    problem = fitted.problem
    rows = np.flatnonzero(np.repeat(problem.evaluated, problem.data.episode_lengths))
    mean, log_std, known = _log_policy(problem, rows, clones)
    logged = np.asarray(problem.data.action[rows])
    behaviour = (
        log_density(logged, mean, log_std) if log_prob is None else np.asarray(log_prob, np.float64)[rows]
    )
    found = {
        name: _of_policy(fitted, name, rule, rows, behaviour, log_std)
        for name, rule in problem.policies.items()
    }
    source = (
        known.in_words()
        if log_prob is None
        else "the log-densities of the log's actions are the logged ones, taken in the log's units"
    )
    return (
        found,
        f"{source}; importance weights treat a policy as if it had the log's noise around its actions",
    )


def _of_policy(
    fitted: Fitted,
    name: str,
    rule: Rule | None,
    rows: NDArray[np.int64],
    behaviour: NDArray[np.float64],
    log_std: Float32,
) -> dict[str, Weighted]:
    problem = fitted.problem
    data, step = problem.data, problem.step[rows]
    observation, logged = np.asarray(data.observation[rows]), np.asarray(data.action[rows])
    action = problem.actions(rule, data.observation, rows)
    ratio = np.zeros(len(rows)) if rule is None else log_density(logged, action, log_std) - behaviour
    unseen = np.repeat(fitted.unseen, data.episode_lengths, axis=0)[rows].T

    def value(
        observation: Float32, step: NDArray[np.int64], action: Float32, unseen: NDArray[np.bool_]
    ) -> Any:
        both, _ = fitted.values(name, observation, step, action)
        return np.nanmean(np.where(unseen, both, np.nan), axis=0)

    lengths = data.episode_lengths[problem.evaluated]
    ends = np.cumsum(lengths) - 1
    after = problem.next_actions(rule)[rows[ends]]
    left = value(np.asarray(data.next_observation[rows[ends]]), step[ends] + 1, after, unseen[:, ends])
    columns = {
        "reward": np.asarray(data.reward[rows], np.float64),
        "log_ratio": ratio,
        "q": value(observation, step, logged, unseen),
        "v": value(observation, step, action, unseen),
    }
    table = as_table(lengths, columns, np.where(problem.ended()[rows[ends]] > 0, 0.0, left))
    return estimates(table, problem.discount, seed=0)


def fit_log_policy(
    problem: Problem, model: Behaviour, seed: int, report: Report = ignore_report
) -> list[MLP]:
    """For each fold a model of the log's policy that never saw its episodes."""
    data, fold = problem.data, np.repeat(problem.fold, problem.data.episode_lengths)
    clones = []
    for each in range(1 + problem.fold.max()):
        others = np.flatnonzero((fold != each) | (fold == NEVER))
        arrays: dict[str, Any] = {
            "observation": problem.seen(data.observation[others], problem.step[others]),
            "action": np.asarray(data.action[others]),
            "reward": np.asarray(data.reward[others]),
        }
        columns = Batch(**arrays, next_observation=arrays["reward"], terminated=arrays["reward"])
        clones.append(model.fit(columns, jax.random.key(seed + each), report))
    return clones


def _log_policy(
    problem: Problem, rows: NDArray[np.int64], clones: list[MLP]
) -> tuple[Float32, Float32, Calibration]:
    """Mean and log-deviation of the log's actions at some rows, by the clones that never saw their
    episodes."""
    data, fold = problem.data, np.repeat(problem.fold, problem.data.episode_lengths)
    mean = np.empty((len(rows), data.action_dim), np.float32)
    log_std = np.empty_like(mean)
    for each, network in enumerate(clones):
        own = fold[rows] == each
        found = moments(network, problem.seen(data.observation[rows[own]], problem.step[rows[own]]))  # type: ignore[arg-type]
        mean[own], log_std[own] = (np.asarray(part) for part in found)
    return mean, log_std, calibration(np.asarray(data.action[rows]), mean, log_std)
