"""Where the data lives changes nothing but the memory it takes."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from processes import train_exactly

from gridcount.cli import main
from gridcount.data.load import load
from gridcount.files.archive import numbered
from gridcount.training.checkpoints import load as load_checkpoint
from gridcount.training.loop import OnDisk, make_learners, seed_keys

TINY = [
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
    "--seeds",
    "2",
]
TINY += ["--updates", "60", "--evaluate-every", "20", "--checkpoint-seconds", "0"]


@pytest.fixture
def imported(maze_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The maze's log under a name of its own."""
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert main(["data", "import", str(maze_file), "--name", "mylog"]) == 0
    return "mylog"


def test_training_from_disk_gives_the_same_bits_as_from_memory_and_resumes(
    imported: str, tmp_path: Path
) -> None:
    train_exactly(imported, *TINY, "--run", "memory")
    train_exactly(imported, *TINY, "--run", "disk", "--memory-map")
    shutil.copytree("disk", "again")
    newest = numbered(Path("again/checkpoints"))[-1]
    newest.unlink()  # as if killed before the last checkpoint
    train_exactly(imported, *TINY, "--run", "again", "--memory-map", "--resume")
    expected = load_checkpoint(numbered(Path("memory/checkpoints"))[-1])
    for run in (Path("disk"), Path("again")):
        assert (run / "metrics.jsonl").read_bytes() == Path("memory/metrics.jsonl").read_bytes()
        found = load_checkpoint(numbered(run / "checkpoints")[-1])
        assert found.keys() == expected.keys()
        assert all(
            found[name].tobytes() == array.tobytes() for name, array in expected.items() if name != "run"
        )


def test_mapped_columns_stay_on_disk(imported: str) -> None:
    from gridcount.algorithms.gpc_sac import GPCSAC

    data = load(imported, memory_map=True)
    assert isinstance(data.observation, np.memmap)
    prepared = GPCSAC(hidden=(8,), batch_size=16).prepare(data)
    init_key, train_key = seed_keys(0)
    state = prepared.algorithm.init(init_key, prepared.rows)
    learners = make_learners(prepared.algorithm, 5, [state], prepared.rows, [train_key])
    assert isinstance(learners, OnDisk)
    assert np.isfinite(learners.advance(0)["critic_loss"]).all()


def test_a_file_must_be_imported_before_it_can_be_mapped(
    maze_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", str(maze_file), *TINY, "--memory-map", "--run", str(tmp_path / "run")]) == 2
    assert "gridcount data import" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
