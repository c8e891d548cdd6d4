"""A continuous linear MDP whose Bellman operator is known in closed form, and Theorem 1 on it as the grid is
refined.

State and action lie in [0, 1]. The features are products of Bernstein polynomials: none is negative and they
sum to 1, so P(. | s, a) = sum_i phi_i(s, a) Beta_i is a mixture of fixed Beta laws, and r = phi' theta.
Drawing from it is exact, because Bernstein polynomials are binomial probabilities; and E V(s') is exact where
V is itself a combination of them, because a Beta law turns binomial probabilities into beta-binomial ones.
"""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy import stats

from gridcount.counts.grid import Grid, StateCells
from gridcount.theory.bonus import Float, gram, lcb_bonus, ridge_weights, self_normalised_scale
from gridcount.transitions import Transitions

SIZE = 4  # Bernstein polynomials per dimension: 16 features
RIDGE = 1.0  # lambda of Lemma 2; with 1, a cell's bonus is 1 / sqrt(n + 1), as where a pair counts itself
FAILURE = 0.1  # xi of Theorem 1
ROWS = (500, 2000, 8000, 32000)
BINS = (1, 2, 4, 8, 16, 32, 64, 128)
LATTICE = 24  # (s, a) looked at: a lattice of this many per dimension


class LinearMDP(NamedTuple):
    """Mixture weights phi(s, a), mixed laws Beta(first, second), reward weights, and the uniform policy's
    value."""

    first: Float  # [features] Beta parameters of the next state
    second: Float  # [features]
    theta: Float  # [features] r = phi' theta
    weights: Float  # [features] Q of the uniform policy is phi' weights: B V = Q exactly
    discount: float

    def value(self, state: Float) -> Float:
        """V of the uniform policy: integrating Bernstein polynomials over the action leaves the mean of
        their weights."""
        return np.asarray(bernstein(state) @ self.weights.reshape(SIZE, SIZE).mean(axis=1))

    def target_range(self) -> float:
        """Length of an interval that holds the noise of discount * V(s'): a Bernstein sum lies between its
        coefficients."""
        return float(self.discount * np.ptp(self.weights.reshape(SIZE, SIZE).mean(axis=1)))


def bernstein(x: Float) -> Float:
    """The `SIZE` Bernstein polynomials at each x in [0, 1]: probabilities of a binomial law, [n, SIZE]."""
    i = np.arange(SIZE)
    choose = np.array([math.comb(SIZE - 1, int(k)) for k in i])
    return np.asarray(choose * x[:, None] ** i * (1 - x[:, None]) ** (SIZE - 1 - i))


def features(state: Float, action: Float) -> Float:
    """phi(s, a): products of the two dimensions' polynomials, [n, SIZE^2]; never negative, summing to 1."""
    return np.asarray((bernstein(state)[:, :, None] * bernstein(action)[:, None, :]).reshape(len(state), -1))


def feature_slope() -> float:
    """The Lipschitz constant of phi, the largest norm of its Jacobian, over a fine lattice that holds the
    corners."""
    line, step = np.linspace(0, 1, 201), 1e-6
    s, a = (grid.ravel() for grid in np.meshgrid(line, line))
    ds = (features(np.minimum(s + step, 1), a) - features(np.maximum(s - step, 0), a)) / (
        np.minimum(s + step, 1) - np.maximum(s - step, 0)
    )[:, None]
    da = (features(s, np.minimum(a + step, 1)) - features(s, np.maximum(a - step, 0))) / (
        np.minimum(a + step, 1) - np.maximum(a - step, 0)
    )[:, None]
    return float(np.linalg.norm(np.stack([ds, da], axis=-1), ord=2, axis=(1, 2)).max())


def make_mdp(rng: np.random.Generator, discount: float = 0.9, concentration: float = 6.0) -> LinearMDP:
    """High states and high actions lead to high states, and pay; discount * V spreads over 1, half of it
    below 0."""
    i, j = (
        index.ravel() / (SIZE - 1) for index in np.meshgrid(np.arange(SIZE), np.arange(SIZE), indexing="ij")
    )
    mean = 0.1 + 0.8 * (0.8 * i + 0.2 * j)
    first, second = mean * concentration, (1 - mean) * concentration
    theta = 0.8 * i + 0.4 * rng.random(SIZE**2)
    # E over Beta(first, second) of the k-th Bernstein polynomial is the beta-binomial probability of k.
    expected = stats.betabinom.pmf(np.arange(SIZE), SIZE - 1, first[:, None], second[:, None])
    policy_mean = np.repeat(expected, SIZE, axis=1) / SIZE  # E phi(s', a') with a' uniform
    weights = np.linalg.solve(np.eye(SIZE**2) - discount * policy_mean, theta)
    # Shift and scale the rewards: phi sums to 1, so a constant is linear too, and the range of targets is
    # Hoeffding's 1.
    coefficients = weights.reshape(SIZE, SIZE).mean(axis=1)
    weights = (weights - (coefficients.max() + coefficients.min()) / 2) / (discount * np.ptp(coefficients))
    return LinearMDP(first, second, weights - discount * policy_mean @ weights, weights, discount)


