"""A log of one's own without a simulator, from the flags that name its columns to what is said at the end."""

import json
from pathlib import Path

import numpy as np
import pytest
from log_files import smooth, write_csv

from gridcount.cli import main
from gridcount.data.load import import_log

MAPPING = ["--observation", "temp_*", "--action", "valve", "--reward", "yield", "--episode", "batch"]
TINY = ["--hidden", "8", "--batch-size", "16", "--updates", "20", "--evaluate-every", "10", "--no-plot"]


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plant's log as CSV: temperatures, a valve from 0 to 100, batches, and a column that nobody needs."""
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    columns = smooth(400)
    table = {f"temp_{d}": columns["observations"][:, d] for d in range(3)} | {"valve": 50 + 50 * columns["actions"][:, 0]}
    table |= {"yield": columns["rewards"], "batch": np.repeat(np.arange(4), 100), "operator": np.repeat("ann", 400)}
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
    assert recorded["columns"] == {"observation": "temp_*", "action": "valve", "reward": "yield", "episode": "batch"}
    assert main(["plot", str(run)]) == 0, capsys.readouterr().err  # which reads the data again
    longer = ["--updates", "30", "--run", str(run), "--resume"]
    assert main(["train", str(plant), *TINY, *longer]) == 0, capsys.readouterr().err  # the run's own columns and units
    assert main([*words, *longer]) == 0, capsys.readouterr().err


def test_a_run_recorded_before_columns_were_is_read(plant: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
def test_columns_of_an_imported_log_are_not_chosen_again(command: list[str], plant: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from gridcount.data.columns import Columns

    import_log(plant, "plant", Columns("temp_*", "valve", "yield", episode="batch"), scale_actions=True)
    assert main([*command, "plant", "--observation", "temp_0"]) == 2
    said = capsys.readouterr()
    assert "--observation" in said.out + said.err
    assert "import" in said.out + said.err
