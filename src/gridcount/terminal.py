"""Terminal output that commands share: a console, a progress bar, and errors for misspelt flags."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_args, get_origin

import tyro
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import Progress
from rich.segment import Segment

from gridcount.catalogue import unknown
from gridcount.plain_text import printable

Result = TypeVar("Result")

POSITIONAL = tyro.conf.Positional[int].__metadata__[0]  # type: ignore[attr-defined]


class SafeConsole(Console):
    """A console that escapes control characters, because names come from untrusted files."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Render segments, with control characters in their text escaped."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def make_console(stderr: bool = False, **options: Any) -> Console:
    """A console without markup, because names and paths may look like markup."""
    return SafeConsole(markup=False, highlight=False, stderr=stderr, **options)


def with_bar(name: str, work: Callable[[Callable[[int, int], None]], Result]) -> Result:
    """Do some work on a dataset with a progress bar that appears only if the work reports progress.

    Progress and messages go to stderr, because other programs may read stdout.
    """
    console = make_console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task: list[Any] = []
        started = time.monotonic()

        def progress(done: int, total: int) -> None:
            if not task:
                console.print(
                    f"generating {total:,} transitions of {name} (only once; the file is kept)",
                    soft_wrap=True,
                )
                task.append(bar.add_task("generating", total=total))
            bar.update(task[0], completed=done)

        result = work(progress)
    if task:
        console.print(f"generated in {time.monotonic() - started:.0f} s")
    return result


def validate_flags(words: list[str], *kinds: type[Any]) -> None:
    """Raise ValueError for an unknown flag and list all flags; tyro would only suggest a similar one."""
    known = {"--help"} | {flag for kind in kinds for flag in _flags(kind)}
    for word in words:
        if word.startswith("--") and (name := word.split("=")[0].replace("_", "-")) not in known:
            raise unknown("flag", name, tuple(known))


def positional(words: list[str], *kinds: type[Any]) -> str:
    """The first word that is neither a flag of these dataclasses nor a flag's value; "" if there is none."""
    takes = {flag: count for kind in kinds for flag, count in _flags(kind).items()}
    values = 0.0  # that still belong to the last flag
    for word in words:
        if word.startswith("--") or word == "-h":
            values = 0 if "=" in word else takes.get(word.replace("_", "-"), 0)
        elif values:
            values -= 1
        else:
            return word
    return ""


def _flags(kind: type[Any]) -> dict[str, float]:
    """The flags that tyro makes of a dataclass and its nested dataclasses, without positional arguments:
    flag -> its number of values."""
    flags: dict[str, float] = {}
    for field in fields(kind):
        inner, *markers = get_args(field.type) or (field.type,)
        name = field.name.replace("_", "-")
        if isinstance(inner, type) and is_dataclass(inner):
            flags |= _flags(inner)
        elif field.type is bool:
            flags |= {f"--{name}": 0, f"--no-{name}": 0}
        elif POSITIONAL not in markers:
            flags[f"--{name}"] = math.inf if _is_tuple(field.type) else 1
    return flags


def _is_tuple(kind: Any) -> bool:
    return get_origin(kind) is tuple or any(map(_is_tuple, get_args(kind)))
