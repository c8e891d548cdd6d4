"""Tables by where they come from: a file, many files, a query of files or a database."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from gridcount.data.formats.columns import Columns
from gridcount.data.formats.csv_dialect import find_dialect, with_decimal
from gridcount.data.formats.csv_table import csv_pieces
from gridcount.data.formats.databases import is_postgres, open_postgres, open_sqlite, validate_no_password
from gridcount.data.formats.log import Arrays, Kinds, Log, OpenTable, Problems
from gridcount.data.formats.npz import open_npz
from gridcount.data.formats.parquet_table import open_parquet, open_query
from gridcount.data.formats.rows import read_table, text_error

TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
DATABASES = (".db", ".sqlite", ".sqlite3")
SUFFIXES = (*TEXT, ".parquet", ".npz", *DATABASES)
FILE = "file"  # of many files: the column that holds each row's file


def table_suffix(path: str | Path) -> str:
    """The ending that says how a table is written; '' if it is not one."""
    return next((suffix for suffix in SUFFIXES if str(path).lower().endswith(suffix)), "")


def is_glob(name: str) -> bool:
    """Whether a name is a pattern of files."""
    return any(mark in name for mark in "*?[") and not is_postgres(name) and not Path(name).exists()


def is_table(name: str) -> bool:
    """Whether a name is a table: a file, a folder or a pattern of files, or a database."""
    if is_postgres(name) or is_glob(name):
        return True
    return (
        bool(find_parts(name)) if Path(name).is_dir() else Path(name).is_file() and bool(table_suffix(name))
    )


def find_parts(name: str) -> list[Path]:
    """The files of a table, also in folders below a folder, in the order of their names with numbers by
    value."""
    path = Path(name)
    if is_glob(name):
        root = Path(path.anchor or ".")
        found = list(root.glob(str(path.relative_to(path.anchor) if path.anchor else path)))
    else:
        found = list(path.rglob("*")) if path.is_dir() else [path]
        if any(
            file.suffix.lower() in (".hdf5", ".h5") for file in found
        ):  # a folder of datasets, not of parts
            return []
    tables = (file for file in found if table_suffix(file) and file.is_file())
    return sorted((file for file in tables if not _is_hidden(file, path)), key=_by_number)


def table_pieces(name: str | Path, columns: Columns | None = None) -> Iterator[Log]:
    """The log in a table, its columns found by `columns` or common names; `tidy` puts rows in order."""
    columns = columns or Columns()
    with open_table(str(name), columns) as table:
        yield from read_table(str(name), table, columns)


def open_table(name: str, columns: Columns) -> AbstractContextManager[OpenTable]:
    """A table of one or of many files, of a query or of a database, while it is open."""
    if is_postgres(name):
        validate_no_password(name)
        return open_postgres(name, columns.sql)
    path, parts = Path(name), find_parts(name)
    if not parts or not all(part.is_file() for part in parts):
        raise FileNotFoundError(f"{name}: there is no such file; check the path")
    _validate_kinds(name, parts, columns.sql)
    for part in parts:
        _validate_inside(path, part)
    if columns.sql is not None and table_suffix(parts[0]) not in DATABASES:
        return open_query(name, columns.sql, parts, path if path.is_dir() else _folder(name))
    if path.is_file():
        return _open_file(path, columns)
    return _open_parts(name, parts, columns)


@contextmanager
def _open_parts(name: str, parts: list[Path], columns: Columns) -> Iterator[OpenTable]:
    """Files one after the other; they must have the same columns."""
    with _open_file(parts[0], columns) as first:
        names = first.names
    several = f"{len(parts):,} files were read as one table, from {parts[0].name} to {parts[-1].name}"
    notes = [several] if len(parts) > 1 else []
    written: dict[str, tuple[str, str]] = {}  # decimal mark -> the first file with it, and a number in it

    def pieces(wanted: list[str], kinds: Kinds, problems: Problems) -> Iterator[Arrays]:
        for part in parts:
            with _open_file(part, columns) as table:
                if lacking := [each for each in wanted if each not in (*table.names, FILE)]:
                    raise ValueError(
                        f"{part}: has no column '{lacking[0]}', which {parts[0].name} has;"
                        " write all files with the same columns"
                    )
                own = [each for each in wanted if each in table.names]
                found = table.read(own, kinds, problems)[1]
                clear = {mark: cell for mark, cell in table.marks.items() if mark in (",", ".")}
                for mark, cell in (clear or table.marks).items():
                    written.setdefault(mark, (part.name, cell))
                mixed = _mixed_decimals(name, written) if columns.decimal is None else ()
                notes.extend(note for note in (*table.notes, *mixed) if note not in notes)
                for arrays in found:
                    yield {FILE: np.full(len(arrays[own[0]]), str(part)), **arrays}

    def read(wanted: list[str], kinds: Kinds, problems: Problems) -> tuple[int, Iterator[Arrays]]:
        return 0, pieces(wanted, kinds, problems)

    yield OpenTable(names if FILE in names else [*names, FILE], read, notes)


def _mixed_decimals(name: str, written: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """What to say of files with decimal commas and files with decimal points; raises ValueError where one of
    them can be read in two ways."""
    if "," not in written:
        return
    comma, with_comma = written[","]
    if ".?" in written:
        file, cell = written[".?"]
        raise ValueError(
            f"{name}: {comma} has decimal commas ('{with_comma}'), so '{cell}' in {file} can be"
            " read with a decimal point or with a point between thousands; write all files alike, or say"
            " which with --decimal , or --decimal ."
        )
    if "." in written:
        point, with_point = written["."]
        yield (
            f"files are written differently: {comma} with a decimal comma ('{with_comma}'), {point} with a"
            f" decimal point ('{with_point}'); each was read in its own way"
        )


def _open_file(path: Path, columns: Columns) -> AbstractContextManager[OpenTable]:
    openers: dict[str, Callable[[Path], AbstractContextManager[OpenTable]]] = {
        ".npz": open_npz,
        ".parquet": open_parquet,
        **{suffix: partial(open_sqlite, sql=columns.sql) for suffix in DATABASES},
        **{suffix: partial(_open_text, columns=columns) for suffix in TEXT},
    }
    return openers[table_suffix(path)](path)


@contextmanager
def _open_text(path: Path, columns: Columns) -> Iterator[OpenTable]:
    dialect = find_dialect(path, columns.encoding)
    notes: list[str] = []
    marks: dict[str, str] = {}
    if columns.encoding is None and dialect.encoding not in ("utf-8", "utf-8-sig"):
        notes.append(f"the text was read as {dialect.encoding}; name another with --encoding")
    if dialect.units:
        notes.append(f"the line under the header was read as units: {', '.join(filter(None, dialect.units))}")

    def read(names: list[str], kinds: Kinds, problems: Problems) -> tuple[int, Iterator[Arrays]]:
        def report_text(name: str, value: str, row: int) -> None:
            if name not in problems:
                problems[name] = text_error(str(path), name, value, row)

        numbers = [name for name in names if name not in kinds]
        written, found, seen = with_decimal(path, dialect, numbers, columns.decimal)
        notes.extend(found)
        marks.update(seen)
        return 0, csv_pieces(path, written, names, kinds, report_text)

    yield OpenTable(dialect.names, read, notes, marks)


def _folder(name: str) -> Path:
    """The folder that a file lies in, or all files of a pattern."""
    whole = Path(os.path.abspath(name)).parts
    fixed = next((i for i, part in enumerate(whole) if is_glob(part)), len(whole) - 1)
    return Path(*whole[:fixed])


def _validate_kinds(name: str, parts: list[Path], sql: str | None) -> None:
    """Raise ValueError for files of different kinds, or of a kind that cannot be queried."""
    kinds = {table_suffix(part).removesuffix(".gz") for part in parts}
    if len(kinds) > 1:
        listed = ", ".join(sorted(kinds))
        raise ValueError(
            f"{name}: holds tables of different kinds ({listed}); name one with a pattern such as '*.csv'"
        )
    if sql is not None and kinds == {".npz"}:
        raise ValueError(f"{name}: --sql reads text, Parquet and databases, but not .npz; leave --sql out")


def _validate_inside(path: Path, part: Path) -> None:
    """Raise ValueError for a link that leads out of the folder that was named."""
    if path.is_dir() and not part.resolve().is_relative_to(path.resolve()):
        raise ValueError(f"{part}: is a link that leads out of {path}; copy the file, or name it by itself")


def _is_hidden(file: Path, folder: Path) -> bool:
    """Whether a file or a folder on the way to it begins with a point or an underscore."""
    below = file.relative_to(folder).parts if file != folder and file.is_relative_to(folder) else ()
    return any(part.startswith((".", "_")) for part in below)


def _by_number(path: Path) -> list[tuple[int, str]]:
    """part-2 before part-10."""
    return [(int(text) if text.isdigit() else -1, text) for text in re.split(r"(\d+)", str(path))]
