"""Data in memory: NumPy arrays, data frames, episodes. They are converted to a log like files, with the
same checks."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcount.data.formats.columns import Columns
from gridcount.data.formats.cut import Bounds, to_transitions
from gridcount.data.formats.log import (
    Arrays,
    BadValue,
    Kinds,
    Log,
    OpenTable,
    Problems,
    actions,
    flags,
    join,
    matrix,
    rewards,
)
from gridcount.data.formats.parquet_table import from_arrow
from gridcount.data.formats.rows import read_table, text_error
from gridcount.data.formats.tidy import tidy
from gridcount.transitions import Transitions

Ends = tuple[Any, Any]  # values that are mapped to -1 and 1; None if not given
FIELDS = ("observations", "actions", "rewards", "terminations", "truncations")  # of an episode


def from_arrays(
    columns: Mapping[str, Any],
    names: tuple[tuple[str, ...], tuple[str, ...]],
    ends: Ends,
    scale_actions: bool,
    name: str,
) -> Transitions:
    """Transitions from arrays by role."""
    arrays = {role: np.asarray(values) for role, values in columns.items()}
    rows = arrays["observation"].shape[:1]
    for role, values in arrays.items():
        if values.shape[:1] != rows or not rows:
            raise ValueError(
                f"{name}: '{role}' has shape {values.shape}, 'observation' has"
                f" {arrays['observation'].shape}; rows must agree"
            )
    log = join(name, read_table(name, _arrays_table(name, arrays), Columns()), finish=tidy(Columns()))
    observation_names, action_names = names
    _validate_names(name, "observation", observation_names, log.observation.shape[1])
    _validate_names(name, "action", action_names, log.action.shape[1])
    log = replace(
        log,
        observation_names=observation_names or log.observation_names,
        action_names=action_names or log.action_names,
    )
    return _transitions(log, ends, scale_actions, name)


def _validate_names(name: str, role: str, given: tuple[str, ...], dims: int) -> None:
    """Raise ValueError if the number of names differs from the number of dimensions."""
    if given and len(given) != dims:
        raise ValueError(f"{name}: {len(given)} {role}_names for {dims} {role} dimensions; give one for each")


def from_frame(
    frame: Any, columns: Columns | None, ends: Ends, scale_actions: bool, name: str
) -> Transitions:
    """Transitions of a table in memory."""
    table = _arrow_table(name, frame) or _arrays_table(name, _columns(name, frame))
    columns = columns or Columns()
    log = join(name, read_table(name, table, columns), finish=tidy(columns))
    return _transitions(log, ends, scale_actions, name)


def from_episodes(episodes: Any, ends: Ends, scale_actions: bool, name: str) -> Transitions:
    """Transitions of a Minari dataset or of episodes one after the other."""
    space = getattr(episodes, "action_space", None)
    low, high = (
        np.asarray(getattr(space, end), np.float32) if hasattr(space, end) else None
        for end in ("low", "high")
    )
    name = name or str(getattr(getattr(episodes, "spec", None), "dataset_id", "episodes"))
    found = episodes.iterate_episodes() if hasattr(episodes, "iterate_episodes") else episodes
    logs = [_episode(f"{name}, episode {number}", episode) for number, episode in enumerate(found)]
    if not logs:
        raise ValueError(f"{name}: holds no episode")
    if any(
        log.next_observation is None for log in logs
    ):  # then all are read like those without the observation after the last step
        logs = [replace(log, next_observation=None) for log in logs]
    log = replace(join(name, logs), source=name, action_low=low, action_high=high)
    return _transitions(log, ends, scale_actions, name)


def _transitions(log: Log, ends: Ends, scale_actions: bool, name: str) -> Transitions:
    if log.problems:
        raise log.problems[0]
    low, high = ends
    if (low is None) != (high is None):
        raise ValueError(f"{name}: give both action_low and action_high, or neither")
    bounds: Bounds | None = None if low is None else (low, high)
    return to_transitions(log, name, scale_actions, bounds)


def _arrays_table(name: str, arrays: Mapping[str, NDArray[Any]]) -> OpenTable:
    """Arrays in memory as an open table of one piece."""

    def read(names: list[str], kinds: Kinds, problems: Problems) -> tuple[int, Iterator[Arrays]]:
        found = {
            column: _numbers(name, column, arrays[column], column in kinds, problems) for column in names
        }
        return len(found[names[0]]), iter([found])

    return OpenTable(list(arrays), read, [])


def _numbers(
    name: str, column: str, values: NDArray[Any], text_is_fine: bool, problems: Problems
) -> NDArray[Any]:
    """A numeric column unchanged; a column of Python objects is converted to numbers if possible."""
    if values.dtype.kind in "biuf" or text_is_fine:
        return values
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        bad = next(row for row, value in enumerate(values.reshape(-1)) if not _is_number(value))
        problems.setdefault(column, text_error(name, column, str(values.reshape(-1)[bad]), bad))
        return np.full(values.shape, np.nan)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _arrow_table(name: str, frame: Any) -> OpenTable | None:
    """A table in Arrow format, if PyArrow is installed; None: read its columns instead."""
    if not hasattr(frame, "__arrow_c_stream__"):
        return None
    try:
        import pyarrow
    except ImportError:
        if hasattr(frame, "columns"):
            return None
        raise ImportError(
            f"{name}: this table needs PyArrow. Install it with: pip install 'gridcount[tables]'"
        ) from None
    table = pyarrow.table(frame)

    def read(names: list[str], kinds: Kinds, problems: Problems) -> tuple[int, Iterator[Arrays]]:
        found: dict[str, NDArray[Any]] = {}
        for column in names:
            try:
                found[column] = from_arrow(name, column, table.column(column), column in kinds)
            except BadValue as problem:
                problems.setdefault(column, problem)
                found[column] = np.full(len(table), np.nan)
        return len(table), iter([found])

    return OpenTable(table.column_names, read, [])


def _columns(name: str, frame: Any) -> dict[str, NDArray[Any]]:
    if isinstance(frame, Mapping):
        return {str(column): np.asarray(values) for column, values in frame.items()}
    if not hasattr(frame, "columns"):
        raise TypeError(
            f"{name}: {type(frame).__name__} is not a table; give a pandas or Polars data frame, a PyArrow"
            " table or a dict"
        )
    return {str(column): np.asarray(frame[column]) for column in frame.columns}


def _episode(name: str, episode: Any) -> Log:
    """One episode, its last row marked as its end."""
    values = [_field(name, episode, field) for field in FIELDS]
    observations, taken, earned, terminations, truncations = values
    steps = len(taken)
    if len(observations) not in (steps, steps + 1) or not steps:
        raise ValueError(
            f"{name}: {len(observations)} observations for {steps} actions; expected {steps} or {steps + 1}"
        )
    problems: Problems = {}
    truncated = flags(name, "truncations", truncations, 0, problems)
    truncated[-1] |= True
    observation = matrix(name, "observations", _wide(observations))
    return Log(
        source=name,
        observation=observation[:steps],
        action=actions(name, "actions", _wide(taken)),
        reward=rewards(name, "rewards", earned),
        terminated=flags(name, "terminations", terminations, 0, problems),
        truncated=truncated,
        next_observation=observation[1:] if len(observations) > steps else None,
        problems=tuple(problems.values()),
    )


def _field(name: str, episode: Any, field: str) -> NDArray[Any]:
    value = episode.get(field) if isinstance(episode, Mapping) else getattr(episode, field, None)
    if isinstance(value, Mapping):
        if field != "observations" or "observation" not in value:
            raise ValueError(
                f"{name}: its {field} are a Dict of {sorted(value)}; only flat numbers are supported"
            )
        value = value["observation"]
    if value is None:
        raise ValueError(f"{name}: has no {field}; an episode has {', '.join(FIELDS)}")
    return np.asarray(value)


def _wide(values: NDArray[Any]) -> NDArray[Any]:
    """[rows] as [rows, 1]."""
    return values[:, None] if values.ndim == 1 else values
