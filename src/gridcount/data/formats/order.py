"""Rows by episode and time, for logs of any size: sorted runs on disk, merged one range of keys at a time."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gridcount import transitions
from gridcount.data.formats.log import FLAGS, KEYS, NUMBERS, Log, Reading
from gridcount.transitions import Bool

STEP = 128  # rows of a run between the keys that are kept in memory
Records = NDArray[np.void]  # rows with the fields of a log and those of KEY
KEY = ("rank", "moment", "row")  # the order: episode, time, place in the file


def in_order(log: Log, folder: Path) -> Iterator[Log]:
    """The rows of a table by episode, then by time where it is known, then as in the file.

    With times, episodes are ordered by the time they start, then by their id, whatever the order of the file.
    """
    ranks = episode_ranks(log.reading, by_time=log.time is not None) if log.reading is not None else None
    dtype = _record_type(log)
    size = max(1, transitions.CHUNK_BYTES // dtype.itemsize)  # rows of a run
    with tempfile.TemporaryFile(dir=folder) as file:
        runs = _Runs(file, dtype)
        for start in range(0, len(log), size):
            runs.add(_sorted(_records(log, slice(start, min(start + size, len(log))), dtype, ranks)))
        for records in runs.merged(max(1, size // 4)):  # several copies of these are in memory
            yield _to_log(log, records)


def episode_ranks(reading: Reading, by_time: bool) -> NDArray[np.int64]:
    """The place of each episode, by its number."""
    count = max(len(reading.ids), 1)
    if not by_time:
        return np.arange(count)
    keys = [_by_value(key) for key in reading.ids] or [(0, 0, "")]
    order = sorted(range(count), key=lambda number: (reading.starts[number], keys[number]))
    ranks = np.empty(count, np.int64)
    ranks[order] = np.arange(count)
    return ranks


def _by_value(key: Any) -> tuple[int, Any, str]:
    """Numbers by value, then text, then a missing id."""
    if key is None:
        return 2, 0, ""
    return (0, key, "") if isinstance(key, int | float | Decimal | np.number) else (1, 0, str(key))


def _record_type(log: Log) -> np.dtype[Any]:
    fields: list[Any] = [("rank", np.int64), ("moment", np.float64), ("row", np.int64)]
    for name in (*NUMBERS, *FLAGS):
        if (column := getattr(log, name)) is not None:
            fields.append((name, column.dtype, column.shape[1:]))
    return np.dtype(fields)


def _records(log: Log, part: slice, dtype: np.dtype[Any], ranks: Any) -> Records:
    records = np.zeros(part.stop - part.start, dtype)
    records["row"] = np.arange(part.start, part.stop)
    if log.episode is not None:
        records["rank"] = ranks[log.episode[part]]
    if log.time is not None:
        records["moment"] = log.time[part]
    for name in dtype.names or ():
        if name not in KEY:
            records[name] = getattr(log, name)[part]
    return records


def _to_log(log: Log, records: Records) -> Log:
    columns: dict[str, Any] = {
        name: np.ascontiguousarray(records[name]) for name in records.dtype.names or () if name not in KEY
    }
    keys = zip(KEYS, KEY[:2], strict=True)
    columns |= {
        name: np.ascontiguousarray(records[key]) for name, key in keys if getattr(log, name) is not None
    }
    return replace(log, **columns)


def _sorted(records: Records) -> Records:
    ordered: Records = records[np.lexsort([records[name] for name in reversed(KEY)])]
    return ordered


class _Runs:
    """Sorted runs of records, one after the other in a file, with every `STEP`th key of each in memory."""

    def __init__(self, file: IO[bytes], dtype: np.dtype[Any]) -> None:
        self.file, self.dtype = file, dtype
        self.firsts: list[int] = []  # the first record of each run in the file,
        self.lengths: list[int] = []  # its number of records,
        self.keys: list[Records] = []  # and its kept keys

    def add(self, records: Records) -> None:
        """Append a sorted run."""
        self.firsts.append(sum(self.lengths))
        self.lengths.append(len(records))
        self.keys.append(records[list(KEY)][::STEP].copy())
        self.file.write(records.view(np.uint8).data)

    def merged(self, size: int) -> Iterator[Records]:
        """All records in order, about `size` at a time."""
        kept = _sorted(np.concatenate(self.keys))
        done = [0] * len(self.lengths)
        for bound in [*kept[max(size // STEP, 1) :: max(size // STEP, 1)], None]:
            ends = [self._end(run, bound) for run in range(len(done))]
            parts = [self._read(run, done[run], end) for run, end in enumerate(ends) if end > done[run]]
            done = ends
            if parts:
                yield _sorted(np.concatenate(parts))

    def _end(self, run: int, bound: Any) -> int:
        """How many records of a run lie before a key; all where it is None."""
        if bound is None:
            return self.lengths[run]
        block = int(np.count_nonzero(_before(self.keys[run], bound)))
        if not block:
            return 0
        start, stop = (block - 1) * STEP, min(block * STEP, self.lengths[run])
        return start + int(np.count_nonzero(_before(self._read(run, start, stop), bound)))

    def _read(self, run: int, start: int, stop: int) -> Records:
        records = np.empty(stop - start, self.dtype)
        self.file.seek((self.firsts[run] + start) * self.dtype.itemsize)
        self.file.readinto(records.view(np.uint8).data)  # type: ignore[attr-defined]
        return records


def _before(records: Records, bound: Any) -> Bool:
    """[records] whether each comes before a key."""
    rank, moment, row = (records[name] for name in KEY)
    later: Bool = (moment < bound["moment"]) | ((moment == bound["moment"]) & (row < bound["row"]))
    before: Bool = (rank < bound["rank"]) | ((rank == bound["rank"]) & later)
    return before
