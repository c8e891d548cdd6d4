"""Names from files cannot steer a terminal, be calculated by a spreadsheet, or put control bytes into
exported tables."""

import ast
import csv
from pathlib import Path

import numpy as np
import pytest
from log_files import smooth
from results_maker import make_rows

import gridcount
from gridcount.benchmark.store import write_rows
from gridcount.cli import main
from gridcount.plain_text import printable, spreadsheet_text

SOURCE = Path(gridcount.__file__).parent
ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CSV whose column names hold what a terminal obeys."""
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    columns = smooth(200)
    table = {f"obs_{ESCAPE}{i}": column for i, column in enumerate(columns["observations"].T)}
    table |= {f"action_{ESCAPE}{i}": column for i, column in enumerate(columns["actions"].T)}
    table["reward"] = np.where(np.arange(200) == 5, np.nan, columns["rewards"])
    path = tmp_path / "log.csv"
    lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    "words",
    [
        ["data", "check", "LOG"],
        ["data", "info", "LOG"],
        ["data", "import", "LOG", "--name", "theirs"],
        ["data", "check", "LOG", "--reward", "obs_*"],
        ["data", "check", "LOG", "--json"],
        ["train", "LOG"],
    ],
)
@pytest.mark.parametrize("repaired", [False, True])
def test_no_command_prints_what_a_terminal_obeys(
    words: list[str], repaired: bool, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if repaired:
        log.write_text(log.read_text().replace("nan", "0"))
    if repaired and words[0] == "train":
        words = [
            *words,
            "--algo",
            "bc",
            "--updates",
            "10",
            "--hidden",
            "8",
            "--no-plot",
            "--run",
            str(log.parent / "run"),
        ]
    main([str(log) if word == "LOG" else word for word in words])
    captured = capsys.readouterr()
    said = captured.out + captured.err
    assert not [sign for sign in said if sign in ESCAPE and not sign.isprintable()]
    if repaired and words[:2] == ["data", "info"]:
        assert "x1b" in said  # the names are there, written out


def test_every_console_of_ours_is_a_safe_one() -> None:
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Console":
                assert path.relative_to(SOURCE).as_posix() == "data/store/download.py", (
                    path
                )  # prints names of the catalogue alone


def test_printable_keeps_what_people_write_and_writes_out_the_rest() -> None:
    assert printable("Größe [°C]\tµ 漢字\n") == "Größe [°C]\tµ 漢字\n"
    assert printable("a\x1b[31mb\r\x9b\u202e\udcff") == r"a\x1b[31mb\r\x9b\u202e\udcff"


@pytest.mark.parametrize("name", ["=1+1", "+1", "-x", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_cell_starts_a_formula(name: str) -> None:
    assert spreadsheet_text(name).startswith("'")
    assert spreadsheet_text("gpc-sac") == "gpc-sac"


def test_exported_tables_hold_neither_formulas_nor_control_bytes(tmp_path: Path) -> None:
    names = ["=cmd|' /C calc'!A0", "@evil", f"plain{ESCAPE}"]
    rows = [row for name in names for row in make_rows("theirs", "gpc-sac", name)]
    path = write_rows(tmp_path / "results.parquet", rows)
    assert main(["report", str(path), "--out", str(tmp_path / "report"), "--no-figures"]) == 0
    written = list((tmp_path / "report" / "tables").iterdir())
    assert {file.suffix for file in written} == {".md", ".tex", ".csv"}
    quoted: list[str] = []
    for file in written:
        text = file.read_text()
        assert printable(text) == text, file
        if file.suffix == ".csv":
            cells = [cell for line in csv.reader(text.splitlines()) for cell in line]
            assert not [cell for cell in cells if cell.startswith(("=", "@", "+"))]
            quoted += [cell for cell in cells if cell.startswith(("'=", "'@"))]
    assert quoted
