"""A map of the state space in two dimensions: two columns of the log, or its two principal components."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridcount.catalogue import unknown

SIDE = 32  # cells of a map along each axis


@dataclass(frozen=True)
class Map:
    """Rows and support in each cell of a map; row 0 is the lowest value of y."""

    x: str
    y: str
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    rows: list[list[int]]  # [y][x]
    supported: list[list[float | None]]  # [y][x] share of the policy's actions that the log has; None: no row


def draw_map(
    observation: NDArray[np.float32],
    supported: NDArray[np.bool_],
    names: Sequence[str],
    columns: Sequence[str] | None,
) -> Map:
    """A map over two chosen columns, or over the principal components of all."""
    points, labels = _chosen(observation, names, columns) if columns else _principal(observation, names)
    x, y = points
    edges = [_edges(x), _edges(y)]
    total = np.histogram2d(x, y, bins=edges)[0].T
    good = np.histogram2d(x, y, bins=edges, weights=supported.astype(np.float64))[0].T
    share = [
        [float(good[i, j] / total[i, j]) if total[i, j] else None for j in range(SIDE)] for i in range(SIDE)
    ]
    (x_low, x_high), (y_low, y_high) = ((float(each[0]), float(each[-1])) for each in edges)
    return Map(*labels, (x_low, x_high), (y_low, y_high), total.astype(int).tolist(), share)


def _chosen(
    observation: NDArray[np.float32], names: Sequence[str], columns: Sequence[str]
) -> tuple[list[NDArray[np.float64]], tuple[str, str]]:
    if len(columns) != 2:
        raise ValueError(f"a map needs two columns; {len(columns)} were named: {', '.join(columns)}")
    for column in columns:
        if column not in names:
            raise unknown("column", column, tuple(names))
    return [observation[:, names.index(column)].astype(np.float64) for column in columns], (
        columns[0],
        columns[1],
    )


def _principal(
    observation: NDArray[np.float32], names: Sequence[str]
) -> tuple[list[NDArray[np.float64]], tuple[str, str]]:
    """The two directions in which the states vary most, each column in units of its deviation. One or two
    columns are shown as they are."""
    if len(names) <= 2:
        x, y = observation[:, 0].astype(np.float64), observation[:, -1].astype(np.float64)
        return [x, y], (names[0], names[-1])
    values = observation.astype(np.float64)
    deviation = values.std(axis=0)
    scaled = (values - values.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    _, vectors = np.linalg.eigh(np.cov(scaled, rowvar=False))
    axes = vectors[:, [-1, -2]]
    labels = []
    for number, axis in enumerate(axes.T, 1):
        most = ", ".join(names[column] for column in np.argsort(-np.abs(axis))[:3])
        labels.append(f"principal component {number} (mostly {most})")
    return [scaled @ axes[:, 0], scaled @ axes[:, 1]], (labels[0], labels[1])


def _edges(values: NDArray[np.float64]) -> NDArray[np.float64]:
    low, high = float(values.min()), float(values.max())
    return np.linspace(low, high if high > low else low + 1, SIDE + 1)
