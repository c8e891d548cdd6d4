"""A process that reads Parquet and Arrow files for `arrow_files`; users do not start it.

Arrow aborts the whole process on some damaged files. Here only this process ends, and the command prints a
message. It imports nothing heavy besides Arrow, so that it starts in a third of a second.
"""

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Any, BinaryIO

import pyarrow as arrow
import pyarrow.parquet as parquet

from gridcount.data.formats.arrow_files import FRAME

MAGIC = b"ARROW1"  # of Arrow's own files; anything else is taken for Parquet


class ParquetSource:
    """A Parquet file, read page by page."""

    def __init__(self, path: str) -> None:
        self._file = parquet.ParquetFile(path, buffer_size=2**16, pre_buffer=False)

    def facts(self) -> dict[str, Any]:
        """Names and sizes, as the file states them."""
        metadata = self._file.metadata
        row_bytes = 1
        if metadata.num_row_groups:
            group = metadata.row_group(0)
            values = sum(group.column(i).num_values for i in range(group.num_columns))
            # lists count by their elements; Arrow holds a batch several times
            row_bytes = int(32 * values / max(group.num_rows, 1))
        return {
            "names": list(self._file.schema_arrow.names),
            "rows": metadata.num_rows,
            "row_bytes": row_bytes,
        }

    def batches(self, columns: list[str] | None, rows: int, overlap: int) -> Iterator[arrow.RecordBatch]:
        """Columns, some rows at a time."""
        yield from self._file.iter_batches(rows, columns=columns, use_threads=False)


class ArrowSource:
    """A file in Arrow's own format, mapped into memory."""

    def __init__(self, path: str) -> None:
        with arrow.memory_map(path) as file:
            self._table = arrow.ipc.open_file(file).read_all()
        self._table.validate(full=True)

    def facts(self) -> dict[str, Any]:
        """Names and sizes, as the file states them."""
        rows = len(self._table)
        return {
            "names": list(self._table.schema.names),
            "rows": rows,
            "row_bytes": self._table.nbytes // max(rows, 1),
        }

    def batches(self, columns: list[str] | None, rows: int, overlap: int) -> Iterator[arrow.RecordBatch]:
        """Columns, some rows at a time and the first `overlap` of those that follow."""
        table = self._table if columns is None else self._table.select(columns)
        for start in range(0, max(len(table) - overlap, 0), rows):
            yield from table.slice(start, rows + overlap).combine_chunks().to_batches()


class QuerySource:
    """A query of files by DuckDB, which reads only one folder and writes only temporary files."""

    def __init__(self, query: dict[str, Any], memory: int) -> None:
        import duckdb

        os.chdir(query["working"])
        settings = {
            "memory_limit": f"{memory // 2**20}MB",
            "threads": 1,
            "temp_directory": query["temporary"],
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
        }
        self._connection = duckdb.connect(config=settings)
        reader = "read_parquet" if query["files"][0].lower().endswith(".parquet") else "read_csv"
        files = ", ".join(_quoted(os.path.abspath(file)) for file in query["files"])
        self._connection.execute(f"set allowed_directories = [{_quoted(os.path.abspath(query['folder']))}]")
        self._connection.execute("set enable_external_access = false")
        self._connection.execute("set lock_configuration = true")
        kinds = [each.type for each in self._connection.extract_statements(query["sql"])]
        if kinds != [duckdb.StatementType.SELECT]:
            raise ValueError("the text must be one SELECT")
        self._log = f"with log as (from {reader}([{files}]))"
        self._sql = query["sql"].strip().rstrip(";")
        self._names = list(self._select("*").columns)

    def _select(self, columns: str) -> Any:
        return self._connection.sql(f"{self._log} select {columns} from ({self._sql}\n) as answer")

    def facts(self) -> dict[str, Any]:
        """Names; how many rows there are is not known."""
        return {"names": self._names, "rows": 0, "row_bytes": 32 * len(self._names)}

    def batches(self, columns: list[str] | None, rows: int, overlap: int) -> Iterator[arrow.RecordBatch]:
        """Columns, some rows at a time."""
        quoted = ['"' + name.replace('"', '""') + '"' for name in columns or self._names]
        yield from self._select(", ".join(quoted)).to_arrow_reader(rows)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def main(limit: int) -> None:
    """Serve one file after the other, each in a fork, so that a damaged file cannot affect this process."""
    _limit_memory(limit)
    requests = io.FileIO(0, closefd=False)  # unbuffered: the fork reads its own lines
    while line := requests.readline():
        if not hasattr(os, "fork"):
            _serve(line, requests, limit)
        elif (fork := os.fork()) == 0:
            _serve(line, requests, limit)
            os._exit(0)
        elif status := os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]):
            sys.exit(128 - status if status < 0 else status)


def _serve(line: bytes, requests: IO[bytes], limit: int) -> None:
    """Open a file and answer requests about it, each a line of JSON, until a request closes it."""
    answers = sys.stdout.buffer
    source: ParquetSource | ArrowSource | QuerySource | None = None
    while "close" not in (request := json.loads(line or b'{"close": true}')):
        try:
            if "open" in request:
                opened = request["open"]
                source = _open(opened) if isinstance(opened, str) else QuerySource(opened, limit // 4)
                _send(answers, source.facts())
            elif source is not None:
                for batch in source.batches(**request):
                    batch.validate(full=True)
                    sink = arrow.BufferOutputStream()
                    with arrow.ipc.new_stream(sink, batch.schema) as writer:
                        writer.write_batch(batch)
                    _send(answers, {}, sink.getvalue())
                _send(answers, {"end": True})
        except Exception as error:  # any error concerns the file, and the parent process reports it
            _send(answers, {"error": str(error) or type(error).__name__})
        line = requests.readline()


def _open(path: str) -> ParquetSource | ArrowSource:
    with open(path, "rb") as file:
        kind = ArrowSource if file.read(len(MAGIC)) == MAGIC else ParquetSource
    return kind(path)


def _send(answers: BinaryIO, facts: dict[str, Any], body: Any = b"") -> None:
    text = json.dumps(facts).encode()
    answers.write(FRAME.pack(len(text), len(body)) + text)
    answers.write(body)
    answers.flush()


def _limit_memory(limit: int) -> None:
    """Limit the memory of this process: a damaged file may request any amount."""
    with suppress(ImportError, ValueError, OSError):  # not every system supports it
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        main(int(sys.argv[1]))
