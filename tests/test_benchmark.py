"""Suites of experiments: what runs, what is kept, and that nothing is lost, doubled or mixed, wherever it
runs."""

import contextlib
import io
import json
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import h5py
import pyarrow.parquet as pq
import pytest
from processes import ancestors, commands_with, wait_for
from rich.console import Console

from gridcount.benchmark.calibrate import estimate
from gridcount.benchmark.cells import Cell, Progress, Status, diverged_rows, run_cell, seeds_of
from gridcount.benchmark.overview import Overview
from gridcount.benchmark.remaining import missing
from gridcount.benchmark.store import read_results
from gridcount.benchmark.suites import Suite, narrow, read_suite
from gridcount.cli import main
from gridcount.report.scores import headline_scores, in_words
from gridcount.training import run as runs
from gridcount.training.divergence import Diverged
from gridcount.training.plan import Plan

SUITE = """
title = "two algorithms in a maze"
datasets = ["maze2d-umaze-v1"]
algorithms = ["gpc-sac", "sac"]
preset = "fast"
seeds = 2
updates = 300
evaluate_every = 100
episodes = 1
fields = {{ hidden = [8], batch_size = 16, state_bins = 5 }}
[data]
maze2d-umaze-v1 = "{data}"
"""


@pytest.fixture
def suite(maze_file: Path, tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SUITE.format(data=maze_file))
    return path


@pytest.fixture(scope="module")
def finished(maze_file: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A suite that ran to its end on this machine, and its folder."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "small.toml").write_text(SUITE.format(data=maze_file))
    assert main(["benchmark", str(folder / "small.toml"), "--out", str(folder / "out")]) == 0
    return folder / "small.toml", folder / "out"


def figures(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    return {(r["key"], r["seed"], r["updates"]): (r["score"], r["return"], r["critic_loss"]) for r in rows}


def test_a_store_row_says_what_it_is_and_where_it_came_from(
    finished: tuple[Path, Path], maze_file: Path
) -> None:
    rows = read_results(finished[1] / "results.parquet")
    assert len(rows) == 2 * 2 * 3
    row = rows[0]
    assert (row["suite"], row["dataset"], row["source"], row["planned_updates"]) == (
        "small",
        "maze2d-umaze-v1",
        "generated",
        300,
    )
    assert json.loads(row["config"])["hidden"] == [8]
    assert {
        "commit",
        "versions",
        "machine",
        "fingerprint",
        "score",
        "return",
        "success",
        "critic_loss",
        "seconds",
    } <= row.keys()
    assert {row["algorithm"] for row in rows if "uncertainty" in row} == {"gpc-sac"}
    timed = sorted({(row["updates"], row["seconds"]) for row in rows if row["algorithm"] == "sac"})
    assert [updates for updates, _ in timed] == [100, 200, 300]
    assert 0 < timed[0][1] < timed[1][1] < timed[2][1]
    assert all(0.1 < row["gigabytes"] < 10 for row in rows)


def test_a_finished_suite_runs_nothing_again_and_more_seeds_run_alone(finished: tuple[Path, Path]) -> None:
    cells = read_suite(str(finished[0])).cells()
    assert missing(cells, finished[1]) == []
    more = missing([cell.changed(seeds=(0, 1, 2)) for cell in cells], finished[1])
    assert [cell.seeds for cell in more] == [(2,), (2,)]


def test_another_config_or_other_data_is_never_mixed_with_an_old_one(
    finished: tuple[Path, Path], maze_file: Path, tmp_path: Path
) -> None:
    cells = read_suite(str(finished[0])).cells()
    assert len(missing([cell.changed(updates=400) for cell in cells], finished[1])) == 2
    assert (
        len(
            missing(
                [cell.changed(fields=cell.plan.fields | {"discount": 0.9}) for cell in cells], finished[1]
            )
        )
        == 2
    )
    other = tmp_path / "other.hdf5"
    other.write_bytes(maze_file.read_bytes() + b" ")
    assert len(missing([cell.changed(dataset=str(other)) for cell in cells], finished[1])) == 2
    moved = tmp_path / "moved.hdf5"
    moved.write_bytes(maze_file.read_bytes())
    assert missing([cell.changed(dataset=str(moved)) for cell in cells], finished[1]) == []


def test_a_suite_killed_in_the_middle_finishes_only_what_is_missing(
    suite: Path, tmp_path: Path, finished: tuple[Path, Path]
) -> None:
    out = tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "gridcount",
        "benchmark",
        str(suite),
        "--out",
        str(out),
        "--workers",
        "1",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: any((out / "results").glob("*.parquet")))
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: not commands_with(str(out)))  # a cell's process ends by itself when it loses its parent
    done = {path: path.stat().st_mtime_ns for path in (out / "results").glob("*.parquet")}
    assert done  # two, where the machine was too busy to stop it in time
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"2 cells, {2 - len(done)} to run" in answer.stdout
    assert all(path.stat().st_mtime_ns == written for path, written in done.items())
    assert figures(read_results(out / "results.parquet")) == figures(read_results(finished[1]))


