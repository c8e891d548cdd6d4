"""Opening of regular files only: symbolic links and pipes raise ValueError."""

import errno
import os
import stat
from pathlib import Path
from typing import IO, Any, Literal

LINK = {errno.ELOOP, errno.EMLINK}  # errors of O_NOFOLLOW at a link


def open_plain(path: Path, mode: Literal["rb", "ab", "r+b", "xb"], follow: bool = False) -> IO[bytes]:
    """Open a regular file; never block on a pipe, and follow links only if `follow` is set."""
    flags = os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    try:
        file: IO[Any] = open(path, mode, opener=lambda name, wanted: os.open(name, wanted | flags, 0o666))  # noqa: SIM115
    except OSError as error:
        if error.errno in LINK and path.is_symlink():
            raise link_error(path) from error
        raise
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ValueError(f"{path}: is not a regular file; remove it")
    return file


def validate_no_links(folder: Path) -> None:
    """Raise ValueError if a folder contains a symbolic link. The folder itself may be a link."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            validate_no_link(Path(place) / name)


def validate_no_link(path: Path) -> None:
    """Raise ValueError if a file or folder is a symbolic link."""
    if path.is_symlink():
        raise link_error(path)


def link_error(path: Path) -> ValueError:
    """The error for a link instead of a file."""
    advice = "Links are not followed: put the file or folder itself in its place, or delete the link"
    return ValueError(f"{path}: is a symbolic link to {os.readlink(path)}. {advice}")
