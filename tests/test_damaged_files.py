"""A hundred ways to damage a file, each from a seed: no traceback, no hang, always the file's name and
what is wrong."""

import io
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from log_files import EXCERPTS, smooth, write_minari, write_tables
from numpy.typing import NDArray

from gridcount.data.formats.d4rl import read_hdf5, write_hdf5
from gridcount.data.load import load
from gridcount.data.quality.check import check, exit_code

Damage = Callable[
    [Path, np.random.Generator], bool
]  # changes the file; True where the damage must be refused, False where it may load


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("originals")
    return [
        path
        for path in write_tables(folder, read_hdf5(EXCERPTS / "hopper_random-v1.hdf5"))
        if path.name != "lists.parquet"
    ]


def cut(path: Path, rng: np.random.Generator) -> bool:
    content = path.read_bytes()
    path.write_bytes(content[: rng.integers(1, len(content) - 1)])
    return path.suffix != ".csv"  # a table of text that ends early may still be a table


def empty(path: Path, rng: np.random.Generator) -> bool:
    path.write_bytes(b"")
    return True


def noise(path: Path, rng: np.random.Generator) -> bool:
    path.write_bytes(rng.bytes(int(rng.integers(1, 5000))))
    return True


def page(path: Path, rng: np.random.Generator) -> bool:
    path.write_text("<!DOCTYPE html>\n<html><body>404, 'not' \"found\"</body></html>\n")
    return True


def flip(path: Path, rng: np.random.Generator) -> bool:
    content = bytearray(path.read_bytes())
    for place in rng.integers(len(content), size=20):
        content[place] ^= int(rng.integers(1, 256))
    path.write_bytes(content)
    return False  # a flipped bit of a number is another number


