"""D4RL's published files by name: downloaded once, resumed, verified, and complete under their final name."""

import hashlib
import os
import urllib.error
import urllib.request
from functools import cache
from http.client import HTTPException
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from gridcount.catalogue import unknown
from gridcount.files import DiskFull, locked, on_full_disk, write_whole
from gridcount.files.cache import cache_directory, make_cache_folder

HOST = "https://rail.eecs.berkeley.edu"
TIMEOUT = 30.0  # seconds without a byte
ATTEMPTS = 3  # connections per call; each resumes the download
BLOCK = 1 << 18
UNPUBLISHED_LIMIT = 2 * 2**30  # bytes, where no size is published; the largest that is published has 0.7 GiB
NO_ROOM = "The downloaded part is kept: free disk space, or set the environment variable GRIDCOUNT_HOME to another disk, and try again"
HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


class Published(NamedTuple):
    """A file of D4RL's host."""

    name: str
    path: str  # below the host's datasets/offline_rl
    bytes: int | None  # None where not published
    sha256: str | None

    @property
    def url(self) -> str:
        """Where it is; $GRIDCOUNT_D4RL_HOST replaces the host, for a mirror."""
        return f"{os.environ.get('GRIDCOUNT_D4RL_HOST', HOST).rstrip('/')}/datasets/offline_rl/{self.path}"

    @property
    def target(self) -> Path:
        """Where it is kept here."""
        return cache_directory() / "datasets" / Path(self.path).name


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Redirects are followed only on the same host, and never from HTTPS to HTTP."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        """The redirected request; raises an error with its target if it is not allowed."""
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        same = before.hostname == after.hostname and (
            after.scheme == "https" or after.scheme == before.scheme
        )
        if not same:
            fp.close()
            raise Unsafe(
                f"the host redirects to {newurl}, which is another host or not HTTPS;"
                " if you trust it, set GRIDCOUNT_D4RL_HOST to a mirror that serves the files itself"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class Unsafe(ValueError):
    """The host sends wrong content; another attempt would not help."""


class TooLong(Unsafe):
    """The host sends more bytes than the file has, so the download is not kept."""


@cache
def published() -> dict[str, Published]:
    """Every named file, from the table beside this module."""
    lines = files("gridcount.data").joinpath("d4rl_files.tsv").read_text().splitlines()[1:]
    rows = (line.split("\t") for line in lines)
    return {
        name: Published(name, path, None if size == "-" else int(size), None if digest == "-" else digest)
        for name, path, size, digest in rows
    }


def fetch(name: str, console: Console | None = None) -> Path:
    """The local path of a D4RL file, downloaded if it is not there yet, whole and with the published
    checksum."""
    if name not in published():
        raise unknown("D4RL dataset", name, list(published()))
    file, console = published()[name], console or Console(stderr=True)
    if not file.target.is_file():
        make_cache_folder("datasets")
        with locked(file.target):
            if not file.target.is_file():  # else another process downloaded it meanwhile
                _download(file, console)
    _verify(file)
    return file.target


def _download(file: Published, console: Console) -> None:
    partial = file.target.with_name(file.target.name + ".partial")
    size = f"{file.bytes / 2**20:,.0f} MiB" if file.bytes else "size not published"
    console.print(
        f"{file.name} is not in the cache. Downloading {file.url} ({size}) to {file.target}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    if file.sha256 is None:
        encrypted = "" if file.url.startswith("https:") else ", and the connection is not encrypted"
        console.print(
            f"warning: no checksum of {file.name} is published, so the download cannot be"
            f" verified{encrypted}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    _receive_all(file, partial, console)
    found = _sha256(partial)
    if file.sha256 is not None and found != file.sha256:
        partial.unlink()
        raise ValueError(
            f"{file.url}: the downloaded file has sha256 {found}, published is {file.sha256}; it was"
            " removed. Try again, or get the file"
            f" elsewhere and put it at {file.target}"
        )
    with partial.open("rb") as content:
        starts_well = content.read(len(HDF5_SIGNATURE)) == HDF5_SIGNATURE
    if (
        file.sha256 is None and not starts_well
    ):  # no checksum is published, but an error page is not an HDF5 file
        partial.unlink()
        raise ValueError(
            f"{file.url}: the downloaded file is not an HDF5 file; it was removed. Get the file elsewhere"
            f" and put it at {file.target}"
        )
    write_whole(_marker(file), _fingerprint(partial, found))
    os.replace(partial, file.target)


def _receive_all(file: Published, partial: Path, console: Console) -> None:
    """Complete the partial file in several attempts; the error says where to copy the file."""
    problem = ""
    for _ in range(ATTEMPTS):
        try:
            if file.bytes is None or not partial.exists() or partial.stat().st_size != file.bytes:
                _receive(file, partial, console)
            return
        except DiskFull:
            raise
        except Unsafe as error:
            if isinstance(error, TooLong):
                partial.unlink(missing_ok=True)
            problem = str(error)
            break
        except urllib.error.HTTPError as error:
            problem = f"the host answered {error.code} {error.reason}"
            error.close()
            if error.code == 416:  # the local part does not match the file on the host: start again
                partial.unlink(missing_ok=True)
            elif error.code < 500:
                break
        except (OSError, HTTPException) as error:
            problem = str(getattr(error, "reason", None) or error or type(error).__name__)
    kept = (
        f" {partial.stat().st_size:,} bytes are kept, and the next attempt continues from there."
        if partial.exists()
        else ""
    )
    raise FileNotFoundError(
        f"{file.name}: could not download {file.url} ({problem}).{kept} Without a network, copy the file to"
        f" {file.target}" + (f" (sha256 {file.sha256})" if file.sha256 else "")
    )


def _receive(file: Published, partial: Path, console: Console) -> None:
    """Append what is missing to the partial file, or download it from the start if the host cannot resume."""
    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(file.url, headers={"Range": f"bytes={have}-"} if have else {})
    with urllib.request.build_opener(_SameHost).open(request, timeout=TIMEOUT) as response:
        resumed = (
            have > 0
            and response.status == 206
            and str(response.headers.get("Content-Range", "")).startswith(f"bytes {have}-")
        )
        have = have if resumed else 0
        coming = str(response.headers.get("Content-Length", ""))
        total = have + int(coming) if coming.isdecimal() else file.bytes
        _validate_size(file, total or 0)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        mode, bars = "ab" if resumed else "wb", Progress(*columns, console=console, transient=True)
        with on_full_disk(partial, NO_ROOM), partial.open(mode) as sink, bars as progress:
            task = progress.add_task(file.name, total=total, completed=have)
            while block := response.read(BLOCK):
                _validate_size(file, sink.tell() + len(block))
                sink.write(block)
                progress.advance(task, len(block))
            sink.flush()
            os.fsync(sink.fileno())
    arrived = partial.stat().st_size
    if total is not None and arrived < total:
        raise ConnectionError(f"the connection ended after {arrived:,} of {total:,} bytes")


def _validate_size(file: Published, size: int) -> None:
    """Raise TooLong for more bytes than published, or than the limit if no size is published."""
    if size > (file.bytes or UNPUBLISHED_LIMIT):
        most = (
            f"{file.bytes:,} are published"
            if file.bytes
            else f"the limit is {UNPUBLISHED_LIMIT:,} where no size is published"
        )
        raise TooLong(f"the host sends {size:,} bytes or more; {most}")


def _verify(file: Published) -> None:
    """Verify the hash of a file that the user copied here, once; a file beside it records the result."""
    if file.sha256 is None or (
        _marker(file).is_file() and _marker(file).read_text() == _fingerprint(file.target, file.sha256)
    ):
        return
    found = _sha256(file.target)
    if found != file.sha256:
        raise ValueError(
            f"{file.target}: its sha256 is {found}, published for {file.name} is {file.sha256}; remove it to"
            " download it again, or give its"
            " path instead of the name to use it as it is"
        )
    write_whole(_marker(file), _fingerprint(file.target, found))


def _marker(file: Published) -> Path:
    return file.target.with_name(file.target.name + ".checked")


def _fingerprint(path: Path, digest: str) -> str:
    facts = path.stat()
    return f"{digest} {facts.st_size} {facts.st_mtime_ns}\n"


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
