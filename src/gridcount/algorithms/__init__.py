"""The registry: every algorithm by name. Adding one touches its file, a line here and its presets.

Other packages add theirs with the entry-point group `gridcount.algorithms`.
"""

from dataclasses import replace
from typing import Any

from gridcount.algorithms.bc import BC
from gridcount.algorithms.contract import About, Algorithm
from gridcount.algorithms.cql import CQL
from gridcount.algorithms.edac import EDAC
from gridcount.algorithms.gpc_anchor import GPCAnchor
from gridcount.algorithms.gpc_sac import GPCSAC
from gridcount.algorithms.gpc_td3 import GPCTD3
from gridcount.algorithms.iql import IQL
from gridcount.algorithms.pbrl import PBRL
from gridcount.algorithms.presets import preset_fields
from gridcount.algorithms.ranges import validate_ranges
from gridcount.algorithms.rebrac import ReBRAC
from gridcount.algorithms.registry import Registry
from gridcount.algorithms.sac import SAC
from gridcount.algorithms.sac_n import SACN
from gridcount.algorithms.td3 import TD3
from gridcount.algorithms.td3_bc import TD3BC
from gridcount.algorithms.td3_cvae import TD3CVAE
from gridcount.algorithms.uwac import UWAC
from gridcount.catalogue import unknown

BUILT_IN: dict[str, type[Any]] = {
    "bc": BC,
    "cql": CQL,
    "edac": EDAC,
    "gpc-anchor": GPCAnchor,
    "gpc-sac": GPCSAC,
    "gpc-td3": GPCTD3,
    "iql": IQL,
    "pbrl": PBRL,
    "rebrac": ReBRAC,
    "sac": SAC,
    "sac-n": SACN,
    "td3": TD3,
    "td3-bc": TD3BC,
    "td3-cvae": TD3CVAE,
    "uwac": UWAC,
}
ALGORITHMS = Registry(BUILT_IN)  # and those of installed packages

__all__ = [
    "ALGORITHMS",
    "BC",
    "CQL",
    "EDAC",
    "GPCSAC",
    "GPCTD3",
    "IQL",
    "PBRL",
    "SAC",
    "SACN",
    "TD3",
    "TD3BC",
    "TD3CVAE",
    "UWAC",
    "Algorithm",
    "GPCAnchor",
    "ReBRAC",
    "make_algorithm",
]


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
    validate_ranges(algorithm)
    return algorithm


def describe(name: str) -> About:
    """Where an algorithm comes from; of one that another package registers, the package."""
    about: About | None = vars(ALGORITHMS[name]).get(
        "about"
    )  # its own, not that of an algorithm it derives from
    return about or About("", ALGORITHMS.package(name), "")