def hole(path: Path, rng: np.random.Generator) -> bool:
    content = bytearray(path.read_bytes())
    start = int(rng.integers(len(content) // 2))
    content[start : start + len(content) // 3] = bytes(len(content) // 3)
    path.write_bytes(content)
    return False


def swapped(path: Path, rng: np.random.Generator) -> bool:
    """Another format's bytes under this name."""
    other = io.BytesIO()
    if path.suffix == ".npz":
        np.save(other, np.zeros(3))
    else:
        with zipfile.ZipFile(other, "w") as archive:
            archive.writestr("a.txt", "hello")
    path.write_bytes(other.getvalue())
    return True


def folder(path: Path, rng: np.random.Generator) -> bool:
    path.unlink()
    path.mkdir()
    return True


ANY_FORMAT: list[Damage] = [cut, cut, cut, cut, empty, noise, noise, page, flip, flip, hole, swapped, folder]


Table = dict[str, NDArray[Any]]


def rewrite(path: Path, change: Callable[[Table], None]) -> None:
    with h5py.File(path) as file:
        columns = {key: file[key][()] for key in file}
    change(columns)
    path.unlink()
    with h5py.File(path, "w") as file:
        for key, column in columns.items():
            file.create_dataset(key, data=column)


def nan_somewhere(path: Path, rng: np.random.Generator) -> bool:
    key = rng.choice(["observations", "actions", "rewards", "next_observations", "terminals"])

    def change(columns: Table) -> None:
        columns[key] = columns[key].astype(np.float64)
        columns[key].flat[rng.integers(columns[key].size)] = rng.choice([np.nan, np.inf, -np.inf])

    rewrite(path, change)
    return True


def missing_key(path: Path, rng: np.random.Generator) -> bool:
    key = rng.choice(["observations", "actions", "rewards", "terminals"])
    rewrite(path, lambda columns: columns.__delitem__(key))
    return True


def wrong_dtype(path: Path, rng: np.random.Generator) -> bool:
    key = rng.choice(["observations", "actions", "rewards", "terminals", "timeouts", "next_observations"])
    kind = rng.choice(["S3", "c8"])
    rewrite(path, lambda columns: columns.update({key: columns[key].astype(kind)}))
    return True


def wrong_shape(path: Path, rng: np.random.Generator) -> bool:
    key = rng.choice(["observations", "actions", "next_observations"])
    shape = rng.choice(["flat", "deep", "scalar", "no columns"])

    def change(columns: Table) -> None:
        deep = columns[key][..., None]
        columns[key] = {
            "flat": columns[key].ravel(),
            "deep": deep,
            "scalar": np.array(1.0),
            "no columns": columns[key][:, :0],
        }[shape]

    rewrite(path, change)
    return True


def short_column(path: Path, rng: np.random.Generator) -> bool:
    key = rng.choice(["actions", "rewards", "terminals", "timeouts", "next_observations"])
    rewrite(path, lambda columns: columns.update({key: columns[key][: rng.integers(len(columns[key]))]}))
    return True


def no_rows(path: Path, rng: np.random.Generator) -> bool:
    rewrite(path, lambda columns: columns.update({key: column[:0] for key, column in columns.items()}))
    return True


def shuffled(path: Path, rng: np.random.Generator) -> bool:
    def change(columns: Table) -> None:
        order = rng.permutation(len(columns["rewards"]))
        columns.update({key: column[order] for key, column in columns.items()})

    rewrite(path, change)
    return False  # every row is a true transition; check reports the order


def huge_action(path: Path, rng: np.random.Generator) -> bool:
    def change(columns: Table) -> None:
        columns["actions"].flat[rng.integers(columns["actions"].size)] = rng.choice([-1e30, 2.0, 255.0])

    rewrite(path, change)
    return True


def group_for_column(path: Path, rng: np.random.Generator) -> bool:
    with h5py.File(path, "a") as file:
        del file["rewards"]
        file.create_group("rewards")
    return True


HDF5_ONLY: list[Damage] = [
    *([nan_somewhere] * 10 + [missing_key] * 5 + [wrong_dtype] * 8 + [wrong_shape] * 8 + [short_column] * 6),
    *([no_rows] + [shuffled] * 4 + [huge_action] * 5 + [group_for_column]),
]
CASES = [(".hdf5", damage) for damage in HDF5_ONLY] + [
    (suffix, damage) for suffix in (".hdf5", ".npz", ".parquet", ".csv") for damage in ANY_FORMAT
]


def outcome(path: Path) -> str | None:
    """The message a file ends in, or None where it loads; any other error is a traceback and fails the
    test."""
    try:
        load(path)
    except (ValueError, FileNotFoundError) as error:
        return str(error)
    return None


def test_there_are_a_hundred() -> None:
    assert len(CASES) == 100


@pytest.mark.parametrize("seed", range(100))
@pytest.mark.filterwarnings("error")
def test_a_damaged_file_ends_in_a_message(originals: list[Path], tmp_path: Path, seed: int) -> None:
    suffix, damage = CASES[seed]
    path = tmp_path / f"damaged{suffix}"
    shutil.copy(next(original for original in originals if original.suffix == suffix), path)
    must_fail = damage(path, np.random.default_rng(seed))
    message = outcome(path)
    assert message is not None or not must_fail
    if message is not None:
        assert str(path) in message
        assert len(message) > len(str(path)) + 20
    findings = check(path)
    if must_fail:
        assert exit_code(findings) == 2
        assert all(
            str(path) == finding.file and finding.problem
            for finding in findings
            if finding.severity == "error"
        )


@pytest.mark.parametrize(
    "keys", [["timeouts"], ["observations", "actions", "rewards", "terminals", "timeouts"]]
)
def test_a_shape_no_file_could_hold_is_refused_before_it_is_filled(tmp_path: Path, keys: list[str]) -> None:
    path = tmp_path / "huge.hdf5"
    write_hdf5(path, smooth(40, episode=10), {})
    with h5py.File(path, "a") as file:
        for key in keys:
            column = file[key][()]
            del file[key]
            file.create_dataset(
                key, data=column, chunks=(4, *column.shape[1:]), maxshape=(None, *column.shape[1:])
            )
            file[key].resize(2**33, axis=0)  # HDF5 would fill two thousand million chunks, one by one
    with pytest.raises(
        ValueError, match=r"has 8589934592 rows, 'observations' has 40|more than the file can hold"
    ):
        load(path)


@pytest.mark.parametrize("layout", ["hdf5", "arrow"])
@pytest.mark.parametrize("seed", range(15))
def test_a_damaged_minari_folder_ends_in_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    folder = tmp_path / write_minari(
        tmp_path, read_hdf5(EXCERPTS / "walker2d_random-v1.hdf5"), layout, monkeypatch
    )
    files = sorted(path for path in (folder / "data").rglob("*") if path.is_file())
    victim = files[rng.integers(len(files))]
    damage: Damage = (cut, flip, hole, noise)[rng.integers(4)]
    damage(victim, rng)
    message = outcome(folder)
    assert message is None or str(folder) in message
