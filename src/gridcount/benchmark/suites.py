"""Suites: the cells of a table or a figure. Each is a small TOML file, included here or written by the
user."""

import tomllib
from collections import Counter
from dataclasses import dataclass, field, fields
from fnmatch import fnmatch
from math import isfinite
from pathlib import Path
from typing import Any

from gridcount.algorithms import ALGORITHMS, make_algorithm
from gridcount.algorithms.contract import EPOCH, run_length_fields
from gridcount.algorithms.presets import planned_updates
from gridcount.benchmark.cells import Cell
from gridcount.catalogue import NAMES, unknown
from gridcount.data.formats.columns import FIELDS
from gridcount.data.formats.cut import ActionUnits
from gridcount.evaluation.environments import has_environment
from gridcount.training.plan import EPISODES, EVALUATE_EVERY, Plan

FOLDER = Path(__file__).parent / "suites"
# of a run shorter than a suite's interval: it has a curve and a headline over several all the same
EVALUATIONS = 5


@dataclass(frozen=True)
class Variant:
    """One setting of an ablation: what it is called, and what it changes in the preset."""

    name: str = ""  # "" is the preset itself
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    """The cells algorithms x datasets x variants, and how each is trained and scored."""

    name: str
    title: str
    datasets: tuple[str, ...]
    algorithms: tuple[str, ...]
    kind: str = "scores"  # or "ablation": a figure over variants; or "cost": seconds per 1,000 updates
    preset: str = "paper"
    seeds: int = 5
    updates: int | None = None  # None: the preset's epochs for each dataset
    evaluate_every: int = EVALUATE_EVERY
    episodes: int = EPISODES
    variants: tuple[Variant, ...] = (Variant(),)
    fields: dict[str, Any] = field(default_factory=dict)  # changed for every algorithm that has the field
    # algorithm -> changes for this algorithm only
    algorithm_fields: dict[str, dict[str, Any]] = field(default_factory=dict)
    # algorithm -> dataset -> mean, and spread where printed
    published: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)  # dataset -> a file to read it from
    # dataset -> a Gymnasium id to score it in, where it has none of its own
    environments: dict[str, str] = field(default_factory=dict)
    scored: bool = True  # whether policies are rolled out at all
    # dataset -> of a table: its columns by role, its actions' units
    columns: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("seeds", "updates", "evaluate_every", "episodes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1")

    def cells(self) -> list[Cell]:
        """Every cell with all its hyper-parameters but the automatic ones, in the order of the table."""
        return [
            self._cell(dataset, algorithm, variant)
            for dataset in self.datasets
            for algorithm in self.algorithms
            for variant in self.variants
        ]

    def _cell(self, dataset: str, algorithm: str, variant: Variant) -> Cell:
        known = ALGORITHMS[algorithm].__dataclass_fields__
        shared = {name: value for name, value in self.fields.items() if name in known}
        changed = shared | self.algorithm_fields.get(algorithm, {}) | variant.fields
        updates = self.updates or planned_updates(algorithm, dataset, self.preset)
        changed = dict.fromkeys(run_length_fields(ALGORITHMS[algorithm]), updates) | changed
        changes = {
            name: tuple(value) if isinstance(value, list) else value for name, value in changed.items()
        }
        own = dataset if has_environment(dataset) else None
        reading = {name: _as_bounds(name, value) for name, value in self.columns.get(dataset, {}).items()}
        plan = Plan.of(
            algorithm,
            make_algorithm(
                algorithm, dataset, self.preset, **changes
            ),  # raises an error for an unknown field
            dataset=self.data.get(dataset, dataset),
            name=dataset,
            preset=self.preset,
            environment=self.environments.get(dataset, own),
            seeds=tuple(range(self.seeds)),
            updates=updates,
            evaluate_every=_interval(self.evaluate_every, updates),
            episodes=self.episodes,
            columns={role: name for role, name in reading.items() if role in FIELDS},
            **{name: value for name, value in reading.items() if name not in FIELDS},
        )
        return Cell(self.name, variant.name, plan, self.scored)


def suite_names() -> list[str]:
    """The suites that are part of gridcount."""
    return sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.toml"))


def read_suite(name: str) -> Suite:
    """A suite by name, or from the user's TOML file."""
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise FileNotFoundError(f"{path}: there is no such file")
        title = path.stem
        if own := [
            name for name in suite_names() if title in (name, name.replace("/", "-"))
        ]:  # files use the latter form
            raise ValueError(
                f"{path}: gridcount already includes a suite '{own[0]}'; give yours another name, so that"
                " results are not mixed up"
            )
    elif name in suite_names():
        path, title = FOLDER / f"{name}.toml", name
    elif path.suffix in (".yaml", ".yml"):
        raise ValueError(f"{path}: a suite must be a TOML file; docs/benchmark.md has an example")
    else:
        raise unknown("suite", name, (*suite_names(), "FILE.toml"))
    try:
        written = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: not a TOML file ({error})") from error
    return _checked(path, title, written)


