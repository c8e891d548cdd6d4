"""The other statements of the paper's appendix: policy improvement, a continuous bonus, a variance, and
rare collisions."""

from typing import Any

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm

from gridcount.theory.bonus import Float, count_bonus, gram, lcb_bonus
from gridcount.theory.linear_mdp import draw_log, feature_slope, features, locate, make_mdp
from gridcount.theory.tabular import TabularMDP, random_mdp

STEPS = (1e-1, 1e-2, 1e-3, 1e-4)  # of (s, a), over which the bonus may change
RIDGES = (0.25, 1.0, 4.0)  # lambda
BASES = (3, 6, 12, 24)  # kappa: what a state weighs in the code v = kappa * s + a


def soft_values(mdp: TabularMDP, policy: Float, bonus: Float) -> Float:
    """Q of a policy with SAC's entropy and u taken from every reward: Q = r - u + discount * E[Q - log pi]
    (Eq. 50, 51)."""
    pairs = mdp.pairs
    step = mdp.transition.reshape(pairs, -1)  # [pairs, states]
    follow = np.zeros((policy.shape[0], pairs))
    for s in range(len(policy)):
        follow[s, s * policy.shape[1] : (s + 1) * policy.shape[1]] = policy[s]
    entropy = -(policy * np.log(policy)).sum(axis=1)
    fixed = (mdp.reward - bonus).ravel() + mdp.discount * step @ entropy
    return np.linalg.solve(np.eye(pairs) - mdp.discount * step @ follow, fixed).reshape(policy.shape)


def improved(values: Float) -> Float:
    """The policy nearest to exp(Q) / Z (Eq. 52): that itself, where any policy may be taken."""
    return np.asarray(np.exp(values - logsumexp(values, axis=1, keepdims=True)))


def improvement(seed: int = 0, problems: int = 200, earlier: int = 3) -> list[dict[str, Any]]:
    """Theorem A.3: is Q of the new policy nowhere below Q_old? For u that stays, falls, and rises where
    nothing is counted.

    The old policy has been improved a few times before, as in training: from a random one any step is a gain.
    """
    rng = np.random.default_rng(seed)
    gains: dict[str, list[Float]] = {
        "u stays": [],
        "n grows": [],
        "T grows, n only where the policy goes": [],
    }
    for _ in range(problems):
        mdp = random_mdp(rng)
        old = rng.dirichlet(np.ones(mdp.reward.shape[1]), len(mdp.reward))
        count = rng.integers(1, 50, mdp.reward.shape)
        u = count_bonus(count, np.log(10))
        for _ in range(earlier):
            old = improved(soft_values(mdp, old, u))
        before = soft_values(mdp, old, u)
        new = improved(before)
        visited = count + 5 * (new == new.max(axis=1, keepdims=True))
        bonuses = {
            "u stays": u,
            "n grows": count_bonus(count + rng.integers(0, 20, count.shape), np.log(10)),
            "T grows, n only where the policy goes": count_bonus(visited, np.log(11)),
        }
        for name, bonus in bonuses.items():
            gains[name].append(soft_values(mdp, new, bonus) - before)
    return [
        {
            "case": name,
            "problems": problems,
            "smallest_gain": float(np.min(found)),
            "pairs_worse": float(np.mean(np.array(found) < -1e-9)),
            "problems_worse": float(np.mean(np.min(found, axis=(1, 2)) < -1e-9)),
        }
        for name, found in gains.items()
    ]


