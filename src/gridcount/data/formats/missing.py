"""Missing values: what each way to deal with them would cost, and the log without them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridcount.data.formats.log import KEYS, NUMBERS, Log
from gridcount.transitions import Bool, Float, chunks


class Cost(NamedTuple):
    """What a log has missing, and what each choice would cost."""

    rows: int  # with a missing value
    episodes: int  # with such a row,
    episode_rows: int  # and all rows of these
    values: int  # missing
    unfilled: int  # rows with a missing value that has no value before it in its episode

    def in_words(self, rows: int, episodes: int) -> str:
        """The choices, for a log of so many rows and episodes."""
        first = f", and leaves out {self.unfilled:,} rows that have none before" if self.unfilled else ""
        return (
            f"choose with --missing: drop-rows leaves out {self.rows:,} of {rows:,} rows and cuts their"
            " episodes"
            f" there; drop-episodes leaves out {self.episodes:,} of {episodes:,} episodes"
            f" ({self.episode_rows:,} rows);"
            f" carry-forward repeats the value before, for {self.values:,} values{first}"
        )


def cost(log: Log) -> Cost:
    """What is missing; reads every row once."""
    values, gaps = 0, np.zeros(len(log), bool)
    unfilled = np.zeros(len(log), bool)
    for part, filled in _filled(log):
        raw = [getattr(log, name)[part] for name in filled]
        values += sum(int(np.count_nonzero(np.isnan(column))) for column in raw)
        gaps[part], unfilled[part] = _any(raw), _any(list(filled.values()))
    hit, lengths = _episodes(log, gaps)
    return Cost(
        int(gaps.sum()), int(hit.sum()), int(lengths[hit].sum()), values, int(np.count_nonzero(unfilled))
    )


def missing_advice(log: Log) -> str:
    """What to do about values that are missing or infinite."""
    found = cost(log)
    if not found.values:
        return "a value is infinite: remove or repair its row"
    return found.in_words(len(log), int(np.count_nonzero(log.end)))


def without_missing(log: Log, how: str) -> Iterator[Log]:
    """The log in pieces without missing values; no transition spans rows that are left out."""
    drop = np.zeros(len(log), bool)
    for part, filled in _filled(log):
        columns = (
            list(filled.values()) if how == "carry-forward" else [getattr(log, name)[part] for name in filled]
        )
        drop[part] = _any(columns)
    if how == "drop-episodes":
        hit, lengths = _episodes(log, drop)
        drop = np.repeat(hit, lengths)
    truncated = log.truncated.copy()
    truncated[:-1] |= drop[1:] & ~drop[:-1] & ~log.end[:-1]
    if drop.all():
        raise ValueError(
            f"{log.source}: --missing {how} leaves no row, because values are missing everywhere; leave out"
            " the column that is missing most"
        )
    note = _note(how, int(drop.sum()), len(log))
    for part, filled in _filled(log):
        keep = ~drop[part]
        if keep.any():
            rows: dict[str, Any] = {
                name: getattr(log, name)[part][keep] for name in KEYS if getattr(log, name) is not None
            }
            rows |= {
                name: (column if how == "carry-forward" else getattr(log, name)[part])[keep]
                for name, column in filled.items()
            }
            rows |= {"terminated": log.terminated[part][keep], "truncated": truncated[part][keep]}
            yield replace(log, **rows, notes=(*log.notes, note))


def _note(how: str, dropped: int, rows: int) -> str:
    left_out = f"left out {dropped:,} of {rows:,} rows"
    if how == "carry-forward":
        rest = f", and {left_out}, which have no value before them" if dropped else ""
        return f"--missing carry-forward repeated the value before each missing one{rest}"
    return f"--missing {how} {left_out}"


def _filled(log: Log) -> Iterator[tuple[slice, dict[str, Float]]]:
    """Rows, some at a time, with the value before in place of each missing one; NaN where there is none."""
    names = [name for name in NUMBERS if getattr(log, name) is not None]
    end, before = log.end, dict[str, Float]()
    for part in chunks(len(log), 12 * log.observation.shape[1] + 8 * log.action.shape[1]):
        continues = part.start > 0 and not end[part.start - 1]
        starts = np.append(not continues, end[part.start : part.stop - 1])
        filled: dict[str, Float] = {}
        for name in names:
            column = np.asarray(getattr(log, name)[part])
            if name == "next_observation":  # the next row repeats this row's values where its own are missing
                filled[name] = np.where(np.isnan(column), filled["observation"], column)
                continue
            filled[name] = _carried(column, starts, before[name] if continues else None)
            before[name] = filled[name][-1]
        yield part, filled


def _carried(column: Float, starts: Bool, before: Float | None) -> Float:
    """A column with the last value of its episode in place of missing ones; `before` is the row above it."""
    if not np.isnan(column).any():
        return column
    table = column[:, None] if column.ndim == 1 else column
    if before is not None:
        table, starts = np.concatenate([np.atleast_1d(before)[None], table]), np.append(True, starts)
    rows = np.arange(len(table))[:, None]
    first = np.maximum.accumulate(np.where(starts, rows[:, 0], 0))[:, None]  # of each row's episode
    source = np.maximum(np.maximum.accumulate(np.where(np.isnan(table), -1, rows), axis=0), first)
    carried = np.take_along_axis(table, source, axis=0)[0 if before is None else 1 :]
    return carried.reshape(column.shape)


def _any(columns: list[Float]) -> Bool:
    """[rows] whether a value is missing."""
    gaps: Bool = np.any([np.isnan(column).reshape(len(column), -1).any(axis=1) for column in columns], axis=0)
    return gaps


def _episodes(log: Log, gaps: Bool) -> tuple[Bool, NDArray[np.int64]]:
    """[episodes] whether each has such a row, and its length."""
    ends = np.flatnonzero(log.end) + 1
    starts = np.append(0, ends[:-1])
    return np.logical_or.reduceat(gaps, starts), ends - starts
