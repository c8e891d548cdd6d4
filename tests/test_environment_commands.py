"""Environments from the command line: a user's own, one that is missing, one a dataset names, and doing
without."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from corridor import corridor_log
from numpy.typing import NDArray

from gridcount.cli import main
from gridcount.data.load import import_log, load
from gridcount.evaluation import environments
from gridcount.evaluation.environments import ENVIRONMENTS, dimensions
from gridcount.training.logs import read_rows
from gridcount.training.plan import read_plan

Float32 = NDArray[np.float32]
DATA = Path(__file__).parent / "data"
CORRIDOR = "corridor:known/Corridor-v0"
TINY = ["--hidden", "8", "--batch-size", "16", "--bins", "4", "--updates", "40", "--evaluate-every", "20"]


@pytest.fixture
def valve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An imported log with actions from 0 to 100."""
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    import_log(corridor_log(tmp_path / "log.csv"), "valve", scale_actions=True)
    return "valve"


def test_a_users_own_environment_is_trained_for_and_evaluated_by_plain_return(
    valve: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main(["train", valve, *TINY, "--env", CORRIDOR, "--episodes", "3", "--run", str(run)]) == 0
    out = capsys.readouterr().out
    rows = read_rows(run)
    assert all("score" not in row and 0 <= row["return"] <= 600 and 0 <= row["success"] <= 1 for row in rows)
    for row in rows:
        assert re.search(
            rf"update +{row['updates']}  seed 0  return +{row['return']:.1f}  success +\d+%  in log +\d+%  critic loss",
            out,
        )
    assert "score" not in out
    assert (run / "curve.png").exists()
    assert main(["evaluate", str(run), "--episodes", "4"]) == 0
    table = capsys.readouterr().out
    assert "return" in table
    assert "score" not in table
    assert main(["evaluate", str(run), "--episodes", "4", "--env", "Hopper-v4"]) == 2
    assert "needs an environment of 2 observation and 1 action dimensions" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["hopper-medium-v2", "Hopper-v4"])