def narrow(suite: Suite, only: tuple[str, ...] = (), scale: float = 1.0) -> list[Cell]:
    """The suite's cells whose algorithm, dataset or variant matches, each kind of pattern on its own, with
    a share of their updates."""
    cells = suite.cells()
    _validate_distinct_cells(cells)  # a preset may make two variants equal
    kinds = {
        kind: [p for p in only if any(_matches(getattr(cell, kind), p) for cell in cells)]
        for kind in ("algorithm", "dataset", "variant")
    }
    if lost := [pattern for pattern in only if not any(pattern in patterns for patterns in kinds.values())]:
        known = {getattr(cell, kind) for cell in cells for kind in kinds} - {""}
        raise unknown("part of the suite", lost[0], tuple(known))
    for kind, patterns in kinds.items():
        if patterns:
            cells = [
                cell for cell in cells if any(_matches(getattr(cell, kind), pattern) for pattern in patterns)
            ]
    if not 0 < scale <= 1:
        raise ValueError(f"scale is {scale}; it must be above 0 and at most 1")
    return [_scaled(cell, scale) for cell in cells]


def _matches(name: str, pattern: str) -> bool:
    return name == pattern or fnmatch(name, pattern)  # a name may look like a pattern


def _scaled(cell: Cell, scale: float) -> Cell:
    if scale == 1:
        return cell
    plan = cell.plan
    updates = min(max(round(plan.updates * scale / EPOCH), 1) * EPOCH, plan.updates)
    lengths = run_length_fields(ALGORITHMS[plan.algorithm])
    schedule = {name: round(plan.fields[name] * updates / plan.updates) for name in lengths}
    interval = _interval(plan.evaluate_every, updates)
    return cell.changed(updates=updates, evaluate_every=interval, fields=plan.fields | schedule)


