"""From a log to transitions: where episodes end, which rows count, and actions in [-1, 1]."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcount.data.formats.log import NUMBERS, Log
from gridcount.data.formats.missing import missing_advice
from gridcount.transitions import (
    ACTION_SLACK,
    Bool,
    Float,
    Transitions,
    chunks,
    scaled,
    validate_action_range,
    validate_finite,
)

Bounds = tuple[
    float | Sequence[float], float | Sequence[float]
]  # values mapped to -1 and 1, for all action dimensions or for each


@dataclass(frozen=True)
class ActionUnits:
    """How the actions of a log are scaled to [-1, 1]."""

    # scale each action dimension from its range in the data to [-1, 1], and store its units
    scale_actions: bool = False
    # value that is mapped to -1, such as the actuator's limit: one for all actions or for each
    action_low: tuple[float, ...] = ()
    action_high: tuple[float, ...] = ()  # value that is mapped to 1

    @property
    def bounds(self) -> Bounds | None:
        """The bounds given, if any."""
        if bool(self.action_low) != bool(self.action_high):
            raise ValueError("give both --action-low and --action-high, or neither")
        return (self.action_low, self.action_high) if self.action_low else None


@dataclass(frozen=True)
class Cut:
    """The rows of a log that become transitions; they are validated first, so that they can be read in
    chunks."""

    log: Log
    name: str
    keep: Bool  # [rows of the log] this one becomes a transition
    episode_end: Bool  # [rows of the log] and it is the last of its episode
    units: tuple[Float, Float] | None  # values that are mapped to -1 and 1; None: actions are not scaled

    def __len__(self) -> int:
        return int(np.count_nonzero(self.keep))

    @property
    def episodes(self) -> int:
        """The number of episodes; the last row always ends one."""
        return int(np.count_nonzero(self.episode_end & self.keep))

    def rows(self, part: slice) -> dict[str, NDArray[Any]]:
        """The transitions of some rows of the log, by column."""
        log, keep, terminated = self.log, self.keep[part], self.log.terminated[part]
        kept = slice(None) if keep.all() else keep  # a slice copies nothing
        action = log.action[part]
        action = (
            action.astype(np.float32, copy=False)
            if self.units is None
            else np.clip(scaled(action, *self.units), -1, 1)
        )
        if log.next_observation is not None:
            next_observation = log.next_observation[part]
        else:
            # A terminal row is kept, because its reward and its end are needed. Nothing is bootstrapped from
            # its successor, which the file does not hold, so its own observation is used: pairing it with the
            # row below, as D4RL's own loader does, would count a jump into another episode's first state.
            own = np.flatnonzero(keep)
            next_observation = log.observation[part.start : part.stop + 1][own + ~terminated[own]]
        return {
            "observation": log.observation[part][kept],
            "action": action[kept],
            "reward": log.reward[part][kept],
            "next_observation": next_observation,
            "terminated": terminated[kept],
            "episode_end": self.episode_end[part][kept],
        }

    def pieces(self) -> Iterator[dict[str, NDArray[Any]]]:
        """All transitions, some at a time."""
        log = self.log
        return (
            self.rows(part)
            for part in chunks(len(log), 8 * log.observation.shape[1] + 4 * log.action.shape[1])
        )

    def transitions(self) -> Transitions:
        """All transitions, in memory."""
        units: dict[str, Any] = (
            {} if self.units is None else dict(zip(("action_low", "action_high"), self.units, strict=True))
        )
        return Transitions(
            **self.rows(slice(0, len(self.log))),
            name=self.name,
            observation_names=self.log.observation_names,
            action_names=self.log.action_names,
            notes=self.log.notes,
            **units,
        )


def cut(
    log: Log, name: str | None = None, scale_actions: bool = False, action_bounds: Bounds | None = None
) -> Cut:
    """Select the rows of a log that become transitions; raises ValueError for invalid values.

    An episode ends at a terminal, or without one where it was truncated; if both are set, it is terminal.
    Where the log has no next observations, a row's successor is the next row of its episode, so the last row
    of an episode that was cut off has none and is dropped. Actions are mapped linearly to [-1, 1] from
    `action_bounds`, or with `scale_actions` from the bounds the file declares or else from the range of the
    data; both ends are kept so that `Transitions.in_units` can undo it.
    """
    if log.problems:
        raise log.problems[0]
    for column in NUMBERS:
        if getattr(log, column) is not None:
            try:
                validate_finite(log.source, column, getattr(log, column))
            except ValueError as error:
                raise ValueError(f"{error}; or {missing_advice(log)}") from error
    units = action_units(log, scale_actions, action_bounds)
    if units is None:
        validate_action_range(log.source, log.action)
    else:
        _validate_bounds(log, units, given=action_bounds is not None)
    keep, end = np.ones(len(log), dtype=bool), log.end
    if log.next_observation is None:
        keep = ~end | log.terminated
        end = log.terminated | np.roll(
            ~keep, -1
        )  # the row before a dropped one becomes the last of its episode
    if not keep.any():
        raise ValueError(
            f"{log.source}: no transition remains, because every episode has one row and 'next_observations'"
            " is missing"
        )
    return Cut(log, log.source if name is None else name, keep, end, units)


def to_transitions(
    log: Log, name: str | None = None, scale_actions: bool = False, action_bounds: Bounds | None = None
) -> Transitions:
    """The transitions of a log; see `cut`."""
    return cut(log, name, scale_actions, action_bounds).transitions()


def action_units(log: Log, scale_actions: bool, bounds: Bounds | None) -> tuple[Float, Float] | None:
    """The values in the log's units that are mapped to -1 and 1; None if actions are not scaled."""
    dims = log.action.shape[1]
    if bounds is not None:
        given = [np.atleast_1d(np.asarray(end, np.float64)) for end in bounds]
        for flag, end in zip(("--action-low", "--action-high"), given, strict=True):
            if end.shape not in ((1,), (dims,)):
                raise ValueError(
                    f"{log.source}: {flag} gives {end.size} numbers for {dims} actions; give one for all or"
                    " one for each"
                )
        low, high = (np.broadcast_to(end, dims).copy() for end in given)
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise ValueError(
                f"{log.source}: actions cannot lie between {low} and {high}; --action-low must be below"
                " --action-high"
            )
        return low, high
    if not scale_actions:
        return None
    if (declared := declared_units(log)) is not None:
        return declared
    lows, highs = zip(*((action.min(axis=0), action.max(axis=0)) for action in _actions(log)), strict=True)
    return np.min(lows, axis=0), np.max(highs, axis=0)


