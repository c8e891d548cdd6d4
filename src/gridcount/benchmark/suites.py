"""Suites: which cells make up a table or a figure. Each is a small TOML file, ours beside this one or a user's own."""

import tomllib
from collections import Counter
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from gridcount.algorithms import ALGORITHMS, make_algorithm
from gridcount.algorithms.presets import preset_fields
from gridcount.benchmark.cells import Cell
from gridcount.data.catalogue import NAMES, unknown

FOLDER = Path(__file__).parent / "suites"
EPOCH = 1000  # updates
EVALUATIONS = 5  # of a run shorter than a suite's interval: it has a curve and a headline over several all the same
SCHEDULE = "schedule_updates"  # the field of algorithms whose steps fall over a run


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
    evaluate_every: int = 5000
    episodes: int = 20
    variants: tuple[Variant, ...] = (Variant(),)
    fields: dict[str, Any] = field(default_factory=dict)  # changed for every algorithm that has the field
    algorithm_fields: dict[str, dict[str, Any]] = field(default_factory=dict)  # algorithm -> what is changed for it alone
    published: dict[str, dict[str, list[float]]] = field(default_factory=dict)  # algorithm -> dataset -> mean, and spread where printed
    data: dict[str, str] = field(default_factory=dict)  # dataset -> a file to read it from
    environments: dict[str, str] = field(default_factory=dict)  # dataset -> a Gymnasium id to score it in, where it has none of its own
    scored: bool = True  # whether policies are rolled out at all

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
        updates = self.updates or EPOCH * preset_fields(algorithm, dataset, self.preset)["epochs"]
        if SCHEDULE in known:
            changed = {SCHEDULE: updates} | changed  # what falls over a run falls over this one
        changes = {name: tuple(value) if isinstance(value, list) else value for name, value in changed.items()}
        make_algorithm(algorithm, dataset, self.preset, **changes)  # an error where a field is unknown
        return Cell(
            suite=self.name,
            algorithm=algorithm,
            dataset=dataset,
            variant=variant.name,
            preset=self.preset,
            changes=changes,
            seeds=tuple(range(self.seeds)),
            updates=updates,
            evaluate_every=_interval(self.evaluate_every, updates),
            episodes=self.episodes,
            data=self.data.get(dataset, dataset),
            environment=self.environments.get(dataset),
            scored=self.scored,
        )


def suite_names() -> list[str]:
    """The suites that come with gridcount."""
    return sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.toml"))


def read_suite(name: str) -> Suite:
    """A suite by name, or a user's own from a TOML file."""
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise FileNotFoundError(f"{path}: there is no such file")
        title = path.stem
    elif name in suite_names():
        path, title = FOLDER / f"{name}.toml", name
    else:
        raise unknown("suite", name, (*suite_names(), "FILE.toml"))
    try:
        written = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a TOML file ({error})") from error
    return _checked(path, title, written)


def narrow(suite: Suite, only: tuple[str, ...] = (), scale: float = 1.0) -> list[Cell]:
    """The suite's cells whose algorithm, dataset or variant matches, each kind of pattern on its own, with a share of their updates."""
    cells = suite.cells()
    kinds = {
        kind: [p for p in only if any(fnmatch(getattr(cell, kind), p) for cell in cells)] for kind in ("algorithm", "dataset", "variant")
    }
    if lost := [pattern for pattern in only if not any(pattern in patterns for patterns in kinds.values())]:
        known = {getattr(cell, kind) for cell in cells for kind in kinds} - {""}
        raise unknown("part of the suite", lost[0], tuple(known))
    for kind, patterns in kinds.items():
        if patterns:
            cells = [cell for cell in cells if any(fnmatch(getattr(cell, kind), pattern) for pattern in patterns)]
    if not 0 < scale <= 1:
        raise ValueError(f"scale is {scale}; it is a share of the updates, above 0 and at most 1")
    return [_scaled(cell, scale) for cell in cells]


def _scaled(cell: Cell, scale: float) -> Cell:
    if scale == 1:
        return cell
    updates = max(round(cell.updates * scale / EPOCH), 1) * EPOCH
    schedule = {name: round(value * scale) for name, value in cell.changes.items() if name == SCHEDULE}
    return replace(cell, updates=updates, evaluate_every=_interval(cell.evaluate_every, updates), changes=cell.changes | schedule)


def _interval(wanted: int, updates: int) -> int:
    """Updates between evaluations: as wanted, or less in a run that would end before the first."""
    return wanted if wanted < updates else max(updates // EVALUATIONS, 1)


def _refuse_namesakes(cells: list[Cell]) -> None:
    """Variants that change nothing against each other would be one experiment with two names."""
    found: dict[str, Cell] = {}
    for cell in cells:
        algorithm = make_algorithm(cell.algorithm, cell.dataset, cell.preset, **cell.changes)
        first = found.setdefault(f"{cell.dataset} {algorithm}", cell)
        if first is not cell:
            raise ValueError(f"the variants '{first.variant}' and '{cell.variant}' are the same {cell.algorithm} on {cell.dataset}")


def _beside(suite: Path, file: str) -> str:
    """A file that a suite names, from the suite's folder; or from here, or the name of an imported log."""
    found = suite.parent / file
    return str(found) if found.is_file() else file


def _checked(path: Path, name: str, written: dict[str, Any]) -> Suite:
    """A suite from what its file says, or an error that names the file and the word."""
    known = tuple(field.name for field in fields(Suite) if field.name != "name")
    for word in written:
        if word not in known:
            raise ValueError(f"{path}: {unknown('entry', word, known)}")
    for needed in ("title", "datasets", "algorithms"):
        if not written.get(needed):
            raise ValueError(f"{path}: '{needed}' is missing")
    for algorithm in (*written["algorithms"], *written.get("algorithm_fields", {})):
        if algorithm not in ALGORITHMS:
            raise ValueError(f"{path}: {unknown('algorithm', algorithm, tuple(ALGORITHMS))}")
    for dataset in written["datasets"]:
        if dataset not in NAMES and dataset not in written.get("data", {}):
            raise ValueError(f"{path}: {unknown('dataset', dataset, NAMES)}\nFor a file of your own add: [data] {dataset} = 'FILE'")
    if written.get("kind", "scores") not in ("scores", "ablation", "cost"):
        raise ValueError(f"{path}: {unknown('kind', written['kind'], ('scores', 'ablation', 'cost'))}")
    lists = {word: tuple(value) for word, value in written.items() if isinstance(value, list)}
    try:
        variants = tuple(Variant(**variant) for variant in written.get("variants", [{}]))
        if twice := [name for name, times in Counter(variant.name for variant in variants).items() if times > 1]:
            raise ValueError(f"two variants are called '{twice[0]}'")
        files = {dataset: _beside(path, file) for dataset, file in written.get("data", {}).items()}
        suite = Suite(name=name, **(written | lists | {"variants": variants, "data": files}))
        _refuse_namesakes(suite.cells())  # which refuses unknown fields
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
    return suite
