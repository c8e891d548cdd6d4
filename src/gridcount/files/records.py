"""Records: the project's JSON files, read with types, so that errors name the file, the key and the value.

A field that was added later has a default, so old files stay readable. Unknown keys are ignored, because a
newer version may have written them; they are errors for `closed` types, where an ignored key would change a
run.
"""

import json
import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from gridcount.files.opening import open_plain

T = TypeVar("T")
LARGEST = 2**62
Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1, le=LARGEST)]
Whole = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Real = Annotated[
    float, msgspec.Meta(ge=-1e100, le=1e100)
]  # statistics square it; a run stops before it diverges so far

WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}
BAD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def read_record(path: Path, kind: type[T], way_out: str, closed: bool = False) -> T:
    """The content of a JSON file as `kind`; errors name the file, the key, the value and the solution."""
    with open_plain(path, "rb", follow=True) as file:
        return decode_record(file.read(), kind, str(path), way_out, closed)


def decode_record(content: bytes, kind: type[T], source: str, way_out: str, closed: bool = False) -> T:
    """JSON text as `kind`; `source` is its name in errors."""
    try:
        found = msgspec.json.decode(content, type=kind)
        keys = list(msgspec.json.decode(content)) if closed else []
    except BAD as error:
        raise ValueError(f"{source}: {_explained(error, content, kind)}. {_sentence(way_out)}") from error
    known = [field.name for field in fields(kind)] if is_dataclass(kind) else keys
    if unknown := [key for key in keys if key not in known]:
        problem = f"'{unknown[0]}' is not a key of this file, which has {', '.join(known)}"
        raise ValueError(f"{source}: {problem}. {_sentence(way_out)}")
    return found


def convert_record(value: Any, kind: type[T], source: str, way_out: str) -> T:
    """A value from another format as `kind`."""
    try:
        return msgspec.convert(value, kind)
    except BAD as error:
        raise ValueError(f"{source}: {_explained(error, value, kind)}. {_sentence(way_out)}") from error


def read_lines(path: Path, kind: type[T], way_out: str) -> list[T]:
    """The records of a file's lines; an incomplete last line is left out."""
    with open_plain(path, "rb", follow=True) as file:
        *lines, _ = file.read().split(b"\n")  # text after the last newline is incomplete
    return [
        decode_record(line, kind, f"{path}, line {number}", way_out)
        for number, line in enumerate(lines, start=1)
    ]


def _explained(error: Exception, content: Any, kind: Any) -> str:
    """The problem as text: the key, its value and the expected type."""
    if isinstance(error, RecursionError):
        return "nested too deeply to be a record"
    if not isinstance(error, msgspec.ValidationError):
        return f"not JSON ({error})"
    what, _, place = str(error).partition(" - at ")
    value = _loaded(content)
    if missing := re.fullmatch(r"Object missing required field `(.*)`", what):
        return f"'{'.'.join(filter(None, (_name(place), missing[1])))}' is missing"
    name, value = _at(place.strip("`"), value, kind)
    expected = re.sub(r", got .*", "", what.removeprefix("Expected "))
    expected = re.sub(r"`([^`]*)`", lambda found: " or ".join(_in_words(found[1])), expected)
    shown = json.dumps(value, default=str)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    called = f"'{name}'" if name else "it"
    return f"{called} is {shown}; it must be {expected}"


def _in_words(kinds: str) -> list[str]:
    return [WORDS.get(kind, kind) for kind in kinds.split(" | ")]


def _loaded(content: Any) -> Any:
    try:
        return json.loads(content) if isinstance(content, bytes) else content
    except (ValueError, RecursionError):
        return None


def _name(place: str) -> str:
    return place.strip("`").removeprefix("$").removeprefix(".")


def _at(place: str, value: Any, kind: Any) -> tuple[str, Any]:
    """The name and the value of a place such as $.seeds[2]; `[...]` is an unknown key of an object, which
    is searched."""
    name = _name(place)
    for key, index in re.findall(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]", place):
        if index == "...":
            if place != "$[...]" or not isinstance(value, dict):
                return name, value
            return next(
                ((key, each) for key, each in value.items() if not _fits({key: each}, kind)), (name, value)
            )
        try:
            value = value[key] if key else value[int(index)]
        except (KeyError, IndexError, TypeError):
            return name, None
    return name, value


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except BAD:
        return False
    return True


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
