"""Run directories: a new one for a new run, the existing one for a resumed run; nothing is overwritten."""

import re
from itertools import count
from pathlib import Path

from gridcount.files import validate_no_links
from gridcount.files.archive import numbered
from gridcount.training.plan import read_plan

RUNS = Path("runs")
LOCK = "run.lock"  # the only file of a run that was killed before it wrote anything


def claim(given: Path | None, stem: str) -> Path:
    """The directory given, or the next free one under runs/: created immediately, so that runs that start
    together get different ones."""
    if given is not None:
        _validate_unused(given)
        given.mkdir(parents=True, exist_ok=True)
        return given
    stem = re.sub(r"[*?\[\]:/]+", "-", stem).strip("-")  # of a pattern of files or a database
    for number in count(1):
        path = RUNS / (stem if number == 1 else f"{stem}-{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        return path
    raise AssertionError("unreachable")


def find_unfinished(given: Path | None, dataset: str, algorithm: str | None = None) -> Path:
    """The run to resume: the one given, or the newest unfinished one of this dataset, of any algorithm
    unless one is named."""
    if given is not None:
        if not (given / "config.json").exists():
            raise FileNotFoundError(
                f"there is no unfinished run to resume under {given}; leave out --resume to start one"
            )
        validate_no_links(given)
        return given
    unreadable = []
    for candidate in sorted(RUNS.glob("*/config.json"), key=lambda path: -path.parent.stat().st_mtime):
        try:
            plan = read_plan(candidate.parent)
        except (ValueError, OSError) as error:
            unreadable.append(str(error))
            continue
        wanted = plan.dataset == dataset and algorithm in (None, plan.algorithm)
        if wanted and not _finished(candidate.parent, plan.updates):
            validate_no_links(candidate.parent)
            return candidate.parent
    what = dataset if algorithm is None else f"{algorithm} on {dataset}"
    message = f"there is no unfinished run to resume of {what} under {RUNS}"
    notes = "".join(f"\nSkipped: {problem}" for problem in unreadable)
    raise FileNotFoundError(
        f"{message}; name its directory with --run, or leave out --resume to start one{notes}"
    )


def _validate_unused(directory: Path) -> None:
    """Raise ValueError if a directory is not empty, so that nothing is overwritten."""
    if (directory / "config.json").exists():
        raise ValueError(
            f"{directory} already holds a run; resume it with --resume, or choose another directory with"
            " --run"
        )
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory} is not a directory; name another with --run")
    if held := sorted(path.name for path in directory.glob("*") if path.name != LOCK):
        found = ", ".join(held[:3]) + (" and more" if len(held) > 3 else "")
        raise ValueError(
            f"{directory} is not empty (it holds {found}); choose an empty or new directory with --run"
        )


def _finished(directory: Path, updates: int) -> bool:
    saved = numbered(directory / "checkpoints")
    return bool(saved) and int(saved[-1].stem) >= updates
