"""Estimators that were tried on umaze beside the truth: python benchmarks/estimators.py RUNS OUT [--step fit
solve report].

RUNS and OUT are those of benchmarks/estimates.py, whose umaze part must be finished. `fit` fits critics for more
updates than the default, and keeps them along the way. `solve` computes the marginalised estimate in closed form:
with weights w and values q that are both linear in features f, minimum weight learning and LSTD-Q have the same
solution (Uehara, Huang and Jiang 2020, arXiv:1910.12809), mean f(s0, pi)' A^-1 mean f r with A the mean of
f (f - discount f')' and f' the features of the policy's next action. A ridge is added to A. Features are the last
layer of the critics, or random Fourier features (Rahimi and Recht 2007).
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from estimates import HELD_OUT, SETTINGS, load, rules_of
from estimates import _scores as scores_of
from numpy.typing import NDArray
from scipy.stats import t as student

from gridcount.data.split import take_episodes
from gridcount.estimation.estimate import Settings, _folds, _learner, _within, first_state_values
from gridcount.estimation.fitted_q import Fitted, bootstrap_weights, make_rows
from gridcount.estimation.intervals import SHARED_ERROR, of_members
from gridcount.estimation.problem import LOG, Problem
from gridcount.networks import MLP
from gridcount.policy.counts import LogCounts
from gridcount.training.compiled import keep_compiled
from gridcount.training.loop import make_learners, seed_keys

RESULT = Path(__file__).parent.parent / "results" / "estimators.json"
SCHEDULE = 24_000  # updates along which the rate falls
KEPT = (3_000, 6_000, 9_000, 12_000)  # updates after which critics are kept; the last ends the fit
ROWS = 30_000  # of the training episodes, for the closed form
FOURIER = 800  # random features
RIDGES = (1e-5, 1e-4, 1e-3, 1e-2)
COSTS = (0, 1, 2, 3, 4, 6)  # support costs
Float = NDArray[Any]
Critics = dict[int, dict[str, MLP]]  # updates -> policy -> its ensemble


def problem_of(runs: Path) -> Problem:
    """Umaze as the default settings estimate it."""
    setting, settings = SETTINGS["umaze"], Settings()
    data = load(setting, Path("data"))
    held = HELD_OUT.held_out(data)
    counts = LogCounts.fit(take_episodes(data, ~held))
    kept = _within(data, held, settings)
    data = take_episodes(data, kept)
    rules = rules_of(setting, runs, data.action_dim)
    return Problem.of(data, _folds(data, held[kept], 0), {**rules, LOG: None}, settings.discount, counts)


def unseen_by(problem: Problem) -> NDArray[np.bool_]:
    """[episodes, members] as in fitted Q evaluation on held-out episodes."""
    return np.repeat((problem.fold == 0)[:, None], Settings.members, axis=1)


def fit(problem: Problem, path: Path) -> Critics:
    """Critics along their training, kept in a file."""
    learner = _learner(problem, Settings(updates=SCHEDULE))
    init_key, train_key = seed_keys(0)
    inputs = problem.data.observation_dim + problem.data.action_dim
    states = [learner.init(init_key, inputs, policy) for policy in range(len(problem.policies))]
    names = list(problem.policies)
    empty = {updates: {n: s.target for n, s in zip(names, states, strict=True)} for updates in KEPT}
    if path.exists():
        found: Critics = eqx.tree_deserialise_leaves(path, empty)
        return found
    rows = make_rows(problem, bootstrap_weights(unseen_by(problem), 0))
    learners = make_learners(learner, KEPT[0], states, rows, [train_key] * len(states))  # type: ignore[arg-type]
    for updates in KEPT:
        learners.advance(updates - KEPT[0])
        targets = [jax.tree.map(np.asarray, state.target) for state in learners.states]
        empty[updates] = dict(zip(names, targets, strict=True))
        print("fitted", updates, flush=True)
    eqx.tree_serialise_leaves(path, empty)
    return empty


def last_layer(members: MLP, inputs: Float) -> Float:
    """[members, rows, features] what the critics' output is linear in, and a constant."""
    count, width, _ = members.weights[-1].shape
    last = np.tile(np.eye(width, dtype=np.float32), (count, 1, 1)), np.zeros((count, width), np.float32)
    plain = eqx.tree_at(lambda networks: (networks.weights[-1], networks.biases[-1]), members, last)
    found = np.asarray(eqx.filter_vmap(lambda one, x: one(x), in_axes=(eqx.if_array(0), None))(plain, inputs))
    return np.concatenate([found, np.ones_like(found[..., :1])], axis=-1)


