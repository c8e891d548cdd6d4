"""Algorithms by name: those of gridcount, and those that installed packages register with an entry point."""

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "gridcount.algorithms"
FUNCTIONS = ("prepare", "init", "update", "actor")  # what the contract asks of an algorithm


class Registry(Mapping[str, type[Any]]):
    """A mapping from names to algorithm classes.

    Entry points are read when a name is not one of gridcount's, or when all names are listed. A package is
    imported when its class is needed. If a package uses one of gridcount's names, gridcount's own algorithm
    is used.
    """

    def __init__(self, built_in: Mapping[str, type[Any]]):
        self._built_in = dict(built_in)
        self._loaded: dict[str, type[Any]] = {}

    def __getitem__(self, name: str) -> type[Any]:
        if name in self._built_in:
            return self._built_in[name]
        if name not in self._loaded:
            self._loaded[name] = load_class(self._entries()[name])
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._built_in or name in self._loaded or name in self._entries()

    def __iter__(self) -> Iterator[str]:
        yield from self._built_in
        yield from sorted(self._entries())

    def __len__(self) -> int:
        return len(self._built_in) + len(self._entries())

    def package(self, name: str) -> str:
        """The package that registers a name, with its version; "gridcount" for gridcount's own."""
        return "gridcount" if name in self._built_in else _package(self._entries()[name])

    def _entries(self) -> dict[str, "EntryPoint"]:
        """What other packages register under names that are not gridcount's."""
        from importlib.metadata import entry_points

        found: dict[str, EntryPoint] = {}
        for entry in entry_points(group=GROUP):
            other = found.setdefault(entry.name, entry)
            if other.value != entry.value:
                packages = f"{_package(other)} and {_package(entry)}"
                raise ImportError(
                    f"{packages} both register an algorithm '{entry.name}'. Uninstall one of them"
                )
        return {name: entry for name, entry in found.items() if name not in self._built_in}


def load_class(entry: "EntryPoint") -> type[Any]:
    """Import the class that an entry point names; an error names the package."""
    what = f"{_package(entry)} registers the algorithm '{entry.name}' as {entry.value}"
    way_out = "Update the package or uninstall it"
    try:
        kind = entry.load()
    except Exception as error:
        raise ImportError(
            f"{what}, but importing it fails: {type(error).__name__}: {error}. {way_out}"
        ) from error
    if not (isinstance(kind, type) and is_dataclass(kind)):
        raise ImportError(f"{what}, which is not a dataclass. {way_out}")
    missing = [name for name in FUNCTIONS if not callable(getattr(kind, name, None))]
    missing += ["batch_size"] * ("batch_size" not in kind.__dataclass_fields__)
    if missing:
        raise ImportError(f"{what}, which has no {', '.join(missing)}. {way_out}")
    return kind


def _package(entry: "EntryPoint") -> str:
    return f"package {entry.dist.name} {entry.dist.version}" if entry.dist is not None else "a package"
