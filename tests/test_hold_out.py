"""Episodes that are held out: training never sees them, and `estimate` finds them again."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_estimate import always, make_log
from test_policy import write_log

import gridcount as gc
from gridcount.cli import main
from gridcount.data.split import Split
from gridcount.training.experiment import load_again, load_whole

LOG_FLAGS = [
    "--observation",
    "temp_*",
    "--action",
    "valve",
    "--reward",
    "yield",
    "--episode",
    "batch",
    "--scale-actions",
]
SHORT = ["--hidden", "8", "--batch-size", "16", "--updates", "20", "--evaluate-every", "10", "--no-plot"]
FAST = ["--updates", "20", "--hidden", "8"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("log") / "reactor.csv")


@pytest.fixture(scope="module")
def run(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "held"
    assert main(["train", str(log), *LOG_FLAGS, *SHORT, "--hold-out", "0.3", "--run", str(run)]) == 0
    return run


def test_the_two_parts_are_the_log_and_share_no_episode() -> None:
    data = make_log(episodes=50)
    split = Split(0.2, 3)
    training, held = split.training_part(data), split.held_out_part(data)
    assert len(held.episode_lengths) == 10
    rows = np.concatenate([training.observation, held.observation])
    assert sorted(map(tuple, rows.tolist())) == sorted(map(tuple, data.observation.tolist()))
    assert set(training.episode_lengths) == set(held.episode_lengths) == {5}


def test_the_split_depends_on_its_seed_and_a_larger_one_holds_a_smaller_one() -> None:
    data = make_log(episodes=50)
    small, large = Split(0.1).held_out(data), Split(0.4).held_out(data)
    assert (large[small]).all()
    assert large.sum() == 20
    assert (Split(0.4).held_out(data) == large).all()
    assert (Split(0.4, 1).held_out(data) != large).any()


@pytest.mark.parametrize(
    ("split", "message"), [(Split(1.0), "from 0 to below 1"), (Split(0.1, -1), "at least 0")]
)
def test_a_split_that_cannot_be_is_an_error(split: Split, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        split.held_out(make_log(episodes=5))
    with pytest.raises(ValueError, match="has 1 episode"):
        Split(0.5).held_out(make_log(episodes=1))


def test_columns_on_disk_stay_on_disk(tmp_path: Path) -> None:
    data = make_log(episodes=20)
    columns: dict[str, Any] = {}
    for name in ("observation", "action", "reward", "next_observation"):
        np.save(tmp_path / f"{name}.npy", getattr(data, name))
        columns[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    mapped = gc.Transitions(**columns, terminated=data.terminated, episode_end=data.episode_end)
    training = Split(0.3).training_part(mapped)
    assert isinstance(training.observation, np.memmap)
    assert np.array_equal(training.observation, Split(0.3).training_part(data).observation)


def test_training_never_sees_what_is_held_out(run: Path) -> None:
    whole = load_whole(run)
    prepared, data = load_again(run)
    held = Split(0.3).held_out(whole)
    assert len(data) == len(prepared.rows.reward) == int(whole.episode_lengths[~held].sum()) < len(whole)
    assert np.array_equal(data.observation, whole.observation[~np.repeat(held, whole.episode_lengths)])
    counted = gc.load_policy(run)._counts
    assert counted is not None
    assert counted.guard is not None
    assert int(counted.guard.rows.sum()) == len(data)


def test_a_resumed_run_keeps_its_split(run: Path, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = ["train", str(log), *LOG_FLAGS, *SHORT, "--run", str(run), "--resume", "--updates", "30"]
    assert main(again) == 0
    assert json.loads((run / "config.json").read_text())["hold_out"] == 0.3
    assert main([*again, "--hold-out", "0.2"]) == 2
    assert "hold_out was 0.3, now 0.2" in capsys.readouterr().err


def test_a_run_without_a_split_is_recorded_as_before(log: Path, tmp_path: Path) -> None:
    run = tmp_path / "plain"
    assert main(["train", str(log), *LOG_FLAGS, *SHORT, "--run", str(run)]) == 0
    assert "hold_out" not in json.loads((run / "config.json").read_text())
    assert gc.Run(run).resume(updates=30, progress=False).metrics["updates"].max() == 30


def test_estimate_finds_the_held_out_episodes(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "estimate.json"
    assert main(["estimate", str(run), *FAST, "--json", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "the log" in shown
    assert "cannot say" in shown
    assert json.loads(out.read_text())["episodes"] == int(Split(0.3).held_out(load_whole(run)).sum())
    found = gc.estimate({"run": gc.Run(run), "rule": always(50.0)}, updates=20, hidden=(8,), progress=False)
    assert [each.name for each in found] == ["run", "rule", "the log"]


def test_data_that_a_policy_was_trained_on_is_noted(
    run: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = str(run / "policy")  # it does not say which episodes were held out
    assert main(["estimate", policy, "--data", str(log), *LOG_FLAGS, *FAST]) == 0
    assert "learnt from this very data" in capsys.readouterr().out.replace("\n", " ")


def test_data_from_python_is_estimated_on_what_the_run_held_out(run: Path) -> None:
    data = load_whole(run)
    found = gc.estimate(gc.Run(run), data, updates=20, hidden=(8,), progress=False)
    assert found.episodes == int(Split(0.3).held_out(data).sum())
    assert not any("learnt from this very data" in note for note in found.notes)


def test_a_run_that_held_nothing_out_is_an_error(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "plain"
    assert main(["train", str(log), *LOG_FLAGS, *SHORT, "--run", str(run)]) == 0
    assert main(["estimate", str(run)]) == 2
    assert "train with --hold-out 0.1" in capsys.readouterr().err
