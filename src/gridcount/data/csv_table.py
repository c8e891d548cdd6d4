"""CSV with NumPy's own parser: fast where every value is a number, patient where some are empty, true/false or text."""

import csv
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

DELIMITERS = ",;\t|"
TRUTH = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0, "": np.nan, "na": np.nan, "null": np.nan, "none": np.nan}

Refuse = Callable[[str, str, int], ValueError]  # column, value, row -> the error to raise


def csv_names(path: Path) -> list[str]:
    """The header's names; the delimiter is the one of , ; tab | that the header holds most of."""
    with _open(path) as file:
        return _header(path, file)[0]


def read_csv_columns(path: Path, names: list[str], text_is_fine: tuple[str, ...], refuse: Refuse) -> dict[str, NDArray[Any]]:
    """Columns of numbers by name (those of `text_is_fine` as text where they are not numbers); an empty cell is NaN."""
    with _open(path) as file:
        header, delimiter = _header(path, file)
        start = file.tell()
        first = next((line for line in csv.reader(file, delimiter=delimiter) if line), [])
        if not first:
            return {name: np.empty(0) for name in names}
        # NumPy parses what starts as numbers; words (true, false, an episode's name) are read one by one
        plain = [name for name in names if _is_number(value := first[header.index(name)]) or not value] if len(first) == len(header) else []
        table = _parse(file, start, delimiter, [header.index(name) for name in plain]) if plain else None
        if table is None:
            plain = []
        wordy = [name for name in names if name not in plain]
        file.seek(start)
        cells = _cells(path, file, delimiter, [header.index(name) for name in wordy], len(header)) if wordy else []
    columns = {name: table[:, i] for i, name in enumerate(plain)} if table is not None else {}
    values = zip(wordy, zip(*cells, strict=True), strict=True)
    return columns | {name: _column(name, column, name in text_is_fine, refuse) for name, column in values}


@contextmanager
def _open(path: Path) -> Iterator[TextIO]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:  # Excel starts its files with a byte-order mark
            yield file
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8 CSV") from error
    except csv.Error as error:
        raise ValueError(f"{path}: not readable as CSV ({error}); write or get it again") from error


def _header(path: Path, file: TextIO) -> tuple[list[str], str]:
    line = file.readline(1_000_000)
    delimiter = max(DELIMITERS, key=line.count)
    names = [name.strip() for name in next(csv.reader([line], delimiter=delimiter), [])]
    if not any(names):
        raise ValueError(f"{path}: the file is empty; expected a line of column names and then one line per step")
    if "\0" in line:
        raise ValueError(f"{path}: not readable as CSV (its first line holds NUL bytes); check that it is a text file")
    if all(_is_number(name) for name in names):
        raise ValueError(f"{path}: its first line holds numbers, not column names; add a line of names above it")
    for i, name in enumerate(names):
        if name and name in names[:i]:
            raise ValueError(f"{path}: two columns are called '{name}'; give each its own name")
    return names, delimiter


def _parse(file: TextIO, start: int, delimiter: str, wanted: list[int]) -> NDArray[np.float64] | None:
    """The wanted columns at once where every value is a number or empty; None where one is not."""
    for lines in (file, _filled(file, delimiter)):
        file.seek(start)
        try:
            return np.loadtxt(lines, delimiter=delimiter, usecols=wanted, ndmin=2, quotechar='"', comments=None)
        except (ValueError, IndexError):
            continue
    return None


def _filled(file: Iterable[str], delimiter: str) -> Iterator[str]:
    """Lines with 'nan' in their empty cells, for NumPy's parser knows no empty number."""
    mark = re.escape(delimiter)
    empty = re.compile(rf"(?:(?<=^)|(?<={mark}))[ ]*(?={mark}|\r?\n|$)")
    return (empty.sub("nan", line) if line.strip() else line for line in file)


def _cells(path: Path, file: TextIO, delimiter: str, wanted: list[int], width: int) -> list[tuple[str, ...]]:
    cells = []
    for number, line in enumerate(csv.reader(file, delimiter=delimiter)):
        if not line:
            continue
        if len(line) != width:
            raise ValueError(f"{path}: row {number} has {len(line)} values, the header has {width} names; repair that line")
        cells.append(tuple(line[i] for i in wanted))
    return cells


def _column(name: str, values: tuple[str, ...], text_is_fine: bool, refuse: Refuse) -> NDArray[Any]:
    numbers = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            numbers[row] = float(value)
        except ValueError:
            word = value.strip().lower()
            if word in TRUTH:
                numbers[row] = TRUTH[word]
            elif text_is_fine:
                return np.array(values)
            else:
                raise refuse(name, value, row) from None
    return numbers


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
