"""Parquet files and queries, whose Arrow columns become arrays."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcount.data.formats.arrow_files import ArrowFile, open_arrow
from gridcount.data.formats.log import Arrays, BadValue, Kinds, OpenTable, Problems
from gridcount.data.formats.rows import text_error
from gridcount.files.cache import make_cache_folder
from gridcount.transitions import chunk_rows


@contextmanager
def open_parquet(path: Path) -> Iterator[OpenTable]:
    """A Parquet file as a table."""
    try:
        import pyarrow.parquet  # noqa: F401  which the process that reads it needs
    except ImportError as error:
        raise ValueError(
            f"{path}: Parquet needs pyarrow ({error}). Install it with: pip install 'gridcount[tables]'"
        ) from error
    with open_arrow(path) as file:
        yield _table(path, file)


@contextmanager
def open_query(source: str, sql: str, files: list[Path], folder: Path) -> Iterator[OpenTable]:
    """A query of files as a table; it reads nothing outside of the folder, and writes nothing."""
    for package in ("pyarrow", "duckdb"):
        if find_spec(package) is None:
            raise ValueError(
                f"{source}: --sql over files needs {package}. Install it with: pip install 'gridcount[sql]'"
            )
    with tempfile.TemporaryDirectory(prefix="query-", dir=make_cache_folder("spool")) as temporary:
        query = {"sql": sql, "files": [str(file) for file in files], "folder": str(folder)}
        with open_arrow(Path(source), "query", query | {"temporary": temporary}) as file:
            yield _table(Path(source), file)


def _table(path: Path, file: ArrowFile) -> OpenTable:
    def read(names: list[str], kinds: Kinds, problems: Problems) -> tuple[int, Iterator[Arrays]]:
        if twice := next((name for name in names if file.names.count(name) > 1), None):
            raise ValueError(f"{path}: two columns are called '{twice}'; give each its own name")
        tables = file.batches(chunk_rows(file.row_bytes), names)
        return file.rows, _parquet_pieces(path, tables, names, kinds, problems)

    return OpenTable(file.names, read, [])


def _parquet_pieces(
    path: Path, tables: Iterator[Any], names: list[str], kinds: Kinds, problems: Problems
) -> Iterator[Arrays]:
    shapes: dict[str, tuple[int, ...]] = {}
    for table in tables:
        arrays = {}
        for name in names:
            try:
                arrays[name] = from_arrow(str(path), name, table.column(name), name in kinds)
            except BadValue as problem:
                problems.setdefault(name, problem)
                arrays[name] = np.full(len(table), np.nan, np.float32)
            if shapes.setdefault(name, arrays[name].shape[1:]) != arrays[name].shape[1:]:
                raise _uneven(str(path), name)
        yield arrays


def from_arrow(source: str, name: str, column: Any, text_is_fine: bool = False) -> NDArray[Any]:
    """An Arrow column as [rows] or, from a list column, as [rows, dims]; a null is NaN."""
    import pyarrow as arrow

    kind, column = column.type, column.combine_chunks()
    if arrow.types.is_dictionary(kind) and text_is_fine:
        kind, column = kind.value_type, column.dictionary_decode()
    if arrow.types.is_list(kind) or arrow.types.is_large_list(kind) or arrow.types.is_fixed_size_list(kind):
        return _from_lists(source, name, column)
    if text_is_fine and (arrow.types.is_timestamp(kind) or arrow.types.is_date(kind)):
        column = column.cast(arrow.timestamp("us", getattr(kind, "tz", None)), safe=False).cast(arrow.int64())
        seconds: NDArray[Any] = column.cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False) / 1e6
        return seconds
    if text_is_fine and (
        arrow.types.is_decimal(kind)
        or (column.null_count and (arrow.types.is_integer(kind) or arrow.types.is_boolean(kind)))
    ):
        return np.array(
            [np.nan if value is None else value for value in column.to_pylist()], dtype=object
        )  # exact beyond 2^53 too
    if (
        arrow.types.is_floating(kind)
        or arrow.types.is_integer(kind)
        or arrow.types.is_boolean(kind)
        or arrow.types.is_decimal(kind)
    ):
        column = (
            column.cast(arrow.float64(), safe=False)
            if column.null_count or arrow.types.is_decimal(kind)
            else column
        )
        values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return values
    if text_is_fine:
        texts = [np.nan if value is None else str(value) for value in column.to_pylist()]
        return np.array(texts, dtype=object if column.null_count else str)
    value = column[0].as_py() if len(column) else ""
    raise text_error(source, name, str(value), 0)


def _from_lists(source: str, name: str, column: Any) -> NDArray[Any]:
    """An Arrow column of lists as [rows, dims]; ValueError where their lengths differ."""
    import pyarrow as arrow
    import pyarrow.compute as compute

    lengths = np.unique(compute.list_value_length(column).to_numpy(zero_copy_only=False))
    if len(lengths) != 1 or np.isnan(lengths[0]):
        raise _uneven(source, name)
    flat = from_arrow(source, name, arrow.chunked_array([compute.list_flatten(column)]))
    return flat.reshape(len(column), int(lengths[0]))


def _uneven(source: str, name: str) -> ValueError:
    return ValueError(
        f"{source}: '{name}' holds lists of different lengths or none; every row needs the same dimensions"
    )
