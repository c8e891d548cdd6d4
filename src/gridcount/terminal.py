"""Terminal output that commands share: a console, a progress bar, and errors for misspelt flags."""

import time
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_args

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


def _flags(kind: type[Any]) -> set[str]:
    """The flags that tyro makes of a dataclass, without positional arguments and with the fields of nested dataclasses."""
    flags: set[str] = set()
    for field in fields(kind):
        inner, *markers = get_args(field.type) or (field.type,)
        name = field.name.replace("_", "-")
        if isinstance(inner, type) and is_dataclass(inner):
            flags |= _flags(inner)
        elif POSITIONAL not in markers:
            flags |= {f"--{name}", f"--no-{name}"} if field.type is bool else {f"--{name}"}
    return flags
