"""The check finds each problem that is put into a clean log, where it is, and is silent on clean and
genuine data."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from log_files import EXCERPTS, smooth, write_csv
from numpy.typing import NDArray
from rich.console import Console

from gridcount.data.formats.columns import Columns
from gridcount.data.formats.d4rl import read_hdf5, write_hdf5
from gridcount.data.formats.log import Log
from gridcount.data.quality import scan as scanning
from gridcount.data.quality.check import Finding, as_json, check, exit_code, render
from gridcount.envs.maze2d_data import generate
from gridcount.transitions import CHUNK

Table = dict[str, NDArray[Any]]


def log(table: Table) -> Log:
    return Log(
        source="log",
        observation=table["observations"],
        action=table["actions"],
        reward=table["rewards"],
        terminated=table["terminals"],
        truncated=table["timeouts"],
        next_observation=table.get("next_observations"),
    )


def with_successors(table: Table) -> Table:
    return table | {
        "next_observations": np.concatenate([table["observations"][1:], table["observations"][-1:]])
    }


def loud(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity != "note"]


def put(key: str, where: Any, value: Any) -> Callable[[Table], None]:
    def change(table: Table) -> None:
        table[key][where] = value

    return change


def swap(first: int, second: int) -> Callable[[Table], None]:
    """Exchange two rows' successors."""

    def change(table: Table) -> None:
        table.update(with_successors(table))
        table["next_observations"][[first, second]] = table["next_observations"][[second, first]]

    return change


def same_next(table: Table) -> None:
    table["next_observations"] = table["observations"].copy()


def teleport(table: Table) -> None:
    table["observations"][150:200] += np.float32(40)  # in the middle of the second episode


def repeat(table: Table) -> None:
    for key in table:
        if key not in ("terminals", "timeouts"):
            table[key][200:300] = table[key][0:100]


def shuffle(table: Table) -> None:
    table["observations"][:] = np.random.default_rng(1).permutation(table["observations"])


def every_row_an_episode(table: Table) -> None:
    table["timeouts"][100:200] = ~table["terminals"][100:200]


SEEDED = [
    (put("observations", (7, 1), np.nan), "error", "observation[1]", 7, "1 value is NaN"),
    (put("actions", (slice(9, 12), 0), np.inf), "error", "action[0]", 9, "3 values are NaN"),
    (put("rewards", 399, -np.inf), "error", "reward", 399, "1 value is NaN"),
    (put("actions", (33, 1), 1.5), "error", "action[1]", 33, "1 rows have actions outside [-1, 1]"),
    (
        lambda t: t["actions"].__imul__(np.float32(0.01)),
        "warning",
        "action[0]",
        None,
        "a small part of [-1, 1]",
    ),
    (
        lambda t: t.update(actions=np.eye(2, dtype=np.float32)[np.arange(400) % 2]),
        "warning",
        "action[0]",
        None,
        "every action is a non-negative integer",
    ),
    (put("observations", (slice(None), 2), 5), "warning", "observation[2]", None, "is always 5"),
    (put("actions", (slice(None), 1), 0.5), "warning", "action[1]", None, "is always 0.5"),
    (put("rewards", slice(None), 3), "warning", "reward", None, "is always 3"),
    (
        lambda t: put("observations", (slice(None), 2), t["observations"][:, 0])(t),
        "warning",
        "observation[2]",
        None,
        "same values as 'observation[0]'",
    ),
    (
        lambda t: put("observations", (slice(None), 2), t["actions"][:, 0])(t),
        "warning",
        "action[0]",
        None,
        "same values as 'observation[2]'",
    ),
    (
        lambda t: t["observations"][:, 1].__imul__(np.float32(1e5)),
        "warning",
        "observation[",
        None,
        "but 'observation[1]' has",
    ),
    (teleport, "warning", "observation[0]", 149, "jumps inside an episode"),
    (
        repeat,
        "warning",
        None,
        200,
        "1 episodes repeat an earlier one; the first repeats the episode at row 0",
    ),
    (shuffle, "warning", None, None, "rows look shuffled"),
    (put("terminals", slice(None), True), "warning", "terminated", 0, "every row is terminal"),
    (every_row_an_episode, "warning", None, 100, "100 of 103 episodes have one row"),
    (swap(30, 60), "warning", "next_observation", 30, "is not the observation of the row below, in 2 rows"),
    (same_next, "error", "next_observation", 0, "is not the observation of the row below"),
]


