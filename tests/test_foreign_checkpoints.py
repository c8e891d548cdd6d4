"""Checkpoints from somebody else: they take no more memory than the run that they are of."""

import re
import shutil
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gridcount.cli import main
from gridcount.data.load import load as load_data
from gridcount.files.archive import numbered, save_arrays
from gridcount.training.checkpoints import load
from gridcount.training.plan import read_plan
from gridcount.training.restoring import restore_policies

SHORT = [
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
    "--updates",
    "20",
]
SHORT += ["--evaluate-every", "20", "--no-plot"]
HUGE = 2**40


@pytest.fixture(scope="module")
def finished(maze_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("finished") / "run"
    assert main(["train", str(maze_file), *SHORT, "--run", str(run)]) == 0
    return run


def write(path: Path, arrays: dict[str, Any]) -> None:
    np.savez(path, **arrays)


def compressed(path: Path, arrays: dict[str, Any]) -> None:
    np.savez_compressed(path, **arrays | {first(arrays): np.zeros(10_000_000, np.float32)})


def sparse(path: Path, arrays: dict[str, Any]) -> None:
    name = first(arrays)
    del arrays[name]
    nothing: dict[str, Any] = {f"{name}|at": np.zeros(0, np.int64), f"{name}|is": np.zeros(0, np.float32)}
    write(path, {f"{name}|shape": np.array([HUGE])} | nothing | arrays)


def large(path: Path, arrays: dict[str, Any]) -> None:
    write(path, arrays | {first(arrays): np.zeros(10_000_000, np.float32)})


def surplus(path: Path, arrays: dict[str, Any]) -> None:
    write(path, arrays | {"seed0.more": np.zeros(10_000_000, np.float32)})


def long_shape(path: Path, arrays: dict[str, Any]) -> None:
    nothing: dict[str, Any] = {
        "seed0.more|at": np.zeros(0, np.int64),
        "seed0.more|is": np.zeros(0, np.float32),
    }
    write(path, arrays | {"seed0.more|shape": np.zeros(1_000_000, np.int64)} | nothing)


def first(arrays: dict[str, Any]) -> str:
    return next(name for name, array in arrays.items() if array.dtype == np.float32)


@pytest.mark.parametrize("bomb", [compressed, sparse, large, surplus, long_shape])
def test_a_checkpoint_that_unpacks_to_more_than_its_run_has_is_refused_before_it_does(
    bomb: Callable[[Path, dict[str, Any]], None],
    finished: Path,
    maze_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = shutil.copytree(finished, tmp_path / "run")
    (newest,) = numbered(run / "checkpoints")
    bomb(newest, load(newest))
    resumed = ["train", str(maze_file), *SHORT, "--run", str(run), "--resume"]
    for words in (["plot", str(run)], resumed):
        assert main(words) == 2
        message = capsys.readouterr().err
        assert f"error: {newest}: " in message
        assert any(each in message for each in ("damaged", "this configuration"))
    prepared = read_plan(run).make_algorithm().prepare(load_data(str(maze_file)))
    tracemalloc.start()
    with pytest.raises(ValueError, match=re.escape(str(newest))):
        restore_policies(run, prepared)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000  # of the 8,000,000 bytes that the smallest of these would take


def test_stored_values_that_changed_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "1.npz"
    save_arrays(path, {"values": np.arange(100_000.0)})
    content = bytearray(path.read_bytes())
    content[500_000] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"damaged.*CRC"):
        load(path)


@pytest.mark.parametrize("shape", [(), (0,), (3, 4), (2, 3, 4), (1200, 1000)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_come_back_as_they_were(shape: tuple[int, ...], order: Any, tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 9, shape)
    arrays = {
        "dense": np.asarray(values, order=order),
        "sparse": np.asarray(values * (values > 7), order=order),
    }
    save_arrays(tmp_path / "1.npz", arrays)
    found = load(tmp_path / "1.npz")
    with zipfile.ZipFile(tmp_path / "1.npz") as archive:
        assert ("sparse|at.npy" in archive.namelist()) == (values.size > 1_000_000)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
