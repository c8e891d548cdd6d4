import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from gridcount.data.formats.d4rl import read_hdf5, write_hdf5

DATA = Path(__file__).parent / "data"
# float64, rewards (N, 1), flags as floats, next_observations, two terminals
REPLAY = DATA / "hopper_medium_replay-v1.hdf5"
EXPERT = DATA / "pen-expert-v1.hdf5"  # no next_observations, two timeouts

Columns = dict[str, NDArray[Any]]


def columns(terminals: str, timeouts: str | None = None) -> Columns:
    """A file whose row i has observation i; flags as strings, '1' where set."""
    rows = len(terminals)
    table: Columns = {
        "observations": np.arange(rows, dtype=np.float32)[:, None],
        "actions": np.zeros((rows, 1), dtype=np.float32),
        "rewards": np.arange(rows, dtype=np.float32) / 10,
        "terminals": np.array([flag == "1" for flag in terminals]),
    }
    if timeouts is not None:
        table["timeouts"] = np.array([flag == "1" for flag in timeouts])
    return table


def checksum(array: NDArray[Any]) -> int:
    return zlib.crc32(array.tobytes())


def test_a_genuine_replay_file_reads_to_known_transitions() -> None:
    data = read_hdf5(REPLAY)
    assert len(data) == 49
    assert data.episode_lengths.tolist() == [40, 9]
    assert np.flatnonzero(data.terminated).tolist() == [39, 48]
    np.testing.assert_allclose(data.episode_returns, [42.04152872, 6.20441616])
    assert [checksum(getattr(data, c)) for c in ("observation", "next_observation", "reward")] == [
        0xDE07B690,
        0x65D0AD07,
        0x33406949,
    ]
    assert {getattr(data, c).dtype for c in ("observation", "action", "reward", "next_observation")} == {
        np.dtype(np.float32)
    }


def test_a_genuine_file_without_next_observations_loses_one_row_per_timeout() -> None:
    data = read_hdf5(EXPERT)
    assert len(data) == 198
    assert data.episode_lengths.tolist() == [99, 99]
    assert not data.terminated.any()
    np.testing.assert_allclose(data.episode_returns, [45.37815221, 2698.03600687])
    assert [checksum(getattr(data, c)) for c in ("observation", "next_observation", "reward")] == [
        0x96E35627,
        0xE851CCAD,
        0xDA5498CD,
    ]


def test_derived_successors_equal_the_recorded_ones(tmp_path: Path) -> None:
    stripped = tmp_path / "stripped.hdf5"
    with h5py.File(REPLAY) as source:
        write_hdf5(
            stripped,
            {key: source[key][()] for key in ("observations", "actions", "rewards", "terminals", "timeouts")},
            {},
        )
    recorded, derived = read_hdf5(REPLAY), read_hdf5(stripped)
    assert len(derived) == len(recorded)
    inside = ~recorded.terminated
    np.testing.assert_array_equal(derived.next_observation[inside], recorded.next_observation[inside])


@pytest.mark.parametrize(
    ("terminals", "timeouts", "steps", "ends"),
    [
        # what is kept, as (observation, next observation), and the positions among it at which an episode
        # ends
        (
            "00000",
            "00100",
            [(0, 1), (1, 2), (3, 4)],
            [1, 2],
        ),  # nothing crosses the seam; the file's last row has no successor
        (
            "00100",
            "00000",
            [(0, 1), (1, 2), (2, 2), (3, 4)],
            [2, 3],
        ),  # a terminal row stays, with itself as successor
        ("00100", "00100", [(0, 1), (1, 2), (2, 2), (3, 4)], [2, 3]),  # both set: the terminal wins
        ("00001", None, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 4)], [4]),  # no timeouts key
        ("00000", "01110", [(0, 1)], [0]),  # one-row episodes vanish
        ("01000", "00110", [(0, 1), (1, 1)], [1]),
    ],
)
def test_seams_are_never_crossed(
    tmp_path: Path, terminals: str, timeouts: str | None, steps: list[tuple[int, int]], ends: list[int]
) -> None:
    path = tmp_path / "log.hdf5"
    write_hdf5(path, columns(terminals, timeouts), {})
    data = read_hdf5(path)
    assert list(zip(data.observation[:, 0], data.next_observation[:, 0], strict=True)) == steps
    np.testing.assert_allclose(data.reward, [now / 10 for now, _ in steps], rtol=1e-6)
    assert np.flatnonzero(data.episode_end).tolist() == ends
    assert data.terminated.tolist() == [terminals[now] == "1" for now, _ in steps]


