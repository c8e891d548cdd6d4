"""Offline reinforcement learning that counts."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["GridCounter", "Transitions", "load"]

_HOMES = {"GridCounter": "gridcount.counts.counter", "Transitions": "gridcount.data.transitions", "load": "gridcount.data.load"}

if TYPE_CHECKING:
    from gridcount.counts.counter import GridCounter
    from gridcount.data.load import load
    from gridcount.data.transitions import Transitions


def __getattr__(name: str) -> Any:
    """Import public names on first use: `gridcount --help` must not wait for JAX."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'gridcount' has no attribute '{name}'")
