"""Files from somebody else: they reach no other file, fill no memory, and end no process."""

import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from log_files import smooth, write_minari
from numpy.typing import NDArray

from gridcount.benchmark.store import read_results
from gridcount.cli import main
from gridcount.data import load as loading
from gridcount.data.formats import arrow_files
from gridcount.data.formats import log as logs
from gridcount.data.formats.d4rl import read_hdf5
from gridcount.data.load import load, open_log, read_log

EXCERPTS = Path(__file__).parent / "data"
KEY = "rewards"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


# --- HDF5 that leads to other files ---


def external_link(file: h5py.File, key: str, other: Path) -> None:
    with h5py.File(other, "w") as secret:
        secret["rewards"] = np.zeros(40, np.float32)
    file[key] = h5py.ExternalLink(str(other), "/rewards")


def link_to_a_pipe(file: h5py.File, key: str, other: Path) -> None:
    os.mkfifo(other)
    file[key] = h5py.ExternalLink(str(other), "/rewards")


def soft_link_to_an_external_one(file: h5py.File, key: str, other: Path) -> None:
    external_link(file, "away", other)
    file["nearer"] = h5py.SoftLink("/away")
    file[key] = h5py.SoftLink("/nearer")


def external_storage(file: h5py.File, key: str, other: Path) -> None:
    other.write_bytes(bytes(160))
    file.create_dataset(key, (40,), np.float32, external=[(str(other), 0, 160)])


def virtual_dataset(file: h5py.File, key: str, other: Path) -> None:
    with h5py.File(other, "w") as secret:
        secret["rewards"] = np.zeros(40, np.float32)
    layout = h5py.VirtualLayout((40,), np.float32)
    layout[:] = h5py.VirtualSource(str(other), "rewards", (40,))
    file.create_virtual_dataset(key, layout)


WAYS = [external_link, link_to_a_pipe, soft_link_to_an_external_one, external_storage, virtual_dataset]


@pytest.mark.parametrize("way", WAYS)
def test_hdf5_that_leads_to_another_file_is_refused_by_name(
    way: Callable[[h5py.File, str, Path], None], tmp_path: Path
) -> None:
    path, other = tmp_path / "log.hdf5", tmp_path / "secret"
    with h5py.File(path, "w") as file:
        for key, column in smooth(40).items():
            if key != KEY:
                file[key] = column
        way(file, KEY, other)
    with pytest.raises(
        ValueError, match=rf"{path}: '{KEY}' is not read: .*another file|{path}: '{KEY}' .*virtual"
    ):
        load(path)
    assert main(["data", "import", str(path), "--name", "theirs"]) == 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("place", ["episode_0/rewards", "episode_0"])
