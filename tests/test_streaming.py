"""A log is imported in pieces: the same folder to the byte, in memory that does not grow with the log."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from log_files import EXCERPTS, smooth, write_csv, write_minari, write_tables
from numpy.typing import NDArray

from gridcount import transitions
from gridcount.data.formats.columns import Columns
from gridcount.data.formats.d4rl import read_hdf5, write_hdf5
from gridcount.data.load import import_log, load, open_log, read_log
from gridcount.data.quality.check import check
from gridcount.data.store.local import COLUMNS

Table = dict[str, NDArray[Any]]
PIECES = (1, 300, 2**24)  # bytes: a row at a time, a few rows, all rows


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path / "home"


def odd_flags(table: Table) -> None:
    """Terminal and timeout both set, one-row episodes, a terminal and a timeout next to each other."""
    table["terminals"][[9, 14, 15, 33]] = True
    table["timeouts"][[9, 10, 11, 12, 16, 34, 58]] = True


def with_successors(table: Table) -> None:
    table["next_observations"] = table["observations"] + np.float32(0.25)


def replay(table: Table) -> None:
    """What replay files look like: doubles, rewards (rows, 1), flags as floats."""
    table |= {
        key: table[key].astype(np.float64) for key in ("observations", "actions", "terminals", "timeouts")
    }
    table["rewards"] = table["rewards"].astype(np.float64)[:, None]


ODD: dict[str, list[Callable[[Table], None]]] = {
    "plain": [],
    "flags": [odd_flags],
    "successors": [with_successors],
    "successors and flags": [odd_flags, with_successors],
    "replay": [odd_flags, replay],
    "no timeouts": [lambda table: table.__delitem__("timeouts")],
}


def folder_bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def expected_bytes(
    path: str | Path, name: str, columns: Columns | None = None, **options: Any
) -> dict[str, bytes]:
    """The folder that NumPy itself would write of the log loaded whole."""
    import io

    data = load(path, columns, **options)
    files = {}
    for column in COLUMNS:
        buffer = io.BytesIO()
        np.save(buffer, getattr(data, column), allow_pickle=False)
        files[f"{column}.npy"] = buffer.getvalue()
    meta = {
        "source": read_log(path, columns).source,
        "format": 1,
        "name": name,
        "rows": len(data),
        "columns": {
            column: {"dtype": str(getattr(data, column).dtype), "shape": getattr(data, column).shape}
            for column in COLUMNS
        },
        "action_low": data.action_low.tolist(),
        "action_high": data.action_high.tolist(),
        "observation_names": data.observation_names,
        "action_names": data.action_names,
    }
    return files | {"meta.json": json.dumps(meta, indent=2).encode()}


def assert_imported_alike(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: str | Path,
    columns: Columns | None = None,
    **options: Any,
) -> None:
    with monkeypatch.context() as context:
        context.setattr(transitions, "CHUNK_BYTES", 2**24)
        expected = expected_bytes(path, "mylog", columns, **options)
        findings = check(path, columns)
    for size in PIECES:
        monkeypatch.setattr(transitions, "CHUNK_BYTES", size)
        import_log(path, "mylog", columns, replace=True, **options)
        assert folder_bytes(home / "imported" / "mylog") == expected, (path, size)
        with open_log(path, columns, on_disk=True) as log:
            assert [str(finding) for finding in check(log)] == [str(finding) for finding in findings]
    assert [entry.name for entry in (home / "imported").iterdir()] == ["mylog"]
    assert not list((home / "spool").iterdir())


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("scale", [False, True])
def test_an_import_in_pieces_is_the_same_folder_to_the_byte(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: str, scale: bool
) -> None:
    table = smooth(60, episode=20)
    for change in ODD[odd]:
        change(table)
    write_hdf5(tmp_path / "log.hdf5", table, {})
    np.savez(tmp_path / "log.npz", **table)  # type: ignore[arg-type]
    np.savez_compressed(tmp_path / "packed.npz", **table)  # type: ignore[arg-type]
    np.savez(tmp_path / "columns.npz", **{key: np.asfortranarray(column) for key, column in table.items()})  # type: ignore[arg-type]
    flat = {
        f"{key}_{d}": column[:, d]
        for key, column in table.items()
        if column.ndim == 2
        for d in range(column.shape[1])
    }
    flat |= {key: column for key, column in table.items() if column.ndim == 1}
    flat = {key.replace("rewards_0", "reward"): column for key, column in flat.items()}
    parquet.write_table(arrow.table(flat), tmp_path / "log.parquet", row_group_size=7)
    write_csv(tmp_path / "log.csv", flat)
    for path in ("log.hdf5", "log.npz", "packed.npz", "columns.npz", "log.parquet", "log.csv"):
        assert_imported_alike(home, monkeypatch, tmp_path / path, scale_actions=scale)


@pytest.mark.parametrize("layout", ["hdf5", "arrow"])
@pytest.mark.parametrize("scale", [False, True])
def test_a_minari_set_is_imported_in_pieces(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, scale: bool
) -> None:
    truth = read_hdf5(EXCERPTS / "hopper_medium_replay-v1.hdf5")
    name = write_minari(tmp_path / "minari", truth, layout, monkeypatch)
    assert_imported_alike(home, monkeypatch, name, scale_actions=scale)


@pytest.mark.parametrize("excerpt", ["hopper_medium_replay-v1.hdf5", "pen-expert-v1.hdf5"])
def test_genuine_files_and_their_tables_are_imported_in_pieces(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, excerpt: str
) -> None:
    assert_imported_alike(home, monkeypatch, EXCERPTS / excerpt)
    assert_imported_alike(
        home, monkeypatch, write_tables(tmp_path, read_hdf5(EXCERPTS / excerpt))[2]
    )  # Parquet with lists


IDS = {
    "numbers": np.repeat(np.arange(6), 10),
    "text": np.repeat(list("abcdef"), 10),
    "one row each": np.arange(60),
}


@pytest.mark.parametrize("ids", IDS)
def test_an_episodes_id_may_change_between_pieces(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ids: str
) -> None:
    table = smooth(60, dims=1, actions=1, episode=20)
    del table["timeouts"]
    table["terminals"] = IDS[ids] == IDS[ids][-1]  # so that something remains where every row is an episode
    columns = table | {"episode": IDS[ids]}
    flat = {key: column.ravel() for key, column in columns.items()}
    np.savez(tmp_path / "log.npz", **columns)  # type: ignore[arg-type]
    parquet.write_table(arrow.table(flat), tmp_path / "log.parquet")
    write_csv(tmp_path / "log.csv", flat)
    for path in ("log.npz", "log.parquet", "log.csv"):
        assert_imported_alike(home, monkeypatch, tmp_path / path)


def text_at(row: int, word: str) -> Callable[[Table], None]:
    def change(table: Table) -> None:
        table["obs_1"] = table["obs_1"].astype(object)
        table["obs_1"][row] = word

    return change


@pytest.mark.parametrize("size", PIECES)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (text_at(33, "red"), r"column 'obs_1' holds 'red' at row 33, which is not a number"),
        (text_at(33, ""), r"column 'observation' holds nan at row 33"),
        (lambda t: t["action_0"].__setitem__(44, 9), r"action \[9\..*\] at row 44 is outside \[-1, 1\]"),
        (
            lambda t: t.update(done=np.where(np.arange(60) == 55, 0.5, 0)),
            r"'done' holds 0.5 at row 55; a flag must be 0 or 1",
        ),
    ],
)
def test_a_bad_value_is_named_by_its_row_whatever_the_piece_and_leaves_nothing_behind(
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    change: Callable[[Table], None],
    message: str,
) -> None:
    monkeypatch.setattr(transitions, "CHUNK_BYTES", size)
    columns = smooth(60, episode=20)
    table: Table = {f"obs_{d}": columns["observations"][:, d] for d in range(3)} | {
        "action_0": columns["actions"][:, 0].copy()
    }
    table |= {
        "reward": columns["rewards"],
        "done": columns["terminals"].astype(float),
        "timeout": columns["timeouts"].astype(int),
    }
    change(table)
    path = write_csv(tmp_path / "log.csv", table)
    with pytest.raises(ValueError, match=message) as caught:
        import_log(path, "mylog")
    assert str(path) in str(caught.value)
    assert not (home / "imported").exists() or not list((home / "imported").iterdir())
    assert not list((home / "spool").iterdir())


@pytest.mark.parametrize("suffix", [".hdf5", ".npz", ".parquet"])
def test_a_file_that_ends_early_leaves_nothing_behind(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr(transitions, "CHUNK_BYTES", 300)
    write_tables(tmp_path, read_hdf5(EXCERPTS / "hopper_random-v1.hdf5"))
    path = tmp_path / f"log{suffix}"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])
    with pytest.raises(ValueError, match=r"truncated or damaged|not a readable") as caught:
        import_log(path, "mylog")
    assert str(path) in str(caught.value)
    assert not (home / "imported").exists()


def test_quoted_cells_over_several_lines_are_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f'{i},0,{i},"line one\nline ""two"""' for i in range(20)]
    path = tmp_path / "log.csv"
    path.write_text("obs_0,action_0,reward,remark\n" + "\n".join(lines) + "\n\n")
    monkeypatch.setattr(transitions, "CHUNK_BYTES", 1)
    np.testing.assert_array_equal(read_log(path).reward, np.arange(20))


