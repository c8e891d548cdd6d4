"""Parquet and Arrow files, read in a child process: Arrow can abort on a damaged file, which becomes an error
message here.

The process is `arrow_child`. It reads each file in a fork of its own, is kept for the next file, and ends
with this process.
"""

import atexit
import json
import os
import signal
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gridcount.children import module_command, module_environment
from gridcount.files.memory import memory_limit

Query = dict[str, Any]  # of DuckDB: sql, files, folder, temporary
FRAME = struct.Struct("<QQ")  # of an answer: bytes of JSON, bytes of an Arrow stream that follow
LEAST_MEMORY = 2**30  # bytes that a reader may always take


class _Reader:
    """A running reader process; requests are lines of JSON."""

    def __init__(self) -> None:
        limit = max(memory_limit() // 2, LEAST_MEMORY)
        self._process = subprocess.Popen(
            module_command("gridcount.data.formats.arrow_child", str(limit)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that it can be ended with its forks, and Ctrl-C reaches neither
            env=module_environment(ARROW_DEFAULT_MEMORY_POOL="system"),
        )
        self.usable = True  # False while an answer is incomplete, and after the process ended

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, **request: Any) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # `answer` reports the error
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()

    def answer(self) -> tuple[dict[str, Any], bytes]:
        """The next part of its answer; ValueError holds its error, or how it ended."""
        facts, body = FRAME.unpack(self._read(FRAME.size))
        header: dict[str, Any] = json.loads(self._read(facts))
        if "error" in header:
            self.usable = True  # this was the end of the answer
            raise ValueError(header["error"])
        return header, self._read(body)

    def _read(self, count: int) -> bytes:
        assert self._process.stdout is not None
        found = self._process.stdout.read(count)
        if len(found) == count:
            return found
        self.usable, code = False, self._process.wait()
        number = code - 128 if code > 128 else -code
        how = signal.Signals(number).name if number in set(signal.Signals) else f"exit code {code}"
        raise ValueError(f"the Arrow library crashed on it with {how}")

    def stop(self) -> None:
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        else:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()


_IDLE: dict[int, list[_Reader]] = {}  # by process id: a fork must not use inherited readers


@atexit.register
def _stop_idle() -> None:
    for reader in _IDLE.pop(os.getpid(), []):
        reader.stop()


class ArrowFile:
    """An open Parquet or Arrow file."""

    def __init__(self, path: Path, what: str, reader: _Reader, query: Query | None) -> None:
        self._path, self._what, self._reader = path, what, reader
        reader.ask(open=os.path.abspath(path) if query is None else query | {"working": os.getcwd()})
        try:
            facts, _ = reader.answer()
        except ValueError as error:
            if query is not None:
                raise ValueError(f"{path}: DuckDB says: {error}; check --sql") from error
            raise ValueError(
                f"{path}: not a readable {what} file ({error}); write or get it again"
            ) from error
        self.names: list[str] = facts["names"]
        self.rows: int = facts["rows"]
        self.row_bytes: int = facts["row_bytes"]  # approximate, when unpacked

    def batches(self, rows: int, columns: list[str] | None = None, overlap: int = 0) -> Iterator[Any]:
        """Arrow tables of some rows each, of an Arrow file with the first `overlap` rows that follow."""
        import pyarrow as arrow

        self._reader.usable = False
        self._reader.ask(columns=columns, rows=rows, overlap=overlap)
        while True:
            try:
                header, body = self._reader.answer()
            except ValueError as error:
                if "malloc of size" in str(error):
                    raise ValueError(
                        f"{self._path}: needs more memory than this process may fill ({error});"
                        " give it more, or write fewer columns"
                    ) from error
                way_out = "check --sql and the files" if self._what == "query" else "get the file again"
                raise ValueError(
                    f"{self._path}: truncated or damaged {self._what} ({error}); {way_out}"
                ) from error
            if "end" in header:
                self._reader.usable = True
                return
            yield arrow.ipc.open_stream(body).read_all()


@contextmanager
def open_arrow(path: Path, what: str = "Parquet", query: Query | None = None) -> Iterator[ArrowFile]:
    """A Parquet or Arrow file, or a query of files, while it is read; ValueError names a damaged file."""
    if query is None and not path.is_file():  # reading a pipe would block
        raise FileNotFoundError(f"{path}: there is no such file; check the path")
    idle = _IDLE.setdefault(os.getpid(), [])
    reader = idle.pop() if idle else _Reader()
    if not reader.alive:
        reader.stop()
        reader = _Reader()
    try:
        yield ArrowFile(path, what, reader, query)
    finally:
        if reader.usable:
            reader.ask(close=True)
            idle.append(reader)
        else:
            reader.stop()