def test_a_cell_that_fails_is_named_and_the_others_finish(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.hdf5").write_bytes(b"no log")
    text = suite.read_text().replace('["maze2d-umaze-v1"]', '["maze2d-umaze-v1", "maze2d-medium-v1"]')
    suite.write_text(text + f'\nmaze2d-medium-v1 = "{tmp_path / "bad.hdf5"}"\n')
    assert (
        main(["benchmark", str(suite), "--out", str(tmp_path / "out"), "--only", "sac", "--seeds", "1"]) == 1
    )
    assert "failed: sac, maze2d-medium-v1" in capsys.readouterr().out
    assert {row["dataset"] for row in read_results(tmp_path / "out" / "results.parquet")} == {
        "maze2d-umaze-v1"
    }


def test_a_cell_that_fails_says_why_this_time(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not what an earlier start of the same cell ended with."""
    (tmp_path / "bad.hdf5").write_bytes(b"no log")
    suite.write_text(
        re.sub("maze2d-umaze-v1 = .*", f'maze2d-umaze-v1 = "{tmp_path / "bad.hdf5"}"', suite.read_text())
    )
    cell = next(cell for cell in read_suite(str(suite)).cells() if cell.algorithm == "sac")
    directory = cell.directory(tmp_path / "out" / "cells")
    with contextlib.suppress(MemoryError), Status(directory, cell, directory):
        raise MemoryError
    assert Progress.read(directory).note == "MemoryError"
    assert main(["benchmark", str(suite), "--out", str(tmp_path / "out"), "--only", "sac"]) == 1
    assert "bad.hdf5" in capsys.readouterr().out.split("failed: ")[1]


def test_one_seed_of_two_that_diverges_leaves_the_other_its_run(
    finished: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training is told to explode for seed 1 once both were trained; seed 0 then has what it had beside
    it."""
    cell = next(cell for cell in read_suite(str(finished[0])).cells() if cell.algorithm == "sac")
    train = runs.train

    def exploding(plan: Plan, *words: Any, **named: Any) -> None:
        train(plan, *words, **named)
        if 1 in plan.seeds:
            raise Diverged(1, "metric 'critic_loss' became inf", 300, "")

    monkeypatch.setattr(runs, "train", exploding)
    rows = run_cell(cell, tmp_path / "run")
    assert {(row["seed"], "diverged" in row) for row in rows} == {(0, False), (1, True)}
    before = figures([row for row in read_results(finished[1]) if row["key"] == cell.key()])
    assert figures(rows) == before


def test_a_seed_that_diverges_is_a_result_and_the_others_finish_without_it(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], finished: tuple[Path, Path]
) -> None:
    """A whole setting that explodes at once; and one seed of two that does after an evaluation."""
    suite.write_text(suite.read_text() + '\n[[variants]]\nname = "hot"\nfields = { critic_rate = 1e30 }\n')
    command = ["benchmark", str(suite), "--out", str(tmp_path / "out"), "--only", "sac"]
    assert main(command) == 0
    assert "diverged: sac, maze2d-umaze-v1, hot, seed 1: metric" in capsys.readouterr().out
    rows = read_results(tmp_path / "out" / "results.parquet")
    assert [(row["seed"], row["updates"]) for row in rows] == [(0, 0), (1, 0)]
    assert main(command) == 0
    assert "0 to run" in capsys.readouterr().out

    cell = next(cell for cell in read_suite(str(finished[0])).cells() if cell.algorithm == "sac")
    shutil.copytree(cell.directory(finished[1] / "cells"), tmp_path / "run")
    found = diverged_rows(cell, tmp_path / "run", Diverged(1, "metric 'critic_loss' became inf", 200, ""))
    assert [(row["seed"], row["updates"], row["diverged"]) for row in found] == [
        (1, updates, "metric 'critic_loss' became inf after update 200") for updates in (100, 200, 300)
    ]


@pytest.mark.parametrize(
    "words", [["--ray", "auto", "--workers", "2"], ["--cell-cores", "2"], ["--cell-accelerators", "1"]]
)
def test_a_flag_that_would_do_nothing_is_refused(
    words: list[str], suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["benchmark", str(suite), *words]) == 2
    assert "--workers" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flag", ["--updates", "--seeds", "--evaluate-every", "--episodes", "--workers", "--cell-cores"]
)
def test_numbers_below_one_are_refused(flag: str, suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", str(suite), flag, "0"]) == 2
    assert "must be at least 1" in capsys.readouterr().err


def test_where_data_comes_from_is_told_by_the_data(
    maze_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A generated file, one that says nothing of itself, and an imported log, which may be replaced under
    its name."""
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "cache"))
    cell = Suite("s", "t", ("maze2d-umaze-v1",), ("sac",), data={"maze2d-umaze-v1": str(maze_file)}).cells()[
        0
    ]
    silent = tmp_path / "silent.hdf5"
    silent.write_bytes(maze_file.read_bytes())
    with h5py.File(silent, "r+") as file:
        del file.attrs["generator"]
    assert cell.origin().startswith("generated ")
    named = cell.changed(dataset=cell.dataset)
    before = named.key()
    monkeypatch.setattr("gridcount.benchmark.cells.FORMAT", 999)
    assert named.key() != before  # what another recipe generates is other data
    assert cell.changed(dataset=str(silent)).origin().startswith("own ")
    assert cell.changed(dataset=str(silent), name="hopper-medium-v2").origin().startswith("re-collected ")
    assert main(["data", "import", str(maze_file), "--name", "mine"]) == 0
    mine = cell.changed(dataset="mine", name="mine")
    assert mine.origin().startswith("own ")
    assert len(mine.origin()) > len("own ")


def test_an_estimate_is_not_shorter_than_the_longest_cell() -> None:
    long, short = (
        Suite("s", "t", ("maze2d-umaze-v1",), (name,), seeds=2, updates=updates).cells()[0]
        for name, updates in (("sac", 10_000), ("bc", 1_000))
    )
    per_update = {long.label: 1.0, short.label: 1.0}
    assert estimate([long, short], per_update, cores=2, workers=2) == 20_000
    assert estimate([long, short], per_update, cores=4, workers=4) == 10_000  # two cores each, one for a seed
    assert estimate([long, short], per_update, cores=1, workers=1) == 22_000


def test_two_suites_share_a_folder_and_its_runs_but_not_their_rows(
    finished: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(finished[1], tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / "cells")  # as where they ran on a cluster
    other = tmp_path / "other.toml"
    other.write_text(finished[0].read_text() + '\n[[variants]]\nname = "as it was"\n')
    command = ["benchmark", str(other), "--out", str(tmp_path / "out"), "--only", "sac"]
    assert main([*command, "--dry-run"]) == 0
    assert "1 cells, 0 to run" in capsys.readouterr().out
    assert main(command) == 0
    rows = read_results(tmp_path / "out" / "results.parquet")
    assert len([row for row in rows if row["suite"] == "small"]) == 2 * 2 * 3
    assert len([row for row in rows if (row["suite"], row["variant"]) == ("other", "as it was")]) == 2 * 3
    assert not (tmp_path / "out" / "cells").exists()  # nothing ran again


def rename_data(suite: Path, name: str) -> None:
    """A suite of a log of one's own."""
    text = suite.read_text().replace('["maze2d-umaze-v1"]', f'["{name}"]')
    suite.write_text(text.replace("maze2d-umaze-v1 =", f'"{name}" ='))


def test_a_variant_that_is_renamed_is_called_so_in_what_was_run(
    finished: tuple[Path, Path], tmp_path: Path
) -> None:
    shutil.copytree(finished[1], tmp_path / "out")
    suite = tmp_path / "small.toml"
    suite.write_text(finished[0].read_text() + '\n[[variants]]\nname = "plain"\n')
    assert main(["benchmark", str(suite), "--out", str(tmp_path / "out"), "--only", "sac"]) == 0
    rows = read_results(tmp_path / "out" / "results.parquet")
    assert {(row["algorithm"], row["variant"]) for row in rows} == {("sac", "plain"), ("gpc-sac", "")}
    assert figures(rows) == figures(read_results(finished[1]))


def test_a_log_may_have_any_name(suite: Path, tmp_path: Path) -> None:
    name = "plant/reactor [2026] *"
    rename_data(suite, name)
    suite.write_text(suite.read_text().replace("updates = 300", "updates = 1\nscored = false"))
    assert main(["benchmark", str(suite), "--out", str(tmp_path / "out"), "--only", "sac"]) == 0
    assert {row["dataset"] for row in read_results(tmp_path / "out" / "results.parquet")} == {name}
    cells = narrow(read_suite(str(suite)), ("sac",))
    assert missing(cells, tmp_path / "out") == []
    shutil.rmtree(tmp_path / "out" / "results")
    more = missing([cells[0].changed(seeds=(0, 1, 2))], tmp_path / "out")
    assert [cell.seeds for cell in more] == [(0, 1), (2,)]  # what was begun goes on as it was


@pytest.mark.parametrize(
    "seeds", [(0,), (0, 1, 2), (3, 5, 6), tuple(range(1000)), (*range(40), *range(50, 90))]
)
def test_any_number_of_seeds_has_a_directory(seeds: tuple[int, ...], suite: Path, tmp_path: Path) -> None:
    directory = read_suite(str(suite)).cells()[0].changed(seeds=seeds).directory(tmp_path)
    directory.mkdir()
    assert seeds_of(directory.name) == seeds


def test_seeds_that_run_apart_are_told_apart() -> None:
    cell = Suite("s", "t", ("maze2d-umaze-v1",), ("sac",)).cells()[0]
    overview = Overview(
        Console(quiet=True), [cell.changed(seeds=(0, 1)), cell.changed(seeds=(2,))], lambda cell: Progress()
    )
    assert overview.label(cell.changed(seeds=(2,))) == "sac, maze2d-umaze-v1, seeds 2"


def test_a_node_with_other_data_says_so_instead_of_training_on_it(suite: Path) -> None:
    from gridcount.benchmark.ray_cluster import _run

    cell = read_suite(str(suite)).cells()[0]
    rows, problem = _run(cell.to_json(), "as the driver calls it", None, 1, None)
    assert rows == []
    assert "other data (generated)" in problem


def test_a_dry_run_tells_what_and_how_long_and_runs_nothing(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["benchmark", str(suite), "--out", str(tmp_path / "out"), "--dry-run", "--only", "sac"]) == 0
    printed = capsys.readouterr().out
    assert "1 cells, 1 to run" in printed
    assert "on this machine, without evaluations and compilation\n" in printed
    assert not (tmp_path / "out").exists()


def test_a_dry_run_says_what_else_it_leaves_out(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite.write_text(suite.read_text().replace('"sac"', '"sac", "td3-cvae"'))
    assert (
        main(["benchmark", str(suite), "--out", str(tmp_path / "out"), "--dry-run", "--only", "td3-cvae"])
        == 0
    )
    assert "and the autoencoder that td3-cvae learns first" in capsys.readouterr().out


def test_a_dry_run_times_a_log_of_ones_own_in_its_own_size(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rename_data(suite, "reactor")
    assert main(["benchmark", str(suite), "--out", str(tmp_path / "out"), "--dry-run", "--only", "sac"]) == 0
    assert "timing 1 of 1: sac on 4-d observations and 2-d actions" in capsys.readouterr().out


def test_a_dry_run_shows_its_numbers_whole_on_a_narrow_terminal(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rename_data(suite, "reactor-logs-of-march")
    assert (
        main(
            [
                "benchmark",
                str(suite),
                "--out",
                str(tmp_path / "out"),
                "--dry-run",
                "--only",
                "sac",
                "--updates",
                "1000000",
            ]
        )
        == 0
    )
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "1,000,000" in line]
    algorithm, dataset, _, updates, _, took = (part.strip() for part in line.strip("│").split("│"))
    assert (algorithm, dataset, updates) == ("sac", "reactor-logs-of-march", "1,000,000")
    assert re.fullmatch(r"(\d+:)?\d+:\d\d", took)


@pytest.mark.parametrize("columns", [40, 80])
def test_scores_are_shown_whole_on_a_narrow_terminal(
    finished: tuple[Path, Path],
    columns: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    suite, out = finished
    rows = read_results(out / "results.parquet")
    assert main(["benchmark", str(suite), "--out", str(out)]) == 0  # nothing is left to run: it only tells
    printed = capsys.readouterr().out
    for scores in headline_scores(rows).values():
        assert in_words([scores]) in printed
    lines = [line for line in printed.splitlines() if rows[0]["dataset"] in line]
    assert len(lines) == (1 if columns == 80 else 2)  # side by side where they fit, else one below the other


def test_a_cell_survives_json_and_its_key_forgets_only_the_seeds(suite: Path) -> None:
    cell = read_suite(str(suite)).cells()[0]
    assert Cell.from_json(cell.to_json()) == cell
    assert cell.changed(seeds=(7,)).key() == cell.key()
    assert cell.changed(episodes=9).key() != cell.key()


@pytest.mark.filterwarnings(
    "ignore:os.fork:RuntimeWarning"
)  # JAX warns where Ray starts a process; it is another program at once
def test_a_ray_cluster_gives_the_local_scores_and_survives_the_death_of_a_node(
    finished: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A head that runs no cell and two workers, real processes; one worker is killed while it runs a cell."""
    monkeypatch.setenv("RAY_worker_niceness", "0")  # on a busy machine its workers would wait for all others
    import ray
    from ray.cluster_utils import Cluster

    from gridcount.benchmark.ray_cluster import Resources, Tasks, _report_missing_resources

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    cluster.wait_for_nodes()
    killed: list[float] = []

    def busy(node: Any) -> bool:
        raylet = node.all_processes["raylet"][0].process.pid
        return any(raylet in ancestors(cell) for cell in commands_with("gridcount-cell-"))

    def kill_when_busy() -> None:
        wait_for(lambda: busy(nodes[0]))
        cluster.remove_node(nodes[0], allow_graceful=False)
        killed.append(time.monotonic())

    killer = threading.Thread(target=kill_when_busy)
    killer.start()
    try:
        assert (
            main(
                [
                    "benchmark",
                    str(finished[0]),
                    "--out",
                    str(tmp_path),
                    "--ray",
                    cluster.address,
                    "--cell-cores",
                    "1",
                ]
            )
            == 0
        )
        killer.join()
        assert killed
        for resources, message in (
            (Resources(1), ""),
            (Resources(2), "needs 2 cores and 0 accelerators"),
            (Resources(1, 1), "(at most 1 and 0)"),
        ):
            written = io.StringIO()
            _report_missing_resources(resources, Console(file=written, width=400))
            assert message in written.getvalue()
            assert bool(message) == bool(written.getvalue())
        endless = read_suite(str(finished[0])).cells()[0].changed(updates=10**9)
        tasks = Tasks(tmp_path / "stopped", Console(quiet=True), cluster.address, Resources())
        tasks.start([endless])
        wait_for(lambda: busy(nodes[1]))
        tasks.stop()  # its worker process ends with it
        wait_for(lambda: not busy(nodes[1]))
    finally:
        ray.shutdown()
        cluster.shutdown()  # type: ignore[no-untyped-call]
    kept = [pq.read_table(path).num_rows for path in (tmp_path / "results").glob("*.parquet")]
    assert kept == [2 * 3, 2 * 3]  # two seeds, three evaluations: nothing lost, nothing doubled
    assert figures(read_results(tmp_path / "results.parquet")) == figures(
        read_results(finished[1] / "results.parquet")
    )
