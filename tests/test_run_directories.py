"""What a run keeps of itself: its own directory, its commit, where its data came from, rows that can be
read while it runs."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest
from conftest import MakeLog
from jax import Array
from rich.console import Console

from gridcount.algorithms.contract import Prepared, Report, ignore_report
from gridcount.cli import main
from gridcount.commands.train import _train_flags
from gridcount.data.load import resolve_source
from gridcount.data.store import mazes
from gridcount.data.store.download import published
from gridcount.envs.maze2d_data import Progress
from gridcount.files import locked
from gridcount.files.memory import memory_limit
from gridcount.policy.actor import Actor, Perceptron
from gridcount.training import run as runs
from gridcount.training.directories import claim
from gridcount.training.divergence import Diverged
from gridcount.training.logs import read_rows
from gridcount.training.machine import commit_of
from gridcount.training.plan import Plan, read_plan
from gridcount.training.progress import ConsoleDisplay
from gridcount.transitions import Batch

UMAZE = "maze2d-umaze-v1"
PLAN = Plan("log", None, "sac", {}, seeds=(0,), updates=4, evaluate_every=2, episodes=1, fingerprint="")


@dataclass(frozen=True)
class Tells:
    """An algorithm that learns nothing and reports one number."""

    loss: float = 1.0
    discount: float = 0.99
    batch_size: int = 4

    def init(self, key: Array, rows: Batch, report: Report = ignore_report) -> dict[str, Array]:
        return {"updates": jnp.zeros(())}

    def update(
        self, state: dict[str, Array], batch: Batch, key: Array
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        return {"updates": state["updates"] + 1}, {
            "critic_loss": jnp.asarray(self.loss),
            "updates_before": state["updates"],
        }

    def actor(self, state: dict[str, Array]) -> Actor:
        return Actor(Perceptron([jnp.ones((3, 2))], [jnp.zeros(2)], [], []))


@pytest.fixture
def train(make_log: MakeLog, tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Train the algorithm that learns nothing on rewards of a certain size."""

    def train(loss: float = 1.0, reward: float = 1.0, **changes: Any) -> list[dict[str, Any]]:
        prepared = Prepared(Tells(loss=loss), make_log(scale=reward).rows(), {})
        return runs.train(
            replace(PLAN, **changes), prepared, tmp_path / "run", ConsoleDisplay(Console(quiet=True))
        )

    return train


# --- divergence ---


def test_losses_that_are_large_because_rewards_are_do_not_stop_a_run(
    train: Callable[..., list[dict[str, Any]]],
) -> None:
    assert len(train(loss=1e13, reward=1e5)) == 2  # values of 1e7 are what such rewards add up to
    assert len(train(loss=-1e10, updates=8)) == 4


def test_the_same_losses_stop_a_run_whose_rewards_are_small(
    train: Callable[..., list[dict[str, Any]]],
) -> None:
    with pytest.raises(Diverged, match="'critic_loss' became 1e\\+13"):
        train(loss=1e13, reward=1.0)


# --- evaluations fall on multiples, and on the end ---


@pytest.mark.parametrize(
    ("updates", "every"), [(1500, 5000), (7000, 5000), (400, 200), (3000, 1500), (45, 20), (1, 1)]
)
def test_every_number_of_updates_can_be_planned(updates: int, every: int) -> None:
    plan = replace(PLAN, updates=updates, evaluate_every=every)
    plan.check()
    done, evaluations = 0, []
    while size := plan.block_after(done):
        assert size <= 1000
        done += size
        evaluations += [done] if plan.evaluates_after(done) else []
    assert evaluations == sorted({*range(every, updates + 1, every), updates})


def test_metrics_are_means_over_updates_whatever_the_blocks(
    train: Callable[..., list[dict[str, Any]]],
) -> None:
    rows = train(updates=1600, evaluate_every=1500)
    assert [row["updates"] for row in rows] == [1500, 1600]
    assert [row["updates_before"] for row in rows] == pytest.approx(
        [749.5, 1549.5]
    )  # blocks of 1,000, 500 and 100


# --- directories ---


def test_runs_that_start_together_get_directories_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        claimed = list(pool.map(lambda _: claim(None, "log-sac"), range(8)))
    assert len(set(claimed)) == 8
    assert all(path.is_dir() for path in claimed)


