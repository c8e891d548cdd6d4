"""A package that is installed beside gridcount adds its own algorithm by name."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_policy import BOUNDS, ROLES, write_log

import gridcount as gc
from gridcount.algorithms import ALGORITHMS, BUILT_IN
from gridcount.algorithms.registry import GROUP
from gridcount.cli import main

QUICK: dict[str, Any] = {
    "hidden": (16, 16),
    "batch_size": 16,
    "updates": 40,
    "evaluate_every": 20,
    "progress": False,
}
MODULE = '''
from dataclasses import dataclass

from gridcount.algorithms.bc import BC


@dataclass(frozen=True)
class Mine(BC):
    """Behavioural cloning under another name."""

    caution: float = 0.5  # a field of its own
'''


def install(folder: Path, package: str, entries: str, module: str = "") -> Path:
    """A folder as pip leaves it: a module and the metadata of its package."""
    metadata = folder / f"{package}-1.2.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
    (metadata / "entry_points.txt").write_text(f"[{GROUP}]\n{entries}\n")
    (folder / f"{package}.py").write_text(module)
    return folder


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an algorithm that a package on the path registers."""
    package = f"package_{tmp_path.name}".replace("-", "_")  # a module is imported once per process
    monkeypatch.syspath_prepend(str(install(tmp_path / "site", package, f"mine = {package}:Mine", MODULE)))
    monkeypatch.setattr(ALGORITHMS, "_loaded", {})
    return package


def test_the_package_is_imported_only_when_its_algorithm_is_used(mine: str) -> None:
    assert "gpc-sac" in ALGORITHMS
    assert "mine" in ALGORITHMS
    assert [*ALGORITHMS] == [*BUILT_IN, "mine"]
    assert len(ALGORITHMS) == len(BUILT_IN) + 1
    assert "other" not in ALGORITHMS
    assert mine not in sys.modules
    assert ALGORITHMS["mine"].__name__ == "Mine"
    assert "Mine" not in dir(gc)  # it belongs to its own package


def test_it_trains_from_python_by_name_and_as_an_object(mine: str, tmp_path: Path) -> None:
    columns = gc.Columns(observation="temp_*", action="valve", reward="yield", episode="batch")
    data = gc.load(write_log(tmp_path / "reactor.csv"), columns, action_bounds=(0, 100))
    named = gc.train(data, "mine", caution=0.25, out=tmp_path / "named", **QUICK)
    assert named.config["algorithm"] == "mine"
    assert named.config["fields"]["caution"] == 0.25
    algorithm = ALGORITHMS["mine"](hidden=(16, 16), batch_size=16)
    run = gc.train(data, algorithm, updates=20, evaluate_every=20, out=tmp_path / "object", progress=False)
    assert gc.Run(tmp_path / "object").resume(data, updates=40, progress=False).metrics["updates"].max() == 40
    assert np.isfinite(run.policy()([60.0, 60.0])).all()
    with pytest.raises(ValueError, match="Did you mean 'mine'"):
        gc.train(data, "mime", out=tmp_path / "other", **QUICK)


def test_it_trains_and_is_listed_on_the_command_line(mine: str, tmp_path: Path) -> None:
    log = write_log(tmp_path / "reactor.csv")
    words = [
        "--algo",
        "mine",
        "--caution",
        "0.25",
        "--hidden",
        "16",
        "16",
        "--batch-size",
        "16",
        "--updates",
        "20",
        "--no-plot",
    ]
    run = tmp_path / "run"
    python = os.pathsep.join([str(tmp_path / "site"), *filter(None, sys.path)])

    def gridcount(*words: str) -> str:
        command = [sys.executable, "-m", "gridcount", *words]
        return subprocess.run(
            command, env=os.environ | {"PYTHONPATH": python}, check=True, capture_output=True, text=True
        ).stdout

    gridcount("train", str(log), *ROLES, *BOUNDS, *words, "--evaluate-every", "20", "--run", str(run))
    assert json.loads((run / "config.json").read_text())["fields"]["caution"] == 0.25
    entry = json.loads(gridcount("algorithms", "--json"))[-1]
    assert (entry["name"], entry["paper"]) == ("mine", f"package {mine} 1.2")
    assert entry["idea"] == "Behavioural cloning under another name."


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            "import no_such_module",
            "importing it fails: ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("1 / 0", "importing it fails: ZeroDivisionError"),
        ("", "importing it fails: AttributeError"),
        ("class Mine: ...", "which is not a dataclass"),
        (
            "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Mine: ...",
            "which has no prepare, init, update, actor, batch_size",
        ),
    ],
)
def test_a_broken_package_is_named(
    module: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    package = f"package_{tmp_path.name}".replace("-", "_")
    monkeypatch.syspath_prepend(str(install(tmp_path / "site", package, f"broken = {package}:Mine", module)))
    with pytest.raises(
        ImportError, match=f"package {package} 1.2 registers the algorithm 'broken'.*{message}"
    ):
        ALGORITHMS["broken"]
    assert main(["algorithms"]) == 2
    assert f"package {package} 1.2" in " ".join(capsys.readouterr().err.split())
    assert ALGORITHMS["sac"].__name__ == "SAC"  # the others are not touched


def test_two_packages_with_one_name_are_named_and_gridcounts_names_are_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(
        str(install(tmp_path / "one", "package_one", "sac = package_one:Mine", MODULE))
    )
    assert ALGORITHMS["sac"] is BUILT_IN["sac"]
    assert [*ALGORITHMS] == [*BUILT_IN]
    monkeypatch.syspath_prepend(
        str(install(tmp_path / "two", "package_two", "twice = package_two:Mine", MODULE))
    )
    monkeypatch.syspath_prepend(
        str(install(tmp_path / "three", "package_three", "twice = package_three:Mine", MODULE))
    )
    with pytest.raises(
        ImportError,
        match=r"package_three 1\.2 and package package_two 1\.2 both register an algorithm 'twice'",
    ):
        ALGORITHMS["twice"]