@pytest.mark.parametrize(("change", "severity", "column", "row", "problem"), SEEDED)
def test_a_seeded_problem_is_found_where_it_is(
    change: Callable[[Table], object], severity: str, column: str | None, row: int | None, problem: str
) -> None:
    table = smooth()
    change(table)
    findings = loud(check(log(table)))
    hits = [finding for finding in findings if problem in finding.problem]
    assert hits, findings
    assert hits[0].severity == severity
    assert hits[0].row == row
    assert hits[0].column == column or (column is not None and str(hits[0].column).startswith(column))
    assert hits[0].advice
    assert hits[0].file == "log"


@pytest.mark.parametrize("successors", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_a_clean_log_is_clean(seed: int, successors: bool) -> None:
    table = smooth(1000, dims=6, actions=3, episode=50, seed=seed)
    assert loud(check(log(with_successors(table) if successors else table))) == []


QUIRKS = {  # true of these two episodes, and worth knowing
    "antmaze-umaze-v0.hdf5": ["reward: is always 0"],
    "pen-expert-v1.hdf5": [
        "action[16]: is always 1",
        "observation[39]: holds the same values as 'observation[24]'",
    ],
    "pen-human-v1.hdf5": ["observation[39]: holds the same values as 'observation[24]'"],
}


@pytest.mark.parametrize("path", sorted(EXCERPTS.glob("*.hdf5")), ids=lambda path: path.name)
def test_genuine_data_raises_no_false_alarm(path: Path) -> None:
    expected = QUIRKS.get(path.name, [])
    assert [f"{finding.column}: {finding.problem}" for finding in loud(check(path))] == expected
    assert [f"{finding.column}: {finding.problem}" for finding in loud(check(read_hdf5(path)))] == expected


@pytest.mark.parametrize("name", ["maze2d-umaze-v1", "maze2d-large-dense-v1"])
def test_generated_mazes_raise_no_false_alarm(tmp_path: Path, name: str) -> None:
    columns = generate(name, 6000, 0)
    write_hdf5(tmp_path / "maze.hdf5", columns, {})
    assert loud(check(tmp_path / "maze.hdf5")) == []


def test_a_switch_and_a_nail_do_not_jump() -> None:
    table = smooth()
    table["observations"][:, 0] = np.where(np.arange(400) % 150 < 75, -1, 1)
    table["observations"][:, 1] = np.where(np.arange(400) < 250, 1e-20 * np.arange(400), 0.05)
    assert [finding for finding in check(log(table)) if "jump" in finding.problem] == []


def test_chunks_do_not_change_what_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    table = smooth(2000)
    for change in (put("observations", (7, 1), np.nan), put("actions", (1033, 1), 1.5), repeat, teleport):
        change(table)
    whole = check(log(table))
    assert len(loud(whole)) >= 4
    assert len(table["rewards"]) < CHUNK
    for size in (1, 7, 150):
        monkeypatch.setattr(
            scanning,
            "chunks",
            lambda rows, size=size: (slice(i, min(i + size, rows)) for i in range(0, rows, size)),
        )
        assert check(log(table)) == whole


def test_every_problem_is_found_at_once_with_errors_first() -> None:
    table = smooth()
    for change in (
        put("observations", (7, 1), np.nan),
        put("actions", (33, 1), 1.5),
        put("rewards", slice(None), 3),
        repeat,
    ):
        change(table)
    findings = check(log(table))
    severities = [finding.severity for finding in findings]
    assert severities == sorted(severities, key=("error", "warning", "note").index)
    assert len(loud(findings)) >= 4
    assert exit_code(findings) == 2


def test_columns_of_a_table_are_called_by_their_names(tmp_path: Path) -> None:
    table = smooth(100)
    cells: dict[str, Any] = {
        "temp": table["observations"][:, 0].astype(str),
        "load": table["observations"][:, 1],
        "action": table["actions"][:, 0],
    }
    cells["temp"][17] = ""
    path = write_csv(
        tmp_path / "log.csv",
        {key: np.asarray(column) for key, column in cells.items()} | {"reward": table["rewards"]},
    )
    (found,) = loud(check(path, Columns(observation="temp,load")))
    assert (found.file, found.column, found.row) == (str(path), "temp", 17)
    assert "no column marks where episodes end" in check(path, Columns(observation="temp,load"))[-1].problem


def test_exit_codes_tell_errors_from_warnings(tmp_path: Path) -> None:
    assert exit_code([]) == 0
    for severity, code in (("note", 0), ("warning", 1), ("error", 2)):
        assert exit_code([Finding(severity, "f", None, None, "p", "a")]) == code  # type: ignore[arg-type]
    assert exit_code(check(tmp_path / "nowhere.csv")) == 2


def test_findings_can_be_read_by_people_and_machines() -> None:
    table = smooth()
    table["rewards"][:] = 3
    findings = check(log(table))
    console = Console(width=160)
    with console.capture() as capture:
        console.print(render("log", findings))
    text = capture.get()
    assert "warning" in text
    assert "is always 3" in text
    data = json.loads(json.dumps(as_json("log", findings)))
    assert data["exit_code"] == 1
    assert set(data["findings"][0]) == {"severity", "file", "column", "row", "problem", "advice"}


def test_actions_that_will_be_scaled_are_not_judged() -> None:
    table = smooth()
    table["actions"] *= np.float32(100)
    assert exit_code(check(log(table))) == 2
    assert exit_code(check(log(table), scale_actions=True)) == 0


def test_numbers_at_the_edge_of_single_precision_do_not_break_the_check() -> None:
    table = smooth()
    table["observations"][10:14, 0] = [3e38, -3e38, np.inf, np.inf]
    table["observations"][20:30, 1] = np.nan
    assert exit_code(check(log(table))) == 2
    assert exit_code(check(log(with_successors(table)))) == 2


def test_a_column_of_text_hides_nothing_else(tmp_path: Path) -> None:
    table = smooth(100, episode=25)
    cells: dict[str, Any] = {f"obs_{d}": table["observations"][:, d].astype(object) for d in range(3)}
    cells |= {
        "action": table["actions"][:, 0].copy(),
        "reward": np.full(100, 3.0),
        "done": table["terminals"].astype(float),
    }
    cells["obs_0"][5:] = "warm"
    cells["obs_1"][17] = ""
    cells["action"][33] = 7
    cells["done"][50] = 0.5
    cells["episode"] = np.repeat([0, 1, 2, 0], 25)
    flat = {key: np.asarray(column) for key, column in cells.items()}
    expected = {
        ("obs_0", 5, "column 'obs_0' holds 'warm' at row 5, which is not a number"),
        ("done", 50, "'done' holds 0.5 at row 50"),
        ("obs_1", 17, "1 value is NaN, infinite or empty"),
        ("action", 33, "1 rows have actions outside [-1, 1]; here -0.9902 to 7"),
    }
    found = check(write_csv(tmp_path / "log.csv", flat))
    assert {(each.column, each.row, each.problem) for each in found if each.severity == "error"} == expected
    assert "is always 3" in {each.problem for each in found}
    together = next(each for each in found if "interleaved" in each.problem)
    assert (together.severity, together.column, together.row) == ("warning", "episode", 75)
    assert all(each.advice for each in loud(found))


def test_text_in_any_table_is_one_finding_among_others(tmp_path: Path) -> None:
    table = smooth(40, dims=2, actions=1, episode=10)
    columns = {
        "obs_0": table["observations"][:, 0],
        "obs_1": np.repeat("red", 40),
        "action": 5 * table["actions"][:, 0],
    }
    columns |= {"reward": table["rewards"], "timeout": table["timeouts"]}
    parquet.write_table(arrow.table(columns), tmp_path / "log.parquet")
    np.savez(tmp_path / "log.npz", **columns)  # type: ignore[arg-type]
    for path in (tmp_path / "log.parquet", tmp_path / "log.npz", write_csv(tmp_path / "log.csv", columns)):
        errors = [finding for finding in check(path) if finding.severity == "error"]
        assert [finding.column for finding in errors] == ["obs_1", "action"], path


def test_actions_are_judged_by_the_bounds_given() -> None:
    table = smooth()
    table["actions"] = 50 + 20 * table["actions"]
    table["actions"][7, 1] = 130
    assert loud(check(log(table), action_bounds=(0, [100, 130]))) == []
    (found,) = loud(check(log(table), action_bounds=(0, 100)))
    assert (found.severity, found.column, found.row) == ("error", "action[1]", 7)
    assert "1 rows have actions outside the bounds given, 0 to 100; here 30." in found.problem


def test_every_action_column_out_of_range_is_reported_with_its_own_first_row() -> None:
    table = smooth(400)
    table["actions"][0, 0], table["actions"][100, 1] = 1.2, 50
    found = {
        finding.column: (finding.row, finding.problem)
        for finding in check(log(table))
        if finding.severity == "error"
    }
    assert found.keys() == {"action[0]", "action[1]"}
    assert found["action[0]"][0] == 0
    assert found["action[0]"][1].endswith("to 1.2")
    assert found["action[1]"][0] == 100
    assert found["action[1]"][1].endswith("to 50")
