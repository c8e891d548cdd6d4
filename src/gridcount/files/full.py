"""Errors of a full disk: they name the file and say what is kept and how to continue."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # no space, no quota, or a limit on the size of a file


class DiskFull(OSError):
    """A file could not be written because of missing disk space."""

    def __init__(self, path: str | Path, reason: str, advice: str = ""):
        super().__init__(errno.ENOSPC, reason)
        self.path, self.reason, self.advice = path, reason, advice

    def __str__(self) -> str:
        return f"{self.path}: could not be written, because there is not enough disk space ({self.reason}). {self.advice}".rstrip()

    def with_advice(self, advice: str) -> Self:
        """The same error with advice, if it has none yet."""
        return type(self)(self.path, self.reason, self.advice or advice)


@contextmanager
def on_full_disk(path: str | Path, advice: str = "") -> Iterator[None]:
    """Convert an error of a full disk to one with advice that names `path`, or the file that an inner one
    named."""
    try:
        yield
    except DiskFull as error:
        raise error.with_advice(advice) from error
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise DiskFull(error.filename or path, error.strerror or str(error), advice) from error
