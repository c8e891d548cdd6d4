"""Run directories that somebody else touched: nothing foreign is overwritten, no link is followed, no row
is lost silently."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gridcount.cli import main
from gridcount.files.archive import numbered
from gridcount.training.logs import read_rows

SMALL = ["--env", "maze2d-umaze-v1", "--hidden", "8", "--batch-size", "16", "--episodes", "2", "--no-plot"]
SHORT = [*SMALL, "--bins", "4", "--updates", "60", "--evaluate-every", "20"]
EVENTS = "tensorboard/seed0/events.out.tfevents.gridcount"


@pytest.fixture(scope="module")
def finished(maze_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with checkpoints at 20, 40 and 60 updates; tests that tamper with it copy it."""
    run = tmp_path_factory.mktemp("finished") / "run"
    assert (
        main(["train", str(maze_file), *SHORT, "--checkpoint-seconds", "0", "--keep", "3", "--run", str(run)])
        == 0
    )
    return run


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / "run")


@pytest.fixture
def resume(run: Path, maze_file: Path) -> Callable[..., int]:
    return lambda *changes: main(
        ["train", str(maze_file), *SHORT, "--keep", "3", *changes, "--run", str(run), "--resume"]
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def edit_record(checkpoint: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    with np.load(checkpoint) as file:
        arrays = {name: file[name] for name in file.files}
    record = json.loads(arrays["run"].tobytes())
    change(record)
    arrays["run"] = np.frombuffer(json.dumps(record).encode(), np.uint8)
    with checkpoint.open("wb") as written:
        np.savez(written, **arrays)


# --- links ---


@pytest.mark.parametrize("name", ["metrics.jsonl", EVENTS, "run.lock", "config.json", "environment.json"])
def test_a_link_in_a_run_is_named_and_what_it_points_to_stays(
    name: str, run: Path, resume: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "of somebody else"
    (run / name).rename(target)
    before = target.read_bytes()
    (run / name).symlink_to(target)
    assert resume("--updates", "80") == 2
    message = capsys.readouterr().err
    assert f"{run / name}: is a symbolic link to {target}" in message
    assert "delete the link" in message
    assert target.read_bytes() == before


@pytest.mark.parametrize("name", ["tensorboard", "checkpoints"])
def test_a_linked_folder_in_a_run_is_named(
    name: str, run: Path, resume: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "elsewhere"
    (run / name).rename(target)
    before = contents(target)
    (run / name).symlink_to(target)
    assert resume("--updates", "80") == 2
    assert f"{run / name}: is a symbolic link to {target}" in capsys.readouterr().err
    assert contents(target) == before


@pytest.mark.parametrize("name", ["config.partial", "environment.partial", "checkpoints/0000000080.partial"])
def test_a_link_where_a_partial_file_was_once_written_is_not_followed(
    name: str, run: Path, resume: Callable[..., int], tmp_path: Path
) -> None:
    target = tmp_path / "of somebody else"
    target.write_text("precious")
    (run / name).symlink_to(target)
    assert resume("--updates", "80") == 2
    assert target.read_text() == "precious"


def test_a_pipe_in_the_place_of_a_file_is_no_reason_to_wait(
    run: Path, resume: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "metrics.jsonl").unlink()
    os.mkfifo(run / "metrics.jsonl")
    assert resume() == 2
    assert f"{run / 'metrics.jsonl'}: is not a regular file" in capsys.readouterr().err
    assert main(["report", str(run)]) == 2


# --- a new run ---


@pytest.mark.parametrize(
    "held", ["metrics.jsonl", "environment.json", "checkpoints/0000000001.partial", "notes.txt"]
)
def test_a_new_run_takes_no_directory_that_holds_anything(
    held: str, maze_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = tmp_path / "d" / held
    foreign.parent.mkdir(parents=True)
    foreign.write_text("precious")
    assert main(["train", str(maze_file), *SHORT, "--run", str(tmp_path / "d")]) == 2
    message = capsys.readouterr().err
    assert f"{tmp_path / 'd'} is not empty (it holds {held.split('/')[0]})" in message
    assert "--run" in message
    assert contents(tmp_path / "d") == {held: b"precious"}


def test_a_new_run_takes_an_empty_directory_and_one_killed_before_it_wrote_anything(
    maze_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "run.lock").touch()
    assert main(["train", str(maze_file), *SHORT, "--run", str(tmp_path / "d")]) == 0


# --- rows ---


def delete(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:1]))


def edit(path: Path) -> None:
    *lines, last = path.read_text().splitlines()
    path.write_text("\n".join([*lines, last.replace('"critic_loss": ', '"critic_loss": 1')]) + "\n")


@pytest.mark.parametrize(("damage", "fits"), [(delete, None), (cut, 20), (edit, 40)])
def test_lost_rows_stop_a_resumed_run_and_an_older_checkpoint_that_fits_is_named(
    damage: Callable[[Path], None],
    fits: int | None,
    finished: Path,
    run: Path,
    resume: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(run / "metrics.jsonl")
    before = contents(run)
    assert resume() == 2
    message = capsys.readouterr().err
    assert f"{run / 'metrics.jsonl'}: rows that were written before" in message
    assert contents(run) == before
    newer = [path for path in numbered(run / "checkpoints") if fits is not None and int(path.stem) > fits]
    if fits is None:
        assert "start a new run" in message
        return
    assert f"delete {' and '.join(map(str, newer))} to resume from update {fits}" in message
    for path in newer:
        path.unlink()
    assert resume() == 0
    assert (run / "metrics.jsonl").read_bytes() == (finished / "metrics.jsonl").read_bytes()


def test_an_older_checkpoint_that_is_damaged_does_not_hide_the_lost_rows(
    run: Path, resume: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    cut(run / "metrics.jsonl")
    first, second, third = numbered(run / "checkpoints")
    second.write_bytes(second.read_bytes()[:1000])
    assert resume() == 2
    message = capsys.readouterr().err
    assert f"{run / 'metrics.jsonl'}: rows that were written before" in message
    assert f"delete {second} and {third} to resume from update 20" in message
    first.write_bytes(b"")
    assert resume() == 2
    assert "start a new run" in capsys.readouterr().err


def test_a_checkpoint_of_an_older_version_knows_sizes_alone_and_still_goes_on(
    finished: Path, run: Path, resume: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    for path in numbered(run / "checkpoints"):
        edit_record(path, lambda record: record.pop("digests"))
    numbered(run / "checkpoints")[-1].unlink()
    assert resume() == 0
    assert (run / "metrics.jsonl").read_bytes() == (finished / "metrics.jsonl").read_bytes()
    cut(run / "metrics.jsonl")
    capsys.readouterr()
    assert resume() == 2
    assert "missing or changed" in capsys.readouterr().err


@pytest.mark.parametrize("damage", [delete, cut])
def test_a_lost_event_file_is_made_again_from_the_rows(
    damage: Callable[[Path], None],
    finished: Path,
    run: Path,
    resume: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(run / EVENTS)
    assert resume() == 0
    assert f"{run / EVENTS} was missing or changed, and was rebuilt" in capsys.readouterr().err
    assert len((run / EVENTS).read_bytes()) == len(
        (finished / EVENTS).read_bytes()
    )  # they differ in their times alone


@pytest.mark.parametrize("lines", [[1, 2], [0, 2], [0, 1]])
def test_a_report_names_the_evaluation_that_is_missing(
    lines: list[int], run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(rows[line] for line in lines))
    missing = 20 * (1 + ({0, 1, 2} - set(lines)).pop())
    for words in (
        ["report", str(run), "--no-figures"],
        ["plot", str(run), str(run), "--out", str(run / "curves.png")],
    ):
        assert main(words) == 2
        assert (
            f"metrics.jsonl: the evaluation of seed 0 at update {missing} is missing"
            in capsys.readouterr().err
        )


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [delete, empty])
def test_a_report_does_not_leave_out_a_run_whose_rows_are_all_lost(
    damage: Callable[[Path], None], finished: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(finished, run.parent / "whole")
    damage(run / "metrics.jsonl")
    for place in (run, run.parent):
        assert main(["report", str(place), "--no-figures"]) == 2
        assert (
            f"{run / 'metrics.jsonl'}: the evaluation of seed 0 at update 20 is missing"
            in capsys.readouterr().err
        )
    shutil.rmtree(run / "checkpoints")  # now it looks like a run that has only begun
    assert main(["report", str(run.parent), "--no-figures"]) == 0
    assert f"left out: {run}, which has not written an evaluation yet" in capsys.readouterr().out


def test_a_report_misses_a_last_evaluation_that_is_not_a_multiple_of_the_others(
    maze_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    words = [*SMALL, "--bins", "4", "--updates", "27", "--evaluate-every", "20", "--seeds", "2"]
    assert main(["train", str(maze_file), *words, "--run", str(run)]) == 0
    rows = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(rows[:-1]))
    assert main(["report", str(run), "--no-figures"]) == 2
    assert "the evaluation of seed 1 at update 27 is missing" in capsys.readouterr().err


def test_a_run_that_grew_has_an_evaluation_more_and_no_hole(maze_file: Path, tmp_path: Path) -> None:
    words = [
        "train",
        str(maze_file),
        *SMALL,
        "--bins",
        "4",
        "--evaluate-every",
        "20",
        "--run",
        str(tmp_path / "run"),
    ]
    assert main([*words, "--updates", "27"]) == 0
    assert main([*words, "--updates", "45", "--resume"]) == 0
    assert [row["updates"] for row in read_rows(tmp_path / "run")] == [20, 27, 40, 45]
    assert main(["report", str(tmp_path / "run"), "--no-figures"]) == 0


# --- records of checkpoints ---


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"updates": -5}, "'updates' is -5; it must be a whole number >= 0"),
        ({"updates": 10**9}, "it records 1,000,000,000 updates, but its file name says 60"),
        ({"updates": 59}, "it records 59 updates, but its file name says 60"),
        ({"updates": None}, "'updates' is null"),
        (
            {"pending": [[7, {"critic_loss": [1.0]}]]},
            "7 updates are not evaluated yet, but there can be at most 0",
        ),
        ({"pending": "none"}, "'pending' is \"none\"; it must be a list"),
        ({"sizes": {"metrics.jsonl": -1}}, "'sizes[...]'"),
    ],
    ids=str,
)
def test_a_record_that_cannot_be_is_refused_with_the_way_out(
    change: dict[str, Any],
    expected: str,
    run: Path,
    resume: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    newest = numbered(run / "checkpoints")[-1]
    edit_record(newest, lambda record: record.update(change))
    commands: list[Callable[[], int]] = [resume, lambda: main(["plot", str(run)])]
    for command in commands:
        assert command() == 2
        message = capsys.readouterr().err
        assert f"{newest}: the checkpoint is damaged" in message
        assert expected in message
        assert "elete it to resume from the previous checkpoint" in message


def test_a_checkpoint_beyond_the_plan_is_refused(
    run: Path, resume: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    newest = numbered(run / "checkpoints")[-1]
    edit_record(newest, lambda record: record.update(updates=10**6))
    newest.rename(newest.with_name(f"{10**6:010d}.npz"))
    assert resume() == 2
    assert "it records 1,000,000 updates, but the run has only 60" in capsys.readouterr().err


# --- which run is resumed ---


def test_resume_finds_the_run_of_the_algorithm_and_the_dataset_not_of_a_name(
    maze_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    base = ["train", str(maze_file), *SMALL, "--evaluate-every", "20"]
    for algorithm in (
        "td3",
        "td3-bc",
    ):  # the name of the first one's directory is the beginning of the second's
        assert main([*base, "--algo", algorithm, "--updates", "40", "--checkpoint-seconds", "0"]) == 0
        numbered(tmp_path / "runs" / f"{maze_file.stem}-{algorithm}" / "checkpoints")[-1].unlink()
    os.utime(tmp_path / "runs" / f"{maze_file.stem}-td3-bc")  # the newer one
    damaged = tmp_path / "runs" / "damaged"
    damaged.mkdir()
    (damaged / "config.json").write_text("{")
    capsys.readouterr()
    assert main([*base, "--algo", "td3", "--resume"]) == 0
    assert f"run directory: runs/{maze_file.stem}-td3\n" in capsys.readouterr().out
    assert main([*base, "--algo", "td3", "--resume"]) == 2
    message = capsys.readouterr().err
    assert f"there is no unfinished run to resume of td3 on {maze_file}" in message
    assert "Skipped: runs/damaged/config.json: not JSON" in message
