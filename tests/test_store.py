"""The results store: files of several machines merge, contradictions and damage are refused, nothing is
doubled."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from results_maker import make_rows

from gridcount.benchmark.store import read_results, write_rows
from gridcount.cli import main


@pytest.fixture
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with two algorithms' results."""
    rows = [
        row for name in ("gpc-sac", "sac") for row in make_rows("s", name, "maze2d-umaze-v1", evaluations=3)
    ]
    return write_rows(tmp_path_factory.mktemp("kept") / "results.parquet", rows)


def test_results_of_several_machines_merge_and_contradictions_are_refused(kept: Path, tmp_path: Path) -> None:
    rows = read_results(kept)
    write_rows(tmp_path / "a.parquet", [row for row in rows if row["algorithm"] == "sac"])
    write_rows(tmp_path / "b.parquet", rows)
    assert read_results(tmp_path / "a.parquet", tmp_path / "b.parquet") == rows
    write_rows(tmp_path / "c.parquet", [rows[0] | {"score": 1234.5}])
    with pytest.raises(ValueError, match=r"c\.parquet.*have different results for"):
        read_results(tmp_path)
    write_rows(
        tmp_path / "c.parquet", [rows[0] | {"critic_loss": 1234.5}]
    )  # what is not scored can disagree too
    with pytest.raises(ValueError, match=r"c\.parquet.*have different results for"):
        read_results(tmp_path)
    (tmp_path / "d.parquet").write_bytes(b"not parquet")
    with pytest.raises(ValueError, match=r"d\.parquet: not a readable Parquet file"):
        read_results(tmp_path / "d.parquet")


def test_seeds_that_saw_different_data_are_no_seeds_of_one_experiment(kept: Path, tmp_path: Path) -> None:
    rows = [row for row in read_results(kept) if row["algorithm"] == "sac"]
    write_rows(tmp_path / "a.parquet", [row for row in rows if row["seed"] < 2])
    write_rows(tmp_path / "b.parquet", [row | {"fingerprint": "0" * 16} for row in rows if row["seed"] == 2])
    with pytest.raises(
        ValueError,
        match=r"sac on maze2d-umaze-v1: seed 0 .*a\.parquet.* and seed 2 .*b\.parquet.* different data",
    ):
        read_results(tmp_path)


def test_a_run_is_taken_whole_from_the_place_that_has_more_of_it(kept: Path, tmp_path: Path) -> None:
    rows = read_results(kept)
    half = [
        row | {"seconds": row["seconds"] + 1000, "machine": "another"}
        for row in rows
        if row["updates"] < 15_000
    ]
    write_rows(tmp_path / "half.parquet", half)
    for places in ((tmp_path, kept), (kept, tmp_path)):
        assert read_results(*places) == rows


def test_rows_that_stand_twice_in_a_file_count_once_unless_they_differ(kept: Path, tmp_path: Path) -> None:
    rows = read_results(kept)
    write_rows(tmp_path / "twice.parquet", rows + rows)
    assert read_results(tmp_path / "twice.parquet") == rows
    write_rows(tmp_path / "twice.parquet", [*rows, rows[0] | {"score": 1234.5}])
    with pytest.raises(ValueError, match=r"twice\.parquet has two different results for"):
        read_results(tmp_path / "twice.parquet")


def test_two_processes_that_write_the_same_file_leave_it_whole(kept: Path, tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from gridcount.benchmark.store import read_results,"
        " write_rows\n"
        "rows = read_results(Path(sys.argv[1]))\n"
        "for _ in range(100): write_rows(Path(sys.argv[2]), rows); assert read_results(Path(sys.argv[2])) =="
        " rows"
    )
    words = [sys.executable, "-c", program, str(kept), str(tmp_path / "same.parquet")]
    both = [subprocess.Popen(words) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["same.parquet"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": "0"}, "row 1: 'seed' is \"0\"; it must be a whole number"),
        ({"suite": None}, "row 1: 'suite' is null; it must be text"),
        ({"config": "{"}, "its column 'config': not JSON"),
        ({"config": "[1]"}, "its column 'config': it is [1]; it must be an object"),
    ],
)
def test_a_file_that_only_looks_like_results_is_named(
    change: dict[str, Any], message: str, kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = read_results(kept)
    write_rows(tmp_path / "odd.parquet", [row | change for row in rows])
    assert main(["report", str(tmp_path / "odd.parquet")]) == 2
    error = capsys.readouterr().err
    assert "odd.parquet" in error
    assert message in error


def test_results_without_rows_or_finite_scores_are_refused_before_anything_is_written(
    kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows(tmp_path / "none.parquet", [])
    assert main(["report", str(tmp_path / "none.parquet")]) == 2
    assert "no rows in it" in capsys.readouterr().err
    rows = read_results(kept)
    write_rows(tmp_path / "nan.parquet", [rows[0] | {"score": float("nan")}, *rows[1:]])
    assert main(["report", str(tmp_path / "nan.parquet")]) == 2
    assert "nan.parquet, row 1: 'score' is NaN" in capsys.readouterr().err
    assert not (tmp_path / "report").exists()
