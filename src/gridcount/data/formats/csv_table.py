"""CSV files with NumPy's parser; columns with empty, true/false or text values are parsed value by value."""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from gridcount import transitions

DELIMITERS = ",;\t|"
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

ReportText = Callable[[str, str, int], None]  # receives a column, a value that is not a number, and its row


def csv_names(path: Path) -> list[str]:
    """The header's names; the delimiter is the most frequent of , ; tab | in the header."""
    with _open(path) as file:
        return _header(path, file)[0]


def csv_pieces(
    path: Path, names: list[str], text_is_fine: tuple[str, ...], report_text: ReportText
) -> Iterator[dict[str, NDArray[Any]]]:
    """Columns of numbers by name, some rows at a time; empty is NaN. Columns in `text_is_fine` may be text, and keep all digits."""
    with _open(path) as file:
        header, delimiter = _header(path, file)
        start = 0
        while lines := _some_lines(file):
            columns = _columns(path, lines, header, delimiter, names, text_is_fine, start, report_text)
            if columns:
                yield columns
                start += len(columns[names[0]])


def _some_lines(file: TextIO) -> list[str]:
    """The next few megabytes of whole lines; a quoted cell may span several lines."""
    lines = file.readlines(transitions.CHUNK_BYTES // 4)
    while sum(line.count('"') for line in lines) % 2 and (more := file.readline()):
        lines.append(more)
    return lines


def _columns(
    path: Path,
    lines: list[str],
    header: list[str],
    delimiter: str,
    names: list[str],
    text_is_fine: tuple[str, ...],
    start: int,
    report_text: ReportText,
) -> dict[str, NDArray[Any]]:
    first = next((line for line in csv.reader(lines, delimiter=delimiter) if line), [])
    if not first:
        return {}
    # NumPy parses columns that start with a number; the others (true, false, names) are read value by value
    plain = (
        [name for name in names if _is_number(value := first[header.index(name)]) or not value]
        if len(first) == len(header)
        else []
    )
    table = _parse(lines, delimiter, [header.index(name) for name in plain]) if plain else None
    if table is None:
        plain = []
    columns = {name: table[:, i] for i, name in enumerate(plain)} if table is not None else {}
    plain = [name for name in plain if name not in text_is_fine or _is_exact(columns[name])]
    wordy = [name for name in names if name not in plain]
    cells = []
    if wordy or _looks_uneven(lines, delimiter, len(header)):  # because NumPy's parser ignores extra values
        cells = _cells(path, lines, delimiter, [header.index(name) for name in wordy], len(header), start)
    values = zip(wordy, zip(*cells, strict=True) if wordy else (), strict=True)
    return columns | {
        name: _column(name, column, name in text_is_fine, start, report_text) for name, column in values
    }


@contextmanager
def _open(path: Path) -> Iterator[TextIO]:
    try:
        with path.open(
            encoding="utf-8-sig", newline=""
        ) as file:  # Excel starts its files with a byte-order mark
            yield file
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8 CSV"
        ) from error
    except csv.Error as error:
        raise ValueError(f"{path}: not readable as CSV ({error}); write or get it again") from error


def _header(path: Path, file: TextIO) -> tuple[list[str], str]:
    line = file.readline(1_000_000)
    delimiter = max(DELIMITERS, key=line.count)
    names = [name.strip() for name in next(csv.reader([line], delimiter=delimiter), [])]
    if not any(names):
        raise ValueError(
            f"{path}: the file is empty; expected a line of column names and then one line per step"
        )
    if "\0" in line:
        raise ValueError(
            f"{path}: not readable as CSV (its first line holds NUL bytes); check that it is a text file"
        )
    if all(_is_number(name) for name in names):
        raise ValueError(
            f"{path}: its first line holds numbers, not column names; add a line of names above it"
        )
    for i, name in enumerate(names):
        if name and name in names[:i]:
            raise ValueError(f"{path}: two columns are called '{name}'; give each its own name")
    return names, delimiter


def _parse(lines: list[str], delimiter: str, wanted: list[int]) -> NDArray[np.float64] | None:
    """The wanted columns if every value is a number or empty; else None."""
    for attempt in (lines, _filled(lines, delimiter)):
        try:
            return np.loadtxt(
                attempt, delimiter=delimiter, usecols=wanted, ndmin=2, quotechar='"', comments=None
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
    """Whether a line may hold more or fewer values than the header has names; quoted values are not parsed here."""
    return any(line.count(delimiter) != width - 1 or '"' in line for line in lines if line.strip("\r\n"))


def _cells(
    path: Path, lines: list[str], delimiter: str, wanted: list[int], width: int, start: int
) -> list[tuple[str, ...]]:
    cells: list[tuple[str, ...]] = []
    for line in filter(None, csv.reader(lines, delimiter=delimiter)):
        if len(line) != width:
            row = start + len(cells)
            raise ValueError(
                f"{path}: row {row} has {len(line)} values, the header has {width} names; repair that line"
            )
        cells.append(tuple(line[i] for i in wanted))
    return cells


def _column(
    name: str, values: tuple[str, ...], text_is_fine: bool, start: int, report_text: ReportText
) -> NDArray[Any]:
    numbers = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            numbers[row] = float(value)
        except ValueError:
            word = value.strip().lower()
            numbers[row] = TRUTH.get(word, np.nan)
            if word not in TRUTH and text_is_fine:
                return np.array([_number_or_text(value) for value in values], dtype=object)
            if word not in TRUTH:
                report_text(name, value, start + row)
    if text_is_fine and not _is_exact(numbers):
        return np.array([_number_or_text(value, TRUTH) for value in values], dtype=object)
    return numbers


def _is_exact(numbers: NDArray[np.float64]) -> bool:
    """Whether double precision is exact: integers below 2^53, and missing values."""
    return bool((np.isnan(numbers) | ((np.abs(numbers) < 2**53) & (numbers == np.rint(numbers)))).all())


def _number_or_text(value: str, words: Mapping[str, float] = MappingProxyType({})) -> Decimal | float | str:
    """A number with all its digits, which compares and hashes like the equal float or integer."""
    return Decimal(value) if _is_number(value) else words.get(value.strip().lower(), value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
