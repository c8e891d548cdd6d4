"""Stand-ins for large packages whose functions a help text never calls, because importing them takes a second."""

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

LARGE = {"equinox", "jax", "optax", "optuna", "pyarrow", "scipy"}


class NotThere(Exception):
    """A stand-in was asked for a value."""


class StandIn:
    """A name of a package that was not imported: it can be called, decorate, annotate and be derived from."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> "StandIn":
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self._name}.{name}")

    def __call__(self, *given: Any, **_: Any) -> Any:
        """As a decorator, what is decorated."""
        return given[0] if len(given) == 1 and callable(given[0]) else self

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (object,)

    def __getitem__(self, _: Any) -> "StandIn":
        return self

    def __or__(self, _: Any) -> "StandIn":
        return self

    __ror__ = __or__
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str | int | float):
            self._refuse()
        return self is other

    def _refuse(self) -> NoReturn:
        raise NotThere(self._name)

    __bool__ = __iter__ = __len__ = __repr__ = __str__ = _refuse


class _StandInModule(ModuleType):
    """A module of a package that was not imported."""

    def __getattr__(self, name: str) -> StandIn:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self.__name__}.{name}")


class _Finder(MetaPathFinder, Loader):
    """Finds stand-ins in place of the large packages."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if fullname.partition(".")[0] in LARGE else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandInModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is executed."""


def use_stand_ins() -> None:
    """From now on this process imports stand-ins: for one that ends soon, and computes nothing."""
    sys.meta_path.insert(0, _Finder())
