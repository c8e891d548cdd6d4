"""The same transitions written in every format a user may bring, for tests to read back."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from gridcount.data.d4rl import write_hdf5
from gridcount.data.transitions import Transitions

EXCERPTS = Path(__file__).parent / "data"


def smooth(rows: int = 400, dims: int = 3, actions: int = 2, episode: int = 100, seed: int = 0) -> dict[str, NDArray[Any]]:
    """A clean log in D4RL's columns: random walks, bounded actions, every fourth episode terminal."""
    rng = np.random.default_rng(seed)
    walk = rng.normal(size=(rows, dims)) * 0.1
    for start in range(0, rows, episode):
        walk[start : start + episode] = np.cumsum(walk[start : start + episode], axis=0) + rng.normal(size=dims) * 0.1
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
    for name, column in {"obs": data.observation, "action": data.action, "next_obs": data.next_observation}.items():
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
    lists = {"observation": data.observation, "action": data.action, "next_observation": data.next_observation}
    nested = {name: arrow.FixedSizeListArray.from_arrays(column.ravel(), column.shape[1]) for name, column in lists.items()}
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