def test_a_damaged_member_of_an_archive_is_noticed(tmp_path: Path) -> None:
    columns = smooth(400)
    np.savez(tmp_path / "log.npz", **columns)  # type: ignore[arg-type]
    content = bytearray((tmp_path / "log.npz").read_bytes())
    place = bytes(content).index(columns["observations"][200].tobytes())
    content[place] ^= 1
    (tmp_path / "log.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"'observations' is truncated or damaged \(Bad CRC-32"):
        load(tmp_path / "log.npz")


# --- memory ---

ROWS, DIMS = 1_000_000, 50  # 200 MB of observations alone, 400 MB with the next

MEASURE = """
import sys
from gridcount.cli import main
def peak():  # of this program alone (Linux)
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024
main(["data", "import", sys.argv[1], "--name", "small"])
base = peak()
assert main(["data", "import", sys.argv[2], "--name", "large"]) == 0
print(peak() - base)
"""


def write_large_hdf5(path: Path, rows: int) -> None:
    """A log that packs well, written some rows at a time."""
    with h5py.File(path, "w") as file:
        shapes = {
            "observations": (rows, DIMS),
            "actions": (rows, 2),
            "rewards": (rows,),
            "terminals": (rows,),
            "timeouts": (rows,),
        }
        columns = {
            key: file.create_dataset(key, shape, np.float32, chunks=(4096, *shape[1:]))
            for key, shape in shapes.items()
        }
        rng = np.random.default_rng(0)
        for start in range(0, rows, 100_000):
            part = slice(start, min(start + 100_000, rows))
            step = np.arange(part.start, part.stop)
            columns["observations"][part] = np.sin(step[:, None] / 50 + np.arange(DIMS), dtype=np.float32)
            columns["actions"][part] = rng.uniform(-1, 1, size=(len(step), 2))
            columns["rewards"][part] = rng.normal(size=len(step))
            columns["timeouts"][part] = step % 1000 == 999


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_importing_takes_a_fraction_of_the_logs_memory(home: Path, tmp_path: Path) -> None:
    write_large_hdf5(tmp_path / "small.hdf5", 5000)
    write_large_hdf5(tmp_path / "large.hdf5", ROWS)
    program = [sys.executable, "-c", MEASURE, str(tmp_path / "small.hdf5"), str(tmp_path / "large.hdf5")]
    done = subprocess.run(program, check=True, capture_output=True, text=True)
    stored = sum(path.stat().st_size for path in (home / "imported" / "large").iterdir()) / 2**20
    assert stored > 380
    assert float(done.stdout.split()[-1]) < 120