def draw_log(mdp: LinearMDP, rows: int, rng: np.random.Generator) -> Transitions:
    """Independent rows: nine in ten near a preferred action in preferred states, one in ten anywhere."""
    state = rng.beta(2, 4, rows)
    action = rng.beta(1 + 6 * state, 7 - 6 * state)
    anywhere = rng.random(rows) < 0.1
    state, action = np.where(anywhere, rng.random(rows), state), np.where(anywhere, rng.random(rows), action)
    state, action = (
        state.astype(np.float32).astype(np.float64),
        ((2 * action - 1).astype(np.float32).astype(np.float64) + 1) / 2,
    )
    component = rng.binomial(SIZE - 1, state) * SIZE + rng.binomial(
        SIZE - 1, action
    )  # drawn with probabilities phi(s, a)
    following = rng.beta(mdp.first[component], mdp.second[component])
    ends = np.zeros(rows, np.bool_)
    return Transitions(
        state[:, None].astype(np.float32),
        (2 * action - 1)[:, None].astype(np.float32),
        (features(state, action) @ mdp.theta).astype(np.float32),
        following[:, None].astype(np.float32),
        ends,
        ends,
        "linear",
    )


class Cells(NamedTuple):
    """Where a log's rows and some queries lie on the project's grid."""

    row: NDArray[np.int64]  # [rows] number of the pair of cells
    query: NDArray[np.int64]  # [queries] the same, or -1 in a state cell the log never met
    total: int  # pairs there could be
    diameter: float  # of a cell, with action scaled to [0, 1]

    def visits(self) -> NDArray[np.int64]:
        """n' of each query: the log's rows in its cell."""
        return self._read(np.bincount(self.row, minlength=self.total))

    def average(self, target: Float) -> Float:
        """Ridge regression on indicators of cells at each query: sum of targets / (n' + ridge)."""
        total = np.bincount(self.row, weights=target, minlength=self.total)
        return np.asarray(self._read(total) / (self.visits() + RIDGE), np.float64)

    def _read(self, table: NDArray[Any]) -> NDArray[Any]:
        return np.where(self.query >= 0, table[np.maximum(self.query, 0)], 0)


def locate(log: Transitions, state: Float, action: Float, bins: int) -> Cells:
    """Map a log and queries to the grid that GridCounter would fit."""
    cells, (rank, _) = StateCells.fit(log.observation, log.next_observation, bins=bins)
    grid = Grid.fit(log.action, bins, limit=1.0)

    def cell(action: NDArray[np.float32]) -> NDArray[np.int64]:
        return np.asarray(grid.offset(jnp.asarray(action)), np.int64)[:, 0]

    width = grid.sizes[0]
    here = cells.rank(state[:, None].astype(np.float32)).astype(np.int64)
    there = cell((2 * action - 1)[:, None].astype(np.float32))
    diameter = math.hypot(float(cells.high[0] - cells.low[0]), float(grid.high[0] - grid.low[0]) / 2) / bins
    query = np.where(here >= 0, here * width + there, -1)
    return Cells(rank.astype(np.int64) * width + cell(log.action), query, cells.n_cells * width, diameter)


class Sample(NamedTuple):
    """One log's errors and bonuses at the lattice."""

    linear_error: Float  # [points] |phi' w_hat - B V|: least squares on phi, the theorem's estimate
    cell_error: Float  # [grids, points] |cell average - B V|
    visits: NDArray[np.int64]  # [grids, points] n'
    gamma: Float  # [points] sqrt(phi' Lambda^-1 phi)
    scale: float  # b of Lemma 2, in theory
    # [grids] largest of gamma - 1 / sqrt(n' + 1) - slope * diameter / sqrt(smallest eigenvalue): never
    # positive
    excess: Float


def examine(
    mdp: LinearMDP, log: Transitions, state: Float, action: Float, slope: float, bins: tuple[int, ...] = BINS
) -> Sample:
    """Estimate B V from a log both ways, and measure both against the truth."""
    rows = features(log.observation[:, 0].astype(np.float64), (log.action[:, 0].astype(np.float64) + 1) / 2)
    target = log.reward + mdp.discount * mdp.value(log.next_observation[:, 0].astype(np.float64))
    at, lam = features(state, action), gram(rows, RIDGE)
    truth, gamma = at @ mdp.weights, lcb_bonus(at, lam)
    linear_error = np.abs(at @ ridge_weights(rows, target, lam) - truth)
    located = [locate(log, state, action, b) for b in bins]
    count = np.array([cells.visits() for cells in located])
    margin = slope * np.array([cells.diameter for cells in located]) / math.sqrt(np.linalg.eigvalsh(lam)[0])
    return Sample(
        linear_error,
        np.array([np.abs(cells.average(target) - truth) for cells in located]),
        count,
        gamma,
        self_normalised_scale(lam, RIDGE, mdp.target_range(), float(np.linalg.norm(mdp.weights)), FAILURE),
        (gamma - 1 / np.sqrt(count + 1)).max(axis=1) - margin,
    )


