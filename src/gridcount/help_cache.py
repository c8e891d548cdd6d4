"""Help texts, kept after they were made once: they come from the algorithms' fields, and importing those
takes seconds."""

import hashlib
import io
import json
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from pathlib import Path

from gridcount import __version__
from gridcount.files.cache import cache_directory
from gridcount.files.whole import write_whole

ASKED = {"-h", "--help"}


def asks_for_help(words: list[str]) -> bool:
    """Whether a command is only to explain itself."""
    return not ASKED.isdisjoint(words)


def print_help(words: list[str], make: Callable[[], int]) -> int:
    """Print the help that `make` prints, from the cache where the same was asked before; the exit code."""
    kept = cache_directory() / "help" / f"{_key(words)}.txt"
    with suppress(OSError, UnicodeDecodeError):
        sys.stdout.write(kept.read_text())
        return 0
    printed, code = _Printed(), 0
    with redirect_stdout(printed):
        try:
            code = make()
        except SystemExit as ended:  # as tyro ends after its help
            code = ended.code if isinstance(ended.code, int) else 0
    sys.stdout.write(printed.getvalue())
    if code == 0:
        with suppress(OSError):  # it is only a cache
            write_whole(kept, printed.getvalue(), durable=False)
    return code


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