def test_minari_files_that_lead_to_another_file_are_refused(
    way: Callable[[h5py.File, str, Path], None], place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_minari(tmp_path, read_hdf5(EXCERPTS / "hopper_random-v1.hdf5"), "hdf5", monkeypatch)
    path = next(tmp_path.rglob("main_data.hdf5"))
    with h5py.File(path, "a") as file:
        del file[place]
        way(file, place, tmp_path / "secret")
    if place == "episode_0" and way in (external_storage, virtual_dataset):
        return  # a dataset in the place of a group has no columns to read
    with pytest.raises(ValueError, match=r"is not read: "):
        load(path.parent)


def test_a_soft_link_inside_the_file_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "log.hdf5"
    with h5py.File(path, "w") as file:
        for key, column in smooth(40).items():
            file[f"deep/{key}"] = column
            file[key] = h5py.SoftLink(f"deep/{key}")
        file["circle"] = h5py.SoftLink("circle")
    np.testing.assert_array_equal(load(path).reward, smooth(40)["rewards"][: len(load(path))])
    with h5py.File(path, "a") as file:
        del file[KEY]
        file[KEY] = h5py.SoftLink("circle")
    with pytest.raises(ValueError, match="is a broken link"):
        load(path)


@pytest.mark.parametrize("suffix", [".hdf5", ".npz", ".parquet", ".csv"])
def test_a_pipe_is_no_file_to_wait_for(suffix: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / f"log{suffix}")
    with pytest.raises((FileNotFoundError, ValueError), match="no such file"):
        load(tmp_path / f"log{suffix}")


def test_a_pipe_in_an_imported_folder_or_among_results_is_not_waited_for(home: Path, tmp_path: Path) -> None:
    loading.import_log(write_npz(tmp_path / "log.npz", smooth(40)), "theirs")
    (home / "imported" / "theirs" / "reward.npy").unlink()
    os.mkfifo(home / "imported" / "theirs" / "reward.npy")
    with pytest.raises(ValueError, match=r"reward\.npy: missing or damaged"):
        load("theirs")
    (tmp_path / "results").mkdir()
    os.mkfifo(tmp_path / "results" / "a.parquet")
    with pytest.raises(FileNotFoundError, match="no results in it"):
        read_results(tmp_path / "results")


# --- small files that unpack to much ---


def write_npz(path: Path, columns: dict[str, NDArray[Any]], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, column in columns.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, column)
    return path


def write_header(path: Path, shape: tuple[int, ...], fortran: bool, **others: NDArray[Any]) -> Path:
    """An archive whose observations are a header, and next to no values."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": fortran, "shape": shape})
    write_npz(path, others)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("observations.npy", head.getvalue() + bytes(4000))
    return path


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressions_that_unpack_all_at_once_are_refused(
    compression: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_npz(
        tmp_path / "log.npz", smooth(400) | {"rewards": np.zeros(10_000_000, np.float32)}, compression
    )
    read = count_unpacked(monkeypatch)
    with pytest.raises(
        ValueError,
        match=r"compressed in a way that NumPy does not write; save it with numpy\.savez_compressed",
    ):
        load(path)
    assert sum(read) < 1_000_000  # of the 40,000,000 bytes that it holds


@pytest.mark.parametrize("shape", [(10, 10**9), (10**12, 3), (10**5, 10**5), (10, -3), (2**40, 2**40)])
@pytest.mark.parametrize("fortran", [True, False])
def test_a_header_that_states_more_than_there_is_is_refused_at_once(
    shape: tuple[int, int], fortran: bool, tmp_path: Path
) -> None:
    columns = {key: column for key, column in smooth(10).items() if key != "observations"}
    with pytest.raises(ValueError, match="'observations'"):
        load(write_header(tmp_path / "log.npz", shape, fortran, **columns))


def test_arrays_stored_by_columns_are_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = np.asfortranarray(np.random.default_rng(0).normal(size=(400, 1000)).astype(np.float32))
    path = write_npz(tmp_path / "log.npz", smooth(400) | {"observations": wide}, zipfile.ZIP_DEFLATED)
    read = count_unpacked(monkeypatch)
    np.testing.assert_array_equal(read_log(path).observation, wide)
    assert sum(read) < 3 * wide.nbytes
    monkeypatch.setattr("gridcount.transitions.CHUNK_BYTES", 4096)  # now it goes through a file on disk
    np.testing.assert_array_equal(read_log(path).observation, wide)
    assert sum(read) < 6 * wide.nbytes


def test_arrays_stored_by_columns_that_together_fill_the_disk_are_refused_before_the_first_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = np.asfortranarray(np.zeros((400, 1000), np.float32))  # 1.6 MB, and there are two of them
    path = write_npz(
        tmp_path / "log.npz",
        smooth(400) | {"observations": wide, "next_observations": wide},
        zipfile.ZIP_DEFLATED,
    )
    monkeypatch.setattr("gridcount.transitions.CHUNK_BYTES", 4096)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=2_000_000))
    read = count_unpacked(monkeypatch)
    with pytest.raises(ValueError, match=r"unpacks to 3,200,000 bytes, but .* has only 2,000,000 free"):
        read_log(path)
    assert sum(read) < wide.nbytes / 4


def count_unpacked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes that each call unpacks from an archive."""
    counted: list[int] = []
    real = zipfile.ZipExtFile._read1  # type: ignore[attr-defined]

    def noted(self: zipfile.ZipExtFile, count: int) -> Any:
        found = real(self, count)
        counted.append(len(found))
        return found

    monkeypatch.setattr(zipfile.ZipExtFile, "_read1", noted)
    return counted


@pytest.mark.parametrize("suffix", [".npz", ".hdf5", ".parquet", ".csv"])
def test_a_log_that_unpacks_to_more_than_the_memory_is_refused_or_left_on_disk(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, rows = tmp_path / f"log{suffix}", 20_000
    columns = {key: np.zeros((rows, *column.shape[1:]), column.dtype) for key, column in smooth(10).items()}
    write(path, columns)
    for module in (loading, logs):
        monkeypatch.setattr(module, "memory_limit", lambda: 400_000)
    monkeypatch.setattr("gridcount.transitions.CHUNK_BYTES", 10_000)
    pieces = count_pieces(monkeypatch)
    with pytest.raises(ValueError, match=r"memory are available; if it should be smaller|import it first"):
        load(path, memory_map=None)
    with pytest.raises(ValueError, match=r"memory are available; if it should be smaller"):
        read_log(path)
    if suffix != ".csv":  # a text does not say how many rows it has
        assert len(pieces) <= 3
    with open_log(path) as log:
        assert len(log) == rows
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=1000))
    with pytest.raises(ValueError, match="of disk"):
        loading.import_log(path, "theirs")