class Rows:
    """Rows of the training episodes, as the closed form reads them."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        data, self.episode = (
            problem.data,
            np.repeat(np.arange(len(problem.fold)), problem.data.episode_lengths),
        )
        inside = ~np.asarray(data.episode_end)  # the log's next action is known
        usable = np.flatnonzero((problem.fold[self.episode] != 0) & inside)
        self.rows = np.sort(np.random.default_rng(0).permutation(usable)[:ROWS])
        self.reward = problem.units.scaled(data.reward[self.rows])

    def inputs(self, name: str) -> tuple[Float, Float, Float]:
        """Of a policy: logged actions, its next actions, and its actions at the evaluated first states."""
        problem, rows, rule = self.problem, self.rows, self.problem.policies[name]
        data, zero = problem.data, np.zeros(len(self.rows), np.int64)
        after = data.action[rows + 1] if rule is None else problem.actions(rule, data.next_observation, rows)
        first = problem.starts[problem.evaluated]
        return (
            np.concatenate([problem.seen(data.observation[rows], zero), data.action[rows]], axis=1),
            np.concatenate([problem.seen(data.next_observation[rows], zero), after], axis=1),
            np.concatenate(
                [
                    problem.seen(data.observation[first], np.zeros_like(first)),
                    problem.actions(rule, data.observation, first),
                ],
                axis=1,
            ),
        )


def closed_form(features: Sequence[Float], rows: Rows, ridge: float) -> tuple[float, float]:
    """The estimate in the networks' units, and its standard error over episodes."""
    now, after, first = features
    discount, count = rows.problem.discount, len(now)
    scale = np.where(now.std(axis=0) > 1e-6, now.std(axis=0), 1.0)
    now, after, first = now / scale, after / scale, first.mean(axis=0) / scale
    matrix = (now.T @ (now - discount * after) / count).astype(np.float64) + ridge * np.eye(now.shape[1])
    weight = now @ np.linalg.solve(matrix.T, first)  # occupancy of the policy over that of the log
    value = np.linalg.solve(matrix, now.T @ rows.reward / count)
    error = rows.reward + discount * (after @ value) - now @ value
    each = np.bincount(rows.episode[rows.rows], weights=weight * error)
    return float(first @ value), float(np.sqrt(np.square(each).sum()) / count)


def solve(problem: Problem, critics: Critics) -> dict[str, dict[str, list[float]]]:
    """Estimator -> policy -> value and limits, of the closed forms."""
    rows, units = Rows(problem), problem.units
    rng, dim = np.random.default_rng(0), problem.data.observation_dim + problem.data.action_dim
    direction = rng.normal(size=(dim, FOURIER)) / np.exp(rng.uniform(-np.log(2), np.log(2), FOURIER))
    phase = rng.uniform(0, 2 * np.pi, FOURIER)
    found: dict[str, dict[str, list[float]]] = {}

    def fourier(inputs: Float) -> Float:
        made = np.sqrt(2) * np.cos(inputs @ direction + phase)
        return np.column_stack([made, np.ones(len(made))]).astype(np.float32)

    for name in problem.policies:
        inputs = rows.inputs(name)
        by_member = zip(*(last_layer(critics[KEPT[-1]][name], each) for each in inputs), strict=True)
        members, random = list(by_member), [fourier(each) for each in inputs]
        for ridge in RIDGES:
            values = np.array([closed_form(each, rows, ridge)[0] for each in members])
            few = student.ppf(0.975, len(values) - 1) * SHARED_ERROR * values.std(ddof=1)
            value, error = closed_form(random, rows, ridge)
            for what, middle, reach in (
                ("the critics' last layer", values.mean(), few),
                ("random Fourier features", value, 1.96 * error),
            ):
                limits = units.in_log_units(np.array([middle, middle - reach, middle + reach]))
                found.setdefault(f"marginalised, {what}, ridge {ridge:g}", {})[name] = limits.tolist()
        print("solved", name, flush=True)
    return found


def along(problem: Problem, critics: Critics) -> dict[str, dict[str, list[float]]]:
    """Estimator -> policy -> value and limits, of critics along their training."""
    unseen = unseen_by(problem)
    found = {}
    for updates, each in critics.items():
        worth, _ = first_state_values(Fitted(problem, each, unseen))
        limits = {name: of_members(values, unseen[problem.evaluated].T) for name, values in worth.items()}
        found[f"fitted Q, {updates:,} updates"] = {
            name: [limit.value, limit.low, limit.high] for name, limit in limits.items()
        }
    return found


def widened(estimated: dict[str, Any]) -> dict[str, dict[str, list[float]]]:
    """Estimator -> policy -> value and limits, of the default estimate with other ways to widen it."""
    found: dict[str, dict[str, list[float]]] = {}
    for each in estimated["policies"]:
        name, (value, low, high), model = each["name"], each["fitted_q"].values(), each["rolled_out"]
        other = value if name == LOG else model["value"]
        paid = min(value, other) - each["cautious"]
        reach = min(high - value, value - low) - paid
        found.setdefault("roll-outs in a model", {})[name] = list(model.values())
        for cost in COSTS:
            wide = reach + paid * cost / estimated["settings"]["support_cost"]
            plain = [value, value - wide, value + wide]
            found.setdefault(f"support cost {cost}", {})[name] = plain
            reaching = [value, min(plain[1], other), max(plain[2], other)]
            found.setdefault(f"support cost {cost}, reaching the model's estimate", {})[name] = reaching
    return found


def report(out: Path) -> None:
    """Score everything that was tried."""
    truth = json.loads((out / "umaze-truth.json").read_text())
    tried = json.loads((out / "umaze-solved.json").read_text())
    tried |= widened(json.loads((out / "umaze-estimate.json").read_text()))
    made = {}
    for what, policies in tried.items():
        true = np.array([truth[name]["value"] for name in policies])
        values = np.array(list(policies.values()))
        lower = scores_of(values[:, [1, 1, 2]], true)["rank"]
        error = float((values[:, 0] - true).mean())
        width = float((values[:, 2] - values[:, 1]).mean())
        made[what] = scores_of(values, true) | {"lower": lower, "error": error, "width": width}
    RESULT.write_text(json.dumps(made, indent=1) + "\n")


def main() -> None:
    """Carry out the steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--step", nargs="+", default=["fit", "solve", "report"])
    options = parser.parse_args()
    keep_compiled()
    if "solve" in options.step or "fit" in options.step:
        problem = problem_of(options.runs)
        critics = fit(problem, options.out / "umaze-critics.eqx")
    if "solve" in options.step:
        solved = along(problem, critics) | solve(problem, critics)
        (options.out / "umaze-solved.json").write_text(json.dumps(solved, indent=1))
    if "report" in options.step:
        report(options.out)


if __name__ == "__main__":
    main()
