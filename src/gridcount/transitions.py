"""Transitions: validated columns on the host, batches of rows on the device."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # modules that only read data must not import JAX
    from jax import Array

Float32 = NDArray[np.float32]
Float = NDArray[np.floating[Any]]  # single or double precision
Bool = NDArray[np.bool_]

CHUNK = 65_536  # rows processed together, at most,
CHUNK_BYTES = 2**24  # and bytes: reading, checking and writing need little memory for data of any size
HUGE = 1e9  # larger values overflow single precision within a few layers
ACTION_SLACK = 1e-5  # tolerance of actions beyond [-1, 1] for rounding


class Batch(NamedTuple):
    """Rows of a dataset as an update sees them; the whole dataset is a Batch of all its rows."""

    observation: "Array"  # [rows, observation_dim]
    action: "Array"  # [rows, action_dim]
    reward: "Array"  # [rows]
    next_observation: "Array"  # [rows, observation_dim]
    terminated: "Array"  # [rows] 1.0 where the episode truly ended, without bootstrapping
    state_cell: Any = None  # [rows] rank of the observation's grid cell, for algorithms that count
    next_state_cell: Any = None  # [rows] the same of the next observation
    next_action: Any = None  # [rows, action_dim] the log's own next action, for algorithms that ask for it
    extra: Any = None  # further columns [rows, ...] that one learner reads, as a tree of them


def _unset() -> Float:
    return np.empty(0, np.float32)


@dataclass(frozen=True)
class Transitions:
    """A log of decisions: one row per step, episodes one after the other. Columns may be memory-mapped."""

    observation: Float32  # [rows, observation_dim]
    action: Float32  # [rows, action_dim], scaled to [-1, 1]
    reward: Float32  # [rows]
    next_observation: Float32  # [rows, observation_dim]
    terminated: Bool  # [rows] the episode truly ended here
    episode_end: Bool  # [rows] last row of an episode, whether by terminal, time limit or end of the log
    name: str = "unnamed"  # what messages call it
    # [action_dim] what action -1 means in the log's own units; not given: -1
    action_low: Float = field(default_factory=_unset)
    action_high: Float = field(default_factory=_unset)  # [action_dim] what action 1 means; not given: 1
    observation_names: tuple[
        str, ...
    ] = ()  # what the log calls each dimension; not given: observation[0], ...
    action_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what the reader of a file decided, for the user

    def __post_init__(self) -> None:
        """Raise ValueError for invalid data, with the column, the row and the value."""
        rows = len(self.reward)
        if rows == 0:
            raise ValueError(f"{self.name}: the dataset is empty; it needs at least one transition")
        for column, dims in {
            "observation": 2,
            "action": 2,
            "reward": 1,
            "next_observation": 2,
            "terminated": 1,
            "episode_end": 1,
        }.items():
            array = getattr(self, column)
            if array.ndim != dims or len(array) != rows:
                raise ValueError(
                    f"{self.name}: column '{column}' has shape {array.shape}; expected {rows} rows and"
                    f" {dims} dimension(s)"
                )
            validate_finite(self.name, column, array)
        if self.observation.shape != self.next_observation.shape:
            raise ValueError(
                f"{self.name}: observation {self.observation.shape} and next_observation"
                f" {self.next_observation.shape} differ in shape"
            )
        if not self.observation.shape[1] or not self.action.shape[1]:
            raise ValueError(f"{self.name}: observations and actions need at least one dimension each")
        validate_action_range(self.name, self.action)
        for column, value in {"action_low": -1.0, "action_high": 1.0}.items():
            if len(getattr(self, column)) == 0:
                object.__setattr__(self, column, np.full(self.action_dim, value, np.float32))
            if getattr(self, column).shape != (self.action_dim,):
                shape = getattr(self, column).shape
                raise ValueError(
                    f"{self.name}: '{column}' has shape {shape}; expected one value for each of"
                    f" {self.action_dim} actions"
                )
        name_dimensions(self)

    @classmethod
    def from_arrays(
        cls,
        observation: Any,
        action: Any,
        reward: Any,
        *,
        terminated: Any = None,
        truncated: Any = None,
        episode: Any = None,
        next_observation: Any = None,
        action_low: Any = None,
        action_high: Any = None,
        scale_actions: bool = False,
        observation_names: Sequence[str] = (),
        action_names: Sequence[str] = (),
        name: str = "arrays",
    ) -> "Transitions":
        """Transitions of NumPy arrays: a row per step, in the order of time, episodes one after the other.

        Args:
            observation: [rows, observation_dim], or [rows] where there is one number.
            action: [rows, action_dim], or [rows] where there is one number.
            reward: [rows].
            terminated: [rows] true where an episode truly ended; by default never.
            truncated: [rows] true where an episode was cut off; by default never.
            episode: [rows] a number or text that changes from episode to episode, instead of `truncated` or
                besides it.
            next_observation: [rows, observation_dim]; by default the next row's, and the last row of a
                cut-off episode is left out.
            action_low: what -1 stands for, one number for all actions or one each. Actions are scaled from
                these bounds to [-1, 1].
            action_high: what 1 stands for.
            scale_actions: scale actions to [-1, 1] from the range they have in the data.
            observation_names: what to call each number of an observation.
            action_names: what to call each number of an action.
            name: what messages call the data.
        """
        from gridcount.data.formats.arrays import from_arrays

        columns = {
            "observation": observation,
            "action": action,
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
            "episode": episode,
            "next_observation": next_observation,
        }
        given = {column: values for column, values in columns.items() if values is not None}
        names = (tuple(observation_names), tuple(action_names))
        return from_arrays(given, names, (action_low, action_high), scale_actions, name)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        columns: Any = None,
        *,
        scale_actions: bool = False,
        action_low: Any = None,
        action_high: Any = None,
        name: str = "frame",
    ) -> "Transitions":
        """Transitions of a table: a pandas or Polars data frame, a PyArrow table, or a mapping of names to
        columns.

        Args:
            frame: the table, a row per step in the order of time, episodes one after the other.
            columns: which columns are what, as `gridcount.Columns`; by default found by the names everyone
                uses.
            scale_actions: scale actions to [-1, 1] from the range they have in the data.
            action_low: what -1 stands for, one number for all actions or one each.
            action_high: what 1 stands for.
            name: what messages call the data.
        """
        from gridcount.data.formats.arrays import from_frame

        return from_frame(frame, columns, (action_low, action_high), scale_actions, name)

    @classmethod
    def from_episodes(
        cls,
        episodes: Any,
        *,
        scale_actions: bool = False,
        action_low: Any = None,
        action_high: Any = None,
        name: str = "",
    ) -> "Transitions":
        """Transitions of a Minari dataset, or of a list of episodes.

        An episode has `observations` (of all steps, and of the state after the last one where it is known),
        `actions`, `rewards`, `terminations` and `truncations`, as attributes or as keys.

        Args:
            episodes: the dataset or the list.
            scale_actions: scale actions to [-1, 1] from the bounds of the dataset's action space, or from the
                range they have.
            action_low: what -1 stands for, one number for all actions or one each.
            action_high: what 1 stands for.
            name: what messages call the data.
        """
        from gridcount.data.formats.arrays import from_episodes

        return from_episodes(episodes, (action_low, action_high), scale_actions, name)

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
        """Rows per episode; the incomplete last episode of a log is included."""
        ends = np.flatnonzero(self.episode_end) + 1
        if len(ends) == 0 or ends[-1] != len(self):
            ends = np.append(ends, len(self))
        return np.diff(ends, prepend=0)

    @property
    def episode_returns(self) -> NDArray[np.float64]:
        """Undiscounted sum of rewards per episode."""
        starts = np.cumsum(self.episode_lengths) - self.episode_lengths
        return np.add.reduceat(self.reward, starts, dtype=np.float64)

    def rows(self) -> Batch:
        """All rows as one host-side Batch: copied to the device once, or left on disk if memory-mapped."""
        columns = (
            self.observation,
            self.action,
            self.reward,
            self.next_observation,
            self.terminated.astype(np.float32),
        )
        return Batch(*cast("tuple[Array, Array, Array, Array, Array]", columns))

    def in_units(self, action: NDArray[Any]) -> NDArray[Any]:
        """A policy's actions in [-1, 1], mapped back to the units the log was written in."""
        return in_units(action, self.action_low, self.action_high)

    def equals(self, other: "Transitions") -> bool:
        """Whether all columns hold the same values; names and notes may differ."""
        columns = (f.name for f in fields(self) if not f.name.endswith(("name", "names", "notes")))
        return all(np.array_equal(getattr(self, column), getattr(other, column)) for column in columns)


