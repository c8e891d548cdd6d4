"""Categories as 0/1 numbers: one observation per category, named COLUMN=CATEGORY, which is all that acting
needs."""

from collections.abc import Mapping, Sequence
from typing import Any

MISSING = ""  # the label of a missing value


def label(value: Any) -> str:
    """A category as text: 1, 1.0 and '1' are the same; missing values are ''."""
    if value is None or value != value:
        return MISSING
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    text = str(value).strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else text


def dimension_name(column: str, category: str) -> str:
    """The name of the observation that is 1 for a category."""
    return f"{column}={category}"


def encoded(row: Mapping[str, Any], names: Sequence[str]) -> list[float]:
    """The observation of a row of column -> value; ValueError for a missing column or an unknown category."""
    known: dict[str, list[str]] = {}
    for name in names:
        if name not in row and "=" in name:
            column = next((each for each in row if name.startswith(f"{each}=")), name.partition("=")[0])
            known.setdefault(column, []).append(name.removeprefix(f"{column}="))
    values: list[float] = []
    for column, categories in known.items():
        if column not in row:
            raise ValueError(f"the row has no '{column}'; the policy needs one of {', '.join(categories)}")
        if label(row[column]) not in categories:
            raise ValueError(
                f"'{column}' is '{row[column]}', which the training data does not have;"
                f" it has {', '.join(categories)}"
            )
    chosen = {dimension_name(column, label(row[column])) for column in known}
    one_hot = {dimension_name(column, each) for column, categories in known.items() for each in categories}
    for name in names:
        if name in one_hot:
            values.append(float(name in chosen))
        elif name not in row:
            raise ValueError(f"the row has no '{name}'; the policy needs {', '.join(names)}")
        else:
            values.append(_number(name, row[name]))
    return values


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"'{name}' is {value!r}; the policy needs a number there") from error
