"""The one shape all data takes: checked columns on the host, batches of rows on the device."""

from dataclasses import dataclass, fields
from typing import Any, NamedTuple, cast

import numpy as np
from jax import Array
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
Bool = NDArray[np.bool_]


class Batch(NamedTuple):
    """Rows of a dataset as an update sees them; the whole dataset is a Batch of all its rows."""

    observation: Array  # [rows, observation_dim]
    action: Array  # [rows, action_dim]
    reward: Array  # [rows]
    next_observation: Array  # [rows, observation_dim]
    terminated: Array  # [rows] 1.0 where the episode truly ended, so nothing is bootstrapped
    state_cell: Any = None  # [rows] rank of the observation's grid cell, for algorithms that count
    next_state_cell: Any = None  # [rows] the same of the next observation


@dataclass(frozen=True)
class Transitions:
    """A log of decisions: one row per step, episodes one after the other."""

    observation: Float32  # [rows, observation_dim]
    action: Float32  # [rows, action_dim], scaled to [-1, 1]
    reward: Float32  # [rows]
    next_observation: Float32  # [rows, observation_dim]
    terminated: Bool  # [rows] the episode truly ended here
    episode_end: Bool  # [rows] last row of an episode, whether by terminal, time limit or end of the log
    name: str = "unnamed"  # what messages call it

    def __post_init__(self) -> None:
        """Refuse what no learner could use, naming the column, the row and the value."""
        rows = len(self.reward)
        if rows == 0:
            raise ValueError(f"{self.name}: the dataset is empty; it needs at least one transition")
        for column, dims in {"observation": 2, "action": 2, "reward": 1, "next_observation": 2, "terminated": 1, "episode_end": 1}.items():
            array = getattr(self, column)
            if array.ndim != dims or len(array) != rows:
                raise ValueError(f"{self.name}: column '{column}' has shape {array.shape}; expected {rows} rows and {dims} dimension(s)")
            if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
                where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
                raise ValueError(f"{self.name}: column '{column}' holds {array[where]} at row {where[0]}; remove or repair that row")
        if self.observation.shape != self.next_observation.shape:
            raise ValueError(
                f"{self.name}: observation {self.observation.shape} and next_observation {self.next_observation.shape} differ in shape"
            )
        if not self.observation.shape[1] or not self.action.shape[1]:
            raise ValueError(f"{self.name}: observations and actions need at least one dimension each")
        beyond = np.abs(self.action).max(axis=1) > 1 + 1e-5
        if beyond.any():
            row = int(np.argmax(beyond))
            raise ValueError(f"{self.name}: action {self.action[row]} at row {row} is outside [-1, 1]; scale actions to that range first")

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def observation_dim(self) -> int:
        """Numbers in an observation."""
        return int(self.observation.shape[1])

    @property
    def action_dim(self) -> int:
        """Numbers in an action."""
        return int(self.action.shape[1])

    @property
    def episode_lengths(self) -> NDArray[np.int64]:
        """Rows per episode; a log cut off mid-episode counts its last piece."""
        ends = np.flatnonzero(self.episode_end) + 1
        if len(ends) == 0 or ends[-1] != len(self):
            ends = np.append(ends, len(self))
        return np.diff(ends, prepend=0)

    @property
    def episode_returns(self) -> NDArray[np.float64]:
        """Undiscounted sum of rewards per episode."""
        starts = np.cumsum(self.episode_lengths) - self.episode_lengths
        return np.add.reduceat(self.reward.astype(np.float64), starts)

    def rows(self) -> Batch:
        """All rows as one host-side Batch; the training loop puts it on the device once."""
        columns = (self.observation, self.action, self.reward, self.next_observation, self.terminated.astype(np.float32))
        return Batch(*cast("tuple[Array, Array, Array, Array, Array]", columns))

    def equals(self, other: "Transitions") -> bool:
        """True where every column holds the same values."""
        return all(np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self) if f.name != "name")
