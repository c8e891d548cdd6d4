"""A file from somebody else may name an environment, but only the command line can have a module imported
for it."""

import json
import os
import sys
from pathlib import Path

import gymnasium
import pytest
from corridor import corridor_log

from gridcount.benchmark.worker import main as worker
from gridcount.cli import main
from gridcount.data.load import import_log
from gridcount.evaluation import environments
from gridcount.evaluation.environments import dimensions, find, trust
from gridcount.training.logs import read_rows

TINY = [
    "--hidden",
    "8",
    "--batch-size",
    "16",
    "--bins",
    "4",
    "--updates",
    "20",
    "--evaluate-every",
    "20",
    "--episodes",
    "2",
]
FOREIGN = "foreign_plant:foreign/Plant-v0"
MODULE = """
from pathlib import Path
import gymnasium
Path(__file__).with_name("imported").touch()
gymnasium.register(id="foreign/Plant-v0", entry_point="corridor:Corridor", max_episode_steps=4)
"""
SUITE = """
title = "somebody's"
datasets = ["valve"]
algorithms = ["bc"]
preset = "fast"
seeds = 1
updates = 20
evaluate_every = 20
episodes = 2
fields = {{ hidden = [8], batch_size = 16 }}
data = {{ valve = "{data}" }}
environments = {{ valve = "{environment}" }}
"""


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that the foreign module leaves when it is imported; the module is on the path, an imported
    log is in the cache."""
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "foreign_plant.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "foreign_plant", raising=False)
    gymnasium.registry.pop("foreign/Plant-v0", None)
    monkeypatch.setattr(environments, "TRUSTED", set())
    dimensions.cache_clear()
    import_log(corridor_log(tmp_path / "log.csv"), "valve", scale_actions=True)
    return folder / "imported"


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_run_of_somebody_else_imports_no_module_until_it_is_typed(
    mark: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main(["train", "valve", *TINY, "--no-plot", "--run", str(run)]) == 0
    edit(run / "config.json", environment=FOREIGN)
    capsys.readouterr()
    assert main(["evaluate", str(run), "--episodes", "2"]) == 2
    error = capsys.readouterr().err
    assert f"{run / 'config.json'}: 'environment'" in error
    assert f"add --env {FOREIGN}" in error
    for words in (
        ["plot", str(run)],
        ["report", str(run), "--out", str(tmp_path / "report"), "--no-figures"],
    ):
        main(words)
    assert not mark.exists()
    assert main(["evaluate", str(run), "--episodes", "2", "--env", FOREIGN]) == 0
    assert mark.exists()


def test_an_imported_folder_of_somebody_else_imports_no_module_and_trains_unscored(
    mark: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = (tmp_path / "home" / "imported" / "valve").rename(tmp_path / "theirs")
    edit(folder / "meta.json", environment={"id": FOREIGN, "options": []})
    assert main(["train", str(folder), *TINY, "--no-plot", "--run", str(tmp_path / "run")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert not mark.exists()
    assert f"{folder}: the log was collected in {FOREIGN}" in out
    assert f"add --env {FOREIGN}" in out
    assert (
        main(["train", str(folder), *TINY, "--no-plot", "--run", str(tmp_path / "scored"), "--env", FOREIGN])
        == 0
    )
    assert mark.exists()
    assert "return" in read_rows(tmp_path / "scored")[0]


@pytest.mark.parametrize("words", [[], ["--dry-run"], ["--ray", "127.0.0.1:1"]])
def test_a_suite_of_somebody_else_imports_no_module(
    words: list[str], mark: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = tmp_path / "theirs.toml"
    suite.write_text(SUITE.format(data="valve", environment=FOREIGN))
    assert main(["benchmark", str(suite), "--out", str(tmp_path / "out"), *words]) == 2
    error = capsys.readouterr().err
    assert f"{suite}: [environments] valve" in error
    assert f"add --env {FOREIGN}" in error
    assert not mark.exists()


def test_a_dry_run_imports_not_even_what_was_typed(mark: Path, tmp_path: Path) -> None:
    suite = tmp_path / "mine.toml"
    suite.write_text(SUITE.format(data="valve", environment=FOREIGN))
    assert main(["benchmark", str(suite), "--out", str(tmp_path / "out"), "--dry-run", "--env", FOREIGN]) == 0
    assert not mark.exists()


def test_a_suite_is_scored_in_a_typed_module_also_where_its_cells_are_processes(
    mark: Path, tmp_path: Path
) -> None:
    suite, out = tmp_path / "mine.toml", tmp_path / "out"
    suite.write_text(SUITE.format(data="valve", environment=FOREIGN))
    assert main(["benchmark", str(suite), "--out", str(out), "--env", FOREIGN]) == 0
    assert mark.exists()
    (cell,) = (out / "cells").iterdir()
    assert "return" in read_rows(cell)[0]


def test_a_worker_trusts_what_it_is_told_and_not_its_cell(
    mark: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = {
        "dataset": "valve",
        "environment": FOREIGN,
        "algorithm": "bc",
        "fields": {"hidden": [8]},
        "seeds": [0],
        "updates": 20,
        "evaluate_every": 20,
        "episodes": 2,
        "fingerprint": "",
    }
    cell = tmp_path / "cell.json"
    cell.write_text(json.dumps({"suite": "s", "variant": "", "plan": plan}))
    assert (
        worker(
            str(cell), str(tmp_path / "run"), str(tmp_path / "results.parquet"), "any 1", str(os.getppid())
        )
        == 2
    )
    assert f"add --env {FOREIGN}" in capsys.readouterr().err
    assert not mark.exists()


def test_benchmark_refuses_an_environment_to_trust_that_has_no_module(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["benchmark", "paper/maze2d", "--dry-run", "--env", "Hopper-v5"]) == 2
    assert "--env Hopper-v5: it names no module" in capsys.readouterr().err


def test_a_module_that_a_program_has_imported_or_trusted_may_be_named(mark: Path) -> None:
    with pytest.raises(ValueError, match="only the command line"):
        find(FOREIGN)
    trust(FOREIGN)
    assert find("foreign_plant:foreign/Other-v0").id == "foreign_plant:foreign/Other-v0"
    assert (
        find("corridor:known/Corridor-v0").id == "corridor:known/Corridor-v0"
    )  # imported above, so nothing new would run


@pytest.mark.parametrize("code", ["raise RuntimeError('no licence')", "1 / 0", "syntax error"])
def test_a_typed_module_that_fails_is_told_with_its_name(
    code: str, mark: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark.with_name("failing_plant.py").write_text(code)
    assert (
        main(["train", "valve", *TINY, "--env", "failing_plant:x/Y-v0", "--run", str(tmp_path / "run")]) == 2
    )
    assert "error: failing_plant:x/Y-v0: " in capsys.readouterr().err


def test_a_relative_module_is_refused_in_words(
    mark: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "valve", *TINY, "--env", ".plant:x/Y-v0", "--run", str(tmp_path / "run")]) == 2
    assert "error: .plant:x/Y-v0: " in capsys.readouterr().err


def test_a_module_in_the_working_directory_runs_in_a_cell_only_where_it_was_typed(
    mark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite, there = tmp_path / "mine.toml", tmp_path / "there"
    suite.write_text(SUITE.format(data="valve", environment=FOREIGN))
    there.mkdir()
    for name in ("random", "jax", "msgspec"):
        (there / f"{name}.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(there)
    assert main(["benchmark", str(suite), "--out", str(tmp_path / "out"), "--env", FOREIGN]) == 0
    assert mark.exists()  # from where this process found it
    (cell,) = (tmp_path / "out" / "cells").iterdir()
    assert "return" in read_rows(cell)[0]
