"""Text tables with NumPy's parser; columns with empty, true/false or text values are parsed by value."""

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from gridcount import transitions
from gridcount.data.formats.csv_dialect import WHITESPACE, Dialect, is_number, open_text, read_rows, spaced
from gridcount.data.formats.log import Kinds

BUFFER = 2**17  # characters read at once
LONGEST_LINE = 2**26  # characters; a packed file can unpack to a line of any length
TRUTH = {
    "true": 1.0,
    "false": 0.0,
    "yes": 1.0,
    "no": 0.0,
    "": np.nan,
    "na": np.nan,
    "null": np.nan,
    "none": np.nan,
}
EMPTY = {"": np.nan}  # among texts, the only one that is missing

ReportText = Callable[[str, str, int], None]  # receives a column, a value that is not a number, and its row


def csv_pieces(
    path: Path, dialect: Dialect, names: list[str], kinds: Kinds, report_text: ReportText
) -> Iterator[dict[str, NDArray[Any]]]:
    """Columns of numbers by name, some rows at a time; empty is NaN. Columns in `kinds` may be text."""
    with open_text(path, dialect.encoding) as file:
        start, header = 0, 1 + bool(dialect.units)
        for lines in _blocks(path, file):
            if dialect.delimiter == WHITESPACE:
                lines = spaced(lines)
            while header and lines:  # the header, and the units under it
                header -= bool(lines.pop(0).strip())
            columns = _columns(path, lines, dialect, names, kinds, start, report_text)
            if columns:
                yield columns
                start += len(columns[names[0]])


def _blocks(path: Path, file: TextIO) -> Iterator[list[str]]:
    """Whole lines, some megabytes at a time; a quoted cell may span several lines."""
    rest = ""
    while text := _read(file, max(transitions.CHUNK_BYTES // 4, 1)):
        if text.endswith("\r"):
            text += file.read(1)
        rest += text
        if len(rest) > max(LONGEST_LINE, transitions.CHUNK_BYTES):
            raise ValueError(
                f"{path}: a line or a quoted cell has more than {LONGEST_LINE:,} characters; is a quote"
                " missing?"
            )
        if not rest.endswith(("\n", "\r")) and "\n" not in text and "\r" not in text:
            continue
        lines = io.StringIO(rest, newline="").readlines()
        whole = len(lines) - (not lines[-1].endswith(("\n", "\r")))
        even = np.flatnonzero(np.cumsum([line.count('"') for line in lines[:whole]]) % 2 == 0)
        cut = int(even[-1]) + 1 if len(even) else 0  # after the last line that ends outside of quotes
        rest = "".join(lines[cut:])
        if cut:
            yield lines[:cut]
    if rest:
        yield io.StringIO(rest, newline="").readlines()


def _read(file: TextIO, count: int) -> str:
    """At most so many characters; asking for all at once would take the memory of all, whatever the file
    holds."""
    parts = []
    while count > 0 and (text := file.read(min(count, BUFFER))):
        parts.append(text)
        count -= len(text)
    return "".join(parts)


def _columns(
    path: Path,
    lines: list[str],
    dialect: Dialect,
    names: list[str],
    kinds: Kinds,
    start: int,
    report_text: ReportText,
) -> dict[str, NDArray[Any]]:
    header, delimiter = dialect.names, dialect.delimiter
    first = next(read_rows(lines, delimiter), [])
    if not first:
        return {}
    # NumPy parses columns that start with a number; the others (true, false, names) are read value by value
    plain = [
        name
        for name in names
        if len(first) == len(header)
        and kinds.get(name) != "label"
        and (is_number(value := dialect.plain(first[header.index(name)])) or not value)
    ]
    table = _parse(lines, dialect, [header.index(name) for name in plain]) if plain else None
    if table is None:
        plain = []
    columns = {name: table[:, i] for i, name in enumerate(plain)} if table is not None else {}
    plain = [name for name in plain if kinds.get(name) != "id" or _is_exact(columns[name])]
    wordy = [name for name in names if name not in plain]
    cells = []
    if wordy or _looks_uneven(lines, delimiter, len(header)):  # because NumPy's parser ignores extra values
        cells = _cells(path, lines, delimiter, [header.index(name) for name in wordy], len(header), start)
    values = zip(wordy, zip(*cells, strict=True) if wordy else (), strict=True)
    return columns | {
        name: text_column(name, column, kinds.get(name, "number"), start, report_text, dialect.plain)
        for name, column in values
    }


def _parse(lines: list[str], dialect: Dialect, wanted: list[int]) -> NDArray[np.float64] | None:
    """The wanted columns if every value is a number or empty; else None."""
    if dialect.decimal == ",":
        if dialect.delimiter == "," or any("." in line for line in lines):
            return None  # thousands, dates or quoted numbers: value by value
        lines = [line.replace(",", ".") for line in lines]
    for attempt in (lines, _filled(lines, dialect.delimiter)):
        try:
            return np.loadtxt(
                attempt, delimiter=dialect.delimiter, usecols=wanted, ndmin=2, quotechar='"', comments=None
            )
        except (ValueError, IndexError):
            continue
    return None


def _filled(lines: Iterable[str], delimiter: str) -> Iterator[str]:
    """Lines with 'nan' in their empty cells, because NumPy's parser does not accept empty values."""
    mark = re.escape(delimiter)
    empty = re.compile(rf"(?:(?<=^)|(?<={mark}))[ ]*(?={mark}|\r?\n|$)")
    return (empty.sub("nan", line) if line.strip() else line for line in lines)


def _looks_uneven(lines: list[str], delimiter: str, width: int) -> bool:
    """Whether a line may hold more or fewer values than the header has names; quoted values are not parsed
    here."""
    return any(line.count(delimiter) != width - 1 or '"' in line for line in lines if line.strip("\r\n"))


def _cells(
    path: Path, lines: list[str], delimiter: str, wanted: list[int], width: int, start: int
) -> list[tuple[str, ...]]:
    cells: list[tuple[str, ...]] = []
    for line in read_rows(lines, delimiter):
        if len(line) != width:
            row = start + len(cells)
            raise ValueError(
                f"{path}: row {row} has {len(line)} values, the header has {width} names; repair that line"
            )
        cells.append(tuple(line[i] for i in wanted))
    return cells


def text_column(
    name: str,
    values: tuple[str, ...],
    kind: str,
    start: int,
    report_text: ReportText,
    plain: Callable[[str], str] = str,
) -> NDArray[Any]:
    """A column from the text of its cells: numbers, or the text itself where its kind allows that."""
    if kind == "label":
        return np.array(values, dtype=object)
    numbers = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            numbers[row] = float(plain(value))
        except ValueError:
            word = value.strip().lower()
            numbers[row] = TRUTH.get(word, np.nan)
            if word not in TRUTH and kind != "number":
                return np.array([_number_or_text(value, EMPTY) for value in values], dtype=object)
            if word not in TRUTH:
                report_text(name, value, start + row)
    if kind == "id" and not _is_exact(numbers):
        return np.array([_number_or_text(value, TRUTH) for value in values], dtype=object)
    return numbers


def _is_exact(numbers: NDArray[np.float64]) -> bool:
    """Whether double precision is exact: integers below 2^53, and missing values."""
    return bool((np.isnan(numbers) | ((np.abs(numbers) < 2**53) & (numbers == np.rint(numbers)))).all())


def _number_or_text(value: str, words: Mapping[str, float] = MappingProxyType({})) -> Decimal | float | str:
    """A number with all its digits, which compares and hashes like the equal float or integer."""
    return Decimal(value) if is_number(value) else words.get(value.strip().lower(), value)
