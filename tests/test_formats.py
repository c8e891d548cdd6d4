"""The same transitions, whatever file they come in."""

import sys
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from log_files import EXCERPTS, flat_columns, smooth, write_csv, write_minari, write_tables
from numpy.typing import NDArray

from gridcount import transitions
from gridcount.data.formats.columns import ROLES, Columns, assign
from gridcount.data.formats.cut import cut
from gridcount.data.formats.d4rl import read_hdf5, write_hdf5
from gridcount.data.formats.log import Log
from gridcount.data.load import import_log, load, read_log
from gridcount.data.quality.check import check
from gridcount.report.dataset import plot_description
from gridcount.transitions import Transitions


@pytest.mark.parametrize(
    "excerpt",
    [
        "hopper_random-v1.hdf5",
        "hopper_medium_replay-v1.hdf5",
        "walker2d_random-v1.hdf5",
        "pen-expert-v1.hdf5",
    ],
)
def test_every_format_loads_to_equal_transitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, excerpt: str
) -> None:
    truth = read_hdf5(EXCERPTS / excerpt)
    for path in write_tables(tmp_path, truth):
        assert load(path).equals(truth), path
    for layout in ("hdf5", "arrow"):
        dataset_id = write_minari(tmp_path / "minari", truth, layout, monkeypatch)
        for way in (
            dataset_id,
            f"minari:{dataset_id}",
            tmp_path / "minari" / dataset_id,
            tmp_path / "minari" / dataset_id / "data",
        ):
            assert load(way).equals(truth), way


def test_successors_are_derived_alike_in_every_table(tmp_path: Path) -> None:
    columns = smooth(60, episode=15)
    write_hdf5(tmp_path / "log.hdf5", columns, {})
    truth = read_hdf5(tmp_path / "log.hdf5")
    np.savez(tmp_path / "log.npz", **columns)  # type: ignore[arg-type]
    assert load(tmp_path / "log.npz").equals(truth)
    table = {f"obs_{d}": columns["observations"][:, d] for d in range(3)} | {
        f"action_{d}": columns["actions"][:, d] for d in range(2)
    }
    table |= {
        "reward": columns["rewards"],
        "done": columns["terminals"],
        "timeout": columns["timeouts"].astype(int),
    }
    assert load(write_csv(tmp_path / "log.csv", table)).equals(truth)
    parquet.write_table(arrow.table(table), tmp_path / "log.parquet")
    assert load(tmp_path / "log.parquet").equals(truth)