def in_units(action: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
    """Actions in [-1, 1] in the units where -1 means `low` and 1 means `high`."""
    if (low == -1).all() and (high == 1).all():
        return action  # not scaled, so not rounded either
    scaled: NDArray[Any] = low + (action + 1) / 2 * (high - low)
    return scaled


def scaled(action: Float, low: Float, high: Float) -> Float32:
    """Actions mapped linearly to [-1, 1], in double precision; a constant action becomes 0."""
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    width = np.where(high > low, high - low, 1)
    result: Float32 = (2 * (action - (low + high) / 2) / width).astype(np.float32)
    return result


def chunks(rows: int, row_bytes: int) -> Iterator[slice]:
    """Consecutive small slices that cover all rows."""
    size = chunk_rows(row_bytes)
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def chunk_rows(row_bytes: int) -> int:
    """The number of rows per chunk."""
    return max(1, min(CHUNK, CHUNK_BYTES // max(row_bytes, 1)))


def first_where(column: Any, trait: Callable[[NDArray[Any]], Any]) -> tuple[int, int, float] | None:
    """The row, dimension and value of the first value for which `trait` is true; None if there is none."""
    for rows in chunks(len(column), 4 * math.prod(column.shape[1:])):
        values = np.asarray(column[rows])
        values = values.reshape(len(values), -1)
        flags = np.asarray(trait(values))
        if flags.any():
            row, dimension = (int(i) for i in np.unravel_index(int(np.argmax(flags)), flags.shape))
            return rows.start + row, dimension, float(values[row, dimension])
    return None


def name_dimensions(columns: Any) -> None:
    """Name the dimensions of observations and actions by number if they have no names."""
    for role in ("observation", "action"):
        names, dims = getattr(columns, f"{role}_names"), getattr(columns, role).shape[1]
        if len(names) != dims:
            object.__setattr__(columns, f"{role}_names", tuple(f"{role}[{d}]" for d in range(dims)))


def validate_finite(source: str, column: str, array: Any) -> None:
    """Raise ValueError with the first non-finite value of a column."""
    if not np.issubdtype(array.dtype, np.floating):
        return
    if found := first_where(array, lambda values: ~np.isfinite(values)):
        row, _, value = found
        raise ValueError(f"{source}: column '{column}' holds {value} at row {row}; remove or repair that row")


def validate_action_range(source: str, action: Any) -> None:
    """Raise ValueError with the first action outside [-1, 1]."""
    for rows in chunks(len(action), 4 * action.shape[1]):
        values = action[rows]
        beyond = np.abs(values).max(axis=1) > 1 + ACTION_SLACK
        if beyond.any():
            first = int(np.argmax(beyond))
            raise ValueError(
                f"{source}: action {np.array(values[first])} at row {rows.start + first} is outside [-1, 1];"
                " scale actions to that"
                " range first (gridcount data import FILE --name NAME --scale-actions does, and stores their"
                " units; --action-low"
                " and --action-high set the values that are mapped to -1 and 1)"
            )
