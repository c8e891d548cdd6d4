"""The local layout: imported once, found by name, whole or not at all, memory-mapped on request."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from log_files import EXCERPTS, smooth

from gridcount.data.formats.cut import Cut
from gridcount.data.formats.d4rl import read_hdf5, write_hdf5
from gridcount.data.load import import_log, known_names, load
from gridcount.data.store import local
from gridcount.data.store.local import imported_names
from gridcount.transitions import Transitions

EXCERPT = EXCERPTS / "hopper_random-v1.hdf5"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path / "home"


def test_an_imported_log_is_found_by_name(home: Path) -> None:
    stored = import_log(EXCERPT, "mylog")
    again = load("mylog")
    assert again.equals(stored)
    assert again.equals(read_hdf5(EXCERPT))
    assert again.name == "mylog"
    assert load(home / "imported" / "mylog").equals(stored)
    assert imported_names() == ("mylog",)
    assert "mylog" in known_names()
    assert json.loads((home / "imported" / "mylog" / "meta.json").read_text())["source"] == str(EXCERPT)


def test_memory_mapped_columns_stay_on_disk_and_hold_the_same() -> None:
    truth = import_log(EXCERPT, "mylog")
    mapped = load("mylog", memory_map=True)
    for column in local.COLUMNS:
        array = getattr(mapped, column)
        assert isinstance(array, np.memmap)
        assert not array.flags.writeable
        rows = getattr(mapped.rows(), column, None)
        assert rows is None or column == "terminated" or np.shares_memory(rows, array)
    assert mapped.equals(truth)
    np.testing.assert_array_equal(mapped.episode_returns, truth.episode_returns)


def test_a_named_dataset_is_unpacked_once_for_mapping(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home / "maze.hdf5"
    write_hdf5(path, smooth(40, dims=4, episode=10), {})
    monkeypatch.setattr("gridcount.data.store.mazes.make", lambda name, progress=None: path)
    mapped = load("maze2d-umaze-v1", memory_map=True)
    assert isinstance(mapped.observation, np.memmap)
    assert mapped.equals(load("maze2d-umaze-v1"))
    written = (home / "unpacked" / "maze2d-umaze-v1" / "meta.json").stat().st_mtime_ns
    load("maze2d-umaze-v1", memory_map=True)
    assert (home / "unpacked" / "maze2d-umaze-v1" / "meta.json").stat().st_mtime_ns == written
    write_hdf5(path, smooth(60, dims=4, episode=10), {})
    assert len(load("maze2d-umaze-v1", memory_map=True)) > len(mapped)


def test_a_file_must_be_imported_to_be_mapped() -> None:
    with pytest.raises(ValueError, match=r"run: gridcount data import .* --name NAME"):
        load(EXCERPT, memory_map=True)


def test_scaled_units_survive_the_layout(tmp_path: Path) -> None:
    columns = smooth(40, episode=10)
    columns["actions"] = columns["actions"] * 50 + 50
    write_hdf5(tmp_path / "log.hdf5", columns, {})
    import_log(tmp_path / "log.hdf5", "valves", scale_actions=True)
    data = load("valves")
    kept = ~(columns["timeouts"] | (np.arange(40) == 39)) | columns["terminals"]
    np.testing.assert_allclose(data.in_units(data.action), columns["actions"][kept], rtol=1e-4)


@pytest.mark.parametrize("name", ["hopper-medium-v2", "a/b", "../up", "log.csv", "", "x" * 101, "-x"])
def test_names_that_could_mislead_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"choose another|cannot be a dataset's name"):
        import_log(EXCERPT, name)


def test_a_name_is_not_overwritten_unasked() -> None:
    import_log(EXCERPT, "mylog")
    with pytest.raises(ValueError, match="there is an imported dataset 'mylog' already"):
        import_log(EXCERPTS / "walker2d_random-v1.hdf5", "mylog")
    import_log(EXCERPTS / "walker2d_random-v1.hdf5", "mylog", replace=True)
    assert load("mylog").observation_dim == 17


@pytest.mark.parametrize("moment", ["save", "rename"])
def test_a_crash_leaves_the_old_dataset_as_it_was(
    home: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    before = import_log(EXCERPT, "mylog")
    calls = []

    def crash(*arguments: object, **_: object) -> None:
        calls.append(arguments)
        raise KeyboardInterrupt

    real_rename = os.rename
    if moment == "save":
        monkeypatch.setattr(Cut, "rows", crash)
    else:
        monkeypatch.setattr(
            os, "rename", lambda a, b: crash() if str(a).endswith(".partial") else real_rename(a, b)
        )
    with pytest.raises(KeyboardInterrupt):
        import_log(EXCERPTS / "walker2d_random-v1.hdf5", "mylog", replace=True)
    monkeypatch.undo()
    os.environ["GRIDCOUNT_HOME"] = str(home)
    try:
        assert load("mylog").equals(before)
    finally:
        del os.environ["GRIDCOUNT_HOME"]
    assert [path.name for path in (home / "imported").iterdir()] == ["mylog"]
    assert calls


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "action.npy").unlink(), r"action.npy: missing or damaged"),
        (
            lambda folder: (folder / "reward.npy").write_bytes((folder / "reward.npy").read_bytes()[:150]),
            r"reward.npy: missing or damaged",
        ),
        (
            lambda folder: np.save(folder / "reward.npy", np.zeros(3, np.float32)),
            r"reward.npy: is float32 \(3,\), meta.json says",
        ),
        (lambda folder: (folder / "meta.json").write_text("{"), r"meta.json: not JSON"),
        (
            lambda folder: (folder / "meta.json").write_text("[]"),
            r"meta.json: it is \[\]; it must be an object",
        ),
        (
            lambda folder: (folder / "meta.json").write_text(
                (folder / "meta.json").read_text().replace('"format": 1', '"format": 9')
            ),
            "has format 9",
        ),
    ],
)
def test_a_damaged_folder_is_named(home: Path, damage: object, message: str) -> None:
    import_log(EXCERPT, "mylog")
    damage(home / "imported" / "mylog")  # type: ignore[operator]
    with pytest.raises(ValueError, match=f"{message}.*mport the dataset again"):
        load("mylog")


def test_an_unknown_name_suggests_an_imported_one() -> None:
    import_log(EXCERPT, "reactor-2024")
    with pytest.raises(ValueError, match=r"unknown dataset 'reactor-2023'. Did you mean 'reactor-2024'?"):
        load("reactor-2023")


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("nowhere.csv", FileNotFoundError, "there is no such file"),
        ("nowhere/at/all", FileNotFoundError, "there is no such file"),
        (str(EXCERPTS), ValueError, "is a folder, but not a dataset"),
        (__file__, ValueError, "files ending in '.py' are not supported"),
        ("hoper-medium-v2", ValueError, "Did you mean 'hopper-medium-v2'?"),
    ],
)
def test_what_cannot_be_found_is_explained(name: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        load(name)


def test_transitions_check_their_units() -> None:
    data = read_hdf5(EXCERPT)
    assert (data.action_low.tolist(), data.action_high.tolist()) == ([-1] * 3, [1] * 3)
    columns = {column: getattr(data, column) for column in local.COLUMNS}
    with pytest.raises(
        ValueError, match=r"'action_high' has shape \(2,\); expected one value for each of 3 actions"
    ):
        Transitions(**columns, action_high=np.ones(2, np.float32))