def lattice() -> tuple[Float, Float]:
    """Midpoints of a regular lattice over all states and actions, visited by the log or not."""
    line = (np.arange(LATTICE) + 0.5) / LATTICE
    s, a = np.meshgrid(line, line, indexing="ij")
    return s.ravel(), a.ravel()


def refine(
    seed: int = 0, rows: tuple[int, ...] = ROWS, bins: tuple[int, ...] = BINS, logs: int = 60
) -> dict[str, Any]:
    """Theorem 1 over grids and sizes: the smallest c from half of the logs, and what it covers in the
    other half."""
    rng = np.random.default_rng(seed)
    mdp, slope, (state, action) = make_mdp(rng), feature_slope(), lattice()
    result: dict[str, Any] = {
        "features": SIZE**2,
        "failure": FAILURE,
        "logs": logs,
        "points": len(state),
        "slope": slope,
        "target_range": mdp.target_range(),
        "grids": [],
        "lemma": [],
    }
    first_c: dict[str, float] = {}  # of the coarsest grid and the smallest log: held fixed from then on
    for n in rows:
        samples = [examine(mdp, draw_log(mdp, n, rng), state, action, slope, bins) for _ in range(logs)]
        result["lemma"].append({"rows": n, **check_lemma(samples)})
        for g, b in enumerate(bins):
            result["grids"].append({"rows": n, "bins": b, **check_grid(samples, g, first_c)})
    return result


def check_lemma(samples: list[Sample]) -> dict[str, float]:
    """Lemma 2 over logs of one size: the share that its scale covers everywhere, and the scale that would
    do."""
    error, gamma = _at_all_points(samples, "linear_error"), _at_all_points(samples, "gamma")
    scale = _scales(samples)
    return {
        "scale": float(scale.mean()),
        "logs_covered_everywhere": float((error <= scale * gamma).all(axis=1).mean()),
        "smallest_scale": float(np.quantile(error / gamma, 1 - FAILURE)),
    }


def check_grid(samples: list[Sample], grid: int, first_c: dict[str, float]) -> dict[str, Any]:
    """Theorem 1 on one grid over logs of one size; `first_c` gets the constants of the first call."""
    error, gamma = _at_all_points(samples, "linear_error"), _at_all_points(samples, "gamma")
    cell_error = np.array([each.cell_error[grid] for each in samples])
    count = np.array([each.visits[grid] for each in samples])
    u = 1 / np.sqrt(count + 1)  # ln T = 1: another T divides every c by sqrt(ln T)
    deviation = np.sqrt((error**2).mean(axis=0))  # over logs, at each point: what u should follow
    return {
        "mean_count": float(count.mean()),
        "empty": float((count == 0).mean()),
        "linear": check_constant(error / u, "linear", first_c),
        "cells": check_constant(cell_error / u, "cells", first_c),
        "gamma_over_u": float((gamma / u).max()),
        "theory_coverage": float((error <= _scales(samples) * u).mean()),
        "excess": float(max(each.excess[grid] for each in samples)),
        "rank_correlation": rank_correlation(u.mean(axis=0), deviation),
        "gamma_rank_correlation": rank_correlation(u.mean(axis=0), gamma.mean(axis=0)),
    }


def check_constant(ratio: Float, name: str, first_c: dict[str, float]) -> dict[str, float]:
    """From error / u [logs, points]: the smallest c of every other log, and what it and the first c cover
    in the rest."""
    c, c_every = smallest_c(ratio[::2])
    fixed = first_c.setdefault(name, c)
    fixed_every = first_c.setdefault(f"{name}, every point", c_every)
    return {
        "smallest_c": c,
        "held_out": float((ratio[1::2] <= c).mean()),
        "smallest_c_every_point": c_every,
        "fixed_c": fixed,
        "fixed_c_coverage": float((ratio[1::2] <= fixed).mean()),
        "fixed_c_every_point": fixed_every,
        "fixed_c_worst_point": float((ratio[1::2] <= fixed_every).mean(axis=0).min()),
    }


def _at_all_points(samples: list[Sample], name: str) -> Float:
    """A field of all samples: [logs, points]."""
    return np.array([getattr(each, name) for each in samples])


def _scales(samples: list[Sample]) -> Float:
    """b of Lemma 2 in each log: [logs, 1]."""
    return np.array([each.scale for each in samples])[:, None]


def smallest_c(ratio: Float) -> tuple[float, float]:
    """From error / u [logs, points]: the least c that covers a share 1 - xi of all, and that covers so
    much at every point."""
    return float(np.quantile(ratio, 1 - FAILURE)), float(np.quantile(ratio, 1 - FAILURE, axis=0).max())


def rank_correlation(x: Float, y: Float) -> float:
    """Spearman's correlation; 0 where one of them does not vary."""
    return float(stats.spearmanr(x, y).statistic) if np.ptp(x) and np.ptp(y) else 0.0
