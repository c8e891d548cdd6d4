"""A dry run shows what it is timing, and what it has timed it knows the next time."""

import json
from pathlib import Path
from typing import Any

import pytest

from gridcount.benchmark import calibrate, timings
from gridcount.cli import main

SUITE = """
title = "two sizes"
datasets = ["maze2d-umaze-v1"]
algorithms = ["sac", "bc"]
preset = "fast"
updates = 100
"""


@pytest.fixture
def dry_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A dry run's command, on a machine where every update takes 2 ms."""
    monkeypatch.setattr(calibrate, "_time", lambda algorithm, dims: 0.002)
    (tmp_path / "sizes.toml").write_text(SUITE)
    return ["benchmark", str(tmp_path / "sizes.toml"), "--out", str(tmp_path / "out"), "--dry-run"]


def test_each_kind_is_announced_before_it_is_timed_and_kept_after(
    dry_run: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(dry_run) == 0
    first = capsys.readouterr().out
    assert "timing 1 of 2: sac on 4-d observations and 2-d actions" in first
    assert "timing 2 of 2: bc on" in first
    assert main(dry_run) == 0
    again = capsys.readouterr().out
    assert "timing 1" not in again
    assert f"timed before on this machine: {timings.timings_file()}" in " ".join(again.split())
    assert again.count("2.00") == first.count("2.00") > 0


def test_who_stops_half_way_keeps_what_was_timed(
    dry_run: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop_at_bc(algorithm: Any, dims: tuple[int, int]) -> float:
        if type(algorithm).__name__ == "BC":
            raise KeyboardInterrupt
        return 0.002

    monkeypatch.setattr(calibrate, "_time", stop_at_bc)
    assert main(dry_run) == 130
    monkeypatch.setattr(calibrate, "_time", lambda algorithm, dims: 0.002)
    capsys.readouterr()
    assert main(dry_run) == 0
    assert "timing 1 of 1: bc on" in capsys.readouterr().out


@pytest.mark.parametrize("damage", ["", "[]", '{"here": 3}', '{"here": {"kind": "fast"}}', "\x00"])
def test_a_damaged_file_is_measured_again(
    damage: str, dry_run: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    timings.timings_file().parent.mkdir(parents=True)
    timings.timings_file().write_text(damage)
    assert main(dry_run) == 0
    assert "timing 2 of 2" in capsys.readouterr().out
    assert len(json.loads(timings.timings_file().read_text())) == 1


def test_timings_of_another_machine_or_version_do_not_count(
    dry_run: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(dry_run) == 0
    monkeypatch.setattr(timings, "version", lambda package: "0.0.1")
    capsys.readouterr()
    assert main(dry_run) == 0
    assert "timing 2 of 2" in capsys.readouterr().out
    assert len(json.loads(timings.timings_file().read_text())) == 2