def continuity(seed: int = 0, rows: int = 2000, points: int = 4000, bins: int = 8) -> list[dict[str, float]]:
    """Corollary 1: the largest change of the bonus over ever smaller steps, for smooth features, for
    one-hot ones, and of u'."""
    rng = np.random.default_rng(seed)
    log = draw_log(make_mdp(rng), rows, rng)
    logged = log.observation[:, 0].astype(np.float64), (log.action[:, 0].astype(np.float64) + 1) / 2
    smooth = gram(features(*logged), 1.0)
    slope = feature_slope() / np.sqrt(
        np.linalg.eigvalsh(smooth)[0]
    )  # of Gamma, by the reverse triangle inequality
    state, action, angle = rng.random(points), rng.random(points), 2 * np.pi * rng.random(points)
    result = []
    for step in STEPS:
        ends = [
            (state, action),
            (np.clip(state + step * np.cos(angle), 0, 1), np.clip(action + step * np.sin(angle), 0, 1)),
        ]
        gamma = [lcb_bonus(features(*end), smooth) for end in ends]
        visits = [locate(log, *end, bins).visits() for end in ends]
        counted = [
            count_bonus(n + 1, 1.0) for n in visits
        ]  # one-hot features of the cells give the same, with ridge 1
        result.append(
            {
                "step": step,
                "smooth": float(np.abs(gamma[1] - gamma[0]).max()),
                "smooth_bound": float(slope * step),
                "cells": float(np.abs(counted[1] - counted[0]).max()),
            }
        )
    return result


def variance(seed: int = 0, rows: int = 60, dims: int = 6, points: int = 200) -> list[dict[str, float]]:
    """The lemma under Assumption A.1: Var(phi'w | data) over Gamma^2, for the prior as printed and as the
    ridge needs it.

    The posterior variance is computed by conditioning the values themselves, without Lambda.
    """
    rng = np.random.default_rng(seed)
    phi, query = rng.normal(size=(rows, dims)), rng.normal(size=(points, dims))
    result = []
    for ridge in RIDGES:
        square = lcb_bonus(query, lam := gram(phi, ridge)) ** 2
        spread = query @ np.linalg.solve(lam, phi.T)  # the estimate's weights on the targets
        row = {"ridge": ridge, "estimate": float(((spread**2).sum(axis=1) / square).mean())}
        for name, prior in (("printed", ridge), ("meant", 1 / ridge)):  # N(0, prior * I)
            within = prior * phi @ phi.T + np.eye(rows)
            across = prior * query @ phi.T
            left = prior * (query**2).sum(axis=1) - np.einsum(
                "ij,ji->i", across, np.linalg.solve(within, across.T)
            )
            row |= {
                f"{name}_least": float((left / square).min()),
                f"{name}_most": float((left / square).max()),
            }
        result.append(row)
    return result


def selection(seed: int = 0, states: int = 12, reach: int = 40) -> list[dict[str, float]]:
    """Theorem A.2: the largest epsilon at which a cell of probability above it shares its code with others of
    as much together.

    Codes are v = kappa * s + a; a policy's actions are a rounded Gaussian around a cell of each state's own.
    """
    rng = np.random.default_rng(seed)
    centre, width = rng.uniform(-2, 4, (states, 1)), rng.uniform(0.5, 2, (states, 1))
    action = np.arange(-reach, reach + 1)
    probability = norm.cdf((action + 0.5 - centre) / width) - norm.cdf(
        (action - 0.5 - centre) / width
    )  # given the state
    inside = probability * (np.abs(action - centre) < 4)  # the same, cut off
    span = int(max(np.ptp(action[row > 0]) for row in inside)) + int(np.ptp(np.round(centre)))
    return [
        {
            "base": base,
            "fails_below": _largest_failure(probability / states, action, base),
            "fails_below_cut_off": _largest_failure(inside / states, action, base),
            "span": span,
        }
        for base in sorted((*BASES, span + 1))
    ]


def _largest_failure(probability: Float, action: Any, base: int) -> float:
    """max over cells of min(p, what the others with its code have together): at any epsilon below, the
    theorem fails."""
    code = base * np.arange(len(probability))[:, None] + action[None]
    total = np.bincount((code - code.min()).ravel(), weights=probability.ravel())
    others = total[code - code.min()] - probability
    return float(np.minimum(probability, others).max())
