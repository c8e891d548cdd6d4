"""Checkpoints: one file each, whole or absent, that NumPy can open and nothing executes.

A checkpoint is an uncompressed `.npz` of named arrays. Arrays that are mostly zeros (visit tables) are stored as positions and
values. The zip format's checksums catch a damaged file. Orbax would bring sharded and asynchronous writing, which a state
of a few hundred megabytes on one host does not need, at the price of a second of start-up and nine more packages.
"""

import os
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np
from numpy.typing import NDArray

SPARSE_BELOW = 0.25  # store positions and values where fewer than this share is not zero
SPARSE_FROM = 1 << 20  # and the array has at least this many entries

Arrays = dict[str, NDArray[Any]]


def flatten(state: Any) -> Arrays:
    """A state's arrays by their path in it."""
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(state)}


def unflatten(template: Any, arrays: Arrays, source: Path) -> Any:
    """The template with its arrays replaced by the file's; refuses a file that was made for another shape of state."""
    paths, structure = jax.tree_util.tree_flatten_with_path(template)
    expected = {jax.tree_util.keystr(path): leaf for path, leaf in paths}
    missing, surplus = sorted(expected.keys() - arrays.keys()), sorted(arrays.keys() - expected.keys())
    if missing or surplus:
        raise ValueError(f"{source}: not a checkpoint of this configuration; missing {missing[:3]}, unexpected {surplus[:3]}")
    for name, leaf in expected.items():
        if arrays[name].shape != leaf.shape or arrays[name].dtype != leaf.dtype:
            found, wanted = arrays[name], leaf
            raise ValueError(f"{source}: {name} is {found.dtype}{found.shape}, but this configuration needs {wanted.dtype}{wanted.shape}")
    return jax.tree_util.tree_unflatten(structure, [jax.numpy.asarray(arrays[name]) for name in expected])


def save(path: Path, arrays: Arrays) -> None:
    """Write a checkpoint under its final name only once it is whole and on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        np.savez(file, **cast(Any, _packed(arrays)))
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def load(path: Path) -> Arrays:
    """Read a checkpoint; a damaged one is named, never half used."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return _unpacked({name: file[name] for name in file.files})
    except MemoryError:
        raise
    except Exception as error:  # a flipped bit can make a zip file seem encrypted, from the future, or anything else
        raise ValueError(f"{path}: the checkpoint is damaged ({error}); delete it to go on from the one before") from error


def numbered(directory: Path) -> list[Path]:
    """Checkpoints of a run, oldest first."""
    return sorted(directory.glob("[0-9]*.npz"))


def prune(directory: Path, keep: int) -> None:
    """Remove all but the newest `keep` checkpoints, and what an interrupted write left behind."""
    for path in [*numbered(directory)[:-keep], *directory.glob("*.partial")]:
        path.unlink()


def _packed(arrays: Arrays) -> Arrays:
    packed: Arrays = {}
    for name, array in arrays.items():
        positions = np.flatnonzero(array) if array.size >= SPARSE_FROM else None
        if positions is not None and len(positions) < SPARSE_BELOW * array.size:
            packed |= {f"{name}|shape": np.array(array.shape), f"{name}|at": positions, f"{name}|is": array.reshape(-1)[positions]}
        else:
            packed[name] = array
    return packed


def _unpacked(arrays: Arrays) -> Arrays:
    whole = {name: array for name, array in arrays.items() if "|" not in name}
    for name in (key.removesuffix("|shape") for key in arrays if key.endswith("|shape")):
        values = arrays[f"{name}|is"]
        full = np.zeros(int(np.prod(arrays[f"{name}|shape"])), values.dtype)
        full[arrays[f"{name}|at"]] = values
        whole[name] = full.reshape(arrays[f"{name}|shape"])
    return whole
