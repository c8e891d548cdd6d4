"""Imports point one way only, and nothing that reads a file can run what is in it."""

import ast
from pathlib import Path

import pytest

import gridcount

SOURCE = Path(gridcount.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
LOW = {"files", "interrupts", "children", "plain_text"}
TYPES = {
    "transitions",
    "catalogue",
    "paper",
    "categories",
}  # the type of a dataset, the names of published ones, the paper's table
LEARNERS = {"counts", "losses", "networks", "policy", "algorithms"}
BELOW = {  # room -> the rooms of ours it may import, besides itself
    "files": set[str](),  # how our own files are read and written
    "interrupts": set[str](),
    "children": set[str](),  # how Python processes are started
    "plain_text": set[str](),
    "catalogue": set[str](),
    "categories": set[str](),
    "paper": set[str](),
    "losses": set[str](),
    "transitions": {"data"},  # its constructors from arrays, frames and episodes
    "networks": {"policy"},  # the arrays that a network acts with
    "counts": {"transitions", "losses"},
    "envs": {"catalogue"},
    "data": {
        *LOW,
        *TYPES,
        "counts",
        "envs",
    },  # mazes are generated in their simulator; descriptions count cells
    "policy": {*LOW, *TYPES, "counts"},  # and of those nothing that imports JAX
    "service": {*LOW, "policy"},  # and so a service imports no learner and no JAX
    "algorithms": {*TYPES, *LEARNERS},
    "theory": {*TYPES, "counts", "losses"},
    "evaluation": {*TYPES, *LEARNERS, "data", "envs"},
    "training": {*LOW, *TYPES, *LEARNERS, "data", "envs", "evaluation"},
    "estimation": {*LOW, *TYPES, *LEARNERS, "data", "terminal", "training"},
    "report": {*LOW, *TYPES, *LEARNERS, "data", "envs", "evaluation", "training"},
    "benchmark": {*LOW, *TYPES, *LEARNERS, "data", "envs", "estimation", "evaluation", "training"},
    "tuning": {*LOW, *TYPES, *LEARNERS, "benchmark", "data", "estimation", "terminal", "training"},
}
TOP = {
    "__init__",
    "__main__",
    "api",
    "cli",
    "commands",
    "help_cache",
    "stand_ins",
    "terminal",
}  # may import all
SIMULATORS = {"gymnasium", "gymnasium_robotics", "mujoco"}
OUTSIDE_ALGORITHMS = SIMULATORS | {
    "h5py",
    "rich",
    "tyro",
    "matplotlib",
    "json",
}  # simulators, file formats, displays, loggers


def imports(path: Path) -> set[str]:
    """Full names of all modules a file imports, wherever in it, and of all it imports from them."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def room(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def rooms_imported(path: Path) -> set[str]:
    return {name.split(".")[1] for name in imports(path) if name.startswith("gridcount.")} - {"__version__"}


def packages_imported(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports(path)}


def test_every_room_is_on_the_plan() -> None:
    assert {room(path) for path in MODULES} <= BELOW.keys() | TOP


@pytest.mark.parametrize("name", sorted(BELOW))
def test_a_room_imports_only_what_lies_below_it(name: str) -> None:
    files = [path for path in MODULES if room(path) == name]
    assert files
    for path in files:
        assert rooms_imported(path) <= BELOW[name] | {name}, path


def test_algorithms_know_no_simulator_file_format_or_display() -> None:
    for path in MODULES:
        if room(path) in ("algorithms", "counts", "networks", "losses"):
            assert not packages_imported(path) & OUTSIDE_ALGORITHMS, path


def test_only_the_environments_import_the_simulators() -> None:
    importers = {room(path) for path in MODULES if packages_imported(path) & SIMULATORS}
    assert importers == {"envs"}


def test_only_pictures_import_matplotlib() -> None:
    assert {room(path) for path in MODULES if "matplotlib" in packages_imported(path)} == {"report"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_read_from_a_file_can_run(path: Path) -> None:
    assert not packages_imported(path) & {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        assert called not in ("eval", "exec", "compile", "__import__"), f"{path}:{node.lineno}"
        for keyword in node.keywords:
            forbidden = {"allow_pickle": False, "shell": False}  # the only value each may have
            if keyword.arg in forbidden:
                assert isinstance(keyword.value, ast.Constant), f"{path}:{node.lineno}"
                assert keyword.value.value is forbidden[keyword.arg], f"{path}:{node.lineno}"
