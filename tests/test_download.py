"""Downloads by name, against a local server that stands in for D4RL's host."""

import hashlib
import io
import re
import socket
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from log_files import EXCERPTS
from rich.console import Console

from gridcount.catalogue import NAMES, family_of
from gridcount.data.formats.d4rl import read_hdf5
from gridcount.data.load import load
from gridcount.data.store import download
from gridcount.data.store.download import Published, fetch, published
from gridcount.files import DiskFull

NAME = "hopper-random-v2"
CONTENT = (EXCERPTS / "hopper_random-v1.hdf5").read_bytes()
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Host(ThreadingHTTPServer):
    """What the server does next, and what it was asked."""

    daemon_threads = True
    content = CONTENT
    break_after: int | None = None  # bytes after which the connection ends, once
    ranges = True  # whether it can resume
    status = 200
    redirect: str | None = None  # where it sends everybody
    length: str | None = ""  # what it says it sends; "": the truth, None: nothing
    asked: list[str | None]


class Answer(BaseHTTPRequestHandler):
    server: Host

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        if self.server.status != 200:
            self.send_error(self.server.status)
            return
        if self.server.redirect and "redirected" not in self.path:
            self.send_response(302)
            self.send_header("Location", self.server.redirect)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.server.ranges else 0
        body = self.server.content[start:]
        if start and not body:
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header(
                "Content-Range", f"bytes {start}-{len(self.server.content) - 1}/{len(self.server.content)}"
            )
        if self.server.length is not None:
            self.send_header("Content-Length", self.server.length or str(len(body)))
        self.end_headers()
        if self.server.break_after is not None:
            body, self.server.break_after = body[: self.server.break_after], None
        with suppress(ConnectionError):  # whoever has enough hangs up
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    server = Host(("127.0.0.1", 0), Answer)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path))
    monkeypatch.setenv("GRIDCOUNT_D4RL_HOST", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    file = Published(NAME, "gym_mujoco_v2/hopper_random-v2.hdf5", len(CONTENT), DIGEST)
    maze = Published("maze2d-umaze-v1", "maze2d/maze2d-umaze-sparse-v1.hdf5", None, None)
    monkeypatch.setattr(download, "published", lambda: {NAME: file, "maze2d-umaze-v1": maze})
    monkeypatch.setattr("gridcount.data.load.published", download.published)
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def quiet() -> Console:
    return Console(file=io.StringIO(), width=500)


def target(tmp_path: Path) -> Path:
    return tmp_path / "datasets" / "hopper_random-v2.hdf5"


def test_every_name_has_a_file_and_a_family() -> None:
    published.cache_clear()
    files = published()
    assert set(files) == set(NAMES)
    assert len({file.path for file in files.values()}) == len(NAMES) == 51
    for name, file in files.items():
        assert family_of(name) is not None
        assert (file.sha256 is None) == name.startswith(("maze2d", "kitchen")) == (file.bytes is None)
        assert file.sha256 is None or len(file.sha256) == 64
    assert (
        files["hopper-medium-v2"].url
        == "https://rail.eecs.berkeley.edu/datasets/offline_rl/gym_mujoco_v2/hopper_medium-v2.hdf5"
    )


def test_a_download_is_announced_checked_and_kept(host: Host, tmp_path: Path) -> None:
    console = quiet()
    path = fetch(NAME, console)
    assert path == target(tmp_path)
    assert path.read_bytes() == CONTENT
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert host.asked == [None]
    for fact in (
        NAME,
        f"http://127.0.0.1:{host.server_port}/datasets/offline_rl/gym_mujoco_v2/hopper_random-v2.hdf5",
        "MiB",
        str(path),
    ):
        assert fact in said
    assert load(NAME).equals(read_hdf5(EXCERPTS / "hopper_random-v1.hdf5"))
    assert load(NAME).name == NAME
    assert host.asked == [None]  # and never fetched again


def test_a_broken_connection_is_resumed_at_once(host: Host, tmp_path: Path) -> None:
    host.break_after = 10_000
    assert fetch(NAME, quiet()).read_bytes() == CONTENT
    assert host.asked == [None, "bytes=10000-"]


def test_an_interrupted_download_goes_on_next_time(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    host.break_after = 10_000
    with pytest.raises(
        FileNotFoundError, match="10,000 bytes are kept, and the next attempt continues from there"
    ):
        fetch(NAME, quiet())
    assert not target(tmp_path).exists()
    assert fetch(NAME, quiet()).read_bytes() == CONTENT
    assert host.asked == [None, "bytes=10000-"]


def test_a_host_that_cannot_resume_sends_it_all_again(host: Host, tmp_path: Path) -> None:
    host.break_after, host.ranges = 10_000, False
    assert fetch(NAME, quiet()).read_bytes() == CONTENT


def test_a_finished_partial_file_is_only_renamed(host: Host, tmp_path: Path) -> None:
    target(tmp_path).parent.mkdir()
    target(tmp_path).with_suffix(".hdf5.partial").write_bytes(CONTENT)
    assert fetch(NAME, quiet()).read_bytes() == CONTENT
    assert host.asked == []


def test_a_partial_file_that_is_too_long_is_fetched_anew(host: Host, tmp_path: Path) -> None:
    target(tmp_path).parent.mkdir()
    target(tmp_path).with_suffix(".hdf5.partial").write_bytes(CONTENT + b"more")
    assert fetch(NAME, quiet()).read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing(host: Host, tmp_path: Path) -> None:
    host.content = CONTENT[:-1] + b"!"
    with pytest.raises(ValueError, match=f"published is {DIGEST}; it was removed") as caught:
        fetch(NAME, quiet())
    assert str(target(tmp_path)) in str(caught.value)
    assert [path.name for path in target(tmp_path).parent.iterdir() if path.suffix != ".lock"] == []


@pytest.mark.parametrize(("status", "requests"), [(404, 1), (403, 1), (503, 3)])
def test_a_refusal_says_where_to_put_the_file(host: Host, tmp_path: Path, status: int, requests: int) -> None:
    host.status = status
    with pytest.raises(
        FileNotFoundError, match=f"the host answered {status} .*copy the file to {target(tmp_path)}"
    ):
        fetch(NAME, quiet())
    assert len(host.asked) == requests
    assert not target(tmp_path).exists()


def test_without_a_network_it_says_where_to_put_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as closed:  # a port that nobody listens on
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("GRIDCOUNT_D4RL_HOST", f"http://127.0.0.1:{closed.getsockname()[1]}")
        with pytest.raises(FileNotFoundError) as caught:
            load("pen-human-v1", console=quiet())
    for fact in (
        "/datasets/offline_rl/hand_dapg_v1/pen-human-v1.hdf5",
        str(tmp_path / "datasets" / "pen-human-v1.hdf5"),
        "sha256 209e345b",
    ):
        assert fact in str(caught.value)


def test_a_file_put_there_by_hand_is_checked_once(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target(tmp_path).parent.mkdir()
    target(tmp_path).write_bytes(CONTENT[:-1])
    with pytest.raises(ValueError, match=f"its sha256 is .*, published for {NAME} is {DIGEST}"):
        fetch(NAME, quiet())
    target(tmp_path).write_bytes(CONTENT)
    fetch(NAME, quiet())
    monkeypatch.setattr(download, "_sha256", lambda path: pytest.fail("hashed again"))
    fetch(NAME, quiet())
    assert host.asked == []


def test_many_runs_that_start_together_download_once(host: Host, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: fetch(NAME, quiet()), range(4)))
    assert len(host.asked) == 1
    assert {path.read_bytes() for path in paths} == {CONTENT}


def test_an_error_page_is_no_dataset_even_without_a_checksum(host: Host, tmp_path: Path) -> None:
    host.content = b"<html>come back later</html>"
    with pytest.raises(ValueError, match="the downloaded file is not an HDF5 file; it was removed"):
        load("maze2d-umaze-v1", source="d4rl", console=quiet())
    assert not (tmp_path / "datasets" / "maze2d-umaze-sparse-v1.hdf5").exists()


def test_a_downloaded_maze_is_preferred_and_can_be_chosen(host: Host, tmp_path: Path) -> None:
    truth = read_hdf5(EXCERPTS / "hopper_random-v1.hdf5")
    assert load("maze2d-umaze-v1", source="d4rl", console=quiet()).equals(truth)
    assert load("maze2d-umaze-v1").equals(truth)
    with pytest.raises(ValueError, match="'generated' to Maze2D"):
        load(NAME, source="generated")


# --- what a host may not do ---


def test_a_redirect_to_another_host_is_not_followed(host: Host, tmp_path: Path) -> None:
    host.redirect = f"http://localhost:{host.server_port}/redirected"
    with pytest.raises(
        FileNotFoundError, match=r"redirects to http://localhost.*another host.*GRIDCOUNT_D4RL_HOST"
    ):
        fetch(NAME, quiet())
    assert len(host.asked) == 1
    host.redirect = f"http://127.0.0.1:{host.server_port}/redirected"
    assert fetch(NAME, quiet()).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("before", "after", "followed"),
    [
        ("https://a.org/x", "https://a.org/y", True),
        ("http://a.org/x", "https://a.org/y", True),
        ("http://a.org/x", "http://a.org/y", True),
        ("https://a.org/x", "http://a.org/x", False),
        ("https://a.org/x", "https://b.org/x", False),
        ("https://a.org/x", "https://a.org.evil.net/x", False),
        ("http://a.org/x", "file:///etc/passwd", False),
        ("http://a.org/x", "ftp://a.org/x", False),
    ],
)
def test_a_redirect_stays_on_its_host_and_encrypted(before: str, after: str, followed: bool) -> None:
    request = urllib.request.Request(before)
    follow = download._SameHost().redirect_request
    if followed:
        assert follow(request, io.BytesIO(), 302, "Found", {}, after).full_url == after
    else:
        with pytest.raises(ValueError, match=re.escape(after)):
            follow(request, io.BytesIO(), 302, "Found", {}, after)


@pytest.mark.parametrize("length", ["", None])
def test_more_than_the_published_size_is_not_received(host: Host, tmp_path: Path, length: str | None) -> None:
    host.content, host.length = CONTENT + bytes(5_000_000), length
    with pytest.raises(
        FileNotFoundError, match=rf"sends [\d,]+ bytes or more; {len(CONTENT):,} are published"
    ):
        fetch(NAME, quiet())
    partial = target(tmp_path).with_name("hopper_random-v2.hdf5.partial")
    assert not partial.exists() or partial.stat().st_size <= len(CONTENT)
    assert not target(tmp_path).exists()


def test_without_a_published_size_there_is_a_limit(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "UNPUBLISHED_LIMIT", 1000)
    with pytest.raises(FileNotFoundError, match="the limit is 1,000 where no size is published"):
        fetch("maze2d-umaze-v1", quiet())
    assert not list((tmp_path / "datasets").glob("*.hdf5*partial"))


def test_a_file_without_a_checksum_comes_with_a_warning(host: Host, tmp_path: Path) -> None:
    console = quiet()
    fetch("maze2d-umaze-v1", console)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "warning: no checksum of maze2d-umaze-v1 is published, so the download cannot be verified" in said
    assert "not encrypted" in said
    console = quiet()
    fetch(NAME, console)
    assert "warning" not in console.file.getvalue()  # type: ignore[attr-defined]


def test_a_redirect_leaves_what_arrived_before(host: Host, tmp_path: Path) -> None:
    partial = target(tmp_path).with_name("hopper_random-v2.hdf5.partial")
    partial.parent.mkdir()
    partial.write_bytes(CONTENT[:1000])
    host.redirect = f"http://localhost:{host.server_port}/redirected"
    with pytest.raises(FileNotFoundError, match=r"redirects to .* 1,000 bytes are kept"):
        fetch(NAME, quiet())
    assert partial.read_bytes() == CONTENT[:1000]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told_at_once_and_not_taken_for_the_network(host: Host, tmp_path: Path) -> None:
    partial = target(tmp_path).with_name("hopper_random-v2.hdf5.partial")
    partial.parent.mkdir()
    partial.symlink_to("/dev/full")
    with pytest.raises(
        DiskFull,
        match=rf"{partial}: could not be written, because there is not enough disk space .* GRIDCOUNT_HOME",
    ):
        fetch(NAME, quiet())
    assert len(host.asked) == 1
