"""Tables in SQLite and PostgreSQL, read by a query, some rows at a time, and never written."""

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

import numpy as np
from numpy.typing import NDArray

from gridcount.data.formats.csv_table import text_column
from gridcount.data.formats.log import Arrays, Kinds, OpenTable, Problems
from gridcount.data.formats.rows import text_error
from gridcount.transitions import chunk_rows

POSTGRES = ("postgresql://", "postgres://")
POSTGRES_TABLES = (
    "select table_name from information_schema.tables where table_schema = any(current_schemas(false))"
)
VALUE_BYTES = 100  # of a value as a Python object, about
READ = {  # what a query may do in SQLite: read, call functions and recurse
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
Rows = list[tuple[Any, ...]]


def is_postgres(name: str) -> bool:
    """Whether a name is the address of a PostgreSQL database."""
    return name.startswith(POSTGRES)


def validate_no_password(address: str) -> None:
    """Raise ValueError for an address with a password, which runs and lists of processes would show.

    It is read as libpq reads it: a password may hold '#' and '?', which end a host in other addresses.
    """
    if not is_postgres(address):
        return
    rest = address.partition("://")[2]
    user = re.match(r"[^/@]*@", rest)
    options = parse_qs(rest.partition("?")[2])
    if (user and ":" in user[0]) or any("password" in key.lower() for key in options):
        raise ValueError(
            "the address holds a password, which would be recorded; leave it out, and give it in the"
            " environment"
            " variable PGPASSWORD or in the file ~/.pgpass"
        )


@contextmanager
def open_sqlite(path: Path, sql: str | None) -> Iterator[OpenTable]:
    """A query of a SQLite file, or its only table."""
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")  # functions in its views must be harmless
            connection.execute("PRAGMA cell_size_check = ON")
            connection.text_factory = lambda text: text.decode("utf-8", "replace")
            query = sql or _only_table(str(path), _sqlite_tables(connection))
            connection.set_authorizer(
                lambda action, *_: sqlite3.SQLITE_OK if action in READ else sqlite3.SQLITE_DENY
            )
            cursor = connection.execute(query)
            yield _table(str(path), [each[0] for each in cursor.description or ()], cursor.fetchmany)
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise ValueError(
            f"{path}: SQLite says: {error}; check --sql, which may only read, and the file"
        ) from error


@contextmanager
def open_postgres(address: str, sql: str | None) -> Iterator[OpenTable]:
    """A query of a PostgreSQL database, or its only table; the server sends some rows at a time."""
    try:
        import psycopg
    except ImportError as error:
        raise ValueError(
            f"{address}: PostgreSQL needs psycopg ({error}). Install it with: pip install 'gridcount[sql]'"
        ) from error
    try:
        with psycopg.connect(address) as connection:
            connection.read_only = True
            found = connection.execute(POSTGRES_TABLES).fetchall()
            query = sql or _only_table(address, [name for (name,) in found])
            with connection.cursor("gridcount") as cursor:  # a name makes it a cursor of the server
                cursor.execute(query.encode())
                yield _table(address, [each.name for each in cursor.description or ()], cursor.fetchmany)
    except psycopg.Error as error:
        raise ValueError(
            f"{address}: PostgreSQL says: {str(error).strip()}; check the address and --sql"
        ) from error


def _sqlite_tables(connection: sqlite3.Connection) -> list[str]:
    query = "select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'"
    return [name for (name,) in connection.execute(query)]


def _only_table(source: str, tables: list[str]) -> str:
    """The query of the only table."""
    if len(tables) != 1:
        raise ValueError(
            f'{source}: has the tables {", ".join(tables) or "none"}; choose with --sql "select * from TABLE"'
        )
    escaped = tables[0].replace('"', '""')
    return f'select * from "{escaped}"'


def _table(source: str, names: list[str], fetch: Callable[[int], Rows]) -> OpenTable:
    if not names:
        raise ValueError(f"{source}: --sql gives no table; it must be a SELECT")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{source}: two columns are called '{twice}'; give each its own name, with AS")

    def read(wanted: list[str], kinds: Kinds, problems: Problems) -> tuple[int, Iterator[Arrays]]:
        return 0, _pieces(source, names, fetch, wanted, kinds, problems)

    return OpenTable(names, read, [])


def _pieces(
    source: str,
    names: list[str],
    fetch: Callable[[int], Rows],
    wanted: list[str],
    kinds: Kinds,
    problems: Problems,
) -> Iterator[Arrays]:
    size, start = chunk_rows(VALUE_BYTES * len(names)), 0

    def report_text(name: str, value: str, row: int) -> None:
        problems.setdefault(name, text_error(source, name, value, row))

    while rows := fetch(size):
        columns = dict(zip(names, zip(*rows, strict=True), strict=True))
        yield {
            name: _values(name, columns[name], kinds.get(name, "number"), start, report_text)
            for name in wanted
        }
        start += len(rows)


def _values(
    name: str, values: tuple[Any, ...], kind: str, start: int, report_text: Callable[[str, str, int], None]
) -> NDArray[Any]:
    """A column of Python objects as numbers, or as it is where its kind allows text."""
    if kind != "number":
        return np.array([np.nan if value is None else value for value in values], dtype=object)
    try:
        return np.array([np.nan if value is None else value for value in values], np.float64)
    except (TypeError, ValueError, OverflowError):
        texts = tuple("" if value is None else str(value) for value in values)
        return text_column(name, texts, kind, start, report_text)
