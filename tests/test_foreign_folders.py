"""Folders and tables from somebody else: no link leads out of them, and a full disk or memory is told as
that."""

import errno
import shutil
import tempfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from log_files import smooth, write_minari

from gridcount.benchmark import store
from gridcount.cli import main
from gridcount.data import load as loading
from gridcount.data.formats.d4rl import read_hdf5
from gridcount.data.load import import_log, load

EXCERPT = Path(__file__).parent / "data" / "hopper_random-v1.hdf5"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def move_out(path: Path, tmp_path: Path) -> None:
    """Leave a link in a file's place."""
    path.rename(tmp_path / "secret")
    path.symlink_to(tmp_path / "secret")


@pytest.mark.parametrize("name", ["reward.npy", "meta.json"])
def test_an_imported_folder_reads_no_other_file_through_a_link(
    name: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import_log(EXCERPT, "theirs")
    folder = home / "imported" / "theirs"
    (tmp_path / "typed").symlink_to(folder)
    assert len(load(tmp_path / "typed"))  # a folder that is itself a link was typed
    move_out(folder / name, tmp_path)
    for dataset in ("theirs", str(folder)):
        assert main(["data", "info", dataset]) == 2
        assert f"{folder / name}: is a symbolic link" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "name"), [("hdf5", "main_data.hdf5"), ("hdf5", "metadata.json"), ("arrow", "*.arrow")]
)
def test_a_minari_folder_reads_no_other_file_through_a_link(
    kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_minari(tmp_path, read_hdf5(EXCERPT), kind, monkeypatch)
    path = next(iter(tmp_path.rglob(name)))
    data = next(iter(tmp_path.rglob("metadata.json"))).parent
    (tmp_path / "typed").symlink_to(data)
    assert len(load(tmp_path / "typed"))
    move_out(path, tmp_path)
    assert main(["data", "info", str(data)]) == 2
    assert f"{path}: is a symbolic link" in capsys.readouterr().err


def test_a_results_file_that_would_fill_the_memory_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "theirs.parquet"
    parquet.write_table(arrow.table({"key": ["x"] * 100_000, "suite": ["y"] * 100_000}), path)
    monkeypatch.setattr(store, "memory_limit", lambda: 1_000_000)
    assert main(["report", str(path)]) == 2
    message = capsys.readouterr().err
    assert f"{path}: its 100,000 rows of 2 columns" in message
    assert "memory" in message


class Full:
    """A file on a disk without room."""

    def __init__(self, **options: Any) -> None:
        self.file = REAL(**options)

    def __enter__(self) -> "Full":
        return self

    def __exit__(self, *how: object) -> None:
        self.file.close()

    def write(self, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


REAL = tempfile.TemporaryFile


@pytest.mark.parametrize("by_columns", [False, True])
def test_a_full_disk_while_a_log_is_unpacked_is_told_as_that(
    by_columns: bool,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    columns = smooth(400) | (
        {"observations": np.asfortranarray(smooth(400)["observations"])} if by_columns else {}
    )
    np.savez(tmp_path / "log.npz", **columns)  # type: ignore[arg-type]
    monkeypatch.setattr("gridcount.transitions.CHUNK_BYTES", 1000)
    monkeypatch.setattr(tempfile, "TemporaryFile", Full)
    assert main(["data", "import", str(tmp_path / "log.npz"), "--name", "mine"]) == 2
    message = capsys.readouterr().err
    assert f"{home / 'spool'}: could not be written, because there is not enough disk space" in message
    assert "GRIDCOUNT_HOME" in message
    assert "damaged" not in message


# --- HDF5 that unpacks to more than it states ---


def test_hdf5_whose_chunks_are_compressed_twice_or_larger_than_their_values_is_refused(
    tmp_path: Path,
) -> None:
    columns = smooth(400)
    path = tmp_path / "log.hdf5"
    for case in ("twice", "oversized"):
        with h5py.File(path, "w") as file:
            for key, column in columns.items():
                if key != "rewards":
                    file[key] = column
            made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            made.set_chunk((400,))
            made.set_deflate(9)
            if case == "twice":
                made.set_deflate(9)
            space = h5py.h5s.create_simple((400,))
            dataset = h5py.h5d.create(file.id, b"rewards", h5py.h5t.IEEE_F32LE, space, made)
            if case == "oversized":
                dataset.write_direct_chunk((0,), bytes(1_000_000))
            else:
                h5py.Dataset(dataset)[...] = columns["rewards"]
        with pytest.raises(
            ValueError, match=r"'rewards' is (compressed more than once|stored in a chunk of 1,000,000 bytes)"
        ):
            loading.load(path)


def test_hdf5_as_usual_compressed_is_read(tmp_path: Path) -> None:
    ways: list[dict[str, Any]] = [
        {},
        {"compression": "gzip", "shuffle": True, "fletcher32": True},
        {"compression": "lzf"},
    ]
    for number, options in enumerate(ways):
        with h5py.File(tmp_path / f"{number}.hdf5", "w") as file:
            for key, column in smooth(400).items():
                file.create_dataset(key, data=column, **options)
        assert len(load(tmp_path / f"{number}.hdf5"))


@pytest.mark.parametrize("link", ["report", "report/tables", "report/figures"])
@pytest.mark.parametrize("out", [False, True])
def test_a_report_is_not_written_through_a_link_in_somebodys_results(
    link: str, out: bool, results_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, elsewhere = tmp_path / "results", tmp_path / "elsewhere"
    for folder in (results, elsewhere):
        folder.mkdir()
    shutil.copy(results_file, results)
    (results / link).parent.mkdir(exist_ok=True)
    (results / link).symlink_to(elsewhere)
    words = ["--out", str(results / "report")] if out else []
    if out and link == "report":  # a folder that the user names may be a link
        assert main(["report", str(results), "--no-figures", *words]) == 0
        return
    assert main(["report", str(results), "--no-figures", *words]) == 2
    assert f"{results / link}: is a symbolic link to {elsewhere}" in capsys.readouterr().err
    assert not list(elsewhere.iterdir())
