"""What is searched: algorithms, and for each its fields with the values they may have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args, get_type_hints

from gridcount.algorithms import ALGORITHMS, make_algorithm
from gridcount.catalogue import unknown

Value = Any  # a number, a text, or a tuple of whole numbers such as the sizes of hidden layers


@dataclass(frozen=True)
class Between:
    """Numbers from `low` to `high`; with `log` small and large ones are equally likely."""

    low: float
    high: float
    log: bool = False
    whole: bool = False  # without fractions

    def holds(self, value: Any) -> bool:
        """Whether a value is one of them."""
        return isinstance(value, int | float) and self.low <= value <= self.high

    def ends(self) -> tuple[Value, ...]:
        """Values that must be valid for the others to be."""
        return (int(self.low), int(self.high)) if self.whole else (self.low, self.high)


@dataclass(frozen=True)
class OneOf:
    """One of some values; a single one is fixed for all trials."""

    values: tuple[Value, ...]

    def holds(self, value: Any) -> bool:
        """Whether a value is one of them."""
        return value in self.values

    def ends(self) -> tuple[Value, ...]:
        """All of them."""
        return self.values


Choices = Between | OneOf
Space = dict[str, dict[str, Choices]]  # algorithm -> field -> its values

RATES: dict[str, Choices] = {
    "policy_rate": Between(1e-4, 1e-3, log=True),
    "critic_rate": Between(1e-4, 1e-3, log=True),
}
COUNTING: dict[str, Choices] = {
    "pessimism": Between(0.05, 5.0, log=True),
    "bins": OneOf((5, 10, 20)),
}
OWN: Space = {  # and the rates that an algorithm has
    "gpc-anchor": {
        "pessimism": Between(0.03, 0.75, log=True),
        "anchor": Between(0.04, 1.0, log=True),
        "doubt": Between(0.2, 5.0, log=True),
        "support_cost": Between(1.5, 24.0, log=True),
        "bins": OneOf((10, 20, 40)),
    },
    "gpc-sac": COUNTING,
    "gpc-td3": COUNTING,
    "iql": {"expectile": Between(0.5, 0.95), "advantage_scale": Between(0.5, 10.0, log=True)},
    "td3-bc": {"ambition": Between(0.5, 10.0, log=True)},
    "rebrac": {
        "policy_penalty": Between(1e-3, 0.1, log=True),
        "critic_penalty": Between(1e-3, 0.1, log=True),
    },
    "cql": {"conservatism": Between(0.5, 10.0, log=True)},
    "pbrl": {"ood_end": Between(0.1, 2.0, log=True)},
    "edac": {"diversity": Between(0.5, 20.0, log=True)},
    "bc": {"best_share": Between(0.1, 1.0)},
}
SEARCHED = ("gpc-anchor", "gpc-sac", "td3-bc", "iql")  # where nobody says otherwise


def default_space(algorithm: str) -> dict[str, Choices]:
    """What is searched of an algorithm where nobody says otherwise."""
    if algorithm not in ALGORITHMS:
        raise unknown("algorithm", algorithm, tuple(ALGORITHMS))
    known = ALGORITHMS[algorithm].__dataclass_fields__
    found = OWN.get(algorithm, {}) | RATES
    return {name: choices for name, choices in found.items() if name in known}


def make_space(
    algorithms: Sequence[str], changes: Mapping[str, Any], dataset: str = "", preset: str = "fast"
) -> Space:
    """The default space of some algorithms, with fields changed by "ALGORITHM.FIELD" or, for all, "FIELD".

    Raises ValueError for a name that does not exist or a value that the field cannot have.
    """
    space = {name: default_space(name) for name in algorithms}
    for key, given in changes.items():
        algorithm, dotted, field = key.rpartition(".")
        if dotted and algorithm not in space:
            raise unknown("searched algorithm", algorithm, tuple(space))
        having = [algorithm] if dotted else [name for name in space if _has(name, field)]
        if not having or not _has(having[0], field):
            names = sorted({name for each in space for name in ALGORITHMS[each].__dataclass_fields__})
            raise unknown("field", field, tuple(names))
        choices = _choices(key, given)
        for name in having:
            space[name][field] = _without_fractions(choices, name, field)
    for name, fields in space.items():
        for field, choices in fields.items():
            for value in choices.ends():
                make_algorithm(name, dataset, preset, **{field: value})  # raises the field's own error
    return space


def fixed_fields(space: Space, algorithm: str) -> dict[str, Value]:
    """The fields of an algorithm that have one value in all trials."""
    fields = space.get(algorithm, {})
    return {
        name: choices.values[0]
        for name, choices in fields.items()
        if isinstance(choices, OneOf) and len(choices.values) == 1
    }


def _has(algorithm: str, field: str) -> bool:
    return field in ALGORITHMS[algorithm].__dataclass_fields__


def _without_fractions(choices: Choices, algorithm: str, field: str) -> Choices:
    """The same in whole numbers, if the field takes no others."""
    if isinstance(choices, OneOf):
        return choices
    hint = get_type_hints(ALGORITHMS[algorithm])[field]
    return choices if float in (hint, *get_args(hint)) else replace(choices, whole=True)


def _choices(key: str, given: Any) -> Choices:
    """As people write it: "0.1:2:log", "5,10,20" or "128x128"; in Python also a list, or a single value."""
    if isinstance(given, Between | OneOf):
        return given
    if isinstance(given, list):
        return OneOf(tuple(given))
    if not isinstance(given, str):
        return OneOf((given,))
    if ":" not in given:
        return OneOf(tuple(_value(text) for text in given.split(",")))
    ends, log = given.removesuffix(":log"), given.endswith(":log")
    values = [_value(text) for text in ends.split(":")]
    numbers = [value for value in values if isinstance(value, int | float)]
    if len(values) != 2 or len(numbers) != 2 or not numbers[0] < numbers[1] or (log and numbers[0] <= 0):
        raise ValueError(
            f"--space {key}={given}: a range is LOW:HIGH or LOW:HIGH:log with LOW below HIGH, "
            "and above 0 with log; separate single values by commas"
        )
    return Between(float(numbers[0]), float(numbers[1]), log=log)


def _value(text: str) -> Value:
    """A number, true, false, none, sizes such as 128x128, or the text itself."""
    text = text.strip()
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    if all(part.isdecimal() for part in text.split("x")) and "x" in text:
        return tuple(int(part) for part in text.split("x"))
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
