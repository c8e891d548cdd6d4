"""The tutorial does what it says: its blocks run in order, from the log to the service and back."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from heating import FROST, LIMIT, MILD, OBSERVED, Pi, simulate, write_log

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What all commands of the page print, with little training."""
    folder = tmp_path_factory.mktemp("tutorial") / "heating"
    command = [sys.executable, str(ROOT / "benchmarks" / "tutorial.py"), str(folder), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert (folder / "support.html").read_text().startswith("<!DOCTYPE html>")
    return done.stdout


def test_every_command_of_the_page_is_run(printed: str) -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text()
    for command in ("data check", "train", "estimate", "support", "export", "serve", "data import"):
        assert f"\ngridcount {command} " in page
        assert f"gridcount {command} " in printed
    assert "no problems found" in printed
    assert "better than the log's policy" in printed


def test_the_guard_knows_october_and_holds_in_frost(printed: str) -> None:
    seen = [int(bins) for bins in re.findall(r"seen at (\d+) bins", printed)]
    assert seen[0] > 0 == seen[1]
    assert re.findall(r"guard held: (\w+), action: (\S+)", printed)[1] == ("True", "nan")
    asked, held = map(int, re.findall(r"(\d+) decisions, (\d+) of them held", printed)[0])
    assert asked / 2 <= held <= asked  # two of the four days are frosty


def test_every_decision_comes_back_as_a_row_of_the_next_log(printed: str) -> None:
    asked = int(re.findall(r"(\d+) decisions,", printed)[0])
    assert (
        f"Imported {asked - 10:,} transitions in 10 episodes" in printed
    )  # the last step has no next observation


def test_in_frost_the_guarded_policy_is_as_warm_as_the_old_controller(printed: str) -> None:
    frost = printed.partition("frost, never in the log:")[2]
    cold = {
        name: float(re.findall(rf"{name} +\S+ +\S+ +(\S+)", frost)[0])
        for name in ("  PI controller", "guard, PI controller")
    }
    assert cold["guard, PI controller"] == cold["  PI controller"] < 1


def test_the_log_has_no_frost_and_the_controller_keeps_the_promise_in_it(tmp_path: Path) -> None:
    write_log(str(tmp_path / "log.csv"), houses=10, weeks=1)
    log = np.genfromtxt(tmp_path / "log.csv", delimiter=",", skip_header=1)[:, 2 : 2 + len(OBSERVED)]
    assert log[:, OBSERVED.index("outdoor_C")].min() > FROST[1] + 3
    assert log[:, OBSERVED.index("indoor_C")].min() < LIMIT
    mild, frost = (simulate(Pi(), weather, houses=20) for weather in (MILD, FROST))
    assert mild.cold.mean() == 0
    assert frost.cold.mean() < 0.01
    assert frost.reward.mean() < 2 * mild.reward.mean()
