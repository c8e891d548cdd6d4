"""Imports that are killed, disks that are full and users who press Ctrl-C twice: what is kept is whole,
and the way on is told."""

import errno
import multiprocessing
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from log_files import EXCERPTS
from processes import HANG, commands_with, wait_for

from gridcount.benchmark.suites import read_suite
from gridcount.cli import main
from gridcount.files import on_full_disk, whole_file, whole_folder, write_whole
from gridcount.files.archive import numbered
from gridcount.files.locks import lock
from gridcount.training import logs

EXCERPT = EXCERPTS / "hopper_random-v1.hdf5"
SMALL = [
    "--env",
    "maze2d-umaze-v1",
    "--hidden",
    "8",
    "--batch-size",
    "16",
    "--episodes",
    "2",
    "--bins",
    "4",
    "--no-plot",
]
SHORT = [*SMALL, "--updates", "40", "--evaluate-every", "20", "--checkpoint-seconds", "0"]


# --- leftovers ---


def _write_and_wait(folder: str, ready: Any) -> None:
    with whole_folder(Path(folder) / "mine") as partial, whole_file(Path(folder) / "file") as file:
        (partial / "column.npy").write_bytes(bytes(1000))
        file.write(b"half")
        file.flush()
        ready.set()
        signal.pause()


@pytest.fixture
def writer(tmp_path: Path) -> Any:
    """A process that writes a folder and a file and does not finish."""
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_write_and_wait, args=(str(tmp_path / "imported"), ready))
    process.start()
    assert ready.wait(300)
    yield process
    process.kill()
    process.join()


def partials(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.endswith((".partial", ".old")))


def test_what_a_killed_import_left_is_removed_by_the_next_and_what_a_live_one_writes_is_not(
    writer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path))
    imported = tmp_path / "imported"
    (imported / ".gone.123456.partial").mkdir()  # as older versions named them
    assert len(partials(imported)) == 3
    assert main(["data", "import", str(EXCERPT), "--name", "other"]) == 0
    assert "removed" in (said := capsys.readouterr().out)
    assert ".gone.123456.partial" in said
    write_whole(imported / "file", "whole")
    assert len(partials(imported)) == 2  # the live ones
    writer.kill()
    writer.join()
    assert main(["data", "import", str(EXCERPT), "--name", "another"]) == 0
    assert f"removed {imported}/.mine." in capsys.readouterr().out
    write_whole(imported / "file", "whole again")
    assert partials(imported) == []
    assert sorted(path.name for path in imported.iterdir()) == ["another", "file", "other"]


def test_a_dataset_whose_replacement_was_killed_between_two_names_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path))
    assert main(["data", "import", str(EXCERPT), "--name", "mine"]) == 0
    (tmp_path / "imported" / "mine").rename(tmp_path / "imported" / ".mine.0123abcd.old")
    assert main(["data", "import", str(EXCERPT), "--name", "other"]) == 0
    assert main(["data", "check", "mine"]) in (0, 1)


def test_a_folder_that_was_taken_for_a_leftover_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = list[Path]()

    def late(held: Any) -> None:
        if not removed:  # another process comes between the folder and its lock
            removed.extend(tmp_path.glob(".*.partial"))
            removed[0].rmdir()
        lock(held)

    monkeypatch.setattr("gridcount.files.whole.lock", late)
    with whole_folder(tmp_path / "mine") as partial:
        (partial / "column.npy").write_bytes(b"whole")
    assert removed
    assert (tmp_path / "mine" / "column.npy").read_bytes() == b"whole"
    assert partials(tmp_path) == []


def test_a_leftover_that_is_being_removed_is_no_file_to_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = list[Path]()

    def late(file: Any) -> None:
        if not removed:  # another process has it locked, and removes it before it lets go
            removed.append(Path(file.name))
            removed[0].unlink()
            removed[0].write_bytes(b"of another process")
        lock(file)

    monkeypatch.setattr("gridcount.files.whole.lock", late)
    write_whole(tmp_path / "file", "whole")
    assert (tmp_path / "file").read_text() == "whole"


# --- a full disk ---


