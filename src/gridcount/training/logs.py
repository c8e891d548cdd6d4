"""A run's metrics as JSON lines and TensorBoard event files, truncated to the checkpoint on resume.

The event format is simple: length-prefixed records with checksums. Writing it here avoids a dependency on
TensorFlow's protocol buffers, and a resumed run can append to the same file.
"""

import hashlib
import json
import math
import os
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from gridcount.files import convert_record, on_full_disk, open_plain, read_lines
from gridcount.files.records import Count, Real, Whole

Row = dict[str, Any]


METRICS = "metrics.jsonl"


def headline(row: Mapping[str, Any]) -> tuple[str, float | None]:
    """What a row is judged by, and its value: the score, or the return where there is no score; None where
    it was not scored."""
    name = "score" if row.get("score") is not None else "return"
    return name, row.get(name)


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    """How long each log file was at a checkpoint, and the SHA-256 of that much of `metrics.jsonl`; old
    checkpoints have no digest.

    Event files contain times, so their digests would differ between equal runs; they can be rebuilt anyway.
    """

    sizes: dict[str, Count]
    digests: dict[str, str] = {}


class MetricLog:
    """A run's metrics: `metrics.jsonl`, and one TensorBoard event file per seed."""

    def __init__(self, directory: Path, seeds: tuple[int, ...], marks: Marks):
        """Open the files, each truncated to its size at the checkpoint.

        A damaged event file is rebuilt from `metrics.jsonl`; `rebuilt` lists those.
        """
        self._files: dict[str, _LogFile] = {}
        self.rebuilt: list[str] = []
        self._files[METRICS] = _LogFile(directory / METRICS, read_marked(directory, METRICS, marks) or b"")
        rows = read_rows(directory)
        for seed in seeds:
            name = event_file(seed)
            kept = read_marked(directory, name, marks)
            self._files[name] = _LogFile(directory / name, kept or b"")
            if kept is None and rows:
                self.rebuilt.append(name)
            if not kept:
                self._files[name].write(_record(_event(time.time(), version="brain.Event:2")))
                for row in rows:
                    if row["seed"] == seed:
                        self._write_event(row)

    def write(self, row: Row) -> None:
        """Append one row of one seed at one number of updates."""
        line = {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in row.items()
        }
        self._files[METRICS].write((json.dumps(line) + "\n").encode())
        self._write_event(row)

    def _write_event(self, row: Row) -> None:
        scalars = {
            key: float(value)
            for key, value in row.items()
            if key not in ("seed", "updates") and value is not None
        }
        self._files[event_file(row["seed"])].write(
            _record(_event(time.time(), step=row["updates"], scalars=scalars))
        )

    def flush(self) -> None:
        """Flush the files, so that other processes can read them."""
        for file in self._files.values():
            file.flush()

    def marks(self) -> Marks:
        """Flush everything to disk and return the size and digest of each file, for the checkpoint."""
        for file in self._files.values():
            file.sync()
        sizes = {name: file.size for name, file in self._files.items()}
        return Marks(sizes=sizes, digests={METRICS: self._files[METRICS].digest})

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()


class _LogFile:
    """A file that grows, with the digest of what it holds."""

    def __init__(self, path: Path, kept: bytes):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self.size, self._sha256 = path, len(kept), hashlib.sha256(kept)
        self._file = open_plain(path, "ab")
        self._file.truncate(self.size)

    @property
    def digest(self) -> str:
        return self._sha256.hexdigest()

    def write(self, content: bytes) -> None:
        with on_full_disk(self._path):
            self._file.write(content)
        self._sha256.update(content)
        self.size += len(content)

    def flush(self) -> None:
        with on_full_disk(self._path):
            self._file.flush()

    def sync(self) -> None:
        self.flush()
        with on_full_disk(self._path):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        with suppress(OSError):  # the error of a full disk was raised when it was written
            self._file.close()


def read_marked(directory: Path, name: str, marks: Marks) -> bytes | None:
    """The part of a log file that a checkpoint covers; None if the file does not hold it."""
    path = directory / name
    if name not in marks.sizes or not path.exists():
        return None
    with open_plain(path, "rb") as file:
        content = file.read(marks.sizes[name])
    same = hashlib.sha256(content).hexdigest() == marks.digests.get(name, hashlib.sha256(content).hexdigest())
    return content if len(content) == marks.sizes[name] and same else None


def event_file(seed: int) -> str:
    """Where a seed's TensorBoard events go."""
    return f"tensorboard/seed{seed}/events.out.tfevents.gridcount"


def read_rows(directory: Path) -> list[Row]:
    """All rows of a run's metrics; an incomplete last line is left out."""
    path = directory / METRICS
    if not path.exists():
        raise FileNotFoundError(f"{directory}: not a run directory, it holds no {METRICS}")
    way_out = "restore the file as the run wrote it, or leave the run out"
    rows: list[Row] = []
    for number, row in enumerate(read_lines(path, dict[str, Whole | Real | None], way_out), start=1):
        convert_record(row, _RowKeys, f"{path}, line {number}", way_out)
        rows.append(row)
    return rows


class _RowKeys(msgspec.Struct):
    """The fields of every row."""

    updates: Count
    seed: Count


def _record(data: bytes) -> bytes:
    """TFRecord framing: length, its checksum, data, its checksum."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", _masked_crc(length)) + data + struct.pack("<I", _masked_crc(data))


def _event(
    wall_time: float, step: int = 0, scalars: Mapping[str, float] | None = None, version: str = ""
) -> bytes:
    """A TensorBoard Event message: wall_time = 1, step = 2, file_version = 3, summary = 5."""
    event = b"\x09" + struct.pack("<d", wall_time) + b"\x10" + _varint(step)
    if version:
        event += b"\x1a" + _sized(version.encode())
    if scalars:
        values = (
            b"\x0a" + _sized(tag.encode()) + b"\x15" + struct.pack("<f", value)
            for tag, value in scalars.items()
        )
        event += b"\x2a" + _sized(b"".join(b"\x0a" + _sized(value) for value in values))
    return event


def _sized(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _crc_table() -> list[int]:
    """CRC-32C (Castagnoli), reflected."""
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_CRC_TABLE = _crc_table()


def _masked_crc(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
