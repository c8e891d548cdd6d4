"""Rows of a table by role: numbers, flags, and the episode, the time and the categories of each row."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcount.categories import MISSING, label
from gridcount.data.formats.columns import Columns, assign, categorical
from gridcount.data.formats.log import (
    Arrays,
    BadValue,
    Kind,
    Log,
    OpenTable,
    Problems,
    Reading,
    actions,
    flags,
    matrix,
    rewards,
)

KINDS: dict[str, Kind] = {"episode": "id", "time": "time"}  # role -> kind of its column
MOST_CATEGORIES = 200  # of a column
DATES = ("%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S.%f", "%d.%m.%Y", "%Y/%m/%d %H:%M:%S")


def read_table(source: str, table: OpenTable, columns: Columns) -> Iterator[Log]:
    """The log in an open table, a piece at a time; `tidy` puts its rows in order."""
    roles = assign(source, table.names, columns)
    coded = _category_columns(categorical(source, table.names, columns), roles)
    kinds: dict[str, Kind] = dict.fromkeys(coded, "label")
    for role, kind in KINDS.items():
        kinds |= dict.fromkeys(roles.get(role, ()), kind)
    problems: Problems = {}
    reading, start = Reading(), 0
    keys = _Keys(source, roles, reading, problems)
    numbers: dict[str, dict[str, int]] = {column: {} for column in coded.values()}
    wanted = list(dict.fromkeys(name for members in roles.values() for name in members))
    stated, pieces = table.read(wanted, kinds, problems)
    for arrays in pieces:
        codes = {name: _codes(source, name, arrays[name], numbers[column]) for name, column in coded.items()}
        log = _to_log(source, roles, {**arrays, **codes}, start, problems)
        episode, time = keys.next(arrays, len(log))
        dims = {name: d for d, name in enumerate(log.observation_names)}
        reading.categories = {dims[column]: (column, known) for column, known in numbers.items()}
        notes = (*table.notes, *log.notes)
        yield replace(
            log,
            stated_rows=stated,
            episode=episode,
            time=time,
            reading=reading,
            notes=notes,
            problems=tuple(problems.values()),
        )
        start += len(log)


def _category_columns(categories: list[str], roles: Mapping[str, list[str]]) -> dict[str, str]:
    """Columns of categories -> the observed column whose categories they share, for next observations."""
    following = zip(roles.get("next_observation", ()), roles["observation"], strict=False)
    return {name: name for name in categories} | {
        after: name for after, name in following if name in categories
    }


def _codes(source: str, name: str, values: NDArray[Any], known: dict[str, int]) -> NDArray[np.float64]:
    """The number of each row's category; a missing one is NaN."""
    if values.ndim != 1:
        raise ValueError(f"{source}: '{name}' has shape {values.shape}; a category is one value per row")
    distinct, inverse = np.unique(np.array([label(value) for value in values.tolist()]), return_inverse=True)
    numbers = [np.nan if each == MISSING else known.setdefault(str(each), len(known)) for each in distinct]
    if len(known) > MOST_CATEGORIES:
        raise ValueError(
            f"{source}: '{name}' has more than {MOST_CATEGORIES} different values, such as '{distinct[0]}';"
            " if it is a number, leave it out of --categorical, otherwise group its values first"
        )
    return np.asarray(numbers, np.float64)[inverse]


def _to_log(
    source: str, roles: Mapping[str, list[str]], arrays: Arrays, start: int, problems: Problems
) -> Log:
    observation, observation_names = _stack(source, roles["observation"], arrays)
    action, action_names = _stack(source, roles["action"], arrays, actions)
    following, next_names = (
        _stack(source, roles["next_observation"], arrays) if "next_observation" in roles else (None, ())
    )
    given = {
        role: flags(source, roles[role][0], arrays[roles[role][0]], start, problems)
        for role in ("terminated", "truncated")
        if role in roles
    }
    notes = []
    if not given and "episode" not in roles:
        notes.append(
            "no column marks where episodes end, so the whole log is one episode;"
            " name one with --episode or --truncated"
        )
    return Log(
        source=source,
        observation=observation,
        action=action,
        reward=rewards(source, roles["reward"][0], arrays[roles["reward"][0]]),
        terminated=given.get("terminated", np.zeros(len(observation), dtype=bool)),
        truncated=given.get("truncated", np.zeros(len(observation), dtype=bool)),
        next_observation=following,
        observation_names=observation_names,
        action_names=action_names,
        next_observation_names=next_names,
        reward_name=roles["reward"][0],
        notes=tuple(notes),
    )


def _stack(
    source: str,
    names: list[str],
    arrays: Arrays,
    as_numbers: Callable[[str, str, NDArray[Any]], Any] = matrix,
) -> tuple[Any, tuple[str, ...]]:
    """Columns side by side as [rows, dims], and what each dimension is called."""
    parts, labels = [], []
    for name in names:
        column = arrays[name][:, None] if arrays[name].ndim == 1 else arrays[name]
        parts.append(as_numbers(source, name, column))
        labels += [name] if column.shape[1] == 1 else [f"{name}[{i}]" for i in range(column.shape[1])]
    return (parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)), tuple(labels)