def test_episode_ids_end_episodes(tmp_path: Path) -> None:
    columns = smooth(40, episode=10)
    table = {
        "temp_a": columns["observations"][:, 0],
        "temp_b": columns["observations"][:, 1],
        "valve": columns["actions"][:, 0],
    }
    table |= {"r": columns["rewards"], "done": columns["terminals"]}
    by_number = table | {"batch_id": np.repeat(np.arange(4), 10)}
    by_text = table | {"batch_id": np.repeat(["one", "two", "three", "four"], 10)}
    roles = Columns(observation="temp_*", action="valve", reward="r", terminated="done", episode="batch_id")
    first = load(write_csv(tmp_path / "numbers.csv", by_number), roles)
    assert first.episode_lengths.tolist() == [
        9,
        9,
        9,
        10,
    ]  # the last episode is terminal and keeps its last row
    assert load(write_csv(tmp_path / "text.csv", by_text), roles).equals(first)
    parquet.write_table(arrow.table(by_text), tmp_path / "text.parquet")
    assert load(tmp_path / "text.parquet", roles).equals(first)
    interleaved = {name: column.reshape(4, 10).T.ravel() for name, column in by_number.items()}
    assert load(write_csv(tmp_path / "mixed.csv", interleaved), roles).equals(first)
    (found,) = [each for each in check(tmp_path / "mixed.csv", roles) if "interleaved" in each.problem]
    assert (found.severity, found.column, found.row) == ("warning", "batch_id", 4)
    assert "put together" in found.problem


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
@pytest.mark.parametrize("together", [65_536, 2])  # rows read together: ids meet across pieces too
def test_long_episode_numbers_keep_all_their_digits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, together: int
) -> None:
    monkeypatch.setattr(transitions, "CHUNK", together)
    monkeypatch.setattr(transitions, "CHUNK_BYTES", 4 * 20 * together)
    step = np.arange(12.0)
    ids = np.append([7, 7, 8, 8], 20240101000000000 + np.arange(8) // 2)
    table = {"obs_0": step, "action_0": step / 12, "reward": step, "episode": ids}
    path = tmp_path / f"log.{suffix}"
    if suffix == "csv":
        write_csv(path, table)
    elif suffix == "npz":
        np.savez(path, **table)  # type: ignore[arg-type]
    else:
        parquet.write_table(arrow.table(table), path)
    assert np.flatnonzero(read_log(path).truncated).tolist() == [1, 3, 5, 7, 9, 11]


def test_long_episode_numbers_of_parquet_may_be_missing_or_decimal(tmp_path: Path) -> None:
    step, ids = np.arange(4.0), [2**53, 2**53 + 1, None, 2**53 + 2]
    for kind in (arrow.int64(), arrow.decimal128(20)):
        table = {"obs_0": step, "action_0": step / 4, "reward": step, "episode": arrow.array(ids, kind)}
        parquet.write_table(arrow.table(table), tmp_path / "log.parquet")
        assert read_log(tmp_path / "log.parquet").truncated.all()


def test_minari_dict_observations_are_taken_apart_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = read_hdf5(EXCERPTS / "hopper_random-v1.hdf5")
    box = gymnasium.spaces.Box(-np.inf, np.inf, (truth.observation_dim,))
    goal = gymnasium.spaces.Box(-1, 1, (2,))
    for layout in ("hdf5", "arrow"):
        for key, right in (("observation", True), ("camera", False)):
            space = gymnasium.spaces.Dict({key: box, "goal": goal})
            name = write_minari(
                tmp_path / key,
                truth,
                layout,
                monkeypatch,
                observation_space=space,
                wrap=lambda values, key=key: {key: values, "goal": np.zeros((len(values), 2), np.float32)},
            )
            if right:
                assert load(name).equals(truth)
                assert "'observation' is used, goal is ignored" in read_log(name).notes[0]
            else:
                with pytest.raises(
                    ValueError,
                    match=r"observations are of type Dict with \['camera', 'goal'\]; only flat numbers",
                ):
                    load(name)


def test_a_minari_dataset_that_is_not_here_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="minari download D4RL/pen/human-v2"):
        load("minari:D4RL/pen/human-v2")


def test_old_minari_files_keep_their_spaces_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = read_hdf5(EXCERPTS / "hopper_random-v1.hdf5")
    folder = tmp_path / write_minari(tmp_path, truth, "hdf5", monkeypatch) / "data"
    (folder / "metadata.json").unlink()
    with h5py.File(folder / "main_data.hdf5", "a") as file:
        file.attrs["action_space"] = '{"type": "Box", "low": [-1, -1, -1], "high": [1, 1, 1]}'
    assert load(folder).equals(truth)


def small_table() -> dict[str, NDArray[Any]]:
    data = Transitions(
        observation=np.eye(4, 2, dtype=np.float32),
        action=np.zeros((4, 1), np.float32),
        reward=np.arange(4, dtype=np.float32),
        next_observation=np.zeros((4, 2), np.float32),
        terminated=np.array([0, 0, 0, 1], bool),
        episode_end=np.array([0, 1, 0, 1], bool),
    )
    return flat_columns(data)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_dialects(tmp_path: Path, delimiter: str) -> None:
    path = write_csv(tmp_path / "log.csv", small_table(), delimiter)
    truth = load(path)
    text = path.read_text()
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())  # as a spreadsheet saves it
    assert load(path).equals(truth)
    quoted = text.split("\n")
    path.write_text(
        "\n".join([delimiter.join(f'"{name}"' for name in quoted[0].split(delimiter)), *quoted[1:]]) + "\n\n"
    )
    assert load(path).equals(truth)


