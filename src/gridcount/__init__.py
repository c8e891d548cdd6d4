"""Offline reinforcement learning with count-based pessimism."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {  # public name -> the module that holds it
    "Columns": "gridcount.data.formats.columns",
    "Decision": "gridcount.policy.guard",
    "GridCounter": "gridcount.counts.counter",
    "Guard": "gridcount.policy.guard",
    "Policy": "gridcount.policy.policy",
    "Run": "gridcount.api",
    "Transitions": "gridcount.transitions",
    "check": "gridcount.api",
    "estimate": "gridcount.api",
    "evaluate": "gridcount.api",
    "load": "gridcount.data.load",
    "load_policy": "gridcount.policy.policy",
    "train": "gridcount.api",
    "tune": "gridcount.tuning.python",
}
_ALGORITHMS = "gridcount.algorithms"  # which exports every algorithm's class

if TYPE_CHECKING:
    from gridcount.algorithms import *  # noqa: F403
    from gridcount.api import Run, check, estimate, evaluate, train
    from gridcount.counts.counter import GridCounter
    from gridcount.data.formats.columns import Columns
    from gridcount.data.load import load
    from gridcount.policy.guard import Decision, Guard
    from gridcount.policy.policy import Policy, load_policy
    from gridcount.transitions import Transitions
    from gridcount.tuning.python import tune

__all__ = [
    "Columns",
    "Decision",
    "GridCounter",
    "Guard",
    "Policy",
    "Run",
    "Transitions",
    "check",
    "estimate",
    "evaluate",
    "load",
    "load_policy",
    "train",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Import public names on first use: `gridcount --help` and a loaded policy must not import JAX."""
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name[:1].isupper() and hasattr(algorithms := import_module(_ALGORITHMS), name):
        return getattr(algorithms, name)
    raise AttributeError(f"module 'gridcount' has no attribute '{name}'")


def __dir__() -> list[str]:
    """Public names, the algorithms' among them."""
    from importlib import import_module

    classes = {kind.__name__ for kind in import_module(_ALGORITHMS).BUILT_IN.values()}
    return sorted({*__all__, "__version__", *classes})
