"""Logs as they come: the commands of the docs import every variant of one log to the same transitions."""

import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from log_files import smooth, write_csv
from messy_logs import NAMES, clean_rows, text, write_messy

import gridcount as gc
from gridcount import Columns, transitions
from gridcount.cli import main
from gridcount.data.load import load, open_log
from gridcount.data.store.local import imported_names

DOCS = Path(__file__).parent.parent / "docs" / "data.md"
BLOCK = re.search(r"<!-- messy -->\n```sh\n(.*?)```", DOCS.read_text(), re.S)
COMMANDS = [line.partition("  #")[0].strip() for line in BLOCK[1].splitlines()] if BLOCK else []
ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The folder of the socket of a PostgreSQL server with the log; not root, but another user runs it."""
    places = [
        *map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb")),
        *filter(None, [shutil.which("initdb")]),
    ]
    if not places:
        why = "PostgreSQL was not tested: there is no server. Install one, as root: make postgres"
        if ROOT or os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    tools, owner = str(Path(places[0]).parent), {"user": "postgres", "group": "postgres"} if ROOT else {}
    folder = tempfile.mkdtemp(prefix="gridcount-postgres-", dir="/tmp")  # a socket's path must be short
    if ROOT:
        shutil.chown(folder, "postgres", "postgres")
    control = [f"{tools}/pg_ctl", "-D", f"{folder}/data", "-l", f"{folder}/log", "-w"]
    options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
    quiet: dict[str, Any] = {"check": True, "stdout": subprocess.DEVNULL, "cwd": "/tmp"} | owner
    try:
        make = [f"{tools}/initdb", "-D", f"{folder}/data", "-A", "trust", "-U", "plant", "-N"]
        subprocess.run(make, **quiet)
        subprocess.run([*control, "-o", options, "start"], **quiet)
        fill(f"postgresql://plant@/postgres?host={folder}")
        yield folder
    finally:
        if Path(folder, "data", "postmaster.pid").exists():
            subprocess.run([*control, "-m", "immediate", "stop"], **quiet)
        shutil.rmtree(folder)


def fill(address: str) -> None:
    import psycopg

    types = ["int", "timestamptz", "double precision", "numeric", "real", "double precision"]
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(NAMES, types, strict=True))
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("create database plant")
    with psycopg.connect(address.replace("/postgres?", "/plant?")) as connection:
        connection.execute(f"create table log ({columns})".encode())  # type: ignore[arg-type, unused-ignore]
        with connection.cursor().copy("copy log from stdin") as copy:
            for episode, seconds, *rest in reversed(clean_rows()):
                copy.write_row([episode, f"2026-01-01T00:{seconds // 60:02d}:{seconds % 60:02d}Z", *rest])


@pytest.fixture
def messy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    folder = tmp_path / "messy"
    folder.mkdir()
    write_messy(folder)
    monkeypatch.chdir(folder)
    return folder


def test_every_command_of_the_docs_imports_the_same_transitions(
    messy: Path, postgres: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PGHOST", postgres)
    monkeypatch.setenv("PGUSER", "plant")
    assert len(COMMANDS) >= 14
    truth: gc.Transitions | None = None
    for command in COMMANDS:
        program, *words = shlex.split(command)
        assert (program, words[:2]) == ("gridcount", ["data", "import"])
        assert main(words) == 0, (command, capsys.readouterr())
        data = load(words[words.index("--name") + 1])
        truth = truth or data
        assert data.equals(truth), command
        assert (len(data), len(data.episode_lengths)) == (6 * 39, 6), command
    said = capsys.readouterr().out
    for note in (
        "decimal comma",
        "separated thousands",
        "read as units: s, °C, Pa, %, €",
        "read as latin-1",
        "12 files were read as one table",
        "6 of 240 rows were left out",
    ):
        assert note in " ".join(said.replace("│", " ").split()), note


def test_training_and_python_read_the_same_flags(messy: Path, tmp_path: Path) -> None:
    columns = Columns(time="time", missing="drop-rows")
    assert load("unsorted.csv", columns, scale_actions=True).equals(load("plant.csv", scale_actions=True))
    small = ["--algo", "bc", "--hidden", "8", "--updates", "4", "--no-plot", "--scale-actions"]
    run = tmp_path / "run"
    assert main(["train", "unsorted.csv", "--time", "time", *small, "--run", str(run)]) == 0
    assert json.loads((run / "config.json").read_text())["columns"] == {"time": "time"}
    os.chdir(tmp_path)  # a run finds its data from any folder
    assert main(["plot", str(run)]) == 0


# --- order ---


def findings(path: str, *flags: str) -> list[Any]:
    return [*gc.check(path, Columns(**dict(zip(flags[::2], flags[1::2], strict=True))), scale_actions=True)]


def test_gaps_and_rows_of_the_same_time_are_told_with_their_row(messy: Path) -> None:
    rows = clean_rows(2, 10)
    rows[4][1], rows[15][1] = rows[3][1], 10_000  # a copy of a time, and a gap before and after
    rows[16:20] = [[row[0], row[1] + 20_000, *row[2:]] for row in rows[16:20]]
    (messy / "times.csv").write_text(text(rows))
    found = {each.row: each for each in findings("times.csv", "time", "time") if each.column == "time"}
    assert "1 rows have the same time as the row above" in found[4].problem
    assert "gaps: the usual step is 60, and the longest is" in found[5].problem
    assert {each.severity for each in found.values()} == {"warning"}


@pytest.mark.parametrize("chunk", [1, 1000, 8000])  # bytes: runs of one row, of some, and of most
def test_rows_are_sorted_alike_whatever_fits_into_memory(
    messy: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    rng = np.random.default_rng(chunk)
    episode, time = rng.integers(0, 9, 200), rng.integers(0, 20, 200)  # many rows of equal time
    table = {"episode": episode, "time": time, "obs": np.arange(200.0), "action": rng.uniform(-1, 1, 200)}
    columns = table | {"reward": np.arange(200.0), "terminated": rng.random(200) < 0.02}
    np.savez("log.npz", **columns)
    starts = np.array([time[episode == each].min() for each in range(9)])
    order = np.lexsort([np.arange(200), time, episode, starts[episode]])
    monkeypatch.setattr(transitions, "CHUNK_BYTES", chunk)
    with open_log("log.npz", Columns(time="time"), on_disk=True) as log:
        np.testing.assert_array_equal(log.reward[0:200], order)
        np.testing.assert_array_equal(log.action[0:200][:, 0], columns["action"][order])
        np.testing.assert_array_equal(log.terminated, columns["terminated"][order])
        np.testing.assert_array_equal(log.truncated, np.append(np.diff(episode[order]) != 0, True))


@pytest.mark.parametrize("bad", ["soon", ""])
def test_a_time_that_cannot_be_read_is_an_error_with_its_row(messy: Path, bad: str) -> None:
    rows = clean_rows(2, 10)
    rows[13][1] = bad
    (messy / "times.csv").write_text(text(rows))
    with pytest.raises(ValueError, match=r"times.csv: 'time' holds .* at row 13, which is not a time"):
        load("times.csv", Columns(time="time"), scale_actions=True)


@pytest.mark.parametrize("form", ["iso", "german", "parquet", "number"])
def test_dates_sort_rows(messy: Path, form: str) -> None:
    rows = clean_rows(1, 40)
    order = np.random.default_rng(0).permutation(40)
    moments = [np.datetime64("2026-01-31T23:50:00") + np.timedelta64(row[1], "s") for row in rows]
    write: dict[str, Callable[[Any], Any]] = {
        "iso": lambda moment: f"{moment}Z",
        "german": lambda moment: moment.item().strftime("%d.%m.%Y %H:%M:%S"),
        "number": lambda moment: moment.astype(int) * 1_000_000_007,
    }
    if form == "parquet":
        columns = dict(zip(NAMES, zip(*[rows[i] for i in order], strict=True), strict=True))
        columns["time"] = arrow.array(np.array([moments[i] for i in order], "datetime64[ns]"))
        parquet.write_table(arrow.table(columns), "dates.parquet")
    else:
        dated = [[rows[i][0], write[form](moments[i]), *rows[i][2:]] for i in order]
        (messy / "dates.csv").write_text(text(dated))
    (messy / "sorted.csv").write_text(text(rows))
    name = "dates.parquet" if form == "parquet" else "dates.csv"
    assert load(name, Columns(time="time"), scale_actions=True).equals(load("sorted.csv", scale_actions=True))


# --- text ---


def test_a_comma_that_can_mean_two_things_asks_for_the_flag(messy: Path) -> None:
    (messy / "log.csv").write_text("obs_0;action;reward\n1,234;0;1\n2,345;0;2\n3,456;1;3\n")
    with pytest.raises(ValueError, match=r"'1,234' can be read .* --decimal , or --decimal \."):
        load("log.csv")
    assert load("log.csv", Columns(decimal=",")).observation[0, 0] == np.float32(1.234)
    assert load("log.csv", Columns(decimal=".")).observation[0, 0] == 1234
    (messy / "log.csv").write_text("obs_0;action;reward\n1,23;0;1.5\n2,34;0;2\n")
    with pytest.raises(ValueError, match=r"'1,23' has a decimal comma and '1.5' a decimal point"):
        load("log.csv")


def test_a_decimal_comma_beyond_the_first_lines_names_its_row_and_the_flag(messy: Path) -> None:
    lines = ["obs_0;action;reward", *(f"{i};0;1" for i in range(60_000)), "1,5;0;1"]
    (messy / "log.csv").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"'obs_0' holds '1,5' at row 60000.*give --decimal ,"):
        load("log.csv")


def test_columns_aligned_with_spaces_are_read(messy: Path) -> None:
    (messy / "log.txt").write_text("  obs_0   action  reward\n   1.5      0.5      2\n  2.5       0  -1e-1\n")
    data = load("log.txt")
    assert (data.observation.tolist(), data.action.tolist()) == ([[1.5]], [[0.5]])


@pytest.mark.parametrize("damage", ["cut", "text"])
def test_a_damaged_packed_file_is_named(messy: Path, damage: str) -> None:
    packed = messy / "packed.csv.gz"
    packed.write_bytes(packed.read_bytes()[:-200] if damage == "cut" else b"obs_0,action\n")
    with pytest.raises(ValueError, match=r"packed.csv.gz: truncated or damaged gzip"):
        load("packed.csv.gz", scale_actions=True)


def test_an_encoding_that_is_wrong_or_unknown_is_told(messy: Path) -> None:
    for encoding, message in (("utf-8", "not utf-8 text .*--encoding"), ("klingon", "is not known")):
        with pytest.raises(ValueError, match=message):
            load("latin.txt", Columns(encoding=encoding), scale_actions=True)


# --- missing values ---


def write_missing(path: Path) -> None:
    """Four episodes of 25 rows; missing: a value in the middle of the second, the first row of the third."""
    table: dict[str, Any] = {
        f"obs_{d}": column.astype(object) for d, column in enumerate(smooth(100)["observations"].T)
    }
    table |= {
        "action": smooth(100)["actions"][:, 0],
        "reward": np.arange(100.0),
        "episode": np.repeat(range(4), 25),
    }
    table["obs_1"][[30, 50]] = ""
    table["obs_2"][30] = ""
    write_csv(path, {name: np.asarray(column) for name, column in table.items()})


def test_what_each_choice_would_cost_is_said_and_is_what_it_costs(
    messy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_missing(messy / "log.csv")
    costs = (
        "drop-rows leaves out 2 of 100 rows and cuts their episodes there;"
        " drop-episodes leaves out 2 of 4 episodes (50 rows); carry-forward repeats the value before,"
        " for 3 values, and leaves out 1 rows that have none before"
    )
    assert main(["data", "check", "log.csv", "--json"]) == 2
    advice = [
        each["advice"]
        for each in json.loads(capsys.readouterr().out)["findings"]
        if each["severity"] == "error"
    ]
    assert len(advice) == 2
    assert all(costs in each for each in advice)
    with pytest.raises(ValueError, match="drop-episodes leaves out 2 of 4 episodes"):
        load("log.csv")
    full = np.arange(100)
    kept = {
        "drop-rows": np.setdiff1d(
            full, [24, 29, 30, 49, 50, 74, 99]
        ),  # nor the rows before the gaps and ends
        "drop-episodes": np.setdiff1d(full, [24, *range(25, 75), 99]),
        "carry-forward": np.setdiff1d(full, [24, 49, 50, 74, 99]),
    }
    for how, rows in kept.items():
        data = load("log.csv", Columns(missing=how))
        assert data.reward.tolist() == rows.tolist(), how
        assert np.isfinite(data.next_observation).all()
    carried = load("log.csv", Columns(missing="carry-forward"))
    np.testing.assert_array_equal(carried.observation[29, 1:], carried.observation[28, 1:])
    with pytest.raises(ValueError, match="--missing is 'guess'; it must be one of error, drop-rows"):
        Columns(missing="guess")


def test_no_transition_spans_a_row_that_was_left_out(messy: Path) -> None:
    write_missing(messy / "log.csv")
    data = load("log.csv", Columns(missing="drop-rows"))
    inside = ~data.episode_end[:-1]
    assert (np.diff(data.reward)[inside] == 1).all()  # the reward counts the rows of the file
    np.testing.assert_array_equal(data.next_observation[:-1][inside], data.observation[1:][inside])


# --- categories ---


def write_modes(path: Path, unknown: str = "") -> None:
    modes = ["auto", "manual", "3", unknown or "auto"] * 10
    rows = [[i // 20, i, i % 7, modes[i], i % 3, i % 5] for i in range(40)]
    lines = [",".join(map(str, row)) for row in rows]
    path.write_text("\n".join(["episode,time,obs_level,mode,action_valve,reward", *lines]))


def test_categories_are_remembered_by_the_policy(messy: Path, tmp_path: Path) -> None:
    write_modes(messy / "log.csv")
    flags = ["--categorical", "mode", "--scale-actions"]
    assert main(["data", "import", "log.csv", *flags, "--name", "modes"]) == 0
    data = load("modes")
    assert data.observation_names == ("obs_level", "mode=3", "mode=auto", "mode=manual")
    assert data.observation[:3].tolist() == [[0, 0, 1, 0], [1, 0, 0, 1], [2, 1, 0, 0]]
    run = tmp_path / "run"
    small = ["--algo", "bc", "--hidden", "8", "--updates", "4", "--no-plot"]
    assert main(["train", "log.csv", *flags, *small, "--run", str(run)]) == 0
    shutil.copytree(run / "policy", tmp_path / "shipped")
    policy = gc.load_policy(tmp_path / "shipped")
    row = {"obs_level": 2, "mode": 3.0, "remark": "not needed"}
    np.testing.assert_array_equal(policy.encode(row), data.observation[2])
    with pytest.raises(
        ValueError, match="'mode' is 'broken', which the training data does not have; it has 3, auto"
    ):
        policy.encode(row | {"mode": "broken"})
    with pytest.raises(ValueError, match="the row has no 'obs_level'"):
        policy.encode({"mode": "auto"})
    assert policy.facts.action_values == ()  # 38 rows are too few to say


def test_categories_of_next_observations_and_missing_ones(messy: Path) -> None:
    lines = ["obs_mode,next_obs_mode,action,reward", "a,b,0,1", "b,c,0,1", ",a,0,1", "a,b,1,1"]
    (messy / "log.csv").write_text("\n".join(lines))
    columns = Columns(categorical="obs_mode", missing="drop-rows")
    data = load("log.csv", columns)
    assert data.observation.tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0]]
    assert data.next_observation.tolist() == [[0, 1, 0], [0, 0, 1], [0, 1, 0]]
    with pytest.raises(ValueError, match="--categorical names 'action', which is the action"):
        load("log.csv", Columns(categorical="action"))


def test_missing_categories_in_parquet_are_missing(messy: Path) -> None:
    columns: dict[str, list[object]] = {
        "obs_x": [0.0, 1, 2, 3, 4, 5],
        "action": [0.0] * 6,
        "reward": [1.0] * 6,
    }
    columns |= {"on": [True, False, True, None, True, False], "mode": ["a", "b", None, "a", "b", "a"]}
    parquet.write_table(arrow.table(columns), "log.parquet")
    data = load("log.parquet", Columns(observation="obs_x", categorical="on,mode", missing="drop-rows"))
    assert data.observation_names == ("obs_x", "on=false", "on=true", "mode=a", "mode=b")
    assert data.observation[:, 0].tolist() == [0, 4]  # rows 2 and 3 have a value missing


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_without_an_id_are_not_put_together(messy: Path, kind: str) -> None:
    ids = ["a", "a", None, "b", "b", None]
    numbers = {"obs_x": [0.0, 1, 2, 3, 4, 5], "action": [0.0] * 6, "reward": [1.0] * 6}
    if kind == "csv":
        columns = {"episode": [each or "" for each in ids], **numbers}
        write_csv(Path("log.csv"), {name: np.array(column) for name, column in columns.items()})
    else:
        parquet.write_table(arrow.table({"episode": ids, **numbers}), "log.parquet")
    with pytest.raises(ValueError, match="'episode' is missing again at row 5"):
        load(f"log.{kind}")


def test_a_first_row_without_numbers_is_not_a_row_of_units(messy: Path) -> None:
    lines = ["episode,obs_x,action,reward", "a,,,", "a,1,0.5,1", "a,2,0.5,1", "a,3,0.5,1"]
    Path("log.csv").write_text("\n".join(lines))
    with pytest.raises(ValueError, match="--missing"):
        load("log.csv")


def test_a_policy_rounds_few_valued_actions_to_those_of_the_log(messy: Path, tmp_path: Path) -> None:
    log, rng = smooth(400), np.random.default_rng(0)
    switch, knob = rng.choice([0, 1, 4], 400), rng.uniform(0, 9, 400)
    data = gc.Transitions.from_arrays(
        log["observations"],
        np.column_stack([switch, knob]),
        log["rewards"],
        truncated=log["timeouts"],
        scale_actions=True,
    )
    run = gc.train(data, "bc", updates=4, hidden=(8,), batch_size=8, progress=False, out=tmp_path / "run")
    policy = gc.load_policy(run.directory)
    assert list(policy.facts.action_values) == [(0, 1, 4), ()]
    exact, rounded = policy(data.observation), policy.rounded(data.observation)
    assert set(rounded[:, 0]) <= {0, 1, 4}
    nearest = np.abs(exact[:, :1] - [[0, 1, 4]]).argmin(axis=1)
    np.testing.assert_array_equal(rounded[:, 0], np.array([0, 1, 4])[nearest])
    np.testing.assert_array_equal(rounded[:, 1], exact[:, 1])
    np.testing.assert_array_equal(policy.rounded(data.observation[0]), rounded[0])


# --- many files, queries and databases ---


def test_each_file_can_be_an_episode(messy: Path) -> None:
    shutil.rmtree("parts")
    Path("parts").mkdir()
    rows = clean_rows()
    for episode in range(6):
        own = [row for row in rows if row[0] == episode]
        Path("parts", f"batch {episode}.csv").write_text(text(own).replace("episode", "machine"))
    data = load("parts", Columns(episode="file"), scale_actions=True)
    assert data.equals(load("plant.csv", scale_actions=True))


def test_the_order_of_whole_episodes_in_a_file_does_not_matter(messy: Path) -> None:
    blocks = [
        [f"{episode},{10 * episode + row},{10 * episode + row},{row},0.5,1" for row in range(3)]
        for episode in range(3)
    ]
    for name, order in {"a": (0, 1, 2), "b": (2, 0, 1)}.items():
        lines = [line for each in order for line in blocks[each]]
        Path(f"{name}.csv").write_text("\n".join(["episode,when,tick,obs_x,action,reward", *lines]))
    first, second = (load(f"{name}.csv", Columns(time="when", observation="obs_x,tick")) for name in "ab")
    assert first.observation.tolist() == second.observation.tolist()


def test_what_is_recognised_in_the_last_part_is_said(messy: Path) -> None:
    (messy / "odd").mkdir()
    for name, mark in {"part-1": ".", "part-2": ","}.items():
        rows = [f"{row}{mark}5;0{mark}5;1" for row in range(3)]
        (messy / "odd" / f"{name}.csv").write_text("\n".join(["obs_x;action;reward", *rows]))
    with open_log("odd") as log:
        assert any("'0,5' were read with a decimal comma" in note for note in log.notes)
        (mixed,) = (note for note in log.notes if "written differently" in note)
        assert "part-2.csv with a decimal comma ('0,5'), part-1.csv with a decimal point ('0.5')" in mixed
    assert load("odd").observation[:, 0].tolist() == [0.5, 1.5, 2.5, 0.5, 1.5]  # each in its own way


@pytest.mark.parametrize("order", [("1", "2"), ("2", "1")])
def test_a_part_that_can_be_read_in_two_ways_beside_decimal_commas_is_an_error(
    messy: Path, order: tuple[str, str]
) -> None:
    (messy / "odd").mkdir()
    for number, cells in zip(order, (["0,5", "1,25", "2,5"], ["1.234", "2.345", "3.456"]), strict=True):
        rows = [f"{cell};0;1" for cell in cells]
        (messy / "odd" / f"part-{number}.csv").write_text("\n".join(["obs_x;action;reward", *rows]))
    files = (
        rf"part-{order[0]}.csv has decimal commas \('0,5'\), so '1.234' in part-{order[1]}.csv can be read"
    )
    with pytest.raises(ValueError, match=files):
        load("odd")
    assert 1234 in load("odd", Columns(decimal=",")).observation


def test_training_says_what_the_reader_of_a_file_decided(
    messy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "comma.csv", "--scale-actions", "--algo", "bc", "--updates", "4", "--hidden", "8"]
    assert main([*words, "--no-plot", "--run", str(tmp_path / "run")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "note: the line under the header was read as units: s, °C, Pa, %, €" in shown
    assert "were read with a decimal comma" in shown
    assert load("comma.csv", scale_actions=True).notes


def test_a_part_that_differs_is_named(messy: Path) -> None:
    part = messy / "parts" / "part-7.csv"
    part.write_text(part.read_text().replace("obs_pressure", "obs_p"))
    with pytest.raises(ValueError, match=r"part-7.csv: has no column 'obs_pressure', which part-1.csv has"):
        load("parts", scale_actions=True)
    part.unlink()
    part.symlink_to(messy / "plant.csv")
    with pytest.raises(ValueError, match=r"part-7.csv: is a link that leads out of parts"):
        load("parts", Columns(sql="select * from log"), scale_actions=True)
    with pytest.raises(ValueError, match=r"part-7.csv: is a link that leads out of parts"):
        load("parts", scale_actions=True)
    Path("parts", "notes.txt").write_text("hello")
    with pytest.raises(ValueError, match=r"parts: holds tables of different kinds \(.csv, .txt\)"):
        load("parts")
    with pytest.raises(FileNotFoundError, match="no table matches this pattern"):
        load("parts/*.parquet")


@pytest.mark.parametrize(
    ("source", "sql", "message"),
    [
        ("parquet", "copy log to 'parquet/out.csv'", "must be one SELECT"),
        ("parquet", "select * from log; drop table log", "must be one SELECT"),
        ("parquet", "select * from read_text('plant.csv')", "file system operations are disabled"),
        ("parquet", "select * from read_csv('/etc/passwd')", "file system operations are disabled"),
        ("parquet", "select nothing from log", "DuckDB says: .*nothing"),
        ("plant.db", "delete from log", "SQLite says: not authorized"),
        ("plant.db", "attach 'other.db' as other", "SQLite says: not authorized"),
        ("plant.db", None, "has the tables log, operators; choose with --sql"),
    ],
)
def test_a_query_reads_only_what_was_named_and_never_writes(
    messy: Path, source: str, sql: str | None, message: str
) -> None:
    before = {path: path.read_bytes() for path in messy.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=message):
        load(source, Columns(sql=sql), scale_actions=True)
    assert {path: path.read_bytes() for path in messy.rglob("*") if path.is_file()} == before


def test_text_in_a_database_is_named_by_its_row(messy: Path) -> None:
    with sqlite3.connect("plant.db") as connection:
        connection.execute("update log set obs_pressure = 'high' where rowid = 34")
    connection.close()
    with pytest.raises(ValueError, match=r"'obs_pressure' holds 'high' at row 33, which is not a number"):
        load("plant.db", Columns(sql="select * from log"), scale_actions=True)


def test_a_password_is_refused_and_never_repeated(messy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = ["me:s3cret@localhost/plant", "me:#s3cret@localhost", "me:?s3cret@localhost"]
    for address in (f"postgresql://{place}" for place in [*places, "localhost/plant?password=s3cret"]):
        for words in (
            ["data", "import", address, "--name", "x"],
            ["data", "check", address],
            ["train", address],
        ):
            assert main(words) == 2
            said = capsys.readouterr()
            assert "PGPASSWORD" in said.out + said.err
            assert "s3cret" not in said.out + said.err
    assert "s3cret" not in "".join(path.read_text() for path in messy.parent.rglob("*.json"))


def test_a_query_of_the_server_may_not_write(
    messy: Path, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGHOST", postgres)
    monkeypatch.setenv("PGUSER", "plant")
    for sql, message in (
        ("select pg_advisory_lock(1), setval('x', 2)", "PostgreSQL says"),
        ("drop table log", "PostgreSQL says"),
    ):
        with pytest.raises(ValueError, match=message):
            load("postgresql:///plant", Columns(sql=sql), scale_actions=True)
    assert len(load("postgresql:///plant", Columns(time="time"), scale_actions=True)) == 6 * 39


# --- list and remove ---


def test_imported_datasets_are_listed_and_removed_only_when_asked(
    messy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["data", "list"]) == 0
    assert "No dataset was imported yet" in capsys.readouterr().out
    main(["data", "import", "plant.csv", "--scale-actions", "--name", "plant"])
    capsys.readouterr()
    assert main(["data", "list", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["name"], found["rows"], found["source"]) == ("plant", 234, "plant.csv")
    assert main(["data", "remove", "plant"]) == 2
    assert "give --yes" in capsys.readouterr().err
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    for answer, code in (("", 1), ("y", 0)):
        monkeypatch.setattr("builtins.input", lambda _, answer=answer: answer)
        assert "plant" in imported_names()
        assert main(["data", "remove", "plant"]) == code
    assert main(["data", "remove", "plant", "--yes"]) == 2
    assert "plant" in capsys.readouterr().err
    assert Path("plant.csv").exists()


# --- memory ---


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="`ulimit -d` limits memory on Linux only")
def test_a_log_of_several_times_the_memory_is_sorted_imported_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit, rows, parts = 224, 800_000, 10  # MiB, of which the program takes about 130; rows of 40 + 1 numbers
    (tmp_path / "parts").mkdir()
    rng = np.random.default_rng(0)
    for part in range(parts):  # rows of all episodes in every part, in no order
        step = part + parts * rng.permutation(rows // parts)
        wave = np.sin(step[:, None] / 5000 + np.arange(40), dtype=np.float32)
        log = {
            "obs": wave,
            "action": rng.uniform(-1, 1, (len(step), 1)),
            "reward": rng.normal(size=len(step)),
        }
        np.savez(tmp_path / "parts" / f"{part}.npz", **log, episode=step // 1000, step=step)  # type: ignore[arg-type]
    commands = "import parts --name large --time step", "check large"
    words = " && ".join(f"{sys.executable} -m gridcount data {each} > said 2>&1" for each in commands)
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    done = subprocess.run(["sh", "-c", f"ulimit -d {limit * 1024} && {words}"], cwd=tmp_path)
    assert done.returncode in (0, 1), (tmp_path / "said").read_text()
    data = load("large", memory_map=True)
    stored = sum(path.stat().st_size for path in (tmp_path / "home" / "imported" / "large").iterdir())
    assert stored > 2.5 * (limit - 130) * 2**20
    step = np.arange(rows)[np.arange(rows) % 1000 != 999]
    np.testing.assert_allclose(data.observation[:, 0], np.sin(step / 5000), atol=1e-5)
    np.testing.assert_allclose(data.next_observation[:, 0], np.sin((step + 1) / 5000), atol=1e-5)
