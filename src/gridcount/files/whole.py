"""Files and folders that appear under their name only when they are complete.

An incomplete file has a name that ends in `.partial` and is locked by the process that writes it. An unlocked
one was left by a process that was killed; the next process that writes there removes it.
"""

import glob
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from gridcount.files.full import on_full_disk
from gridcount.files.locks import lock, try_lock
from gridcount.files.opening import open_plain, validate_no_link

PARTIAL, OLD = ".partial", ".old"


@contextmanager
def whole_file(path: Path, durable: bool = True) -> Iterator[IO[bytes]]:
    """A file to write that replaces `path` at the end; after an error nothing is changed.

    With `durable` the content is on disk before the rename. Others may also write to the `name` of the file
    this yields.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in path.parent.glob(f"{glob.escape(path.name)}.*{PARTIAL}"):
        _remove_unlocked(leftover)
    with on_full_disk(path), _new_partial(path) as file:
        try:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def write_whole(path: Path, content: str | bytes, durable: bool = True) -> Path:
    """Write a file completely or not at all; text is encoded as UTF-8."""
    with whole_file(path, durable) as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return path


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill that replaces `folder` at the end; an older one stays until the new one is complete
    and on the disk."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder.parent)
    with ExitStack() as stack, on_full_disk(folder):
        partial, held = _new_partial_folder(folder)
        stack.callback(os.close, held)
        old = partial.with_suffix(OLD)
        try:
            yield partial
            for file in partial.iterdir():
                with file.open("rb") as written:
                    os.fsync(written.fileno())
            if folder.exists():
                replaced = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
                stack.callback(os.close, replaced)
                try_lock(replaced)
                os.rename(folder, old)
            os.rename(partial, folder)
        finally:
            if old.exists() and not folder.exists():
                os.rename(old, folder)
            shutil.rmtree(old, ignore_errors=True)
            shutil.rmtree(partial, ignore_errors=True)


def remove_folder(folder: Path) -> None:
    """Remove a folder as a whole; `remove_leftovers` finishes what a killed process left."""
    validate_no_link(folder)
    doomed = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}{PARTIAL}")
    os.rename(folder, doomed)
    shutil.rmtree(doomed)


def remove_leftovers(parent: Path) -> list[Path]:
    """Remove folders that killed processes left incomplete, and restore one that was being replaced;
    returns their names."""
    found = []
    for suffix in (OLD, PARTIAL):
        for path in parent.glob(f".*.*{suffix}"):
            target = parent / path.name.removesuffix(suffix)[1:].rpartition(".")[0]
            if (
                path.is_dir()
                and not path.is_symlink()
                and _remove_unlocked(path, target if suffix == OLD else None)
            ):
                found.append(path)
    return found


def _new_partial(path: Path) -> IO[bytes]:
    """A new locked file beside `path`; retries if another process removed it before it was locked."""
    while True:
        file = open_plain(path.with_name(f"{path.name}.{secrets.token_hex(4)}{PARTIAL}"), "xb")
        lock(file)
        if _is_current(Path(file.name), file.fileno()):
            return file
        file.close()


def _new_partial_folder(folder: Path) -> tuple[Path, int]:
    """A new folder beside `folder`, locked until the file descriptor is closed; retries like a file."""
    while True:
        partial = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}{PARTIAL}")
        partial.mkdir()
        try:
            held = os.open(partial, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        lock(held)
        if _is_current(partial, held):
            return partial, held
        os.close(held)


def _is_current(path: Path, held: int) -> bool:
    """Whether a path still refers to the open file or folder."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(held))
    except FileNotFoundError:
        return False


def _remove_unlocked(path: Path, restore: Path | None = None) -> bool:
    """Remove an unlocked file or folder, or rename a folder back to `restore` if that name is free."""
    try:
        held = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # a link, no permission, or removed
        return False
    try:
        if not try_lock(held):
            return False
        if restore is not None and not restore.exists():
            os.rename(path, restore)
        elif path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    finally:
        os.close(held)
    return True