def test_recorded_successors_keep_every_row(tmp_path: Path) -> None:
    table = columns("00000", "00100")
    table["next_observations"] = table["observations"] + 0.5
    path = tmp_path / "log.hdf5"
    write_hdf5(path, table, {})
    data = read_hdf5(path, name="mine")
    assert data.name == "mine"
    np.testing.assert_array_equal(data.next_observation, data.observation + 0.5)
    assert np.flatnonzero(data.episode_end).tolist() == [2, 4]


def test_a_written_file_reads_back_with_its_attributes(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "log.hdf5"
    table = columns("0001") | {"infos/goal": np.ones((4, 2), dtype=np.float32)}
    write_hdf5(path, table, {"seed": 3, "generator": "a test"})
    with h5py.File(path) as file:
        assert dict(file.attrs) == {"seed": 3, "generator": "a test"}
        for key, column in table.items():
            np.testing.assert_array_equal(file[key][()], column)


def test_a_crash_before_the_rename_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        write_hdf5(tmp_path / "log.hdf5", columns("0001"), {})
    assert list(tmp_path.iterdir()) == []


def test_a_crash_while_writing_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "log.hdf5"
    write_hdf5(path, columns("0001"), {})
    before = path.read_bytes()
    with pytest.raises(TypeError):
        write_hdf5(path, {"observations": np.array([object()])}, {})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def damaged(change: Callable[[Columns], None]) -> Columns:
    table = columns("00001", "00000")
    change(table)
    return table


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: t.pop("rewards"),
            r"key 'rewards' is missing; it has \['actions', 'observations', 'terminals', 'timeouts'\]",
        ),
        (lambda t: t.update(actions=np.zeros((4, 1))), "'actions' has 4 rows, 'observations' has 5"),
        (lambda t: t.update(timeouts=np.zeros(6)), "'timeouts' has 6 rows, 'observations' has 5"),
        (
            lambda t: t.update(actions=np.array([[b"left"]] * 5)),
            "'actions' has dtype .*; it must hold numbers",
        ),
        (
            lambda t: t.update(observations=np.zeros(5)),
            r"'observations' has shape \(5,\); expected \(rows, dimensions\)",
        ),
        (
            lambda t: t.update(rewards=np.zeros((5, 2))),
            r"'rewards' has shape \(5, 2\); expected \(rows,\) or \(rows, 1\)",
        ),
        (
            lambda t: t.update(terminals=np.array([0, 0, 0.5, 0, 1])),
            "'terminals' holds 0.5 at row 2; a flag must be 0 or 1",
        ),
        (lambda t: t.update(terminals=np.array([0, np.nan, 0, 0, 1])), "'terminals' holds nan at row 1"),
        (lambda t: t.update({key: column[:0] for key, column in t.items()}), "'observations' is empty"),
        (lambda t: t.update(terminals=np.zeros(5), timeouts=np.ones(5)), "no transition remains"),
        (
            lambda t: t.update(observations=np.array([[0], [np.nan], [2], [3], [4]])),
            "column 'observation' holds nan at row 1",
        ),
        (
            lambda t: t.update(observations=np.array([[0], [1], [1e300], [3], [4]])),
            "column 'observation' holds inf at row 2",
        ),
        (lambda t: t.update(actions=np.full((5, 1), 3.0)), r"outside \[-1, 1\]"),
    ],
)
def test_damaged_contents_are_named_with_their_file(
    tmp_path: Path, change: Callable[[Columns], None], message: str
) -> None:
    path = tmp_path / "log.hdf5"
    write_hdf5(path, damaged(change), {})
    with pytest.raises(ValueError, match=message) as caught:
        read_hdf5(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_hdf5_is_named(tmp_path: Path) -> None:
    path = tmp_path / "page.hdf5"
    path.write_text("<html>404 Not Found</html>")
    with pytest.raises(ValueError, match=r"page\.hdf5: not an HDF5 file"):
        read_hdf5(path)


@pytest.mark.parametrize("kept", [0.02, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_named(tmp_path: Path, kept: float) -> None:
    path = tmp_path / "cut.hdf5"
    whole = EXPERT.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole))])
    with pytest.raises(ValueError, match=r"cut.hdf5: truncated or damaged HDF5 .*get the file again"):
        read_hdf5(path)


def test_a_file_with_a_damaged_block_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rotten.hdf5"
    write_hdf5(path, columns("0" * 5000 + "1"), {})
    with h5py.File(path) as file:
        block = file["rewards"].id.get_chunk_info(0)
    content = bytearray(path.read_bytes())
    content[block.byte_offset : block.byte_offset + block.size] = bytes(block.size)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"rotten.hdf5: truncated or damaged HDF5"):
        read_hdf5(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.hdf5: there is no such file"):
        read_hdf5(tmp_path / "nowhere.hdf5")
