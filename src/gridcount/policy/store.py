"""The folder `policy/` of a run: its policies on disk.

`policy.json` describes the policy, `counts.npz` holds the log's counts and seen states, `clone.npz` a policy
cloned from the log, and a numbered file for each kept number of updates holds the arrays of every seed's
network. Each file is written completely or not at all, so the folder can be copied at any time.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcount.files import read_record, write_whole
from gridcount.files.archive import Arrays, Readable, numbered, open_arrays, prune, save_arrays
from gridcount.files.records import AtLeastOne, Count
from gridcount.policy.actor import Actor, Candidates, Perceptron
from gridcount.policy.counts import LogCounts

FOLDER = "policy"  # in a run directory
FACTS, COUNTS, CLONE = "policy.json", "counts.npz", "clone.npz"
FORMAT = 1
MOST_BYTES = 1 << 30  # of the arrays of a file
AGAIN = "copy the folder again from its run"


@dataclass(frozen=True)
class Facts:
    """The description of a policy: its algorithm, dataset, seeds and columns."""

    algorithm: str
    fields: dict[str, Any]  # the algorithm's hyper-parameters
    dataset: str  # what it was trained on, as messages call it
    fingerprint: str  # of that data
    seeds: tuple[Count, ...]
    observation_names: tuple[str, ...]  # the log's columns, in order
    action_names: tuple[str, ...]
    action_low: tuple[float, ...]  # what -1 means in the log's units
    action_high: tuple[float, ...]
    version: str  # of gridcount
    format: AtLeastOne = FORMAT
    action_values: tuple[tuple[float, ...], ...] = ()  # per action: the log's values if it has few; () if not


def write_facts(folder: Path, facts: Facts) -> None:
    """Write the description of a folder's policies."""
    write_whole(folder / FACTS, json.dumps(asdict(facts), indent=2) + "\n")


def write_counts(folder: Path, counts: LogCounts) -> None:
    """Write the log's counts."""
    save_arrays(folder / COUNTS, counts.arrays())


def write_clone(folder: Path, actor: Actor) -> None:
    """Write the policy that is cloned from the log."""
    save_arrays(folder / CLONE, flatten(actor))


def write_actors(folder: Path, updates: int, actors: Mapping[int, Actor], keep: int) -> None:
    """Write the seeds' policies after a number of updates, and remove the oldest ones."""
    arrays = {
        f"seed{seed}.{name}": array
        for seed, actor in actors.items()
        for name, array in flatten(actor).items()
    }
    save_arrays(folder / f"{updates:010d}.npz", arrays)
    prune(folder, keep)


def forget_after(folder: Path, updates: int) -> None:
    """Remove policies of later updates than the one from which a run resumes."""
    for path in numbered(folder):
        if int(path.stem) > updates:
            path.unlink()


def read_facts(folder: Path) -> Facts:
    """The description of a folder's policies."""
    path = folder / FACTS
    facts = read_record(path, Facts, AGAIN)
    if facts.format > FORMAT:
        raise ValueError(
            f"{path}: written by gridcount {facts.version}, whose format {facts.format} is newer; update"
            " gridcount"
        )
    for name in ("action_low", "action_high", *(["action_values"] if facts.action_values else [])):
        if len(getattr(facts, name)) != len(facts.action_names):
            raise ValueError(
                f"{path}: '{name}' has {len(getattr(facts, name))} numbers for {len(facts.action_names)}"
                f" actions. {AGAIN}"
            )
    if not (facts.observation_names and facts.action_names and facts.seeds):
        raise ValueError(
            f"{path}: a policy has observations, actions and seeds, and one of these lists is empty. {AGAIN}"
        )
    return facts


def read_counts(folder: Path, facts: Facts) -> LogCounts:
    """The log's counts."""
    path = folder / COUNTS
    with open_arrays(path, _damaged) as stored:
        arrays = _read(stored)
        return LogCounts.of(arrays, len(facts.observation_names), len(facts.action_names))


def read_clone(folder: Path, facts: Facts) -> Actor:
    """The policy that is cloned from the log."""
    with open_arrays(folder / CLONE, _damaged) as stored:
        return unflatten(_read(stored), len(facts.observation_names), len(facts.action_names))


