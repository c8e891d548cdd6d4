"""Run directories: a new one for a new run, the right old one for a resumed run, never one that would be overwritten."""

from itertools import count
from pathlib import Path

from gridcount.training.checkpoints import numbered
from gridcount.training.run import read_plan

RUNS = Path("runs")


def claim(given: Path | None, stem: str) -> Path:
    """The directory given, or the next free one under runs/: made at once, so that of two runs that start together each gets its own."""
    if given is not None:
        if (given / "config.json").exists():
            raise ValueError(f"{given} already holds a run; go on with it by --resume, or name another directory with --run")
        given.mkdir(parents=True, exist_ok=True)
        return given
    for number in count(1):
        path = RUNS / (stem if number == 1 else f"{stem}-{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        return path
    raise AssertionError("numbers do not end")


def find_unfinished(given: Path | None, stem: str) -> Path:
    """The run to go on with: the one given, or the newest of this dataset and algorithm that is not finished."""
    candidates = [given] if given else sorted(RUNS.glob(f"{stem}*"), key=lambda path: -path.stat().st_mtime)
    for candidate in candidates:
        if (candidate / "config.json").exists() and (given or not _finished(candidate)):
            return candidate
    raise FileNotFoundError(f"there is no unfinished run to resume under {given or RUNS / f'{stem}*'}; leave out --resume to start one")


def _finished(directory: Path) -> bool:
    saved = numbered(directory / "checkpoints")
    return bool(saved) and int(saved[-1].stem) >= read_plan(directory).updates
