"""Genuine D4RL excerpts read to exactly these transitions."""

import zlib
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
import pytest
from log_files import EXCERPTS

from gridcount.data.formats.d4rl import read_hdf5


class Golden(NamedTuple):
    file_rows: int
    transitions: int
    lengths: list[int]
    terminals: list[int]
    checksums: tuple[int, int, int, int]  # observation, action, reward, next_observation


GOLDEN = {
    "antmaze-umaze-v0.hdf5": Golden(
        1402, 1400, [700, 700], [], (0x74482AB9, 0x0EA6ACF7, 0x5FEE3EB0, 0x94C0729F)
    ),
    "door-human-v1.hdf5": Golden(600, 598, [299, 299], [], (0x898BD115, 0xE78C2AAB, 0xCF00F6C0, 0x15B94A49)),
    "hopper_medium-v2.hdf5": Golden(
        911, 911, [470, 441], [469, 910], (0x0B569FEF, 0x391A2E1D, 0x74BE1F3B, 0xD014233B)
    ),
    "hopper_medium_replay-v1.hdf5": Golden(
        49, 49, [40, 9], [39, 48], (0xDE07B690, 0xFE7F58C7, 0x33406949, 0x65D0AD07)
    ),
    "hopper_random-v1.hdf5": Golden(
        50, 50, [31, 19], [30, 49], (0xBAAC96FF, 0xC04FA48F, 0xE11C4176, 0x5CBA1566)
    ),
    "pen-expert-v1.hdf5": Golden(200, 198, [99, 99], [], (0x96E35627, 0xDD32A4D2, 0xDA5498CD, 0xE851CCAD)),
    "pen-human-v1.hdf5": Golden(400, 398, [199, 199], [], (0x84D227BF, 0xCFE8B7C7, 0x6D127236, 0x50EA9F69)),
    "walker2d_medium_replay-v1.hdf5": Golden(
        31, 31, [10, 21], [9, 30], (0xE592D376, 0xF8DDE4EE, 0xAB45AB04, 0x02791116)
    ),
    "walker2d_random-v1.hdf5": Golden(
        44, 44, [17, 27], [16, 43], (0x6B2882A8, 0xC2322F0E, 0xA68C9C2B, 0x1A19F6ED)
    ),
}


def test_every_excerpt_has_its_golden_figures() -> None:
    assert sorted(path.name for path in EXCERPTS.glob("*.hdf5")) == sorted(GOLDEN)


@pytest.mark.parametrize("name", GOLDEN)
def test_an_excerpt_reads_to_its_golden_figures(name: str) -> None:
    data, golden = read_hdf5(EXCERPTS / name), GOLDEN[name]
    assert (len(data), data.episode_lengths.tolist()) == (golden.transitions, golden.lengths)
    assert np.flatnonzero(data.terminated).tolist() == golden.terminals
    columns = (data.observation, data.action, data.reward, data.next_observation)
    assert tuple(zlib.crc32(np.ascontiguousarray(column).tobytes()) for column in columns) == golden.checksums


@pytest.mark.parametrize("name", GOLDEN)
def test_an_excerpt_reads_as_a_loop_over_its_rows_does(name: str) -> None:
    path: Path = EXCERPTS / name
    with h5py.File(path) as file:
        rows = len(file["observations"])
        assert rows == GOLDEN[name].file_rows
        observations, following = (
            file["observations"][()],
            file["next_observations"][()] if "next_observations" in file else None,
        )
        terminals, timeouts = (file[key][()].astype(bool).ravel() for key in ("terminals", "timeouts"))
    pairs, ends = [], []
    for t in range(rows):
        last = terminals[t] or timeouts[t] or t == rows - 1
        if following is not None:
            pairs.append((observations[t], following[t]))
            ends.append(last)
        elif terminals[t]:
            pairs.append((observations[t], observations[t]))
            ends.append(True)
        elif not last:
            pairs.append((observations[t], observations[t + 1]))
            ends.append(bool((timeouts[t + 1] or t + 2 == rows) and not terminals[t + 1]))
    data = read_hdf5(path)
    np.testing.assert_array_equal(data.observation, np.array([now for now, _ in pairs], np.float32))
    np.testing.assert_array_equal(data.next_observation, np.array([then for _, then in pairs], np.float32))
    assert data.episode_end.tolist() == ends
