"""A log as a file holds it: numbers under agreed names, not yet judged. Readers make it, `check` judges it, training takes or refuses."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcount.data.transitions import Bool, Float32, Transitions, name_dimensions, refuse_unreal, refuse_unscaled


class BadValue(ValueError):
    """A value that cannot be read as what its column is for, and where it stands."""

    def __init__(self, message: str, column: str, row: int) -> None:
        super().__init__(message)
        self.column, self.row = column, row


@dataclass(frozen=True)
class Log:
    """Columns of one log, rows in time order, episodes one after the other; values may still be anything."""

    source: str  # the file or folder, for messages
    observation: Float32  # [rows, observation_dim]
    action: Float32  # [rows, action_dim] in the log's own units
    reward: Float32  # [rows]
    terminated: Bool  # [rows] the episode truly ended here
    truncated: Bool  # [rows] the episode was cut off here
    next_observation: Float32 | None = None  # [rows, observation_dim], where the file has it
    observation_names: tuple[str, ...] = ()  # what the file calls each dimension
    action_names: tuple[str, ...] = ()
    action_low: Float32 | None = None  # [action_dim] bounds the file declares
    action_high: Float32 | None = None
    notes: tuple[str, ...] = ()  # what the reader decided and a person should know

    def __post_init__(self) -> None:
        """Columns must agree in length, and dimensions have names."""
        rows = len(self.observation)
        if rows == 0:
            raise ValueError(f"{self.source}: 'observations' is empty; the file holds no transition. Generate or download it again")
        for column in ("action", "reward", "terminated", "truncated", "next_observation"):
            array = getattr(self, column)
            if array is not None and len(array) != rows:
                raise ValueError(
                    f"{self.source}: '{column}' has {len(array)} rows, 'observation' has {rows}; the file is inconsistent, get it again"
                )
        if self.next_observation is not None and self.next_observation.shape != self.observation.shape:
            raise ValueError(
                f"{self.source}: observations have shape {self.observation.shape} and next observations {self.next_observation.shape};"
                " name the same columns for both"
            )
        name_dimensions(self)

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def end(self) -> Bool:
        """[rows] last row of an episode; the log's own last row is one whatever its flags say."""
        end: Bool = self.terminated | self.truncated
        end[-1] = True
        return end


def log_of(data: Transitions) -> Log:
    """Transitions seen as a log again, so that what is checked before training is what will be trained on."""
    truncated = data.episode_end & ~data.terminated
    return Log(
        source=data.name,
        observation=data.observation,
        action=data.action,
        reward=data.reward,
        terminated=data.terminated,
        truncated=truncated,
        next_observation=data.next_observation,
        observation_names=data.observation_names,
        action_names=data.action_names,
    )


def to_transitions(log: Log, name: str | None = None, scale_actions: bool = False) -> Transitions:
    """The transitions of a log.

    An episode ends at a terminal, or without one where it was truncated; where both are set the terminal wins. Where the log has
    no next observations, a row's successor is the next row of its episode, so the last row of an episode that was cut off has none
    and is dropped. `scale_actions` maps each action dimension linearly to [-1, 1], from the bounds the file declares or else from
    the range of the data, and keeps both ends so that `Transitions.in_units` can undo it.
    """
    for column in ("observation", "action", "reward", "next_observation"):
        if getattr(log, column) is not None:
            refuse_unreal(log.source, column, getattr(log, column))
    action, low, high = log.action, None, None
    if scale_actions:
        action, low, high = _scaled(log)
    refuse_unscaled(log.source, action)

    observation, terminated, end = log.observation, log.terminated, log.end
    if log.next_observation is not None:
        next_observation, keep = log.next_observation, np.ones(len(log), dtype=bool)
    else:
        # A terminal row stays: its reward and its end are facts to learn from. Nothing is bootstrapped from its successor, which the
        # file does not hold, so its own observation stands in: pairing it with the row below, as D4RL's own loader does, would let
        # counting and coverage see a jump into another episode's first state.
        next_observation = np.empty_like(observation)
        next_observation[:-1] = observation[1:]
        next_observation[end] = observation[end]
        keep = ~end | terminated
        end = terminated | np.roll(~keep, -1)  # the row before a dropped one is now its episode's last
    if not keep.any():
        raise ValueError(f"{log.source}: no transition remains, for every episode is one row long and 'next_observations' is missing")
    kept = slice(None) if keep.all() else keep  # a slice copies nothing
    return Transitions(
        observation=observation[kept],
        action=action[kept],
        reward=log.reward[kept],
        next_observation=next_observation[kept],
        terminated=terminated[kept],
        episode_end=end[kept],
        name=log.source if name is None else name,
        observation_names=log.observation_names,
        action_names=log.action_names,
        **({} if low is None or high is None else {"action_low": low, "action_high": high}),
    )


def _scaled(log: Log) -> tuple[Float32, Float32, Float32]:
    low = log.action.min(axis=0) if log.action_low is None else log.action_low
    high = log.action.max(axis=0) if log.action_high is None else log.action_high
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        low, high = log.action.min(axis=0), log.action.max(axis=0)  # declared without bounds
    width = np.where(high > low, high - low, np.float32(1))  # an action that never varies becomes 0
    scaled = 2 * (log.action - (low + high) / 2) / width
    return scaled.astype(np.float32), low.astype(np.float32), high.astype(np.float32)


def numbers(source: str, key: str, column: NDArray[Any]) -> NDArray[Any]:
    """The column where it holds numbers or booleans, or an error that says what it holds instead."""
    if column.dtype.kind not in "biuf":
        raise ValueError(f"{source}: '{key}' has dtype {column.dtype}; it must hold numbers or booleans, so convert it first")
    return column


def matrix(source: str, key: str, column: NDArray[Any]) -> Float32:
    """A column of vectors, in single precision."""
    if column.ndim != 2 or not column.shape[1]:
        raise ValueError(f"{source}: '{key}' has shape {column.shape}; expected (rows, dimensions), so reshape it first")
    with np.errstate(over="ignore"):  # a number beyond single precision becomes inf, which is reported with its row
        return column.astype(np.float32, copy=False)


def vector(source: str, key: str, column: NDArray[Any]) -> NDArray[Any]:
    """A column of single values; replay sets keep rewards as (rows, 1)."""
    if column.ndim == 2 and column.shape[1] == 1:
        return column[:, 0]
    if column.ndim != 1:
        raise ValueError(f"{source}: '{key}' has shape {column.shape}; expected (rows,) or (rows, 1), so reshape it first")
    return column


def rewards(source: str, key: str, column: NDArray[Any]) -> Float32:
    """A column of rewards, in single precision."""
    with np.errstate(over="ignore"):
        return vector(source, key, column).astype(np.float32, copy=False)


def flags(source: str, key: str, column: NDArray[Any]) -> Bool:
    """A column of zeros and ones, whatever type they have."""
    column = vector(source, key, column)
    as_flags: Bool = column.astype(bool)
    odd = np.flatnonzero(column != as_flags)
    if len(odd):
        message = f"{source}: '{key}' holds {column[odd[0]]} at row {odd[0]}; a flag must be 0 or 1, so repair that row"
        raise BadValue(message, key, int(odd[0]))
    return as_flags