@pytest.mark.parametrize(
    ("change", "roles", "message"),
    [
        (
            {"action_0": np.array(["low", "high", "low", "low"])},
            {},
            r"column 'action_0' holds 'low' at row 0, which is not a number; encode",
        ),
        ({"obs_1": np.array(["1", "2", "x", "4"])}, {}, r"column 'obs_1' holds 'x' at row 2"),
        ({"obs_1": np.array(["1", "", "3", "4"])}, {}, r"column 'observation' holds nan at row 1"),
        (
            {"terminated": np.array([0, 2, 0, 1])},
            {},
            r"'terminated' holds 2.0 at row 1; a flag must be 0 or 1",
        ),
        (
            {"action_0": np.array([0, 9, 3, 1])},
            {},
            r"action \[9.\] at row 1 is outside \[-1, 1\].*--scale-actions",
        ),
        ({}, {"action": "valv"}, r"--action names 'valv', which no column matches. It has 'obs_0'"),
        (
            {},
            {"reward": "rewad"},
            r"--reward names 'rewad', which no column matches; did you mean 'reward'\?",
        ),
        ({}, {"reward": "obs_*"}, r"the reward must be one column, not 'obs_0', 'obs_1'"),
        (
            {},
            {"observation": "obs_0,reward", "reward": "reward"},
            r"column 'reward' is both observation and reward",
        ),
        ({}, {"observation": "obs_0"}, r"1 columns of observations but 2 of next observations"),
        ({}, {"observation": ","}, r"--observation ',' names no column"),
    ],
)
def test_a_wrong_table_is_named_with_its_column(
    tmp_path: Path, change: dict[str, NDArray[Any]], roles: dict[str, str], message: str
) -> None:
    path = write_csv(tmp_path / "log.csv", small_table() | change)
    with pytest.raises(ValueError, match=message) as caught:
        load(path, Columns.of("log.csv", roles))
    assert str(path) in str(caught.value)


def test_a_missing_role_names_its_flag(tmp_path: Path) -> None:
    table = small_table()
    table["yield"] = table.pop("reward")
    path = write_csv(tmp_path / "log.csv", table)
    with pytest.raises(
        ValueError, match=r"no column for the reward; it has 'obs_0'.*Name it with --reward COLUMN"
    ):
        load(path)
    assert len(load(path, Columns(reward="yield"))) == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("obs_0,action_0,reward\n", "is empty; the file holds no transition"),
        ("1,2,3\n4,5,6\n", "its first line holds numbers, not column names"),
        ("obs_0,obs_0,reward\n1,2,3\n", "two columns are called 'obs_0'"),
        ("obs_0,action_0,reward\n1,a\n", r"row 0 has 2 values, the header has 3 names"),
        ("obs_0,action_0,reward\n1,0,0\n2,0\n", r"row 1 has 2 values, the header has 3 names"),
        (
            "obs_0,obs_1,action_0,reward\n1,0,0,1\n\n0,5,0.5,0.3,1.0\n",
            r"row 1 has 5 values, the header has 4 names",
        ),  # a decimal comma
        ('obs_0,action_0,reward\n"1",0,0\n2,"0",0,"1"\n', r"row 1 has 4 values, the header has 3 names"),
    ],
)
def test_a_broken_csv_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "log.npz", observations=np.array([object()]), actions=np.zeros((1, 1)), rewards=np.zeros(1)
    )
    with pytest.raises(ValueError, match=r"'observations' holds Python objects .*pickled data is never read"):
        load(tmp_path / "log.npz")


def test_categories_in_parquet_are_refused(tmp_path: Path) -> None:
    table = small_table() | {"obs_1": np.array(["red", "red", "blue", "red"])}
    parquet.write_table(arrow.table(table), tmp_path / "log.parquet")
    with pytest.raises(ValueError, match=r"column 'obs_1' holds 'red' at row 0, which is not a number"):
        load(tmp_path / "log.parquet")


def test_scaled_actions_can_be_mapped_back(tmp_path: Path) -> None:
    table = small_table() | {"action_0": np.array([0.0, 100.0, 25.0, 50.0]), "action_1": np.full(4, 7.0)}
    path = write_csv(tmp_path / "log.csv", table)
    data = load(path, scale_actions=True)
    np.testing.assert_allclose(data.action[:, 0], [-1, 1, -0.5, 0])
    assert (data.action_low.tolist(), data.action_high.tolist()) == ([0, 7], [100, 7])
    np.testing.assert_allclose(
        data.in_units(data.action), np.column_stack([table["action_0"], table["action_1"]])
    )


