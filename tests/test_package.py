"""The wheel and the source distribution are whole: gridcount runs from them, outside the checkout."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import gridcount

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "gridcount"
SCRIPT = """
import csv, random
import gridcount as gc

print(gc.__file__)
with open("log.csv", "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["obs", "action", "reward", "episode"])
    for row in range(400):
        table.writerow([random.random(), random.uniform(-1, 1), random.random(), row // 20])
run = gc.train("log.csv", "bc", hidden=(8,), batch_size=16, updates=20, evaluate_every=20, progress=False)
print(gc.load_policy(run.directory)([0.5]))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution and the wheel, built from it, without a network."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    (path,) = built.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    files = {name.removeprefix("gridcount/") for name in wheel.namelist() if ".dist-info/" not in name}
    ours = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert files == ours
    assert {
        "py.typed",
        "algorithms/cost.json",
        "data/d4rl_files.tsv",
        "benchmark/suites/baselines.toml",
    } <= files
    assert {"benchmark/suites/paper/maze2d.toml"} <= files
    assert any(name.startswith("report/assets/") for name in files)


def test_the_wheel_says_what_it_is(wheel: zipfile.ZipFile) -> None:
    folder = f"gridcount-{gridcount.__version__}.dist-info"
    metadata = wheel.read(f"{folder}/METADATA").decode()
    assert "Classifier: Typing :: Typed" in metadata
    assert "License-Expression: MIT" in metadata
    assert "gridcount = gridcount.cli:main" in wheel.read(f"{folder}/entry_points.txt").decode()


def test_the_source_distribution_holds_what_its_tests_and_docs_need(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "LICENSE",
        "CHANGELOG.md",
        "CITATION.cff",
        "README.md",
        "mkdocs.yml",
        "src/gridcount/py.typed",
    } <= files
    assert {"tests/conftest.py", "docs/algorithms/index.md", "examples/reactor.ipynb"} <= files


def test_gridcount_runs_from_the_wheel_in_another_folder(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    wheel.extractall(site)
    elsewhere.mkdir()
    (elsewhere / "script.py").write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": str(site)}

    def python(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=elsewhere,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "gridcount train" in python("-m", "gridcount", "--help")
    assert "gpc-sac" in python("-m", "gridcount", "algorithms", "--json")
    assert "paper/maze2d" in python("-m", "gridcount", "benchmark")
    assert python("script.py").splitlines()[0] == str(site / "gridcount" / "__init__.py")
    assert list((elsewhere / "runs").glob("*/policy"))


def test_every_file_tells_the_same_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert version == gridcount.__version__
    assert re.search(rf"^version: {re.escape(version)}$", (ROOT / "CITATION.cff").read_text(), re.M)
    assert version in (ROOT / "CHANGELOG.md").read_text()