def _interval(wanted: int, updates: int) -> int:
    """Updates between evaluations: as wanted, or less in a run that is shorter."""
    return wanted if wanted <= updates else max(updates // EVALUATIONS, 1)


def _validate_distinct_cells(cells: list[Cell]) -> None:
    """Raise ValueError if two variants are the same experiment."""
    found: dict[str, Cell] = {}
    for cell in cells:
        first = found.setdefault(f"{cell.dataset} {cell.plan.make_algorithm()}", cell)
        if first is not cell:
            what = f"{cell.algorithm} on {cell.dataset}, preset {cell.plan.preset}"
            raise ValueError(
                f"the variants '{first.variant}' and '{cell.variant}' are the same experiment: {what}"
            )


def _resolve_file(suite: Path, file: str) -> str:
    """The path of a suite's file: relative to the suite's folder, else unchanged."""
    found = suite.parent / file
    return str(found) if found.is_file() else file


KINDS: dict[str, tuple[type, str]] = {
    **dict.fromkeys(("title", "kind", "preset"), (str, "text")),
    **dict.fromkeys(("seeds", "updates", "evaluate_every", "episodes"), (int, "a whole number")),
    **dict.fromkeys(("datasets", "algorithms", "variants"), (list, "a list")),
    **dict.fromkeys(
        ("fields", "algorithm_fields", "published", "data", "environments", "columns"), (dict, "a table")
    ),
    "scored": (bool, "true or false"),
}
AVERAGE = "average"  # for a number that a paper prints only over all datasets


def _checked(path: Path, name: str, written: dict[str, Any]) -> Suite:
    """A validated suite; errors name the file and the entry."""
    try:
        _validate_entries(written)
        variants = tuple(_variant(entry) for entry in written.get("variants", [{}]))
        if twice := [
            name for name, times in Counter(variant.name for variant in variants).items() if times > 1
        ]:
            raise ValueError(f"two variants are called '{twice[0]}'")
        lists = {word: tuple(value) for word, value in written.items() if isinstance(value, list)}
        files = {dataset: _resolve_file(path, file) for dataset, file in written.get("data", {}).items()}
        suite = Suite(name=name, **(written | lists | {"variants": variants, "data": files}))
        _validate_distinct_cells(suite.cells())  # raises an error for unknown fields
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
    return suite


def _validate_entries(written: dict[str, Any]) -> None:
    """Raise ValueError for unknown entries, values of the wrong type, and names that are not in the suite."""
    _validate_kinds(written)
    for word in ("datasets", "algorithms"):
        if twice := [each for each, times in Counter(map(str, written[word])).items() if times > 1]:
            raise ValueError(f"'{twice[0]}' is listed twice in '{word}'")
    _validate_algorithms(written)
    _validate_datasets(written)
    if written.get("kind", "scores") not in ("scores", "ablation", "cost"):
        raise unknown("kind", written["kind"], ("scores", "ablation", "cost"))
    _validate_fields(written)
    for algorithm, numbers in written.get("published", {}).items():
        _validate_published(algorithm, numbers, (*written["datasets"], AVERAGE))


def _validate_kinds(written: dict[str, Any]) -> None:
    """Raise ValueError for entries that are unknown, of the wrong type, or missing."""
    for word, value in written.items():
        if word not in KINDS:
            raise unknown("entry", word, tuple(KINDS))
        kind, called = KINDS[word]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ValueError(f"'{word}' is {value!r}; it must be {called}")
    for needed in ("title", "datasets", "algorithms"):
        if not written.get(needed):
            raise ValueError(f"'{needed}' is missing")
    if "variants" in written and not written["variants"]:
        raise ValueError("'variants' is empty; leave it out for a suite without variants")


def _validate_algorithms(written: dict[str, Any]) -> None:
    """Raise ValueError for unknown algorithms, and for [algorithm_fields] of others."""
    algorithms = written["algorithms"]
    for algorithm in algorithms:
        if algorithm not in ALGORITHMS:
            raise unknown("algorithm", str(algorithm), tuple(ALGORITHMS))
    for algorithm, changed in written.get("algorithm_fields", {}).items():
        if algorithm not in algorithms:
            raise unknown("algorithm of this suite in [algorithm_fields]", algorithm, tuple(algorithms))
        if not isinstance(changed, dict):
            raise ValueError(f"[algorithm_fields] {algorithm} is {changed!r}; it must be a table of fields")


def _validate_datasets(written: dict[str, Any]) -> None:
    """Raise ValueError for unknown datasets, and for files, environments and columns of others."""
    datasets = written["datasets"]
    for dataset in datasets:
        if dataset not in NAMES and dataset not in written.get("data", {}):
            raise ValueError(
                f"{unknown('dataset', str(dataset), NAMES)}\nFor a file of your own add: [data] {dataset} ="
                " 'FILE'"
            )
    for word in ("data", "environments"):
        for dataset, value in written.get(word, {}).items():
            if dataset not in datasets:
                raise unknown(f"dataset in [{word}]", dataset, tuple(datasets))
            if not isinstance(value, str):
                raise ValueError(f"[{word}] {dataset} is {value!r}; it must be text")
    for dataset, reading in written.get("columns", {}).items():
        _validate_reading(dataset, reading, tuple(datasets))


def _validate_fields(written: dict[str, Any]) -> None:
    """Raise ValueError for [fields] that none of the algorithms has."""
    known = {
        name for algorithm in written["algorithms"] for name in ALGORITHMS[algorithm].__dataclass_fields__
    }
    for word in written.get("fields", {}):
        if word not in known:
            raise unknown("field of these algorithms", word, tuple(known))


def _validate_reading(dataset: str, reading: Any, datasets: tuple[str, ...]) -> None:
    """Raise ValueError if a table of [columns] is not one of roles and units of actions."""
    if dataset not in datasets:
        raise unknown("dataset in [columns]", dataset, datasets)
    if not isinstance(reading, dict):
        raise ValueError(
            f"[columns] {dataset} is {reading!r}; it must be a table such as {{ action = 'valve' }}"
        )
    units = {each.name for each in fields(ActionUnits)}
    for name, value in reading.items():
        if name not in (*FIELDS, *units):
            raise unknown(f"entry of [columns.{dataset}]", name, (*FIELDS, *units))
        if name in FIELDS:
            fits = isinstance(value, str)
        elif name == "scale_actions":
            fits = isinstance(value, bool)
        else:
            fits = all(map(_is_number, value if isinstance(value, list) else [value]))
        if not fits:
            raise ValueError(f"[columns.{dataset}] {name} is {value!r}; it must be {_kind_of(name)}")


def _as_bounds(name: str, value: Any) -> Any:
    """A bound of actions as a plan has it; anything else as it is."""
    if name not in ("action_low", "action_high"):
        return value
    return tuple(map(float, value if isinstance(value, list) else [value]))


def _kind_of(name: str) -> str:
    if name in FIELDS:
        return "text, as the flag of the same name takes it"
    return "true or false" if name == "scale_actions" else "a number or a list of numbers"


def _validate_published(algorithm: str, numbers: Any, datasets: tuple[str, ...]) -> None:
    """Raise ValueError if published numbers are not a mean and an optional spread for datasets of the
    suite."""
    if not isinstance(numbers, dict):
        raise ValueError(
            f"[published.{algorithm}] is {numbers!r}; write DATASET = [MEAN] or DATASET = [MEAN, SPREAD]"
        )
    for dataset, printed in numbers.items():
        if dataset not in datasets:
            raise unknown(f"dataset in [published.{algorithm}]", dataset, datasets)
        if not isinstance(printed, list) or len(printed) not in (1, 2) or not all(map(_is_number, printed)):
            raise ValueError(
                f"[published.{algorithm}] {dataset} is {printed!r}; it must be [MEAN] or [MEAN, SPREAD]"
            )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _variant(entry: Any) -> Variant:
    if (
        not isinstance(entry, dict)
        or not isinstance(entry.get("fields", {}), dict)
        or not isinstance(entry.get("name", ""), str)
    ):
        raise ValueError(f"a variant is {entry!r}; it must have a name and a table of fields")
    if lost := [word for word in entry if word not in ("name", "fields")]:
        raise unknown("entry of a variant", lost[0], ("name", "fields"))
    return Variant(**entry)
