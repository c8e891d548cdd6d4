"""Files opened as what they are: a symbolic link or a pipe in a file's place is refused."""

import errno
import os
import stat
from pathlib import Path
from typing import IO, Any, Literal

LINK = {errno.ELOOP, errno.EMLINK}  # what systems answer where O_NOFOLLOW meets a link


def open_plain(path: Path, mode: Literal["rb", "ab", "r+b", "xb"], follow: bool = False) -> IO[bytes]:
    """Open a regular file without waiting for whoever holds a pipe's other end, and without following a link unless told."""
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
    """Raise where something in a folder is a symbolic link: another file would be read or written. The folder may be one."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            validate_no_link(Path(place) / name)


def validate_no_link(path: Path) -> None:
    """Raise where a file or folder is a symbolic link."""
    if path.is_symlink():
        raise link_error(path)


def link_error(path: Path) -> ValueError:
    """What to say of a link in a file's place."""
    advice = "Links are not followed: put the file or folder itself in its place, or delete the link"
    return ValueError(f"{path}: is a symbolic link to {os.readlink(path)}. {advice}")