def test_a_run_that_is_being_trained_is_not_trained_by_another(
    train: Callable[..., list[dict[str, Any]]], tmp_path: Path
) -> None:
    with (
        locked(tmp_path / "run" / "run"),
        pytest.raises(RuntimeError, match="run: another process is training this run"),
    ):
        train()
    assert len(train()) == 2  # and afterwards it is free


def test_a_seed_that_is_listed_twice_is_named(train: Callable[..., list[dict[str, Any]]]) -> None:
    with pytest.raises(ValueError, match=r"seed 3 is listed twice in \[1, 3, 3\]"):
        train(seeds=(1, 3, 3))


def test_a_directory_that_holds_another_plan_is_not_trained_in(
    train: Callable[..., list[dict[str, Any]]],
) -> None:
    train()
    with pytest.raises(ValueError, match="episodes was 1, now 2"):
        train(episodes=2)


# --- the commit ---


def git(folder: Path, *words: str) -> str:
    identity = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    return subprocess.run(
        ["git", *words], cwd=folder, env=os.environ | identity, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_commit_is_that_of_the_repository_the_code_is_part_of(tmp_path: Path) -> None:
    (tmp_path / "tracked.py").write_text("")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "tracked.py")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    (tmp_path / "installed.py").write_text(
        ""
    )  # as a package in a virtual environment inside somebody's repository
    assert commit_of(tmp_path / "tracked.py") == git(tmp_path, "rev-parse", "--short", "HEAD")
    assert commit_of(tmp_path / "installed.py") == "unknown"


