"""A run that was killed, interrupted, extended or damaged: it goes on to the same bits, or is refused with
the way out."""

import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import jax
import numpy as np
import pytest
from processes import HANG, train_exactly

from gridcount.cli import main
from gridcount.commands.train import _default_algorithm
from gridcount.files.archive import numbered
from gridcount.training.logs import read_rows
from gridcount.training.progress import ConsoleDisplay

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
SHORT = [*SMALL, "--updates", "40", "--evaluate-every", "20"]
LONG = [
    *SMALL,
    "--updates",
    "300",
    "--evaluate-every",
    "10",
    "--seeds",
    "2",
    "--keep",
    "3",
    "--checkpoint-seconds",
    "0",
]

Start = Callable[[list[str]], "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def start() -> Start:
    """Start a real `gridcount train` process."""

    def start(words: list[str]) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "gridcount", "train", *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    return start


@pytest.fixture(scope="module")
def uninterrupted(maze_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("uninterrupted") / "run"
    assert main(["train", str(maze_file), *LONG, "--run", str(run)]) == 0
    return run


@pytest.fixture(scope="module")
def finished(maze_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short finished run with checkpoints at 20 and 40 updates; tests that tamper with it copy it."""
    run = tmp_path_factory.mktemp("finished") / "run"
    assert main(["train", str(maze_file), *SHORT, "--checkpoint-seconds", "0", "--run", str(run)]) == 0
    return run


def progress(run: Path) -> int:
    """Updates in the newest checkpoint."""
    saved = numbered(run / "checkpoints")
    return int(saved[-1].stem) if saved else 0


def wait_for(condition: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + HANG
    while not condition():
        assert process.poll() is None, f"the run ended by itself: {process.communicate()[0]}"
        assert time.monotonic() < deadline, "the run makes no progress"
        time.sleep(0.002)


def assert_same_result(run: Path, other: Path) -> None:
    """The newest checkpoints hold the same arrays, bit for bit, and the metrics are the same bytes."""
    one, two = (numbered(each / "checkpoints")[-1] for each in (run, other))
    assert one.name == two.name
    with np.load(one) as mine, np.load(two) as yours:
        assert mine.files == yours.files
        assert len(mine.files) > 10
        for name in mine.files:
            assert (mine[name].dtype, mine[name].shape) == (yours[name].dtype, yours[name].shape), name
            assert mine[name].tobytes() == yours[name].tobytes(), name
    assert (run / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()


def scalars(run: Path, seed: int) -> dict[str, list[tuple[int, float]]]:
    """What the real TensorBoard reads in a seed's event file: tag -> (step, value) in order."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    (file,) = (run / "tensorboard" / f"seed{seed}").iterdir()
    events = list(EventFileLoader(str(file)).Load())
    assert events[0].file_version == "brain.Event:2"
    found: dict[str, list[tuple[int, float]]] = {}
    for event in events[1:]:
        for value in event.summary.value:
            found.setdefault(value.tag, []).append((event.step, value.tensor.float_val[0]))
    return found


def expected_scalars(run: Path, seed: int) -> dict[str, list[tuple[int, float]]]:
    """The same, from metrics.jsonl."""
    found: dict[str, list[tuple[int, float]]] = {}
    for row in read_rows(run):
        if row["seed"] == seed:
            for tag in row.keys() - {"seed", "updates"}:
                found.setdefault(tag, []).append((row["updates"], float(np.float32(row[tag]))))
    return found


# --- kill -9 ---


KILLED_RUN = Path(__file__).with_name("killed_run.py")
MOMENTS = ["at the start", "in a checkpoint", "after a row", "before a checkpoint", "after a checkpoint"]


@pytest.fixture(scope="module")
def survivor(maze_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run killed five times at different moments (the first before any checkpoint), resumed each time,
    then left to finish."""
    run = tmp_path_factory.mktemp("killed") / "run"
    rng = random.Random(0)
    before: list[int] = []
    for moment in MOMENTS:
        words = ["train", str(maze_file), *LONG, "--run", str(run)] + (["--resume"] if before else [])
        at = 0 if not before else before[-1] + 10 * rng.randint(2, 4)
        process = subprocess.run(
            [sys.executable, str(KILLED_RUN), str(at), moment, *words], capture_output=True, text=True
        )
        assert process.returncode == -signal.SIGKILL, process.stderr
        before.append(progress(run))
    assert before[0] == 0
    assert 0 < before[1] < before[-1] < 300
    assert main(["train", str(maze_file), *LONG, "--run", str(run), "--resume"]) == 0
    return run


def test_a_run_killed_five_times_ends_in_the_same_bits_as_an_uninterrupted_one(
    survivor: Path, uninterrupted: Path
) -> None:
    assert_same_result(survivor, uninterrupted)


def test_metrics_of_a_killed_run_have_no_gap_and_no_repeat(survivor: Path) -> None:
    assert [(row["updates"], row["seed"]) for row in read_rows(survivor)] == [
        (u, s) for u in range(10, 301, 10) for s in (0, 1)
    ]


@pytest.mark.parametrize("seed", [0, 1])
def test_tensorboard_reads_the_metrics_of_runs_killed_or_not(
    survivor: Path, uninterrupted: Path, seed: int
) -> None:
    for run in (uninterrupted, survivor):
        found = scalars(run, seed)
        assert found == expected_scalars(run, seed)
        assert [step for step, _ in found["critic_loss"]] == list(range(10, 301, 10))


def test_a_killed_run_leaves_no_partial_file_and_no_surplus_checkpoint(survivor: Path) -> None:
    assert [int(path.stem) for path in numbered(survivor / "checkpoints")] == [280, 290, 300]
    assert not list(survivor.rglob("*.partial"))


# --- Ctrl-C ---


def test_ctrl_c_saves_and_prints_the_command_that_ends_in_the_same_bits(
    maze_file: Path, tmp_path: Path, start: Start, uninterrupted: Path
) -> None:
    run = tmp_path / "a run"  # the advice must survive a shell
    process = start([str(maze_file), *LONG, "--run", str(run)])
    wait_for(lambda: progress(run) >= 20, process)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=HANG)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert f"stopped at update {progress(run)}; all files are in {run}" in output
    (advice,) = [line for line in output.splitlines() if line.startswith("Resume with: gridcount ")]
    words = shlex.split(advice.removeprefix("Resume with: gridcount "))
    assert words.count("--run") == words.count("--resume") == 1
    assert main(words) == 0
    assert_same_result(run, uninterrupted)


def test_ctrl_c_between_two_evaluations_resumes_to_the_same_bits(
    maze_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", str(maze_file), *SMALL, "--updates", "4000", "--evaluate-every", "2000"]
    assert main([*words, "--run", str(tmp_path / "whole")]) == 0
    advance = ConsoleDisplay.advance

    def interrupt(self: ConsoleDisplay, done: int, metrics: dict[str, list[float]]) -> None:
        advance(self, done, metrics)
        if done in (1000, 3000):
            signal.raise_signal(signal.SIGINT)

    run = tmp_path / "run"
    monkeypatch.setattr(ConsoleDisplay, "advance", interrupt)
    for done, rows in ((1000, 0), (3000, 1)):
        assert main([*words, "--run", str(run), *(["--resume"] if rows else [])]) == 130
        assert f"stopped at update {done:,}" in capsys.readouterr().out
        assert progress(run) == done
        assert len(read_rows(run)) == rows
    assert main([*words, "--run", str(run), "--resume"]) == 0
    assert_same_result(run, tmp_path / "whole")


def test_a_second_ctrl_c_stops_at_once_and_keeps_what_was_saved(
    maze_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt_twice(self: ConsoleDisplay, row: dict[str, Any]) -> None:
        if row["updates"] == 40:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ConsoleDisplay, "evaluated", interrupt_twice)
    handler = signal.getsignal(signal.SIGINT)
    run = tmp_path / "run"
    assert main(["train", str(maze_file), *SHORT, "--checkpoint-seconds", "0", "--run", str(run)]) == 130
    assert "press Ctrl-C again" in capsys.readouterr().err
    assert progress(run) == 20
    assert signal.getsignal(signal.SIGINT) is handler  # as before the run


# --- what may change on resume, and what may not ---


def resume(run: Path, dataset: Path, *changes: str) -> int:
    return main(["train", str(dataset), *SHORT, *changes, "--run", str(run), "--resume"])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (["--critic-rate", "1e-3"], "critic_rate was 0.0003, now 0.001"),
        (["--pessimism", "0.5"], "pessimism was 0.4, now 0.5"),
        (["--hidden", "16"], "hidden was [8], now [16]"),
        (["--seeds", "2"], "seeds was [0], now [0, 1]"),
        (["--episodes", "3"], "episodes was 2, now 3"),
        (["--evaluate-every", "10"], "evaluate_every was 20, now 10"),
        (["--updates", "20"], "planned for 40 updates, more than --updates 20"),
    ],
    ids=lambda value: value[0].strip("-") if isinstance(value, list) else "",
)
def test_a_resumed_run_may_not_change(
    finished: Path, maze_file: Path, change: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (finished / "config.json").read_bytes()
    assert resume(finished, maze_file, *change) == 2
    message = capsys.readouterr().err
    assert named in message
    assert str(finished) in message
    assert (finished / "config.json").read_bytes() == before


def test_a_run_is_not_resumed_on_a_dataset_of_the_same_name_with_other_content(
    maze_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = shutil.copy(maze_file, tmp_path / "log.hdf5")
    words = ["train", str(dataset), *SHORT, "--run", str(tmp_path / "run")]
    assert main(words) == 0
    with h5py.File(dataset, "r+") as file:
        file["rewards"][7] += 0.5
    assert main([*words, "--resume"]) == 2
    assert "fingerprint was" in capsys.readouterr().err
    assert main(["plot", str(tmp_path / "run")]) == 2
    assert "is not the data this run was trained on" in capsys.readouterr().err


def test_a_run_extended_by_more_updates_is_the_run_planned_longer_from_the_start(
    finished: Path, maze_file: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    words = ["train", str(maze_file), *SMALL, "--evaluate-every", "20", "--run", str(run)]
    assert main([*words, "--updates", "20"]) == 0
    assert main([*words, "--updates", "40", "--resume"]) == 0
    assert_same_result(run, finished)
    assert (run / "config.json").read_bytes() == (finished / "config.json").read_bytes()


def test_updates_may_grow_from_and_to_any_number(maze_file: Path, tmp_path: Path) -> None:
    run, whole = tmp_path / "run", tmp_path / "whole"
    words = [str(maze_file), *SMALL, "--run", str(run)]
    train_exactly(str(maze_file), *SHORT, "--run", str(whole))
    train_exactly(*words, "--updates", "27", "--evaluate-every", "20")
    train_exactly(*words, "--updates", "40", "--resume")  # the run's own --evaluate-every
    assert [row["updates"] for row in read_rows(run)] == [20, 27, 40]
    assert (run / "config.json").read_bytes() == (whole / "config.json").read_bytes()
    with (
        np.load(numbered(run / "checkpoints")[-1]) as grown,
        np.load(numbered(whole / "checkpoints")[-1]) as planned,
    ):
        assert grown.files == planned.files
        for name in set(grown.files) - {"run"}:
            assert grown[name].tobytes() == planned[name].tobytes(), name


def test_a_run_shorter_than_the_time_between_evaluations_can_grow(maze_file: Path, tmp_path: Path) -> None:
    words = ["train", str(maze_file), *SMALL, "--run", str(tmp_path / "run")]
    assert main([*words, "--updates", "20"]) == 0
    assert main([*words, "--updates", "40", "--resume"]) == 0
    assert [row["updates"] for row in read_rows(tmp_path / "run")] == [20, 40]


def test_resuming_a_finished_run_changes_nothing(finished: Path, maze_file: Path, tmp_path: Path) -> None:
    run = shutil.copytree(finished, tmp_path / "run")
    assert resume(run, maze_file) == 0
    assert_same_result(run, finished)


def test_a_new_run_never_overwrites_an_old_one(
    finished: Path, maze_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}
    assert main(["train", str(maze_file), *SHORT, "--run", str(finished)]) == 2
    message = capsys.readouterr().err
    assert f"{finished} already holds a run" in message
    assert "--resume" in message
    assert {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()} == before


def test_runs_without_a_name_get_directories_of_their_own_and_resume_finds_the_unfinished_one(
    maze_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["train", str(maze_file), *SMALL, "--evaluate-every", "20"]
    stem = f"{maze_file.stem}-gpc-sac"
    assert main([*words, "--updates", "40"]) == 0
    assert main([*words, "--updates", "20"]) == 0
    assert sorted(path.name for path in Path("runs").iterdir()) == [stem, f"{stem}-2"]
    assert main([*words, "--updates", "40", "--resume"]) == 2  # both are finished
    assert "there is no unfinished run to resume" in capsys.readouterr().err
    numbered(Path("runs") / stem / "checkpoints")[-1].unlink()
    assert main([*words, "--updates", "40", "--resume"]) == 0
    assert f"run directory: runs/{stem}\n" in capsys.readouterr().out
    assert len(list(Path("runs").iterdir())) == 2


def test_resume_alone_finds_the_newest_unfinished_run_of_the_dataset_whatever_its_algorithm(
    maze_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["train", str(maze_file), "--hidden", "8", "--episodes", "1", "--evaluate-every", "20"]
    runs = {name: Path("runs") / f"{maze_file.stem}-{name}" for name in ("bc", "td3")}
    for name, run in runs.items():
        assert main([*words, "--algo", name, "--updates", "40", "--checkpoint-seconds", "0"]) == 0
        numbered(run / "checkpoints")[-1].unlink()
    os.utime(runs["bc"])  # the newer one
    for name in ("bc", "td3"):
        capsys.readouterr()
        assert main([*words, "--resume"]) == 0
        out = capsys.readouterr().out
        assert f"resuming the newest unfinished run of this dataset: {runs[name]}\n" in out
        assert f"; {name}, preset fast" in out
    assert main([*words, "--resume"]) == 2  # both are finished
    assert f"there is no unfinished run to resume of {maze_file} under runs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "algorithm"),
    [
        (["log.csv", "--reward", "maze2d-umaze-v1"], "gpc-anchor"),  # a column called like a dataset
        (["--reward", "maze2d-umaze-v1", "log.csv"], "gpc-anchor"),
        (["--run", "maze2d-umaze-v1", "log.csv"], "gpc-anchor"),
        (["log.csv", "--env", "maze2d-umaze-v1"], "gpc-sac"),
        (["--hidden", "8", "8", "--no-plot", "maze2d-umaze-v1"], "gpc-sac"),
        (["--action-low", "-1", "--no-layer-norm", "maze2d-umaze-v1"], "gpc-sac"),
    ],
)
def test_the_dataset_alone_chooses_the_algorithm(words: list[str], algorithm: str) -> None:
    assert _default_algorithm(words) == algorithm


def test_resume_with_nothing_to_resume_says_so(
    maze_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert resume(tmp_path / "nowhere", maze_file) == 2
    message = capsys.readouterr().err
    assert f"there is no unfinished run to resume under {tmp_path / 'nowhere'}" in message
    assert "leave out --resume" in message
    assert not (tmp_path / "nowhere").exists()


# --- damage ---


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("damage", [truncate, empty, flip])
def test_a_damaged_checkpoint_is_named_and_deleting_it_goes_on_from_the_one_before(
    damage: Callable[[Path], None],
    finished: Path,
    maze_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = shutil.copytree(finished, tmp_path / "run")
    newest = numbered(run / "checkpoints")[-1]
    damage(newest)
    for words in (["train", str(maze_file), *SHORT, "--run", str(run), "--resume"], ["plot", str(run)]):
        assert main(words) == 2
        message = capsys.readouterr().err
        assert f"{newest}: the checkpoint is damaged" in message
        assert "delete it to resume from the previous checkpoint" in message
    assert main(["evaluate", str(run), "--episodes", "1"]) == 0  # the policy is kept apart, and is whole
    newest.unlink()
    assert resume(run, maze_file) == 0
    assert_same_result(run, finished)


def test_no_flipped_bit_goes_unnoticed_or_ends_in_a_traceback(
    finished: Path, maze_file: Path, tmp_path: Path
) -> None:
    from gridcount.data.load import load
    from gridcount.training.plan import read_plan
    from gridcount.training.restoring import restore_policies

    run = shutil.copytree(finished, tmp_path / "run")
    prepared = read_plan(run).make_algorithm().prepare(load(str(maze_file)))
    newest = numbered(run / "checkpoints")[-1]
    whole = newest.read_bytes()
    (expected,), _, _ = restore_policies(run, prepared)
    rng = random.Random(0)
    refused = 0
    for _ in range(150):
        content = bytearray(whole)
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        newest.write_bytes(bytes(content))
        try:
            (state,), _, _ = restore_policies(run, prepared)
        except ValueError as error:
            assert str(newest) in str(error)  # noqa: PT017  most flips are refused; the rest must not matter
            refused += 1
        else:
            for mine, yours in zip(jax.tree.leaves(state), jax.tree.leaves(expected), strict=True):
                np.testing.assert_array_equal(mine, yours)
    assert refused > 75
