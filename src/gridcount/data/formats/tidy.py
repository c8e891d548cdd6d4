"""A table's rows put in order: episodes together, by time, categories as numbers, missing values removed."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcount.categories import dimension_name
from gridcount.data.formats.columns import Columns
from gridcount.data.formats.log import Finish, Gather, Log, Reading, Remark
from gridcount.data.formats.missing import without_missing
from gridcount.data.formats.order import episode_ranks, in_order
from gridcount.files.cache import make_cache_folder
from gridcount.transitions import Bool, chunks

GAP = 1.5  # times the usual step above which two rows have a gap between them


def tidy(columns: Columns) -> Finish:
    """What is left to do with the log of a table once all its rows are read."""

    def finish(log: Log, gather: Gather) -> Log:
        reading = log.reading
        if reading is not None and (reading.returns or reading.late or _is_shuffled(log, reading)):
            log = replace(log, remarks=_moved(log, reading, columns))
            if not log.problems:  # they are reported first, with the rows of the file
                log = gather(in_order(log, make_cache_folder("spool")))
        log = _with_ends(log)
        if log.problems:
            return log
        if log.time is not None:
            log = replace(log, remarks=(*log.remarks, *_uneven(log, columns.time or "time")))
        if reading is not None and reading.categories:
            log = gather(_one_hot(log))
        if columns.missing is not None and columns.missing != "error":
            log = gather(without_missing(log, columns.missing))
        return log

    return finish


def _is_shuffled(log: Log, reading: Reading) -> bool:
    """Whether whole episodes are out of order: which of them are held out depends on their order."""
    return log.time is not None and bool((np.diff(episode_ranks(reading, by_time=True)) < 0).any())


def _moved(log: Log, reading: Reading, columns: Columns) -> tuple[Remark, ...]:
    """What is out of order."""
    remarks = list(log.remarks)
    if reading.returned is not None:
        key, row = reading.returned
        name = columns.episode or "episode"
        problem = (
            f"rows of different episodes are interleaved, {reading.returns:,} times; they are put together"
        )
        advice = f"'{name}' returns to {key!s} after other episodes"
        advice += "; if an id is used again for another episode, make ids unique"
        remarks.append(Remark(problem, advice, name, row))
    if reading.late:
        problem = f"{reading.late:,} rows are earlier than the row above; they are sorted"
        advice = "rows of other messages are counted after sorting"
        remarks.append(Remark(problem, advice, columns.time, reading.first_late))
    return tuple(remarks)


def _with_ends(log: Log) -> Log:
    """The log with its episodes ended where their number changes."""
    if log.episode is None:
        return log
    truncated = log.truncated.copy()
    for part in chunks(len(log), 8):
        episode = log.episode[part.start : part.stop + 1]
        truncated[part.start : part.start + len(episode) - 1] |= episode[1:] != episode[:-1]
    truncated[-1] = True
    return replace(log, truncated=truncated)


def _uneven(log: Log, name: str) -> Iterator[Remark]:
    """Rows of the same time, and gaps: steps in time that are longer than usual."""
    steps = _Steps(log)
    same = steps.where(lambda step: step == 0)
    if same is not None:
        count, row, _ = same
        advice = "remove the copies, or add a column that tells them apart to the episode's id"
        yield Remark(f"{count:,} rows have the same time as the row above", advice, name, row)
    usual = steps.usual()
    gaps = steps.where(lambda step: step > GAP * usual) if usual > 0 else None
    if gaps is not None:
        count, row, longest = gaps
        problem = f"{count:,} gaps: the usual step is {usual:.6g}, and the longest is {longest:.6g}"
        yield Remark(
            problem, "mark where an episode should end at a gap (--truncated), or ignore it", name, row
        )


class _Steps:
    """Steps in time between rows of the same episode."""

    def __init__(self, log: Log) -> None:
        self.log, self.end = log, log.end

    def __iter__(self) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """The first row of some steps, and the steps, NaN across episodes."""
        assert self.log.time is not None
        for part in chunks(len(self.log), 16):
            time = self.log.time[part.start : part.stop + 1]
            step = np.diff(time)
            yield part.start, np.where(self.end[part.start : part.start + len(step)], np.nan, step)

    def usual(self) -> float:
        """The median step of the first million or so."""
        found: list[NDArray[np.float64]] = []
        for _, step in self:
            found.append(step[step > 0])
            if sum(map(len, found)) > 2**20:
                break
        steps = np.concatenate(found)
        return float(np.median(steps)) if len(steps) else 0.0

    def where(self, trait: Callable[[NDArray[np.float64]], Bool]) -> tuple[int, int, float] | None:
        """How many steps are such, the row after the first, and the longest; None if there are none."""
        count, first, longest = 0, -1, 0.0
        for start, step in self:
            with np.errstate(invalid="ignore"):
                hits = np.flatnonzero(trait(step))
            if len(hits):
                first = start + int(hits[0]) + 1 if not count else first
                count, longest = count + len(hits), max(longest, float(step[hits].max()))
        return (count, first, longest) if count else None


def _one_hot(log: Log) -> Iterator[Log]:
    """The log in pieces with one 0/1 observation per category, in the order of their names."""
    assert log.reading is not None
    names: list[str] = []
    plans: list[
        NDArray[np.float64] | None
    ] = []  # per observation: the category numbers in order; None: not a category
    for d, name in enumerate(log.observation_names):
        column, known = log.reading.categories.get(d, ("", {}))
        ordered = sorted(known, key=_by_value)
        names += [dimension_name(column, each) for each in ordered] if column else [name]
        plans.append(np.array([known[each] for each in ordered]) if column else None)

    def expanded(values: NDArray[np.float32]) -> NDArray[np.float32]:
        parts = []
        for d, numbers in enumerate(plans):
            column = values[:, d : d + 1]
            gap = np.where(np.isnan(column), np.float32(np.nan), np.float32(0))
            parts.append(column if numbers is None else (column == numbers) + gap)
        return np.concatenate(parts, axis=1, dtype=np.float32)

    width = 4 * len(names) + 8 * log.action.shape[1] + 16
    for part in chunks(len(log), 2 * width):
        columns: dict[str, Any] = {
            name: None if getattr(log, name) is None else getattr(log, name)[part]
            for name in ("action", "reward", "terminated", "truncated", "episode", "time")
        }
        after = None if log.next_observation is None else expanded(log.next_observation[part])
        yield replace(
            log,
            **columns,
            observation=expanded(log.observation[part]),
            next_observation=after,
            observation_names=tuple(names),
            next_observation_names=tuple(f"next {name}" for name in names),
            notes=(*log.notes, *_told(log)),
        )


def _told(log: Log) -> Iterator[str]:
    assert log.reading is not None
    for column, known in log.reading.categories.values():
        yield f"'{column}' was encoded as {len(known)} categories: {', '.join(sorted(known, key=_by_value))}"


def _by_value(category: str) -> tuple[bool, float, str]:
    """Numbers by value, then text."""
    try:
        return False, float(category), category
    except ValueError:
        return True, 0.0, category
