"""Checkpoints: one file each, written completely or not at all, which NumPy can open and which contains no
code.

A checkpoint is an archive of named arrays (files.archive) with a record of its run. Orbax would bring sharded
and asynchronous writing, which a state of a few hundred megabytes on one host does not need, at the price of
a second of start-up and nine more packages.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import msgspec
import numpy as np

from gridcount.files import decode_record
from gridcount.files.archive import Arrays, ConfigurationMismatch, Described, open_arrays
from gridcount.files.records import AtLeastOne, Count
from gridcount.training.logs import METRICS, Marks, read_marked

RECORD = "run"  # the array that holds a run's record, as JSON
DELETE = "delete it to resume from the previous checkpoint"

BlockMetrics = tuple[
    AtLeastOne, dict[str, list[float]]
]  # a block's updates, and per metric its mean over them, seed by seed


class Record(Marks, frozen=True, kw_only=True):
    """The data of a checkpoint besides the seeds' states."""

    updates: Count
    pending: list[BlockMetrics]  # of blocks since the last evaluation


def flatten(state: Any) -> Arrays:
    """A state's arrays by their path in it."""
    return {name: np.asarray(leaf) for name, leaf in named(state).items()}


def named(state: Any) -> dict[str, Any]:
    """The leaves of a state, or of its template, by their path in it."""
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(state)}


def unflatten(template: Any, arrays: Arrays, source: Path) -> Any:
    """The template with its arrays replaced by the file's; raises ValueError if shapes differ."""
    expected = named(template)
    _validate_fit(source, arrays, expected)
    return jax.tree_util.tree_unflatten(
        jax.tree_util.tree_structure(template), [jax.numpy.asarray(arrays[name]) for name in expected]
    )


def recorded(record: Record) -> Arrays:
    """A record as an array of a checkpoint, to be written last."""
    return {RECORD: np.frombuffer(json.dumps(msgspec.to_builtins(record)).encode(), np.uint8)}


def load(path: Path, expected: Mapping[str, Described] | None = None) -> Arrays:
    """Read a checkpoint; raises ValueError with its name if it is damaged.

    If `expected` is given, the arrays are compared with it before memory is allocated: an untrusted file may
    declare any size.
    """
    with open_arrays(path, damaged) as stored:
        if expected is not None:
            _validate_fit(path, {name: array for name, array in stored.items() if name != RECORD}, expected)
        return {name: array.read() for name, array in stored.items()}


def _validate_fit(source: Path, found: Mapping[str, Described], expected: Mapping[str, Described]) -> None:
    """Raise ConfigurationMismatch if the arrays do not belong to this configuration."""
    missing, surplus = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
    if missing or surplus:
        raise ConfigurationMismatch(
            f"{source}: not a checkpoint of this configuration; missing {missing[:3]}, unexpected"
            f" {surplus[:3]}"
        )
    for name, wanted in expected.items():
        has = found[name]
        if has.shape != wanted.shape or has.dtype != wanted.dtype:
            needed = f"but this configuration needs {wanted.dtype}{wanted.shape}"
            raise ConfigurationMismatch(f"{source}: {name} is {has.dtype}{has.shape}, {needed}")


def read_record(path: Path, arrays: Arrays | None = None) -> Record:
    """The record of a checkpoint, from its arrays if they were read before."""
    if arrays is None:
        with open_arrays(path, damaged) as stored:
            arrays = {RECORD: stored[RECORD].read()} if RECORD in stored else {}
    if RECORD not in arrays:  # written last
        raise damaged(path, "its end is missing")
    record = decode_record(arrays[RECORD].tobytes(), Record, f"{path}: the checkpoint is damaged", DELETE)
    if record.updates != int(path.stem):
        raise damaged(
            path, f"it records {record.updates:,} updates, but its file name says {int(path.stem):,}"
        )
    return record


def validate_record(path: Path, record: Record, seeds: int, updates: int, evaluate_every: int) -> None:
    """Raise ValueError if a record contradicts the run's seeds, updates or evaluations."""
    if record.updates > updates:
        raise damaged(path, f"it records {record.updates:,} updates, but the run has only {updates:,}")
    blocks = [metrics for _, metrics in record.pending]
    waiting, most = sum(size for size, _ in record.pending), record.updates % evaluate_every
    if waiting > most:
        raise damaged(path, f"{waiting:,} updates are not evaluated yet, but there can be at most {most:,}")
    if any(metrics.keys() != blocks[0].keys() for metrics in blocks):
        raise damaged(path, "its blocks of updates have different metrics")
    if any(len(values) != seeds for metrics in blocks for values in metrics.values()):
        raise damaged(path, f"its metrics do not belong to {seeds} seeds")


def validate_rows_kept(directory: Path, saved: list[Path], record: Record) -> None:
    """Raise ValueError if `metrics.jsonl` lost rows that it held at the newest checkpoint."""
    if not record.sizes.get(METRICS) or read_marked(directory, METRICS, record) is not None:
        return
    fitting = [path for path in saved[:-1] if _fits(directory, path)]
    way_out = "Restore the file as the run wrote it"
    if fitting:
        newer = " and ".join(str(path) for path in saved[saved.index(fitting[-1]) + 1 :])
        way_out += f", or delete {newer} to resume from update {int(fitting[-1].stem):,}, which the file still matches"
    else:
        way_out += ", or start a new run. The trained policy is not affected: `gridcount evaluate` scores it"
    raise ValueError(
        f"{directory / METRICS}: rows that were written before {saved[-1]} are missing or changed. {way_out}"
    )


def _fits(directory: Path, path: Path) -> bool:
    """Whether a run can resume from a checkpoint with its present `metrics.jsonl`; False if the checkpoint
    is damaged."""
    try:
        return read_marked(directory, METRICS, read_record(path)) is not None
    except (ValueError, OSError):
        return False


def damaged(path: Path, how: str) -> ValueError:
    """The error for a checkpoint that cannot be used."""
    return ValueError(f"{path}: the checkpoint is damaged ({how}); {DELETE}")
