"""Cells that are trained without some episodes and estimated on those; no environment is needed."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from gridcount.benchmark.cells import Cell, Status, diverged_rows, prepare_cell, rows_of
from gridcount.data.split import Split, take_episodes
from gridcount.estimation.measured import Measured, measure
from gridcount.estimation.problem import Rule
from gridcount.estimation.runs import Evaluated
from gridcount.files import decode_record, locked, read_record, write_whole
from gridcount.files.archive import numbered
from gridcount.training.divergence import Diverged
from gridcount.training.experiment import Experiment
from gridcount.training.logs import Row
from gridcount.training.policies import policies_of
from gridcount.transitions import Transitions

FILE = "estimates.json"
COLUMN = "estimate"  # of a row, as JSON
AGAIN = "delete it, and it is estimated again"


@dataclass(frozen=True)
class Pair:
    """A cell's policies and the log's own, estimated alike."""

    policy: Measured
    log: Measured


@dataclass(frozen=True)
class Found:
    """What was estimated of a cell, by number of updates; on the episodes that confirm, only at its end."""

    after: dict[int, Pair] = field(default_factory=dict)
    confirmed: Pair | None = None
    stopped: bool = False  # training stopped early, because an estimate was below its bar


def halves(data: Transitions, split: Split) -> tuple[Evaluated, Evaluated]:
    """The log as the ranking sees it, and the episodes that only confirm.

    The ranking fits values to the training episodes and evaluates them on one half of those held out. The
    other half is fitted and evaluated by itself, so that no network and no episode of the ranking is part of
    it.
    """
    held = split.held_out(data)
    order = np.random.default_rng([split.seed, 1]).permutation(np.flatnonzero(held))
    if len(order) < 4:
        raise ValueError(
            f"{data.name}: {len(order)} episodes are held out, and at least 4 are needed; "
            "hold out a larger share with --hold-out"
        )
    confirming = np.zeros_like(held)
    confirming[order[len(order) // 2 :]] = True
    ranking = Evaluated(take_episodes(data, ~confirming), (held & ~confirming)[~confirming])
    return ranking, Evaluated(take_episodes(data, confirming), None)


def run_estimated(cell: Cell, directory: Path) -> list[Row]:
    """Train and estimate a cell in its directory, resuming if it was stopped; returns its rows."""
    wanted = cell.estimated
    if wanted is None:
        raise ValueError(f"{cell.label}: the cell says nothing about estimates")
    with locked(directory / "cell"):
        experiment, data = prepare_cell(cell)
        ranking, confirming = halves(data, cell.plan.split())
        found = _read(directory)
        bars = dict(zip(wanted.after, wanted.bars, strict=False))  # there may be fewer
        for updates in wanted.after:
            try:
                _train_to(updates, experiment, cell, directory)
            except Diverged as error:
                return diverged_rows(cell, directory, error)
            if updates not in found.after:
                pair = _measure(cell, directory, updates, ranking, None)
                found = replace(found, after=found.after | {updates: pair})
                _write(directory, found)
            if found.after[updates].policy.lower < bars.get(updates, -np.inf):
                found = replace(found, stopped=True)
                break
        if wanted.confirm and found.confirmed is None:
            pair = _measure(cell, directory, cell.updates, confirming, experiment.data)
            found = replace(found, confirmed=pair)
            _write(directory, found)
        rows = rows_of(cell, directory)
        return [*rows[:-1], rows[-1] | {COLUMN: json.dumps(asdict(found))}]


def estimates_of(rows: Sequence[Row], source: Path) -> Found | None:
    """What was estimated of a cell, from its rows; None if it diverged."""
    texts = [row[COLUMN] for row in rows if COLUMN in row]
    return decode_record(texts[-1].encode(), Found, str(source), AGAIN) if texts else None


def _train_to(updates: int, experiment: Experiment, cell: Cell, directory: Path) -> None:
    """Train up to a number of updates, with the schedules of the whole run."""
    saved = numbered(directory / "checkpoints")
    if saved and int(saved[-1].stem) >= updates:
        return
    with Status(directory, cell, directory) as status:
        part = replace(experiment, plan=replace(experiment.plan, updates=updates))
        part.train(directory, status, keep=1, clone=False)


def _measure(
    cell: Cell, directory: Path, updates: int, episodes: Evaluated, counted: Transitions | None
) -> Pair:
    assert cell.estimated is not None
    rules: dict[str, Rule] = {f"seed {policy.seed}": policy for policy in policies_of(directory, at=updates)}
    return Pair(*measure(rules, episodes, cell.estimated.settings, counted))


def _read(directory: Path) -> Found:
    path = directory / FILE
    return read_record(path, Found, AGAIN) if path.exists() else Found()


def _write(directory: Path, found: Found) -> None:
    write_whole(directory / FILE, json.dumps(asdict(found)))