def test_hopper_is_named_by_its_dataset_or_its_id_and_scored_without_success(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    words = [
        "train",
        str(DATA / "hopper_medium-v2.hdf5"),
        *TINY,
        "--env",
        name,
        "--episodes",
        "2",
        "--no-plot",
        "--run",
        str(run),
    ]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert re.search(r"seed 0  score +-?[\d.]+  in log +\d+%  critic loss", out)
    assert "success" not in out
    assert all({"score", "return"} <= row.keys() and "success" not in row for row in read_rows(run))
    assert main(["evaluate", str(run), "--episodes", "2"]) == 0
    table = capsys.readouterr().out
    assert "score" in table
    assert "success" not in table


# --- doing without ---


def test_a_log_without_an_environment_trains_and_says_how_to_judge(
    valve: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", valve, *TINY, "--no-plot", "--run", str(tmp_path / "run")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "no environment is known for this dataset: the policy is trained but not scored" in out
    assert "How to judge the policy without an environment" in out
    data = load(valve)
    starts = np.cumsum(data.episode_lengths) - data.episode_lengths
    best = max(
        sum(0.99**t * float(reward) for t, reward in enumerate(data.reward[row : start + length]))
        for start, length in zip(starts, data.episode_lengths, strict=True)
        for row in range(start, start + length)
    )
    assert f"{best:.4g} at best" in out


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Forget what was imported for environments, then block some of it."""
    for module in [
        name
        for name in sys.modules
        if name.split(".")[0] in ("gymnasium", "gymnasium_robotics") or name.startswith("gridcount.envs")
    ]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.delattr("gridcount.envs", raising=False)
    dimensions.cache_clear()
    yield monkeypatch
    dimensions.cache_clear()


def test_a_missing_simulator_is_named_with_its_extra(without: pytest.MonkeyPatch) -> None:
    without.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ImportError, match=r"pip install 'gridcount\[envs\]'"):
        dimensions("hopper-medium-v2")


def test_missing_robotics_are_named_with_their_extra(without: pytest.MonkeyPatch) -> None:
    without.setitem(sys.modules, "gymnasium_robotics", None)
    with pytest.raises(ImportError, match=r"pip install 'gridcount\[robotics\]'"):
        dimensions("pen-human-v1")
    with pytest.raises(
        ValueError, match=r"an environment of Gymnasium-Robotics: .*pip install 'gridcount\[robotics\]'"
    ):
        dimensions("AdroitHandPen-v1")


def test_training_does_without_the_simulator_its_dataset_comes_with_but_not_one_asked_for(
    without: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without.setattr(environments, "ENVIRONMENTS", (*ENVIRONMENTS, "mine"))
    without.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    import_log(DATA / "hopper_medium-v2.hdf5", "mine")
    without.setattr(environments, "family_of", lambda name: "hopper")
    without.setitem(sys.modules, "gymnasium", None)
    assert main(["train", "mine", *TINY, "--no-plot", "--run", str(tmp_path / "run")]) == 0
    out = capsys.readouterr().out
    assert "pip install 'gridcount[envs]': the policy is trained but not scored" in out
    assert "How to judge the policy without an environment" in out
    assert main(["train", "mine", *TINY, "--env", "Hopper-v4", "--run", str(tmp_path / "asked")]) == 2
    assert "pip install 'gridcount[envs]'" in capsys.readouterr().err
    assert not (tmp_path / "asked").exists()


# --- the environment that a Minari set names ---


def minari_set(
    folder: Path, env_spec: dict[str, Any] | str | None, excerpt: str = "hopper_medium-v2.hdf5"
) -> Path:
    """A folder in Minari's layout."""
    data = load(DATA / excerpt)
    folder.mkdir()
    with h5py.File(folder / "main_data.hdf5", "w") as file:
        for i, end in enumerate(np.flatnonzero(data.episode_end)):
            rows = slice(end - 20, end + 1)
            group = file.create_group(f"episode_{i}")
            group["observations"] = np.concatenate([data.observation[rows], data.next_observation[rows][-1:]])
            group["actions"], group["rewards"] = data.action[rows], data.reward[rows]
            group["terminations"], group["truncations"] = (
                data.terminated[rows],
                (data.episode_end & ~data.terminated)[rows],
            )
    spec = {} if env_spec is None else {"env_spec": json.dumps(env_spec)}
    (folder / "metadata.json").write_text(json.dumps(spec))
    return folder


@pytest.mark.parametrize("imported", [False, True])
def test_a_minari_set_is_scored_where_it_says_it_was_collected(
    imported: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    name = str(minari_set(tmp_path / "hops", {"id": "Hopper-v5", "kwargs": {"render_mode": None}}))
    if imported:
        assert main(["data", "import", name, "--name", "hops"]) == 0
        name = "hops"
    run = tmp_path / "run"
    assert main(["train", name, *TINY, "--episodes", "2", "--no-plot", "--run", str(run)]) == 0
    assert read_plan(run).environment == "Hopper-v5"
    assert all("return" in row for row in read_rows(run))
    assert "scored in Hopper-v5, where the log was collected" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("env_spec", "message"),
    [
        (None, "no environment is known for this dataset"),
        (
            {"id": "os:system-v0"},
            "no environment is known for this dataset",
        ),  # a file must not name a module to import
        ({"id": ["Hopper-v5"]}, "no environment is known for this dataset"),
        ("broken", "no environment is known for this dataset"),
        (
            {"id": "Hoppper-v9"},
            "the log was collected in Hoppper-v9, which cannot be created here: unknown environment"
            " 'Hoppper-v9'",
        ),
        (
            {"id": "Hopper-v5", "kwargs": {"healthy_reward": 2}},
            "collected in Hopper-v5 with non-default options (healthy_reward)",
        ),
        (
            {"id": "HalfCheetah-v5"},
            "the dataset needs an environment of 11 observation and 3 action dimensions, but HalfCheetah-v5"
            " is",
        ),
    ],
)
def test_a_minari_set_whose_environment_cannot_be_had_is_trained_and_says_so(
    env_spec: Any,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    folder = minari_set(tmp_path / "hops", env_spec)
    assert main(["train", str(folder), *TINY, "--no-plot", "--run", str(tmp_path / "run")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert message in out
    assert "trained but not scored" in out
    assert read_plan(tmp_path / "run").environment is None


def test_a_file_is_trained_and_evaluated_with_the_bounds_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, run = corridor_log(tmp_path / "log.csv"), tmp_path / "run"
    words = ["train", str(log), *TINY, "--env", CORRIDOR, "--episodes", "2", "--no-plot", "--run", str(run)]
    assert main(words) == 2
    assert "outside [-1, 1]" in capsys.readouterr().err
    assert main([*words, "--action-low", "-100", "--action-high", "100"]) == 0
    plan = read_plan(run)
    assert (plan.scale_actions, plan.action_low, plan.action_high) == (False, (-100.0,), (100.0,))
    assert main(["evaluate", str(run), "--episodes", "2"]) == 0  # the data is loaded as it was
