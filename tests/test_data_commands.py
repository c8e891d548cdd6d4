"""The three commands, through the flags that a person types."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import tyro
from log_files import EXCERPTS, smooth, write_csv
from rich.console import Console

from gridcount.cli import main
from gridcount.commands.data import Check, Import, Info, check_command, import_command, info_command
from gridcount.data.load import load

MAPPING = [
    "--observation",
    "temp_*",
    "--action",
    "valve",
    "--reward",
    "r",
    "--terminated",
    "done",
    "--episode",
    "batch_id",
]


@pytest.fixture
def csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plant's log: three temperatures, a valve from 0 to 100, batches."""
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    columns = smooth(400)
    table = {f"temp_{d}": columns["observations"][:, d] for d in range(3)} | {
        "valve": 50 + 50 * columns["actions"][:, 0]
    }
    table |= {
        "r": columns["rewards"],
        "done": columns["terminals"],
        "batch_id": np.repeat(np.arange(4), 100),
        "operator": np.repeat("ann", 400),
    }
    return write_csv(tmp_path / "plant.csv", table)


def test_brackets_in_names_are_not_taken_for_markup(csv: Path, tmp_path: Path) -> None:
    odd = csv.rename(tmp_path / "[red]plant[1].csv")
    for console in (wide(), Console(width=300, record=True, markup=False)):
        check_command(tyro.cli(Check, args=[str(odd), *MAPPING]), console)
        info_command(tyro.cli(Info, args=[str(odd), "--scale-actions", *MAPPING]), console)
        text = said(console)
        assert text.count(str(odd)) == 2
        assert "[cyan]" not in text


def said(console: Console) -> str:
    return console.export_text()


def wide() -> Console:
    return Console(width=300, record=True)


def test_a_log_is_checked_imported_and_described(csv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    console = wide()
    assert check_command(tyro.cli(Check, args=[str(csv), *MAPPING]), console) == 2
    assert "actions outside [-1, 1]" in said(console)
    assert "--scale-actions" in capsys.readouterr().out

    console = wide()
    assert import_command(tyro.cli(Import, args=[str(csv), "--name", "plant", *MAPPING]), console) == 2
    assert "Not imported" in said(console)
    console = wide()
    assert (
        import_command(
            tyro.cli(Import, args=[str(csv), "--name", "plant", "--scale-actions", *MAPPING]), console
        )
        == 0
    )
    assert "Imported 397 transitions in 4 episodes as 'plant'" in said(console)

    data = load("plant")
    assert (data.observation_dim, data.action_dim, len(data)) == (3, 1, 397)
    assert 0 <= data.action_low[0] < data.action_high[0] <= 100
    assert check_command(tyro.cli(Check, args=["plant"]), wide()) == 0
    console = wide()
    assert info_command(tyro.cli(Info, args=["plant", "--bins", "5"]), console) == 0
    text = said(console)
    assert "actions: 5 bins per dimension; states: 5 bins in each of: temp_0, temp_1, temp_2" in text
    assert "temp_2" in text  # the plant's own names survive the import


def test_machines_get_json(csv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_command(tyro.cli(Check, args=[str(csv), "--json", *MAPPING])) == 2
    findings = json.loads(capsys.readouterr().out)
    assert findings["findings"][0]["column"] == "valve"
    assert info_command(tyro.cli(Info, args=[str(EXCERPTS / "hopper_random-v1.hdf5"), "--json"])) == 0
    assert json.loads(capsys.readouterr().out)["transitions"] == 50


def test_pictures_are_written_where_asked(csv: Path, tmp_path: Path) -> None:
    arguments = [str(EXCERPTS / "hopper_random-v1.hdf5"), "--plot", "--out", str(tmp_path / "pictures")]
    console = wide()
    assert info_command(tyro.cli(Info, args=arguments), console) == 0
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == [
        "coverage.png",
        "dimensions.png",
        "episodes.png",
    ]
    assert "wrote" in said(console)


@pytest.mark.parametrize("command", [Import, Check, Info])
def test_help_explains_every_flag(command: type, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        tyro.cli(command, args=["--help"])
    text = capsys.readouterr().out
    for flag in ("--observation", "--next-observation", "--episode"):
        assert flag in text
    assert "columns." not in text
    assert "1 where an episode terminated" in text


def test_bounds_of_actions_are_given_as_numbers_or_lists(csv: Path) -> None:
    bounds = ["--action-low", "-50", "--action-high", "150"]
    assert check_command(tyro.cli(Check, args=[str(csv), *MAPPING, *bounds]), wide()) == 0
    console = wide()
    assert (
        import_command(tyro.cli(Import, args=[str(csv), "--name", "plant", *MAPPING, *bounds]), console) == 0
    )
    data = load("plant")
    assert (data.action_low.tolist(), data.action_high.tolist()) == ([-50], [150])
    assert np.abs(data.action).max() <= 0.5
    narrow = ["--action-low", "20", "--action-high", "80"]
    console = wide()
    assert (
        import_command(tyro.cli(Import, args=[str(csv), "--name", "narrow", *MAPPING, *narrow]), console) == 2
    )
    assert "outside the bounds given, 20 to 80; here 0.2" in said(console)
    with pytest.raises(ValueError, match="give both"):
        import_command(
            tyro.cli(Import, args=[str(csv), "--name", "half", *MAPPING, "--action-low", "0"]), wide()
        )
    with pytest.raises(ValueError, match="set them at the import"):
        load("plant", action_bounds=(0, 1))


def test_what_is_larger_than_half_the_memory_must_be_imported_first(
    csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "import", str(csv), "--name", "plant", "--scale-actions", *MAPPING]) == 0
    small = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2}  # a machine of 8 KiB
    monkeypatch.setattr(os, "sysconf", lambda name: small[name])
    for command in (["train"], ["data", "info"]):
        assert main([*command, str(csv)]) == 2
        error = " ".join(capsys.readouterr().err.split())
        assert (
            "more than half of this machine's memory; import it first, so that it stays on disk: gridcount"
            f" data import {csv}" in error
        )
    assert (
        main(["data", "check", str(csv), "--scale-actions", *MAPPING]) == 0
    )  # what only looks goes over the disk by itself
    assert isinstance(load("plant", memory_map=None).observation, np.memmap)
    assert not isinstance(load("plant").observation, np.memmap)
    assert main(["data", "info", "plant"]) == 0
