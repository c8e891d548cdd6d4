"""Every file in examples/ runs as it is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_policy import BOUNDS, ROLES, write_log

EXAMPLES = Path(__file__).parent.parent / "examples"
PATHS = [path for path in sys.path if path]
# the tests' flags save the compiler's time; these programs run longer than they compile
OPTIMISED = "--xla_backend_optimization_level=1"
CELLS = """
import json, sys
names = {}
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] == "code":
        exec(compile("".join(cell["source"]), "cell", "exec"), names)
"""


def run(*words: str, cwd: Path, paths: list[str] = PATHS) -> str:
    """What a Python process prints; an error if it fails."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "MPLBACKEND": "agg",
        "XLA_FLAGS": f"{os.environ['XLA_FLAGS']} {OPTIMISED}",
    }
    done = subprocess.run(
        [sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    assert all(
        f"]({path.name})" in listed
        for path in EXAMPLES.iterdir()
        if path.name not in ("README.md", "__pycache__")
    )


@pytest.mark.parametrize(
    ("script", "prints"),
    [("arrays_to_policy.py", "21 degrees inside:"), ("benchmark_from_python.py", "gpc-anchor ")],
)
def test_a_script_runs(script: str, prints: str, tmp_path: Path) -> None:
    assert prints in run(str(EXAMPLES / script), cwd=tmp_path)
    assert list((tmp_path / "runs").glob("*/policy"))


def test_the_notebook_runs_and_its_policy_is_better_than_the_log(tmp_path: Path) -> None:
    told = run("-c", CELLS, str(EXAMPLES / "reactor.ipynb"), cwd=tmp_path).splitlines()[-1]
    log, policy = (float(words.split()[-1]) for words in told.split(","))
    assert policy < log


def test_the_notebook_holds_no_outputs() -> None:
    cells = json.loads((EXAMPLES / "reactor.ipynb").read_text())["cells"]
    assert all(
        cell["outputs"] == [] and cell["execution_count"] is None
        for cell in cells
        if cell["cell_type"] == "code"
    )


def test_the_package_with_its_own_algorithm_installs_and_trains(tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = [
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
    ]
    run(*pip, "--target", str(site), str(EXAMPLES / "my_algorithm"), cwd=tmp_path)
    words = [
        "--algo",
        "cautious-td3",
        "--caution",
        "2",
        "--hidden",
        "16",
        "--updates",
        "20",
        "--evaluate-every",
        "20",
        "--no-plot",
    ]
    log = write_log(tmp_path / "reactor.csv")
    train = ["-m", "gridcount", "train", str(log), *ROLES, *BOUNDS, *words, "--run", str(tmp_path / "run")]
    run(*train, cwd=tmp_path, paths=[str(site), *PATHS])
    assert json.loads((tmp_path / "run" / "config.json").read_text())["fields"]["caution"] == 2
    assert "package my-algorithm 0.1.0" in run(
        "-m", "gridcount", "algorithms", "--json", cwd=tmp_path, paths=[str(site), *PATHS]
    )