@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_a_narrow_range_far_from_zero_is_scaled_in_double_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    valve = 100000.3 + np.linspace(0, 1, 400)
    table = {"obs_0": np.arange(400.0), "action": valve, "reward": np.arange(400.0)}
    path = tmp_path / f"log.{suffix}"
    if suffix == "csv":
        write_csv(path, table)
    else:
        np.savez(path, **table)  # type: ignore[arg-type]
    for data in (load(path, scale_actions=True), import_log(path, "valve", scale_actions=True)):
        np.testing.assert_allclose(data.action[:, 0], np.linspace(-1, 1, 400)[: len(data)], atol=1e-6)
        np.testing.assert_allclose(data.in_units(data.action)[:, 0], valve[: len(data)], atol=1e-6, rtol=0)
    single = table | {
        "action": valve.astype(np.float32)
    }  # bounds that single precision has rounded actions across
    np.savez(tmp_path / "single.npz", **single)  # type: ignore[arg-type]
    assert np.abs(load(tmp_path / "single.npz", action_bounds=(100000.3, 100001.3)).action).max() == 1


def test_actions_beyond_declared_bounds_are_told_by_column_and_a_way_out() -> None:
    table = {
        "observation": np.arange(8.0),
        "action": np.linspace([0, 0], [1, 3], 8),
        "reward": np.arange(8.0),
    }
    log = Log(
        "plant",
        table["observation"][:, None].astype(np.float32),
        table["action"],
        table["reward"].astype(np.float32),
        np.zeros(8, bool),
        np.zeros(8, bool),
        action_names=("pump", "valve"),
        action_low=np.zeros(2, np.float32),
        action_high=np.array([1, 2], np.float32),
    )
    with pytest.raises(
        ValueError,
        match=r"plant: column 'valve' holds 2.14.* at row 5, outside the bounds the file declares, 0 to 2",
    ) as caught:
        cut(log, scale_actions=True)
    assert "--scale-actions" not in str(caught.value)
    (found,) = [finding for finding in check(log, scale_actions=True) if finding.severity == "error"]
    assert (found.column, found.row) == ("valve", 5)
    assert "--scale-actions" not in found.advice


NAMES = (
    st.text(alphabet="abcxyz_ 0123456789é", min_size=1, max_size=8)
    .map(str.strip)
    .filter(lambda n: n and not n.replace("_", "").isdigit())
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(NAMES, min_size=5, max_size=9, unique=True),
    order=st.randoms(use_true_random=False),
    rows=st.integers(2, 12),
)
def test_any_names_in_any_order_map_to_their_roles(
    tmp_path: Path, names: list[str], order: Any, rows: int
) -> None:
    rng = np.random.default_rng(rows)
    table: dict[str, NDArray[Any]] = {name: rng.uniform(-1, 1, rows).astype(np.float32) for name in names}
    table[names[2]] = (np.arange(rows) % 3 == 2).astype(np.float32)
    shuffled = order.sample(names, len(names))
    path = write_csv(tmp_path / "log.csv", {name: table[name] for name in shuffled})
    action, reward, terminated, *seen = names
    log = read_log(
        path, Columns(observation=",".join(seen), action=action, reward=reward, terminated=terminated)
    )
    np.testing.assert_array_equal(log.observation, np.column_stack([table[name] for name in seen]))
    np.testing.assert_array_equal(log.action[:, 0], table[action])
    np.testing.assert_array_equal(log.reward, table[reward])
    np.testing.assert_array_equal(log.terminated, table[terminated].astype(bool))
    assert (log.observation_names, log.action_names) == (tuple(seen), (action,))


@settings(max_examples=100, deadline=None)
@given(
    names=st.lists(NAMES, min_size=1, max_size=8, unique=True),
    specs=st.dictionaries(st.sampled_from(ROLES), NAMES),
)
def test_a_mapping_gives_each_column_to_one_role_or_explains(names: list[str], specs: dict[str, str]) -> None:
    try:
        roles = assign("log.csv", names, Columns.of("log.csv", specs))
    except ValueError as error:
        explained = str(error).startswith("log.csv: ")
        assert explained
        return
    members = [name for columns in roles.values() for name in columns]
    assert len(members) == len(set(members)) > 0
    assert set(members) <= set(names)


