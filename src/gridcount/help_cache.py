"""Help texts, kept after they were made once, and made without the packages that take long to import."""

import hashlib
import io
import json
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

from gridcount import __version__
from gridcount.files.cache import cache_directory
from gridcount.files.whole import write_whole
from gridcount.stand_ins import use_stand_ins

ASKED = {"-h", "--help"}
IN_FULL = "GRIDCOUNT_HELP_IN_FULL"  # set in a process that makes a help text without stand-ins


def asks_for_help(words: list[str]) -> bool:
    """Whether a command is only to explain itself."""
    return not ASKED.isdisjoint(words)


def print_help(words: list[str], make: Callable[[], int], ends: bool) -> int:
    """Print the help that `make` prints, from the cache where the same was asked before; the exit code.

    A process that `ends` afterwards makes it with stand-ins for large packages.
    """
    kept = cache_directory() / "help" / f"{_key(words)}.txt"
    with suppress(OSError, UnicodeDecodeError):
        sys.stdout.write(kept.read_text())
        return 0
    code, text = _made_lightly(make) if ends and IN_FULL not in os.environ else _made(make)
    sys.stdout.write(text)
    if code == 0:
        with suppress(OSError):  # it is only a cache
            write_whole(kept, text, durable=False)
    return code


def _made_lightly(make: Callable[[], int]) -> tuple[int, str]:
    """What `_made` returns, with stand-ins for large packages; if they do not do, the process starts again."""
    use_stand_ins()
    code, text = 2, ""
    with suppress(Exception), redirect_stderr(io.StringIO()):
        code, text = _made(make)
    if code != 0:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | {IN_FULL: "1"})
    return code, text


def _made(make: Callable[[], int]) -> tuple[int, str]:
    """The exit code of `make`, and what it prints."""
    printed = _Printed()
    with redirect_stdout(printed):
        try:
            code = make()
        except SystemExit as ended:  # as tyro ends after its help
            code = ended.code if isinstance(ended.code, int) else 0
    return code, printed.getvalue()


class _Printed(io.StringIO):
    """What is printed, styled as for where it goes in the end."""

    def isatty(self) -> bool:
        return sys.__stdout__ is not None and sys.__stdout__.isatty()


def _key(words: list[str]) -> str:
    """A name for everything that a help text depends on: the words, the terminal, and the code, ours and
    installed."""
    package = Path(__file__).parent
    newest = max(path.stat().st_mtime_ns for path in package.rglob("*.py"))
    installed = [Path(folder).stat().st_mtime_ns for folder in sys.path if Path(folder).is_dir()]
    styles = [os.environ.get(name) for name in ("NO_COLOR", "FORCE_COLOR", "TERM")]
    facts = [
        __version__,
        str(package),
        newest,
        installed,
        words,
        _Printed().isatty(),
        shutil.get_terminal_size().columns,
        styles,
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]
