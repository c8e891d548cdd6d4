"""How a text table is written: encoding, delimiter, decimal mark, thousands separators and row of units."""

import csv
import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO

DELIMITERS = ",;\t|"
WHITESPACE = " "  # columns that are aligned with spaces
SAMPLE = 2**18  # characters that are looked at
MARKS = {  # byte-order marks
    b"\xef\xbb\xbf": "utf-8-sig",
    b"\xff\xfe\x00\x00": "utf-32",
    b"\x00\x00\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
GAPS = " '_\u00a0\u202f"  # between groups of three digits, besides the point or the comma
_EXPONENT = r"(?:[eE][-+]?\d+)?"
_NUMBER = re.compile(rf"[-+]?[\d.,{GAPS}]*\d[\d.,{GAPS}]*{_EXPONENT}")
_GROUPED = {  # decimal mark -> a number whose thousands are separated
    mark: re.compile(
        rf"[-+]?[1-9]\d{{0,2}}(?:([{re.escape(other)}{GAPS}])\d{{3}})(?:\1\d{{3}})*"
        rf"(?:{re.escape(mark)}\d*)?{_EXPONENT}"
    )
    for mark, other in ((",", "."), (".", ","))
}


MARKED = (",", ".", ",?", ".?")  # decimal marks; with '?' they may separate thousands instead


class Dialect(NamedTuple):
    """How a text table is written."""

    names: list[str]  # of its columns
    encoding: str
    delimiter: str
    units: tuple[str, ...] = ()  # of the line under the header, if it holds units
    decimal: str = "."
    grouped: bool = False  # whether thousands are separated

    def plain(self, value: str) -> str:
        """A number as Python writes it; with a decimal comma, other points than between thousands are
        errors."""
        if self.grouped and _GROUPED[self.decimal].fullmatch(value.strip()):
            value = re.sub(rf"[{GAPS}{'.' if self.decimal == ',' else ','}]", "", value.strip())
        elif self.decimal == "," and "." in value:
            return "not a number"
        return value.replace(",", ".") if self.decimal == "," else value


@contextmanager
def open_text(path: Path, encoding: str) -> Iterator[TextIO]:
    """A text file, or a packed one, while it is read; errors name the file."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opened(path, "rt", encoding=encoding, newline="") as file:
            yield file
    except LookupError as error:
        raise ValueError(
            f"{path}: --encoding {encoding} is not known; use utf-8, latin-1, utf-16 or another"
        ) from error
    except UnicodeError as error:
        where = f" at byte {error.start}" if isinstance(error, UnicodeDecodeError) else ""
        reason = error.reason if isinstance(error, UnicodeDecodeError) else error
        raise ValueError(
            f"{path}: not {encoding} text ({reason}{where}); name its encoding, such as --encoding latin-1"
        ) from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: truncated or damaged gzip ({error}); get the file again") from error
    except csv.Error as error:
        raise ValueError(f"{path}: not readable as CSV ({error}); write or get it again") from error


def find_dialect(path: Path, encoding: str | None = None) -> Dialect:
    """The names and the way of writing, as the first lines show them."""
    chosen = encoding or _encoding(path)
    with open_text(path, chosen) as file:
        lines = _lines(file)
    names, delimiter = _header(path, lines[0] if lines else "")
    rows = [row for row in read_rows(lines[1:], delimiter) if any(row)][:2]
    return Dialect(names, chosen, delimiter, _units(rows))


def with_decimal(
    path: Path, dialect: Dialect, numbers: list[str], decimal: str | None
) -> tuple[Dialect, list[str], dict[str, str]]:
    """The dialect with its decimal mark, as the cells of these columns show it, what to tell the user, and a
    cell with each mark."""
    if decimal not in (None, ".", ","):
        raise ValueError(f"{path}: --decimal is '{decimal}'; it must be ',' or '.'")
    with open_text(path, dialect.encoding) as file:
        lines = _lines(file)
    columns = [dialect.names.index(name) for name in numbers]
    rows = read_rows(lines[1 + bool(dialect.units) :], dialect.delimiter)
    cells: list[str] = []
    for row in rows:
        cells += [row[i].strip() for i in columns if i < len(row)]
    found = {cell: _mark(cell) for cell in cells if _NUMBER.fullmatch(cell)}
    seen = {mark: next((cell for cell in found if found[cell] == mark), None) for mark in MARKED}
    if decimal is None and seen[","] and seen["."]:
        raise ValueError(
            f"{path}: '{seen[',']}' has a decimal comma and '{seen['.']}' a decimal point;"
            " write all numbers alike, or give --decimal"
        )
    if decimal is None and seen[",?"] and not seen[","] and not seen["."]:
        raise ValueError(
            f"{path}: '{seen[',?']}' can be read with a decimal comma or with a comma between thousands;"
            " say which with --decimal , or --decimal ."
        )
    mark = decimal or ("," if seen[","] else ".")
    grouped = next((cell for cell in found if _GROUPED[mark].fullmatch(cell)), None)
    notes = [f"numbers such as '{seen[',']}' were read with a decimal comma"] if seen[","] else []
    if grouped is not None:
        notes.append(f"numbers such as '{grouped}' were read with separated thousands")
    known = {mark: cell for mark, cell in seen.items() if cell is not None}
    return dialect._replace(decimal=mark, grouped=grouped is not None or decimal is not None), notes, known


def read_rows(lines: list[str], delimiter: str) -> Iterator[list[str]]:
    """The cells of lines; blank lines are left out."""
    return filter(None, csv.reader(lines, delimiter=delimiter))


def spaced(lines: list[str]) -> list[str]:
    """Lines of columns that are aligned with spaces, with one space between cells."""
    return [" ".join(line.split()) + "\n" for line in lines if not line.isspace()]


def is_number(text: str) -> bool:
    """Whether Python reads it as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _mark(cell: str) -> str:
    """The decimal mark of a number, with '?' if it may separate thousands instead; '' if there is none."""
    body = re.split("[eE]", cell.lstrip("+-"))[0]
    last = max(body.rfind(","), body.rfind("."))
    if last < 0:
        return ""
    mark, other = body[last], "," if body[last] == "." else "."
    groups = _GROUPED[other].fullmatch(cell)
    if body.count(mark) > 1:
        return other if groups else ""
    return mark if not groups or other in body else mark + "?"


def _encoding(path: Path) -> str:
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opened(path, "rb") as file:
            start: bytes = file.read(SAMPLE)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: truncated or damaged gzip ({error}); get the file again") from error
    for mark, name in MARKS.items():
        if start.startswith(mark):
            return name
    try:
        start[: -1 if len(start) == SAMPLE else None].decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(start) - 4 and b"\0" not in start:
            return "latin-1"
    return "utf-8"


def _lines(file: TextIO) -> list[str]:
    """The first whole lines; the last one may be incomplete, and is left out if there are others."""
    text = file.read(SAMPLE)
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$", text)
    if len(text) == SAMPLE and len(lines) > 1:
        lines.pop()
    delimited = not lines or any(mark in lines[0] for mark in DELIMITERS)
    return lines if delimited else spaced(lines)


def _header(path: Path, line: str) -> tuple[list[str], str]:
    delimiter = max(DELIMITERS, key=line.count) if any(mark in line for mark in DELIMITERS) else WHITESPACE
    names = [name.strip() for name in next(csv.reader([line], delimiter=delimiter), [])]
    if not any(names):
        raise ValueError(
            f"{path}: the file is empty; expected a line of column names and then one line per step"
        )
    if "\0" in line:
        raise ValueError(
            f"{path}: not readable as CSV (its first line holds NUL bytes); check that it is a text file,"
            " or give --encoding utf-16"
        )
    if all(is_number(name) for name in names):
        raise ValueError(
            f"{path}: its first line holds numbers, not column names; add a line of names above it"
        )
    for i, name in enumerate(names):
        if name and name in names[:i]:
            raise ValueError(f"{path}: two columns are called '{name}'; give each its own name")
    return names, delimiter


def _units(rows: list[list[str]]) -> tuple[str, ...]:
    """The first row if it holds units: no number in it, and a text above a number."""
    if len(rows) < 2 or len(rows[0]) != len(rows[1]):
        return ()
    first, second = ([cell.strip() for cell in row] for row in rows)
    words = {"true", "false", "yes", "no", "na", "null", "none", "nan"}
    if any(_NUMBER.fullmatch(cell) or is_number(cell) or cell.lower() in words for cell in first):
        return ()
    above = any(cell and _NUMBER.fullmatch(below) for cell, below in zip(first, second, strict=True))
    return tuple(first) if above else ()  # otherwise a row whose numbers are missing