def test_a_machine_without_git_trains(
    train: Callable[..., list[dict[str, Any]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert len(train()) == 2
    assert json.loads((tmp_path / "run" / "environment.json").read_text())[0]["commit"] == "unknown"


# --- rows of a live or killed run ---


def test_a_row_that_is_not_whole_is_left_out_and_a_broken_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"updates": 20, "seed": 0}\n{"updates": 40, "se')
    assert read_rows(tmp_path) == [{"updates": 20, "seed": 0}]
    path.write_text('{"updates": 20, "seed": 0}\n{"updates" 40}\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 2: not JSON"):
        read_rows(tmp_path)


def test_rows_can_be_read_as_soon_as_they_are_evaluated(
    train: Callable[..., list[dict[str, Any]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(
        ConsoleDisplay, "advance", lambda self, done, metrics: seen.append(len(read_rows(tmp_path / "run")))
    )
    train(updates=6)
    assert seen == [0, 1, 2]


# --- memory ---


@pytest.mark.parametrize(
    ("groups", "file"),
    [
        ("0::/jobs/17\n", "sys/fs/cgroup/jobs/memory.max"),
        ("0::/somewhere/outside\n", "sys/fs/cgroup/memory.max"),
        ("12:cpu:/\n5:memory:/jobs/17\n", "sys/fs/cgroup/memory/jobs/17/memory.limit_in_bytes"),
    ],
)
def test_a_container_s_limit_counts_where_it_is_lower_than_the_machine_s_memory(
    groups: str, file: str, tmp_path: Path
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups)
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text("max\n")
    machine = memory_limit(tmp_path)
    assert machine > 2**20
    (tmp_path / file).write_text(f"{2**20}\n")
    assert memory_limit(tmp_path) == 2**20
    (tmp_path / file).write_text(f"{2**63}\n")  # version 1's way to say that there is none
    assert memory_limit(tmp_path) == machine


# --- flags ---


def test_presets_do_not_depend_on_how_the_environment_is_written() -> None:
    _, spaced = _train_flags(["log.hdf5", "--env", "hopper-medium-v2"])
    _, joined = _train_flags(["log.hdf5", "--env=hopper-medium-v2"])
    assert spaced == joined
    assert (spaced.bins, spaced.pessimism) == (15, 4.0)  # GPC-SAC's for that dataset


def test_only_the_dataset_and_the_environment_choose_a_preset() -> None:
    assert _train_flags(["log.hdf5", "--run", UMAZE])[1] == _train_flags(["log.hdf5"])[1]
    assert _train_flags(["--bins", "4", UMAZE, "--algo=gpc-sac"])[1].state_bins == 15


# --- where the data came from, and where it lies ---


TINY = [
    "--hidden",
    "8",
    "--batch-size",
    "16",
    "--bins",
    "4",
    "--updates",
    "20",
    "--episodes",
    "1",
    "--no-plot",
]


def test_a_run_keeps_to_the_data_it_began_with(
    maze_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(mazes, "make", lambda *_, **__: maze_file)
    assert resolve_source(UMAZE) == "generated"
    assert main(["train", UMAZE, *TINY, "--run", str(tmp_path / "run")]) == 0
    assert f"transitions of {UMAZE} (generated here)" in capsys.readouterr().out
    assert read_plan(tmp_path / "run").source == "generated"

    other = published()[UMAZE].target  # D4RL's file arrives
    other.parent.mkdir(parents=True)
    other.write_bytes(b"not even HDF5")
    assert resolve_source(UMAZE) == "d4rl"
    assert main(["evaluate", str(tmp_path / "run"), "--episodes", "1"]) == 0
    assert main(["train", UMAZE, *TINY, "--updates", "40", "--run", str(tmp_path / "run"), "--resume"]) == 0
    assert [row["updates"] for row in read_rows(tmp_path / "run")] == [20, 40]
    capsys.readouterr()
    assert main(["train", UMAZE, *TINY, "--source", "d4rl"]) == 2
    assert str(other) in capsys.readouterr().err


def test_a_run_trained_from_a_file_is_evaluated_from_any_folder(
    maze_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    shutil.copy(maze_file, here / "log.hdf5")
    monkeypatch.chdir(here)
    assert main(["train", "log.hdf5", "--env", UMAZE, *TINY, "--run", str(tmp_path / "run")]) == 0
    monkeypatch.chdir(there)
    assert main(["evaluate", str(tmp_path / "run"), "--episodes", "1"]) == 0
    (here / "log.hdf5").rename(there / "log.hdf5")
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "run"), "--episodes", "1"]) == 0  # a policy acts without its log
    assert main(["plot", str(tmp_path / "run")]) == 2
    message = capsys.readouterr().err
    assert (
        f"{tmp_path / 'run'}: the run needs the data it was trained on, which could not be loaded from"
        f" {here / 'log.hdf5'}" in message
    )
    assert (
        main(["train", "log.hdf5", "--env", UMAZE, *TINY, "--run", str(tmp_path / "run"), "--resume"]) == 0
    )  # the same rows, moved
    assert main(["evaluate", str(tmp_path / "run"), "--episodes", "1"]) == 0


def test_a_machine_that_reads_json_is_not_disturbed_by_notices(
    maze_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def make(*_: Any, progress: Progress, **__: Any) -> Path:
        progress(10, 10)
        return maze_file

    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path))
    import_module(
        "gridcount.commands.data"
    )  # or a first import now would keep this `make` for the tests that follow
    monkeypatch.setattr(mazes, "make", make)
    assert main(["data", "info", UMAZE, "--json"]) == 0
    out, err = capsys.readouterr()
    grid = json.loads(out)["coverage"]
    assert (grid["bins"], grid["state_bins"]) == (30, 15)  # those that training counts on
    assert "generating 10 transitions" in err
    assert main(["data", "info", UMAZE, "--bins", "7"]) == 0
    assert "actions: 7 bins per dimension; states: 7 bins in each of" in capsys.readouterr().out


def test_a_cache_that_cannot_be_written_is_noticed_before_a_million_rows_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(
        "gridcount.envs.maze2d_data.generate", lambda *_: pytest.fail("rows were made for nothing")
    )
    with pytest.raises(OSError, match="set the environment variable GRIDCOUNT_HOME to another folder"):
        mazes.make(UMAZE)


# --- how to judge without an environment ---


def test_a_log_of_ones_own_is_trained_with_gpc_anchor_and_a_published_one_with_gpc_sac() -> None:
    assert (
        _train_flags(["log.hdf5"])[0].algo
        == _train_flags(["log.hdf5", "--run", UMAZE])[0].algo
        == "gpc-anchor"
    )
    assert _train_flags([UMAZE])[0].algo == _train_flags(["log.hdf5", "--env", UMAZE])[0].algo == "gpc-sac"
    assert _train_flags(["log.hdf5", "--algo", "bc"])[0].algo == "bc"
