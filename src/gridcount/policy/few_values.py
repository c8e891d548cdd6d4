"""Actions that take few values in the log, such as a switch or a number of pumps: decisions take one of
these values."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridcount.transitions import scaled


class FewValues(NamedTuple):
    """The values of each action dimension that has few, as tables: an ONNX graph uses the same."""

    few: NDArray[np.bool_]  # [action_dim] which dimensions have few values
    cuts: NDArray[np.float64]  # [action_dim, most] halfway between neighbouring values; then infinity
    values: NDArray[np.float64]  # [action_dim, most + 1] in the log's units
    scaled: NDArray[
        np.float32
    ]  # [action_dim, most + 1] the same in [-1, 1], as the log's actions are counted

    @classmethod
    def of(cls, columns: Sequence[Sequence[float]], low: ArrayLike, high: ArrayLike) -> "FewValues | None":
        """The tables of the values of each dimension, () for a continuous one; None if all are continuous."""
        if not any(columns):
            return None
        ordered = [np.unique(np.asarray(values, np.float64)) for values in columns]
        most = max(2, *map(len, ordered))  # ONNX has no sums over nothing
        lows, highs = np.asarray(low, np.float64), np.asarray(high, np.float64)
        values, cuts = np.repeat(lows[:, None], most, axis=1), np.full((len(ordered), most - 1), np.inf)
        for dimension, found in enumerate(ordered):
            values[dimension, : len(found)] = found
            cuts[dimension, : max(len(found) - 1, 0)] = (found[1:] + found[:-1]) / 2
        few = np.array([len(found) > 0 for found in ordered])
        return cls(few, cuts, values, scaled(values.T, lows, highs).T)

    def round(self, action: NDArray[Any], table: NDArray[Any], continuous: NDArray[Any]) -> NDArray[Any]:
        """[..., action_dim] the entries of a table at the values nearest to actions in the log's units, and
        `continuous` in other dimensions and for what is not a number."""
        place = (action[..., None] > self.cuts).sum(axis=-1)
        chosen = table[np.arange(len(self.few)), place]
        return np.where(self.few & ~np.isnan(action), chosen, continuous)
