"""The two bonuses the paper sets equal, u and Gamma_lcb, and the estimate they bound."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float = NDArray[np.float64]


def count_bonus(count: ArrayLike, log_epoch: float, scale: float = 1.0) -> Float:
    """u = scale * sqrt(ln T / n) (section 4.2), from ln T."""
    return np.asarray(scale * np.sqrt(log_epoch / np.asarray(count, np.float64)))


def gram(features: Float, ridge: float) -> Float:
    """Lambda = sum of phi phi' over the data + ridge * I (Lemma 2)."""
    return np.asarray(features.T @ features + ridge * np.eye(features.shape[1]))


def lcb_bonus(features: Float, gram_matrix: Float, scale: float = 1.0) -> Float:
    """Gamma_lcb = scale * sqrt(phi' Lambda^-1 phi) for each row of features (Eq. 12)."""
    return np.asarray(
        scale * np.sqrt(np.einsum("nd,nd->n", features, np.linalg.solve(gram_matrix, features.T).T))
    )


def ridge_weights(features: Float, target: Float, gram_matrix: Float) -> Float:
    """Lambda^-1 sum phi * (r + discount * V(s')): the appendix's empirical Bellman estimate is phi' times
    it."""
    return np.asarray(np.linalg.solve(gram_matrix, features.T @ target))


def self_normalised_scale(
    gram_matrix: Float, ridge: float, noise_range: float, norm: float, failure: float
) -> float:
    """b of Lemma 2 for a fixed V (Abbasi-Yadkori et al. 2011): with it the bound holds for all (s, a) at
    once, but for `failure`.

    `noise_range` is the length of an interval that holds the noise of a target, `norm` that of the true
    weights.
    """
    _, log_determinant = np.linalg.slogdet(gram_matrix)
    growth = log_determinant - len(gram_matrix) * math.log(ridge)
    return noise_range / 2 * math.sqrt(2 * math.log(1 / failure) + growth) + math.sqrt(ridge) * norm


def hoeffding_promise(epoch: float) -> float:
    """Least probability of |mean - expectation| <= range * sqrt(ln T / n): 1 - 2 / T^2, both sides
    counted."""
    return max(0.0, 1 - 2 / epoch**2)
