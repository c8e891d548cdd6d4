"""Time and memory of training, one line of `times.jsonl` per evaluation."""

import json
from pathlib import Path

import msgspec

from gridcount.files import open_plain, read_lines, write_whole
from gridcount.files.records import Count

TIMES = "times.jsonl"


class Times(msgspec.Struct, frozen=True):
    """Time and memory of training until an evaluation."""

    updates: Count
    seconds: float
    gigabytes: float | None = None  # peak memory of the process


def read_times(directory: Path) -> list[Times]:
    """All lines; empty if there is no such file."""
    path = directory / TIMES
    return (
        read_lines(path, Times, "delete the file: it only records how long the run took")
        if path.exists()
        else []
    )


def keep_times(directory: Path, done: int) -> list[Times]:
    """Truncate the file to the evaluations up to the update from which a run resumes."""
    kept = [each for each in read_times(directory) if each.updates <= done]
    write_whole(directory / TIMES, "".join(map(_line, kept)), durable=False)
    return kept


def add_times(directory: Path, times: Times) -> None:
    """Append a line."""
    with open_plain(directory / TIMES, "ab") as file:
        file.write(_line(times).encode())


def _line(times: Times) -> str:
    return json.dumps(msgspec.to_builtins(times)) + "\n"