def declared_units(log: Log) -> tuple[Float, Float] | None:
    """The bounds of actions that the file itself declares, where they are finite."""
    low, high = log.action_low, log.action_high
    if low is None or high is None or not (np.isfinite(low).all() and np.isfinite(high).all()):
        return None
    return low.astype(np.float64), high.astype(np.float64)


def _actions(log: Log) -> Iterator[Float]:
    return (log.action[part] for part in chunks(len(log), 4 * log.action.shape[1]))


def rounding(low: Float, high: Float) -> Float:
    """The tolerance beyond [-1, 1] for rounding to single precision."""
    width = np.where(high > low, high - low, 1)
    slack: Float = (
        ACTION_SLACK + 2 * float(np.finfo(np.float32).eps) * np.maximum(np.abs(low), np.abs(high)) / width
    )
    return slack


def _validate_bounds(log: Log, units: tuple[Float, Float], given: bool) -> None:
    """Raise ValueError with the first action outside the given or declared bounds."""
    start, slack = 0, rounding(*units)
    for action in _actions(log):
        beyond = np.abs(scaled(action, *units)) > 1 + slack
        if beyond.any():
            row, d = (int(i) for i in np.argwhere(beyond)[0])
            bounds = f"{units[0][d]:.9g} to {units[1][d]:.9g}"
            raise ValueError(
                f"{log.source}: column '{log.action_names[d]}' holds {action[row, d]:.9g} at row"
                f" {start + row}, outside the bounds "
                f"{'given' if given else 'the file declares'}, {bounds}; {bounds_advice(given)}"
            )
        start += len(action)


def bounds_advice(given: bool) -> str:
    """Advice for an action outside the given bounds, or outside those that the file declares."""
    return (
        f"{'widen' if given else 'set wider bounds with'} --action-low and --action-high, or repair that row"
    )