class FullDisk:
    """Lets writes through until so many bytes were written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, room: int):
        write = logs._LogFile.write
        self.left = room

        def limited(log: Any, content: bytes) -> None:
            if log._path.name == name:
                self.left -= len(content)
                if self.left < 0:
                    with on_full_disk(log._path):
                        raise OSError(errno.ENOSPC, "No space left on device")
            write(log, content)

        monkeypatch.setattr(logs._LogFile, "write", limited)


def test_a_run_whose_metrics_find_no_room_keeps_its_checkpoint_and_tells_how_to_go_on(
    maze_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as full:
        FullDisk(full, "metrics.jsonl", 600)  # a row and a half
        assert main(["train", str(maze_file), *SHORT, "--run", str(run)]) == 2
    message = capsys.readouterr().err
    assert f"{run / 'metrics.jsonl'}: could not be written, because there is not enough disk space" in message
    assert "checkpoints and metrics are kept" in message
    assert [int(path.stem) for path in numbered(run / "checkpoints")] == [20]
    words = shlex.split(message.split("resume with: gridcount ")[1])
    assert main(words) == 0
    assert [row["updates"] for row in logs.read_rows(run)] == [20, 40]


def test_an_import_that_finds_no_room_leaves_nothing_and_names_the_folder(tmp_path: Path) -> None:
    table = tmp_path / "log.npz"
    rng = np.random.default_rng(0)
    np.savez(
        table,
        observation=rng.normal(size=(20_000, 8)).astype(np.float32),
        action=rng.uniform(-1, 1, (20_000, 2)).astype(np.float32),
        reward=rng.normal(size=20_000).astype(np.float32),
        terminated=np.zeros(20_000, bool),
    )
    limited = ["sh", "-c", 'ulimit -f 600; exec "$@"', "sh"]  # no file grows beyond 300 kB, as on a full disk
    words = [*limited, sys.executable, "-m", "gridcount", "data", "import", str(table), "--name", "mine"]
    home = os.environ | {"GRIDCOUNT_HOME": str(tmp_path / "home")}
    done = subprocess.run(words, env=home, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert f"{tmp_path / 'home' / 'spool'}: could not be written" in done.stderr
    assert "Nothing was imported" in done.stderr
    assert "GRIDCOUNT_HOME" in done.stderr
    assert list((tmp_path / "home").rglob("*.partial")) == []


def test_a_report_that_finds_no_room_leaves_whole_files(
    results_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace = os.replace

    def full(source: str, target: Path) -> None:
        if Path(target).name == "report.html":
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    assert main(["report", str(results_file), "--no-figures", "--out", str(tmp_path / "out")]) == 2
    message = capsys.readouterr().err
    assert (
        f"{tmp_path / 'out' / 'report.html'}: could not be written, because there is not enough disk space"
        in message
    )
    assert "--out" in message
    assert list((tmp_path / "out").rglob("*.partial")) == []


# --- Ctrl-C, twice ---


Start = Callable[..., "subprocess.Popen[str]"]
WAITING_RUN = Path(__file__).with_name("waiting_run.py")


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a real Python process, which ends with the test at the latest."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-u", *words]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def read_until(process: "subprocess.Popen[str]", words: str) -> str:
    """What a process says up to a line with these words."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if words in line:
            return said
    raise AssertionError(f"it ended without saying '{words}': {said}")


def interrupt_twice(process: "subprocess.Popen[str]", moment: str) -> str:
    """Press Ctrl-C when a line with these words comes, and again as soon as the first is answered; what
    the process says."""
    said = read_until(process, moment)
    process.send_signal(signal.SIGINT)
    said += read_until(process, "stop")
    process.send_signal(signal.SIGINT)
    said += process.communicate(timeout=300)[0]
    assert process.returncode == 130, said
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize(
    ("moment", "message"),
    [
        ("before training", "stopped"),
        (
            "in a block of updates",
            "press Ctrl-C again to stop immediately\n\nstopped immediately; resume from the last checkpoint",
        ),
    ],
)
def test_a_second_ctrl_c_at_once_ends_the_process_without_a_traceback(
    moment: str, message: str, maze_file: Path, tmp_path: Path, start: Start
) -> None:
    process = start(str(WAITING_RUN), moment, "train", str(maze_file), *SHORT, "--run", str(tmp_path / "run"))
    assert message in interrupt_twice(process, moment)


SUITE = """
title = "t"
datasets = ["mine"]
algorithms = ["gpc-sac"]
scored = false
seeds = 1
updates = 100000
evaluate_every = 50000
[fields]
hidden = [256]
batch_size = 1024
bins = 4
state_bins = 4
[data]
mine = "{}"
"""


def test_a_second_ctrl_c_while_a_suite_waits_for_its_cells_ends_it(
    maze_file: Path, tmp_path: Path, start: Start
) -> None:
    (tmp_path / "mine.toml").write_text(SUITE.format(maze_file))
    words = ["benchmark", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "out"), "--workers", "1"]
    interrupt_twice(start("-m", "gridcount", *words), "everything goes to")
    wait_for(lambda: not commands_with(str(tmp_path)))  # its cells do not outlive it


def test_a_cell_whose_suite_is_gone_before_it_starts_ends(
    maze_file: Path, tmp_path: Path, start: Start
) -> None:
    asked = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True
    )
    suite = tmp_path / "mine.toml"
    suite.write_text(SUITE.format(maze_file).replace("100000", "1000000000"))
    (cell,) = read_suite(str(suite)).cells()
    (tmp_path / "cell.json").write_text(cell.to_json())
    files = map(str, (tmp_path / "cell.json", tmp_path / "run", tmp_path / "results.parquet"))
    process = start("-m", "gridcount.benchmark.worker", *files, "any 1", asked.stdout.strip())
    assert process.wait(HANG) in (130, -signal.SIGTERM)
