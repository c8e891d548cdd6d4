"""What a run writes down: metrics as JSON lines and as TensorBoard event files, cut back to a checkpoint on resume.

The event format is two length-prefixed, checksummed records deep; writing it here saves a dependency on TensorFlow's protocol
buffers, and lets a resumed run go on in the same file.
"""

import json
import math
import os
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

Row = dict[str, Any]


class MetricLog:
    """A run's metrics: `metrics.jsonl`, and one TensorBoard event file per seed."""

    def __init__(self, directory: Path, seeds: tuple[int, ...], sizes: Mapping[str, int]):
        """Open the files, each cut back to the size it had at the checkpoint (nothing after it happened)."""
        self._files: dict[str, IO[bytes]] = {}
        for name in ["metrics.jsonl", *(event_file(seed) for seed in seeds)]:
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            os.truncate(path, min(sizes.get(name, 0), path.stat().st_size))
            self._files[name] = path.open("ab")
            if path.stat().st_size == 0 and name != "metrics.jsonl":
                self._files[name].write(_record(_event(time.time(), version="brain.Event:2")))

    def write(self, row: Row) -> None:
        """Append one row of one seed at one number of updates."""
        line = {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}
        self._files["metrics.jsonl"].write((json.dumps(line) + "\n").encode())
        scalars = {key: float(value) for key, value in row.items() if key not in ("seed", "updates") and value is not None}
        self._files[event_file(row["seed"])].write(_record(_event(time.time(), step=row["updates"], scalars=scalars)))

    def flush(self) -> None:
        """Let others read what was written so far."""
        for file in self._files.values():
            file.flush()

    def sizes(self) -> dict[str, int]:
        """Put everything on the disk and tell each file's size, for the checkpoint to remember."""
        self.flush()
        for file in self._files.values():
            os.fsync(file.fileno())
        return {name: file.tell() for name, file in self._files.items()}

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()


def event_file(seed: int) -> str:
    """Where a seed's TensorBoard events go."""
    return f"tensorboard/seed{seed}/events.out.tfevents.gridcount"


def read_rows(directory: Path) -> list[Row]:
    """All rows of a run's metrics; a last line that a live run is still writing, or a killed one never finished, is left out."""
    path = directory / "metrics.jsonl"
    if not path.exists():
        raise FileNotFoundError(f"{directory}: not a run directory, it holds no metrics.jsonl")
    *lines, _ = path.read_bytes().split(b"\n")  # what follows the last end of a line is not whole
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(dict(json.loads(line)))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}, line {number}: not a row of metrics ({error}); resume the run to write it anew") from error
    return rows


def _record(data: bytes) -> bytes:
    """TFRecord framing: length, its checksum, data, its checksum."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", _masked_crc(length)) + data + struct.pack("<I", _masked_crc(data))


def _event(wall_time: float, step: int = 0, scalars: Mapping[str, float] | None = None, version: str = "") -> bytes:
    """A TensorBoard Event message: wall_time = 1, step = 2, file_version = 3, summary = 5."""
    event = b"\x09" + struct.pack("<d", wall_time) + b"\x10" + _varint(step)
    if version:
        event += b"\x1a" + _sized(version.encode())
    if scalars:
        values = (b"\x0a" + _sized(tag.encode()) + b"\x15" + struct.pack("<f", value) for tag, value in scalars.items())
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
