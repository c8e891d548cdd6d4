"""The valid ranges of hyper-parameters, as types that a field is annotated with; checked before training."""

import math
from dataclasses import fields
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

LARGEST = 2**62  # of whole numbers


class Range(NamedTuple):
    """The numbers from `low` to `high`, both included unless excluded."""

    low: float
    high: float = math.inf
    without_low: bool = False
    without_high: bool = False

    def holds(self, value: float) -> bool:
        """Whether a number lies within; never for NaN, infinity and too large integers."""
        above = value > self.low if self.without_low else value >= self.low
        below = value < self.high if self.without_high else value <= self.high
        return above and below and abs(value) < (LARGEST if isinstance(value, int) else math.inf)

    def __str__(self) -> str:
        low = "above" if self.without_low else "at least"
        high = "below" if self.without_high else "at most"
        return f"{low} {self.low:g}" + (f" and {high} {self.high:g}" if math.isfinite(self.high) else "")


Whole = Annotated[int, Range(1)]  # how many there are of something, or how often
Count = Annotated[int, Range(0)]  # 0 leaves it out
Positive = Annotated[float, Range(0, without_low=True)]  # steps, widths and the like
Weight = Annotated[float, Range(0)]  # 0 leaves the term out
Step = Annotated[float, Range(0, 1, without_low=True)]  # of a moving average: 1 replaces the old value
Share = Annotated[float, Range(0, 1, without_high=True)]
Inside = Annotated[float, Range(0, 1, without_low=True, without_high=True)]
AtLeastOne = Annotated[float, Range(1)]
LogDeviation = Annotated[
    float, Range(-100, 2, without_high=True)
]  # of a Gaussian policy, whose upper end is 2
Number = Annotated[float, Range(-math.inf)]


def validate_ranges(algorithm: Any) -> None:
    """Raise ValueError with the flag of a field whose value has the wrong type or is out of range."""
    hints = get_type_hints(type(algorithm), include_extras=True)
    for name in (each.name for each in fields(algorithm)):
        kind, value = hints[name], getattr(algorithm, name)
        flag = f"--{name.replace('_', '-')}"
        fitting = [part for part in _parts(kind) if _fits(value, part)]
        if not fitting:
            raise ValueError(f"{flag} is {value!r}; it must be {' or '.join(_in_words(kind))}")
        numbers = [
            number
            for number in (value if isinstance(value, tuple) else (value,))
            if isinstance(number, int | float)
        ]
        allowed = [found for part in fitting if (found := _range_of(part)) is not None]
        if allowed and not all(map(allowed[0].holds, numbers)):
            raise ValueError(
                f"{flag} is {' '.join(_shown(number) for number in numbers)}; it must be {allowed[0]}"
            )


def _parts(kind: Any) -> tuple[Any, ...]:
    """The alternatives of a union; of any other type, itself."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _range_of(kind: Any) -> Range | None:
    """The range of a number, or of each number of a tuple."""
    if get_origin(kind) is tuple:
        return _range_of(get_args(kind)[0])
    return next((each for each in getattr(kind, "__metadata__", ()) if isinstance(each, Range)), None)


def _shown(number: float) -> str:
    return f"{number:g}" if isinstance(number, float) else str(number)[:20]


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a field's kind, as TOML and flags give values: a whole number does where a
    number is wanted."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(_fits(each, get_args(kind)[0]) for each in value)
    if parts := get_args(kind):
        return any(_fits(value, part) for part in parts)
    return isinstance(value, int | float if kind is float else kind) and (
        kind is bool or not isinstance(value, bool)
    )


def _in_words(kind: Any) -> tuple[str, ...]:
    """What a field of this kind may be: words first."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        return get_args(kind)
    if get_origin(kind) is tuple:
        return ("a list of whole numbers",)
    if parts := get_args(kind):
        return tuple(
            sorted((word for part in parts for word in _in_words(part)), key=lambda word: " " in word)
        )
    return {int: ("a whole number",), float: ("a number",), bool: ("true or false",)}.get(kind, ())