def count_pieces(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    counted: list[int] = []
    real = loading._format_pieces

    def noted(*words: Any) -> Any:
        for piece in real(*words):
            counted.append(len(piece))
            yield piece

    monkeypatch.setattr(loading, "_format_pieces", noted)
    return counted


def write(path: Path, columns: dict[str, NDArray[Any]]) -> None:
    flat = {
        f"{key}_{i}": each
        for key, column in columns.items()
        if column.ndim == 2
        for i, each in enumerate(column.T)
    }
    flat |= {key: column for key, column in columns.items() if column.ndim == 1}
    if path.suffix == ".npz":
        write_npz(path, columns, zipfile.ZIP_DEFLATED)
    elif path.suffix == ".hdf5":
        with h5py.File(path, "w") as file:
            for key, column in columns.items():
                file.create_dataset(key, data=column, compression="gzip")
    elif path.suffix == ".parquet":
        parquet.write_table(arrow.table(flat), path, compression="zstd")
    else:
        lines = [",".join(flat), *(",".join(map(str, row)) for row in zip(*flat.values(), strict=True))]
        path.write_text("\n".join(lines) + "\n")


# --- a library that aborts ---


ABORT = """
import os
import pyarrow.parquet
pyarrow.parquet.ParquetFile.iter_batches = lambda *words, **options: os.abort()
"""


def test_a_reader_that_aborts_is_a_message_and_the_next_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.parquet"
    write(path, smooth(60))
    read_log(path)  # by a reader that is kept, and must not be taken for the next
    arrow_files._stop_idle()
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "sitecustomize.py").write_text(ABORT)
    with monkeypatch.context() as patched:
        patched.syspath_prepend(str(tmp_path / "modules"))
        assert main(["data", "info", str(path)]) == 2
        error = capsys.readouterr().err
        assert (
            f"error: {path}: truncated or damaged Parquet (the Arrow library crashed on it with SIGABRT"
            in error
        )
        assert main(["report", str(path)]) == 2
        assert "SIGABRT" in capsys.readouterr().err
    assert len(read_log(path)) == 60


def test_two_swapped_bytes_on_which_arrow_aborts_are_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    # pyarrow 26 ends its process with it; another version may refuse it
    path = EXCERPTS / "two-bytes-swapped.parquet"
    for words in (["data", "info", str(path)], ["report", str(path)]):
        assert main(words) == 2
        assert f"error: {path}: " in capsys.readouterr().err


def test_a_reader_serves_many_files_and_ends_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    write(path, smooth(60))
    arrow_files._stop_idle()
    for _ in range(3):
        read_log(path)
    (reader,) = arrow_files._IDLE[os.getpid()]
    with open_log(path) as log, open_log(path) as other:
        assert len(log) == len(other) == 60
    assert arrow_files._IDLE[os.getpid()] == [reader]
    program = "import sys; from gridcount.data.formats import arrow_files as a; from pathlib import Path\n"
    program += "with a.open_arrow(Path(sys.argv[1])) as f: print(f._reader._process.pid)"
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert not Path(f"/proc/{done.stdout.strip()}").exists()


def test_a_module_in_the_working_directory_is_not_what_reads_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "log.parquet", smooth(60))
    (tmp_path / "pyarrow.py").write_text("raise SystemExit(3)")
    arrow_files._stop_idle()
    monkeypatch.chdir(tmp_path)
    assert len(read_log("log.parquet")) == 60