def test_a_glob_leaves_what_others_name() -> None:
    roles = assign(
        "t", ["time", "valve", "yield", "t1", "t2"], Columns(observation="*", action="valve", reward="yield")
    )
    assert roles == {"observation": ["time", "t1", "t2"], "action": ["valve"], "reward": ["yield"]}


def test_a_glob_leaves_what_other_roles_find_by_their_names() -> None:
    names = ["t1", "done", "valve_1", "valve_2", "next_obs_0", "reward", "episode", "timeout"]
    roles = assign("t", names, Columns(observation="*", action="valve_*"))
    assert (roles["observation"], roles["action"]) == (["t1"], ["valve_1", "valve_2"])
    assert (roles["terminated"], roles["truncated"], roles["episode"]) == (["done"], ["timeout"], ["episode"])
    assert (roles["reward"], roles["next_observation"]) == (["reward"], ["next_obs_0"])
    asked = assign("t", ["t1", "done", "valve", "reward"], Columns(observation="*,done", action="valve"))
    assert asked["observation"] == ["t1", "done"]
    assert "terminated" not in asked
    meant = assign("t", ["episode", "valve", "reward"], Columns(observation="epi*", action="valve"))
    assert meant["observation"] == ["episode"]


def test_optional_packages_are_asked_for_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = read_hdf5(EXCERPTS / "hopper_random-v1.hdf5")
    write_tables(tmp_path, truth)
    folder = tmp_path / "minari" / write_minari(tmp_path / "minari", truth, "arrow", monkeypatch)
    for package in ("pyarrow", "pyarrow.parquet", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, package, None)
    for path in (tmp_path / "log.parquet", folder):
        with pytest.raises(ValueError, match=r"pip install 'gridcount\[tables\]'"):
            load(path)
    with pytest.raises(ValueError, match=r"pip install 'gridcount\[plots\]'"):
        plot_description(truth, tmp_path)
    assert load(tmp_path / "log.csv").equals(truth)


def test_actions_are_scaled_by_the_bounds_given_where_the_log_does_not_reach_them(tmp_path: Path) -> None:
    table = small_table() | {
        "action_0": np.array([20.0, 60.0, 25.0, 50.0]),
        "action_1": np.array([0.0, 1.0, 0.5, 0.25]),
    }
    path = write_csv(tmp_path / "log.csv", table)
    data = load(path, action_bounds=((0, -1), (100, 1)))
    np.testing.assert_allclose(data.action, [[-0.6, 0], [0.2, 1], [-0.5, 0.5], [0, 0.25]], atol=1e-6)
    assert (data.action_low.tolist(), data.action_high.tolist()) == ([0, -1], [100, 1])
    np.testing.assert_allclose(
        data.in_units(data.action), np.column_stack([table["action_0"], table["action_1"]]), atol=1e-5
    )
    np.testing.assert_array_equal(data.in_units(np.array([[-1.0, 1.0]])), [[0, 1]])
    assert load(path, action_bounds=(-100, 100)).action_high.tolist() == [100, 100]


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        (
            (0, 50),
            r"column 'action_0' holds 60 at row 1, outside the bounds given, 0 to 50; widen --action-low and",
        ),
        (((0, 0, 0), 100), r"--action-low gives 3 numbers for 2 actions; give one for all or one for each"),
        ((100, 0), r"--action-low must be below --action-high"),
        ((0, np.inf), r"--action-low must be below --action-high"),
    ],
)
def test_bounds_that_cannot_be_are_refused(tmp_path: Path, bounds: Any, message: str) -> None:
    table = small_table() | {
        "action_0": np.array([20.0, 60.0, 25.0, 50.0]),
        "action_1": np.array([0.0, 1.0, 0.5, 0.25]),
    }
    path = write_csv(tmp_path / "log.csv", table)
    with pytest.raises(ValueError, match=message) as caught:
        load(path, action_bounds=bounds)
    assert str(path) in str(caught.value)
