"""The same transitions written in every format a user may bring, for tests to read back."""

import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from numpy.typing import NDArray

from gridcount.data.formats.d4rl import write_hdf5
from gridcount.transitions import Transitions

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Minari's imports warn of their own future
    import minari
    from minari.data_collector import EpisodeBuffer

EXCERPTS = Path(__file__).parent / "data"


def smooth(
    rows: int = 400, dims: int = 3, actions: int = 2, episode: int = 100, seed: int = 0
) -> dict[str, NDArray[Any]]:
    """A clean log in D4RL's columns: random walks, bounded actions, every fourth episode terminal."""
    rng = np.random.default_rng(seed)
    walk = rng.normal(size=(rows, dims)) * 0.1
    for start in range(0, rows, episode):
        walk[start : start + episode] = (
            np.cumsum(walk[start : start + episode], axis=0) + rng.normal(size=dims) * 0.1
        )
    end = np.arange(rows) % episode == episode - 1
    terminal = end & (np.arange(rows) // episode % 4 == 3)
    return {
        "observations": walk.astype(np.float32),
        "actions": rng.uniform(-1, 1, size=(rows, actions)).astype(np.float32),
        "rewards": rng.normal(size=rows).astype(np.float32),
        "terminals": terminal,
        "timeouts": end & ~terminal,
    }


def flat_columns(data: Transitions) -> dict[str, NDArray[Any]]:
    """One column per dimension, under the names everyone uses."""
    table: dict[str, NDArray[Any]] = {}
    for name, column in {
        "obs": data.observation,
        "action": data.action,
        "next_obs": data.next_observation,
    }.items():
        table |= {f"{name}_{d}": column[:, d] for d in range(column.shape[1])}
    truncated = data.episode_end & ~data.terminated
    return table | {"reward": data.reward, "terminated": data.terminated, "truncated": truncated}


def write_csv(path: Path, table: dict[str, NDArray[Any]], delimiter: str = ",") -> Path:
    rows = zip(*(column.tolist() for column in table.values()), strict=True)
    lines = [delimiter.join(table), *(delimiter.join(str(value) for value in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_tables(folder: Path, data: Transitions) -> list[Path]:
    """CSV, Parquet with a column per dimension, Parquet with lists, .npz and D4RL HDF5."""
    table = flat_columns(data)
    csv = write_csv(folder / "log.csv", table)
    parquet.write_table(arrow.table(table), folder / "log.parquet")
    lists = {
        "observation": data.observation,
        "action": data.action,
        "next_observation": data.next_observation,
    }
    nested = {
        name: arrow.FixedSizeListArray.from_arrays(column.ravel(), column.shape[1])
        for name, column in lists.items()
    }
    rest = {name: table[name] for name in ("reward", "terminated", "truncated")}
    parquet.write_table(arrow.table(nested | rest), folder / "lists.parquet")
    np.savez(folder / "log.npz", **(lists | rest))
    columns = {
        "observations": data.observation,
        "actions": data.action,
        "rewards": data.reward,
        "next_observations": data.next_observation,
        "terminals": data.terminated,
        "timeouts": rest["truncated"],
    }
    write_hdf5(folder / "log.hdf5", columns, {})
    return [csv, folder / "log.parquet", folder / "lists.parquet", folder / "log.npz", folder / "log.hdf5"]


def write_minari(
    root: Path, data: Transitions, layout: str, monkeypatch: pytest.MonkeyPatch, **spaces: Any
) -> str:
    """A dataset written by the `minari` package itself; returns its id."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(root))
    ends = np.flatnonzero(data.episode_end) + 1
    buffers = []
    for start, stop in zip(np.append(0, ends[:-1]), ends, strict=True):
        rows = slice(start, stop)
        observations = np.concatenate([data.observation[rows], data.next_observation[stop - 1 : stop]])
        wrap = spaces.get("wrap", lambda values: values)
        buffers.append(
            EpisodeBuffer(
                observations=wrap(observations),
                actions=data.action[rows],
                rewards=data.reward[rows].tolist(),
                terminations=data.terminated[rows].tolist(),
                truncations=(data.episode_end & ~data.terminated)[rows].tolist(),
            )
        )
    unbounded = gymnasium.spaces.Box(-np.inf, np.inf, (data.observation_dim,))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Minari advises on metadata that a test does not need
        minari.create_dataset_from_buffers(
            f"test/{layout}-v0",
            buffer=buffers,
            observation_space=spaces.get("observation_space", unbounded),
            action_space=gymnasium.spaces.Box(-1, 1, (data.action_dim,)),
            data_format=layout,
        )
    return f"test/{layout}-v0"
