"""Seeded damage to files of JSON: what an editor, a full disk, another program or a foe may leave."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

JUNK: list[Any] = [
    None,
    True,
    -5,
    0,
    2.5,
    10**9,
    10**30,
    -1e308,
    float("nan"),
    float("inf"),
    "",
    "x" * 300,
    "\u202e\x1b[31m\x00",
    "auto",
    [],
    [None],
    [1, "a", {}],
    {},
    {"a": {"b": [None]}},
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of everything in a value, itself included."""
    yield path
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, each in entries:
        yield from places(each, (*path, key))


def changed(value: Any, path: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Any:
    """A copy of a value in which `change` was called with the holder of a place and its key."""
    box = [json.loads(json.dumps(value))]
    holder: Any = box
    for key in (0, *path)[:-1]:
        holder = holder[key]
    change(holder, (0, *path)[-1])
    return box[0]


def replace(rng: random.Random, value: Any) -> Any:
    junk = rng.choice(JUNK)
    return changed(value, rng.choice(list(places(value))), lambda holder, key: holder.__setitem__(key, junk))


def remove(rng: random.Random, value: Any) -> Any:
    inner = [path for path in places(value) if path]
    return changed(value, rng.choice(inner), lambda holder, key: holder.__delitem__(key)) if inner else None


def add(rng: random.Random, value: Any) -> Any:
    objects = [path for path in places(value) if isinstance(_at(value, path), dict)]
    name, junk = rng.choice(["", "unknown", "$", "seed", "updates"]), rng.choice(JUNK)
    if not objects:
        return [value, junk]
    return changed(value, (*rng.choice(objects), name), lambda holder, key: holder.__setitem__(key, junk))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def damaged_bytes(rng: random.Random, text: bytes) -> bytes:
    """Text cut off, of another encoding, nested too deeply, with a key twice, or with other bytes in it."""
    middle = rng.randrange(len(text))
    return rng.choice(
        [
            text[:middle],
            text.decode().encode("utf-16"),
            text[:middle] + b"\xff\xfe" + text[middle:],
            b"[" * 100_000,
            b'{"a":' * 50_000,
            text.replace(b'{"', b'{"updates": null, "', 1),
            text.replace(b"0", b"NaN", 1),
            text[:middle] + bytes([rng.randrange(256)]) + text[middle + 1 :],
            b"",
            b"null",
        ]
    )


def variants(seed: int, value: Any, count: int) -> Iterator[bytes]:
    """Damaged versions of a value's JSON text."""
    rng = random.Random(seed)
    for number in range(count):
        if number % 4 == 3:
            yield damaged_bytes(rng, json.dumps(value).encode())
        else:
            yield json.dumps([replace, remove, add][number % 4](rng, value)).encode()
