"""Which cells are still to run: finished ones are skipped, also those that another suite in the folder ran."""

from collections.abc import Sequence
from pathlib import Path

from gridcount.benchmark.cells import SEEDS, Cell, seeds_of
from gridcount.benchmark.store import finished_seeds, read_results, write_rows
from gridcount.files.archive import numbered
from gridcount.training.logs import Row


def missing(cells: Sequence[Cell], out: Path) -> list[Cell]:
    """The cells to run, without finished seeds; seeds that were started together stay together.

    Seeds that another suite in the folder finished are excluded: `reuse_finished` copies them.
    """
    stored = _stored(out)
    left = []
    for cell in cells:
        key = cell.key()
        wanted = set(cell.seeds) - finished_seeds(stored, None, key)
        for begun in sorted((out / "cells").glob(f"{key}{SEEDS}*")):
            seeds = seeds_of(begun.name)
            if numbered(begun / "checkpoints") and set(seeds) <= wanted:
                left.append(cell.changed(seeds=seeds))
                wanted -= set(seeds)
        if wanted:
            left.append(cell.changed(seeds=tuple(sorted(wanted))))
    return left


def reuse_finished(cells: Sequence[Cell], out: Path) -> None:
    """Copy finished results of the same experiments in this folder, by any suite, with the present names."""
    _rename(cells, out)
    stored = _stored(out)
    for cell in cells:
        key = cell.key()
        own = finished_seeds(stored, cell.suite, key)
        for suite in sorted({row["suite"] for row in stored if row["key"] == key} - {cell.suite}):
            seeds = (finished_seeds(stored, suite, key) & set(cell.seeds)) - own
            if seeds:
                named = {"suite": cell.suite, "variant": cell.variant, "preset": cell.plan.preset}
                rows = [
                    row | named
                    for row in stored
                    if (row["suite"], row["key"]) == (suite, key) and row["seed"] in seeds
                ]
                write_rows(cell.changed(seeds=tuple(sorted(seeds))).results(out / "results"), rows)
                own |= seeds


def _rename(cells: Sequence[Cell], out: Path) -> None:
    """Rename finished experiments to the suite's present names: a variant's name does not define an
    experiment."""
    names = {
        (cell.suite, cell.key()): {"variant": cell.variant, "preset": cell.plan.preset} for cell in cells
    }
    for path in sorted((out / "results").glob("*.parquet")):
        rows = read_results(path)
        renamed = [row | names.get((row["suite"], row["key"]), {}) for row in rows]
        if renamed != rows:
            write_rows(path, renamed)


def _stored(out: Path) -> list[Row]:
    return read_results(out / "results") if any((out / "results").glob("*.parquet")) else []
