"""The registry: every algorithm by name. Adding one touches its file, a line here and its presets."""

from dataclasses import replace
from typing import Any

from gridcount.algorithms.contract import Algorithm
from gridcount.algorithms.gpc_sac import GPCSAC
from gridcount.algorithms.presets import preset_fields
from gridcount.algorithms.ranges import refuse_out_of_range
from gridcount.algorithms.sac import SAC
from gridcount.data.catalogue import unknown

ALGORITHMS: dict[str, type[Any]] = {
    "gpc-sac": GPCSAC,
    "sac": SAC,
}

__all__ = ["ALGORITHMS", "Algorithm", "make_algorithm"]


def make_algorithm(name: str, dataset: str, preset: str = "paper", **changes: Any) -> Any:
    """An algorithm with its preset for a dataset, and any field changed."""
    if name not in ALGORITHMS:
        raise unknown("algorithm", name, tuple(ALGORITHMS))
    kind = ALGORITHMS[name]
    known = set(kind.__dataclass_fields__)
    if surplus := sorted(set(changes) - known):
        raise unknown(f"field of {name}", surplus[0], tuple(sorted(known)))
    fields = {field: value for field, value in preset_fields(name, dataset, preset).items() if field in known}
    algorithm = replace(kind(), **(fields | changes))
    refuse_out_of_range(algorithm)
    return algorithm
