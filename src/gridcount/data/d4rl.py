"""D4RL's HDF5 layout: written whole or not at all, read with its traps handled and its damages named."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from gridcount.data.transitions import Transitions

REQUIRED = ("observations", "actions", "rewards", "terminals")
OPTIONAL = ("timeouts", "next_observations")


def write_hdf5(path: str | Path, columns: Mapping[str, NDArray[Any]], attributes: Mapping[str, str | int | float]) -> None:
    """Write columns (a name may hold a '/', as infos/goal does) and attributes; `path` appears complete or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")  # its own per process, so two writers do not mix
    try:
        with h5py.File(partial, "w") as file:
            for key, column in columns.items():
                file.create_dataset(key, data=column, compression="gzip", compression_opts=1, shuffle=True)
            file.attrs.update(dict(attributes))
        with partial.open("rb") as written:
            os.fsync(written.fileno())  # the bytes reach the disk before the name does
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def read_hdf5(path: str | Path, name: str | None = None) -> Transitions:
    """The transitions of a D4RL file.

    `timeouts` end an episode without a terminal; where both are set the terminal wins. Where the file has no
    `next_observations`, a row's successor is the next row of its episode, so the last row of an episode that was cut off has
    none and is dropped.
    """
    path = Path(path)
    columns = _read_columns(path)
    observation = _matrix(path, "observations", columns)
    rows = len(observation)
    if rows == 0:
        raise ValueError(f"{path}: 'observations' is empty; the file holds no transition. Generate or download it again")
    action = _matrix(path, "actions", columns)
    reward = _vector(path, "rewards", columns).astype(np.float32)
    terminated = _flags(path, "terminals", columns)
    timeout = _flags(path, "timeouts", columns) if "timeouts" in columns else np.zeros(rows, dtype=bool)
    for key, column in columns.items():
        if len(column) != rows:
            raise ValueError(f"{path}: '{key}' has {len(column)} rows, 'observations' has {rows}; the file is inconsistent, get it again")

    end = terminated | timeout
    end[-1] = True  # the log stops here, whatever its flags say
    if "next_observations" in columns:
        next_observation = _matrix(path, "next_observations", columns)
        keep = np.ones(rows, dtype=bool)
    else:
        # A terminal row stays: its reward and its end are facts to learn from. Nothing is bootstrapped from its successor, which the
        # file does not hold, so its own observation stands in: pairing it with the row below, as D4RL's own loader does, would let
        # counting and coverage see a jump into another episode's first state.
        next_observation = np.where(terminated[:, None], observation, np.roll(observation, -1, axis=0))
        keep = ~end | terminated
        end = terminated | np.roll(~keep, -1)  # the row before a dropped one is now its episode's last
    if not keep.any():
        raise ValueError(f"{path}: no transition remains, for every episode is one row long and 'next_observations' is missing")
    return Transitions(
        observation=observation[keep],
        action=action[keep],
        reward=reward[keep],
        next_observation=next_observation[keep],
        terminated=terminated[keep],
        episode_end=end[keep],
        name=str(path) if name is None else name,
    )


def _read_columns(path: Path) -> dict[str, NDArray[Any]]:
    """The columns a learner needs, as stored, or an error in the reader's words."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file; check the path")
    if not h5py.is_hdf5(path):
        raise ValueError(
            f"{path}: not an HDF5 file ({path.stat().st_size:,} bytes); D4RL's files are HDF5, so check the path or download it again"
        )
    try:
        with h5py.File(path, "r") as file:
            present = [key for key in REQUIRED + OPTIONAL if isinstance(file.get(key), h5py.Dataset)]
            missing = [key for key in REQUIRED if key not in present]
            if missing:
                raise ValueError(
                    f"{path}: key '{missing[0]}' is missing; the file has {sorted(file)}. D4RL's layout needs {', '.join(REQUIRED)}"
                )
            for key in present:
                if file[key].dtype.kind not in "biuf":
                    raise ValueError(f"{path}: '{key}' has dtype {file[key].dtype}; it must hold numbers or booleans, so convert it first")
            return {key: np.asarray(file[key][()]) for key in present}
    except (OSError, RuntimeError, KeyError) as error:
        raise ValueError(f"{path}: truncated or damaged HDF5 ({error}); get the file again") from error


def _matrix(path: Path, key: str, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
    column = columns[key]
    if column.ndim != 2:
        raise ValueError(f"{path}: '{key}' has shape {column.shape}; expected (rows, dimensions), so reshape it first")
    with np.errstate(over="ignore"):  # a number beyond single precision becomes inf, which Transitions reports with its row
        return column.astype(np.float32)


def _vector(path: Path, key: str, columns: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    column = columns[key]
    if column.ndim == 2 and column.shape[1] == 1:  # the replay sets keep rewards as (rows, 1)
        return column[:, 0]
    if column.ndim != 1:
        raise ValueError(f"{path}: '{key}' has shape {column.shape}; expected (rows,) or (rows, 1), so reshape it first")
    return column


def _flags(path: Path, key: str, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
    column = _vector(path, key, columns)
    flags = column.astype(bool)
    odd = np.flatnonzero(column != flags)
    if len(odd):
        raise ValueError(f"{path}: '{key}' holds {column[odd[0]]} at row {odd[0]}; a flag must be 0 or 1, so repair that row")
    return flags
