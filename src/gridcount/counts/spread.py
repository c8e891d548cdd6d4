"""How far the log's actions spread around what its states explain: the unit of distance between actions.

In a cell of many dimensions the mean action still changes from state to state. The spread around the cell's
mean would count that change as freedom. So the actions of a cell are fitted by a ridge regression on its
states, whose strength generalised cross-validation chooses, and what the fit leaves is the spread.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

PRIOR_ROWS = 8  # a cell's variance is estimated as if it held this many more rows, of the log's mean variance
CELL_ROWS = 4096  # rows of a cell that are fitted, at most
# strengths of the regression, relative to the mean variance of a cell's directions; without any is tried, too
RIDGES = np.array([1e-3, 1e-2, 1e-1, 1.0, 10.0])


def unexplained_deviation(cell: Any, n_cells: int, states: Any, action: Any) -> NDArray[np.float32]:
    """[cells, action_dim] the standard deviation of the log's actions around what a cell's states explain.

    The columns of states have a deviation of about 1.
    """
    states, actions = np.asarray(states, np.float64), np.asarray(action, np.float64)
    order = np.argsort(cell, kind="stable")
    rows = np.bincount(cell, minlength=n_cells)
    variance = np.zeros((n_cells, actions.shape[1]))
    for number, members in enumerate(np.split(order, np.cumsum(rows)[:-1])):
        if len(members) > 1:
            some = members[:: -(-len(members) // CELL_ROWS)]
            variance[number] = _unexplained(states[some], actions[some])
    mean = (rows[:, None] * variance).sum(axis=0) / rows.sum()
    shrunk = (rows[:, None] * variance + PRIOR_ROWS * mean) / (rows[:, None] + PRIOR_ROWS)
    return np.sqrt(shrunk).astype(np.float32)


def _unexplained(states: NDArray[np.float64], actions: NDArray[np.float64]) -> NDArray[np.float64]:
    """[action_dim] the variance that the best ridge regression of the actions on the states leaves."""
    count = len(states)
    x, y = states - states.mean(axis=0), actions - actions.mean(axis=0)
    left, strength, _ = np.linalg.svd(x, full_matrices=False)
    power = strength**2  # [directions]
    ridges = RIDGES[:, None] * (power.mean() + 1e-12)
    # [ridges, directions] of the actions along each direction, what a ridge leaves; all without a regression
    kept = np.vstack([ridges / (power + ridges), np.ones_like(power)])
    along = (left.T @ y) ** 2  # [directions, action_dim]
    squares = (y**2).sum(axis=0) - along.sum(axis=0) + kept**2 @ along  # [ridges, action_dim]
    free = count - 1 - (1 - kept).sum(axis=1)  # [ridges] degrees of freedom that are left
    usable = free > 0
    variance = np.maximum(squares[usable], 0.0) / free[usable, None]
    # generalised cross-validation, each dimension in units of its own variance
    errors = (variance / free[usable, None] / (y.var(axis=0) + 1e-12)).sum(axis=1)
    best: NDArray[np.float64] = variance[errors.argmin()]
    return best
