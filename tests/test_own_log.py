"""A log of one's own without a simulator, from the flags that name its columns to what is said at the end."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from log_files import smooth, write_csv
from numpy.typing import NDArray

from gridcount.cli import main
from gridcount.data.load import import_log

MAPPING = ["--observation", "temp_*", "--action", "valve", "--reward", "yield", "--episode", "batch"]
TINY = ["--hidden", "8", "--batch-size", "16", "--updates", "20", "--evaluate-every", "10", "--no-plot"]


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plant's log as CSV: temperatures, a valve from 0 to 100, batches, and a column that nobody needs."""
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    columns = smooth(400)
    table = {f"temp_{d}": columns["observations"][:, d] for d in range(3)} | {
        "valve": 50 + 50 * columns["actions"][:, 0]
    }
    table |= {
        "yield": columns["rewards"],
        "batch": np.repeat(np.arange(4), 100),
        "operator": np.repeat("ann", 400),
    }
    return write_csv(tmp_path / "plant.csv", table)


# --- columns named on the command line ---


def test_a_table_is_trained_on_with_the_flags_that_the_message_names(
    plant: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", str(plant), *TINY]) == 2
    assert "Name it with --observation COLUMN" in capsys.readouterr().err
    run = tmp_path / "run"
    words = ["train", str(plant), *MAPPING, "--scale-actions", *TINY, "--run", str(run)]
    assert main(words) == 0, capsys.readouterr().err
    recorded = json.loads((run / "config.json").read_text())
    assert recorded["columns"] == {
        "observation": "temp_*",
        "action": "valve",
        "reward": "yield",
        "episode": "batch",
    }
    assert main(["plot", str(run)]) == 0, capsys.readouterr().err  # which reads the data again
    longer = ["--updates", "30", "--run", str(run), "--resume"]
    assert main(["train", str(plant), *TINY, *longer]) == 0, (
        capsys.readouterr().err
    )  # the run's own columns and units
    assert main([*words, *longer]) == 0, capsys.readouterr().err


def test_a_run_recorded_before_columns_were_is_read(
    plant: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    renamed = tmp_path / "renamed.csv"
    text = plant.read_text().replace("temp_", "obs_").replace("valve", "action").replace("yield", "reward")
    renamed.write_text(text)
    run = tmp_path / "run"
    assert main(["train", str(renamed), "--scale-actions", *TINY, "--run", str(run)]) == 0
    recorded = json.loads((run / "config.json").read_text())
    del recorded["columns"]
    (run / "config.json").write_text(json.dumps(recorded))
    assert main(["plot", str(run)]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("command", [["train"], ["data", "info"], ["data", "check"]])
def test_columns_of_an_imported_log_are_not_chosen_again(
    command: list[str], plant: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from gridcount.data.formats.columns import Columns

    import_log(plant, "plant", Columns("temp_*", "valve", "yield", episode="batch"), scale_actions=True)
    assert main([*command, "plant", "--observation", "temp_0"]) == 2
    said = capsys.readouterr()
    assert "--observation" in said.out + said.err
    assert "import" in said.out + said.err


# --- what check and info say of actions ---


def actions_like(valve: NDArray[Any], path: Path) -> Path:
    columns = smooth(400)
    table = {f"obs_{d}": columns["observations"][:, d] for d in range(3)} | {
        "action_valve": valve,
        "reward": columns["rewards"],
    }
    return write_csv(path, table | {"episode": np.repeat(np.arange(4), 100)})


@pytest.mark.parametrize("flags", [[], ["--scale-actions"], ["--action-low", "0", "--action-high", "4"]])
def test_codes_and_few_values_are_told_however_actions_are_scaled(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = actions_like(np.random.default_rng(0).integers(0, 5, 400), tmp_path / "log.csv")
    assert main(["data", "check", str(path), *flags, "--json"]) == (1 if flags else 2)
    found = {each["problem"]: each for each in json.loads(capsys.readouterr().out)["findings"]}
    assert "every action is a non-negative integer, like a category code" in found
    few = found["takes only 5 different values, 0 to 4"]
    assert few["column"] == "action_valve"
    assert "with the default 30 bins, actions between these values count as never seen" in few["advice"]
    assert "--bins 4" in few["advice"]


@pytest.mark.parametrize(
    ("columns", "bins"),
    [
        ([[0, 1, 10]], None),  # with 2 bins 0 and 1 would share one
        ([[0, 0.33, 0.67, 1]], 3),
        ([[-1, 0, 1], [0, 5, 10]], 2),
        ([[-1, 0, 1], [0, 1, 2, 3]], None),  # one number of bins for both
        ([[-1, 0, 1], [0, 1, 10]], None),
    ],
    ids=str,
)
def test_a_number_of_bins_is_advised_where_it_gives_every_logged_value_its_own(
    columns: list[list[float]], bins: int | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    log, table = smooth(400), {f"action_{d}": rng.choice(values, 400) for d, values in enumerate(columns)}
    table |= {
        "obs_0": log["observations"][:, 0],
        "reward": log["rewards"],
        "episode": np.repeat(np.arange(4), 100),
    }
    path = write_csv(tmp_path / "log.csv", table)
    main(["data", "check", str(path), "--scale-actions", "--json"])
    few = [
        each
        for each in json.loads(capsys.readouterr().out)["findings"]
        if each["problem"].startswith("takes only")
    ]
    assert [each["column"] for each in few] == [f"action_{d}" for d in range(len(columns))]
    for each in few:
        assert "policy.decide or policy.rounded, which give the nearest logged value" in each["advice"]
        assert ("--bins" in each["advice"]) == (bins is not None)
        assert bins is None or f"--bins {bins}," in each["advice"]


def test_an_action_that_is_nearly_always_the_same_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    valve = np.full(400, 0.25)
    valve[::100] = np.linspace(-1, 1, 4)
    assert main(["data", "check", str(actions_like(valve, tmp_path / "log.csv")), "--json"]) == 1
    assert "is 0.25 in 99.0% of the rows" in {
        each["problem"] for each in json.loads(capsys.readouterr().out)["findings"]
    }


def test_continuous_actions_are_neither(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check", str(actions_like(np.linspace(-1, 1, 400), tmp_path / "log.csv"))]) == 0, (
        capsys.readouterr().out
    )


def test_episodes_that_cannot_be_read_do_not_seem_to_repeat(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table: dict[str, Any] = dict.fromkeys(("obs_0", "action", "reward"), np.repeat("?", 400)) | {
        "episode": np.repeat(np.arange(4), 100)
    }
    assert main(["data", "check", str(write_csv(tmp_path / "log.csv", table)), "--json"]) == 2
    problems = [each["problem"] for each in json.loads(capsys.readouterr().out)["findings"]]
    assert not [problem for problem in problems if "repeat" in problem]


def test_a_value_that_may_break_training_is_told_with_its_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = actions_like(np.linspace(-1, 1, 400), tmp_path / "log.csv")
    lines = path.read_text().splitlines()
    lines[51] = "3e38," + lines[51].partition(",")[2]
    path.write_text("\n".join(lines))
    main(["data", "check", str(path), "--json"])
    found = [
        each
        for each in json.loads(capsys.readouterr().out)["findings"]
        if each["problem"].startswith("holds 3e+38")
    ]
    assert [(each["column"], each["row"]) for each in found] == [("obs_0", 50)]
    assert "may break training" in found[0]["advice"]


def test_info_shows_actions_in_the_units_of_the_log(plant: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "info", str(plant), *MAPPING, "--scale-actions", "--json"]) == 0
    (valve,) = json.loads(capsys.readouterr().out)["action"]
    column = [float(line.split(",")[3]) for line in plant.read_text().splitlines()[1:]]
    assert (valve["low"], valve["high"]) == pytest.approx((min(column), max(column)), rel=1e-4)
    kept = [
        value for row, value in enumerate(column) if row % 100 != 99
    ]  # the last row of a batch has no successor
    assert (valve["mean"], valve["deviation"]) == pytest.approx((np.mean(kept), np.std(kept)), rel=1e-3)
