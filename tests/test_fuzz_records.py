"""The project's own files after somebody edited or damaged them: each is read or refused by name, never
with a traceback."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fuzz
import numpy as np
import pytest

from gridcount.benchmark.store import read_results, write_rows
from gridcount.benchmark.suites import narrow, read_suite
from gridcount.cli import main
from gridcount.data.load import import_log, load
from gridcount.files.archive import numbered
from gridcount.training.plan import algorithm_of
from gridcount.training.restoring import restore_policies

SHORT = [
    "--env",
    "maze2d-umaze-v1",
    "--hidden",
    "8",
    "--batch-size",
    "16",
    "--episodes",
    "1",
    "--no-plot",
    "--bins",
    "4",
]
TRAIN = [*SHORT, "--updates", "40", "--evaluate-every", "20"]


@pytest.fixture(scope="module")
def finished(maze_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("finished") / "run"
    assert main(["train", str(maze_file), *TRAIN, "--run", str(run)]) == 0
    return run


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / "run")


Attempt = Callable[[], object]


def refusals(path: Path, contents: "list[bytes]", *attempts: Attempt) -> int:
    """How many of these contents are refused; a refusal is a ValueError or OSError that names the file, or
    exit code 2."""
    refused = 0
    for content in contents:
        path.write_bytes(content)
        for attempt in attempts:
            try:
                refused += attempt() == 2
            except (ValueError, OSError) as error:
                assert path.name in str(error), content[:500]  # noqa: PT017  some variants are good
                refused += 1
            except Exception as error:
                raise AssertionError(f"{content[:500]!r} in {path.name}") from error
    return refused


def test_config(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run / "config.json"
    contents = list(fuzz.variants(1, json.loads(path.read_bytes()), 120))
    report = ["report", str(run), "--no-figures"]
    assert refusals(path, contents, lambda: main(report), lambda: algorithm_of(run)) > 120
    assert "Traceback" not in capsys.readouterr().err


def test_config_of_a_run_that_is_evaluated_or_resumed(run: Path, maze_file: Path) -> None:
    path = run / "config.json"
    contents = list(fuzz.variants(2, json.loads(path.read_bytes()), 16))
    resume = ["train", str(maze_file), *TRAIN, "--run", str(run), "--resume"]
    assert (
        refusals(
            path, contents, lambda: main(["evaluate", str(run), "--episodes", "1"]), lambda: main(resume)
        )
        > 10
    )


def test_metrics(run: Path) -> None:
    path, rng = run / "metrics.jsonl", random.Random(3)
    first, second = path.read_bytes().splitlines()
    bad = list(fuzz.variants(3, json.loads(second), 120))
    contents = [b"\n".join([first, each] if rng.random() < 0.5 else [each, second]) + b"\n" for each in bad]
    assert refusals(path, contents, lambda: main(["report", str(run), "--no-figures"])) > 60


def test_environment(run: Path) -> None:
    path = run / "environment.json"
    contents = list(fuzz.variants(4, json.loads(path.read_bytes()), 80))
    assert refusals(path, contents, lambda: main(["report", str(run), "--no-figures"])) > 30


def test_records_of_checkpoints(run: Path, maze_file: Path) -> None:
    (newest,) = numbered(run / "checkpoints")
    prepared = algorithm_of(run).prepare(load(str(maze_file)))
    with np.load(newest) as file:
        arrays = {name: file[name] for name in file.files}
    newest.unlink()
    between = newest.with_name(
        f"{33:010d}.npz"
    )  # 13 updates after an evaluation, so that metrics wait for the next
    record = json.loads(arrays["run"].tobytes()) | {
        "updates": 33,
        "pending": [[6, {"loss": [1.0]}], [7, {"loss": [2.0]}]],
    }

    def restore(content: bytes) -> int:
        with between.open("wb") as written:
            np.savez(written, **(arrays | {"run": np.frombuffer(content, np.uint8)}))
        return restore_policies(run, prepared)[2]

    assert restore(json.dumps(record).encode()) == 33
    refused = 0
    for content in fuzz.variants(5, record, 60):
        try:
            restore(content)
        except ValueError as error:
            assert str(between) in str(error), content  # noqa: PT017  a few variants hurt nothing
            refused += 1
    assert refused > 40


def test_imported_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, maze_file: Path) -> None:
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path))
    import_log(maze_file, "mine")
    path = tmp_path / "imported" / "mine" / "meta.json"
    contents = list(fuzz.variants(6, json.loads(path.read_bytes()), 80))
    assert refusals(path, contents, lambda: load("mine", memory_map=True)) > 40


def test_results(results_file: Path, tmp_path: Path) -> None:
    rows = [row for row in read_results(results_file) if row["updates"] <= 10_000][:8]
    rng, refused = random.Random(7), 0
    for number in range(80):
        column = rng.choice(sorted({name for row in rows for name in row}))
        junk: Any = rng.choice([*fuzz.JUNK, b"\xff", 2**63 - 1])
        hurt = (
            [row | {column: junk} for row in rows]
            if number % 4
            else [{k: v for k, v in row.items() if k != column} for row in rows]
        )
        path = tmp_path / f"{number}.parquet"
        try:
            write_rows(path, hurt)
        except Exception:  # what Parquet cannot hold never comes out of it
            continue
        refused += main(["report", str(path), "--no-figures", "--out", str(tmp_path / "report")]) == 2
    assert refused > 20


SUITE = """
title = "A suite"
kind = "ablation"
datasets = ["maze2d-umaze-v1", "mine"]
algorithms = ["gpc-sac", "sac"]
seeds = 2
updates = 1000
evaluate_every = 500
episodes = 3
scored = true
[fields]
hidden = [8]
batch_size = 16
[algorithm_fields.sac]
discount = 0.9
[published.sac]
maze2d-umaze-v1 = [1.0, 2.0]
[data]
mine = "log.csv"
[environments]
mine = "maze2d-umaze-v1"
"""


def test_suites(tmp_path: Path) -> None:
    path, rng = tmp_path / "suite.toml", random.Random(8)
    values = [
        '"x"',
        "-1",
        "0",
        "true",
        "nan",
        "1e400",
        "[]",
        "[[]]",
        "{}",
        "10" * 40,
        "1979-05-27",
        '["a", 1]',
        "[{a = 1}]",
    ]
    contents = []
    for number in range(90):
        lines = SUITE.strip().splitlines()
        place = rng.randrange(len(lines))
        if number % 3 == 0:
            del lines[place]
        elif number % 3 == 1:
            lines[place] = f"{lines[place].split(' = ')[0]} = {rng.choice(values)}"
        else:
            text = "\n".join(lines).encode()
            contents.append(rng.choice([fuzz.damaged_bytes(rng, text), b"a = " + b"[" * 50_000]))
            continue
        contents.append("\n".join(lines).encode())
    assert refusals(path, contents, lambda: narrow(read_suite(str(path)))) > 60