class _Keys:
    """The episode and the time of each row, piece after piece; `reading` records what is out of order."""

    def __init__(
        self, source: str, roles: Mapping[str, list[str]], reading: Reading, problems: Problems
    ) -> None:
        self.source, self.reading, self.problems = source, reading, problems
        self.episode, self.time = (roles[role][0] if role in roles else None for role in ("episode", "time"))
        self.rows, self.last_id, self.last = 0, None, (-1, -np.inf)

    def next(self, arrays: Arrays, rows: int) -> tuple[NDArray[np.int64] | None, NDArray[np.float64] | None]:
        """[rows] number of the episode and time of the next rows, each None without such a column."""
        episode = None if self.episode is None else self._numbers(self.episode, arrays[self.episode])
        time = None
        if self.time is not None:
            time = _seconds(self.source, self.time, arrays[self.time], self.rows, self.problems)
            self._order(np.zeros(rows, np.int64) if episode is None else episode, time)
        self.rows += rows
        return episode, time

    def _numbers(self, name: str, ids: NDArray[Any]) -> NDArray[np.int64]:
        if ids.ndim != 1:
            raise ValueError(
                f"{self.source}: '{name}' has shape {ids.shape}; an episode's id is one value per row"
            )
        changes = np.flatnonzero(np.asarray(ids[1:] != ids[:-1], dtype=bool)) + 1
        starts, known = np.append(0, changes), self.reading.ids
        numbers = np.empty(len(starts), np.int64)
        for i, row in enumerate(starts.tolist()):
            key = ids[row] if ids[row] == ids[row] else None
            if key in known and (i or self.rows) and not (i == 0 and key == self.last_id):
                self._returns(name, key, self.rows + row)
            numbers[i] = known.setdefault(key, len(known))
            self.last_id = key
        return np.repeat(numbers, np.diff(np.append(starts, len(ids))))

    def _returns(self, name: str, key: Any, row: int) -> None:
        if key is None:  # rows without an id need not belong together
            message = (
                f"{self.source}: '{name}' is missing again at row {row}, after other episodes; fill it in"
            )
            self.problems.setdefault(name, BadValue(message, name, row))
        self.reading.returns += 1
        self.reading.returned = self.reading.returned or (key, row)

    def _order(self, episode: NDArray[np.int64], time: NDArray[np.float64]) -> None:
        """Record rows that are earlier than the row above, and when episodes start."""
        before_episode, before = np.append(self.last[0], episode[:-1]), np.append(self.last[1], time[:-1])
        late = np.flatnonzero((episode == before_episode) & (time < before))
        if len(late):
            self.reading.late += len(late)
            if self.reading.first_late is None:
                self.reading.first_late = self.rows + int(late[0])
        starts = self.reading.starts
        starts += [np.inf] * (int(episode.max()) + 1 - len(starts))
        runs = np.flatnonzero(np.append(True, episode[1:] != episode[:-1]))
        for number, earliest in zip(
            episode[runs].tolist(), np.fmin.reduceat(time, runs).tolist(), strict=True
        ):
            starts[number] = min(starts[number], earliest)
        self.last = (int(episode[-1]), float(time[-1]))


def _seconds(
    source: str, name: str, values: NDArray[Any], start: int, problems: Problems
) -> NDArray[np.float64]:
    """Times as numbers: those of the column, or seconds since 1970 of its dates."""
    if values.dtype.kind in "biuf":
        seconds: NDArray[np.float64] = values.astype(np.float64)
    elif values.dtype.kind == "M":
        seconds = values.astype("datetime64[us]").astype(np.int64) / 1e6
        seconds[np.isnat(values)] = np.nan
    else:
        seconds = np.array([_moment(value) for value in values.tolist()], np.float64)
    if seconds.ndim != 1:
        raise ValueError(f"{source}: '{name}' has shape {values.shape}; a time is one value per row")
    bad = np.flatnonzero(~np.isfinite(seconds))
    if len(bad):
        row = start + int(bad[0])
        message = f"{source}: '{name}' holds '{values[bad[0]]}' at row {row}, which is not a time"
        message += "; write numbers or ISO dates"
        problems.setdefault(name, BadValue(message, name, row))
    return seconds


def _moment(value: Any) -> float:
    """A number or a date in seconds; NaN for anything else."""
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    try:
        return float(value)
    except (TypeError, ValueError):
        return _moment(_date(value.strip())) if isinstance(value, str) else np.nan


def _date(text: str) -> datetime | None:
    """A date with or without a time of day; without a zone it is taken as UTC."""
    with suppress(ValueError):
        return datetime.fromisoformat(text)
    for form in DATES:
        with suppress(ValueError):
            return datetime.strptime(text, form)
    return None


def text_error(source: str, name: str, value: str, row: int) -> BadValue:
    """The error for text or categories in a numeric column."""
    way_out = "encode categories with --categorical, or leave the column out"
    if re.fullmatch(r"[-+]?[\d.]*,\d+", value.strip()):
        way_out = "for a decimal comma give --decimal ,"
    return BadValue(
        f"{source}: column '{name}' holds '{value[:60]}' at row {row}, which is not a number; {way_out}",
        name,
        row,
    )