def read_actor(path: Path, seed: int, facts: Facts) -> Actor:
    """A seed's policy from a numbered file."""
    prefix = f"seed{seed}."
    with open_arrays(path, _damaged) as stored:
        own = {name.removeprefix(prefix): array for name, array in stored.items() if name.startswith(prefix)}
        return unflatten(_read(own), len(facts.observation_names), len(facts.action_names))


def flatten(actor: Actor) -> Arrays:
    """A policy's arrays by name."""
    arrays: dict[str, Any] = {
        name: getattr(actor, name)
        for name in ("columns", "mean", "deviation")
        if getattr(actor, name) is not None
    }
    arrays |= _flatten_network("network", actor.network)
    if (candidates := actor.candidates) is not None:
        arrays |= {
            "noise": candidates.noise,
            "log_std_range": np.array([candidates.log_std_low, candidates.log_std_high]),
        }
        arrays |= _flatten_network("critic", candidates.critic)
    return {name: np.asarray(array) for name, array in arrays.items()}


def unflatten(arrays: Arrays, observation_dim: int, action_dim: int) -> Actor:
    """The policy from arrays; raises ValueError if their shapes do not match."""
    columns, mean, deviation = (arrays.get(name) for name in ("columns", "mean", "deviation"))
    seen = observation_dim
    if columns is not None:
        if (
            columns.ndim != 1
            or columns.dtype.kind != "i"
            or not ((columns >= 0) & (columns < observation_dim)).all()
        ):
            raise ValueError(f"its columns are not columns of {observation_dim} observations")
        seen = len(columns)
    for name, array in {"mean": mean, "deviation": deviation}.items():
        if (array is None) != (mean is None) or (array is not None and array.shape != (seen,)):
            raise ValueError(f"'{name}' does not fit {seen} observations")
    if "noise" not in arrays:
        return Actor(_network(arrays, "network", seen, action_dim), columns, mean, deviation)
    noise, limits = arrays["noise"], arrays["log_std_range"]
    if noise.ndim != 2 or noise.shape[1] != action_dim or not len(noise) or limits.shape != (2,):
        raise ValueError(f"its candidates have shape {noise.shape}, for {action_dim} actions")
    critic = _network(arrays, "critic", seen + action_dim, 1)
    candidates = Candidates(noise, float(limits[0]), float(limits[1]), critic)
    return Actor(_network(arrays, "network", seen, 2 * action_dim), columns, mean, deviation, candidates)


def _flatten_network(name: str, network: Perceptron) -> dict[str, Any]:
    parts = ("weights", "biases", "gains", "shifts")
    layers = {
        f"{name}.{part}.{layer}": array
        for part in parts
        for layer, array in enumerate(getattr(network, part))
    }
    return layers | {f"{name}.norm_after": network.norm_after}


def _network(arrays: Arrays, name: str, inputs: int, outputs: int) -> Perceptron:
    def layers(part: str) -> list[NDArray[Any]]:
        count = sum(key.startswith(f"{name}.{part}.") for key in arrays)
        return [arrays[f"{name}.{part}.{layer}"] for layer in range(count)]

    weights, biases, gains, shifts = (layers(part) for part in ("weights", "biases", "gains", "shifts"))
    widths = [len(bias) for bias in biases]
    fits = [weight.shape for weight in weights] == list(
        zip([inputs, *widths[:-1]], widths, strict=True)
    ) and widths[-1:] == [outputs]
    normed = (
        [len(gain) for gain in gains] == [len(shift) for shift in shifts] == (widths[:-1] if gains else [])
    )
    if (
        not fits
        or not normed
        or not all(array.dtype == np.float32 for part in (weights, biases, gains, shifts) for array in part)
    ):
        raise ValueError(f"the layers of '{name}' do not map {inputs} inputs to {outputs} outputs")
    return Perceptron(weights, biases, gains, shifts, bool(arrays[f"{name}.norm_after"]))


def _read(stored: Mapping[str, Readable]) -> Arrays:
    """All arrays, if what they state is a size that a policy can have: a small file can state any."""
    size = sum(math.prod(array.shape) * array.dtype.itemsize for array in stored.values())
    if size > MOST_BYTES:
        raise ValueError(f"its arrays take {size:,} bytes, more than a policy can have")
    return {name: array.read() for name, array in stored.items()}


def _damaged(path: Path, how: str) -> ValueError:
    return ValueError(f"{path}: the policy is damaged ({how}); {AGAIN}")
