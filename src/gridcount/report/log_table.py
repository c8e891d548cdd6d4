"""The report's table that compares policies with the log: the share of actions in it, and estimated
values."""

import numpy as np

from gridcount.counts.support import EXPECTED, Support
from gridcount.report.experiments import Experiment, Section
from gridcount.report.protocol import protocol
from gridcount.report.scores import LAST
from gridcount.report.table import Entry, Number, Table

SHARES = Support._fields  # metrics that the log's own actions have too
FIGURES = {
    "in_log": "actions in the log",
    "action_distance": "distance to the log's",
    "q_data": "Q of the log's decisions",
}


def log_table(section: Section) -> Table | None:
    """A line per experiment: the last evaluations beside what the log's own actions reach; None where
    nothing was measured."""
    measured = [
        each for each in section.experiments if any(_last(each, name) is not None for name in FIGURES)
    ]
    if not measured or (section.scored and all(_last(each, "in_log") is None for each in measured)):
        return None  # scores are more informative than values
    shown = [name for name in FIGURES if any(_last(each, name) is not None for each in measured)]
    rows, records = [], []
    for each in measured:
        rows.append((Entry(each.dataset), Entry(each.method), *(_entry(each, name) for name in shown)))
        figures: list[Number] = [_last(each, name) for name in FIGURES]
        expected: list[Number] = [_last(each, EXPECTED.format(name)) for name in SHARES]
        records.append((section.layout.name, each.dataset, each.method, len(each.seeds), *figures, *expected))
    heads = ("suite", "dataset", "method", "seeds", *FIGURES, *map(EXPECTED.format, SHARES))
    notes = (
        f"The mean over seeds of the last {LAST} evaluations, at a fixed sample of the log's states. In"
        " brackets: the same of the log's own"
        " actions, each compared with the others. Distance: to the nearest logged action in the state's"
        " cell, as a share of the range.",
    )
    title = "Policy compared with the log: share of its actions in the log, and estimated values"
    columns = ("dataset", "method", *(FIGURES[name] for name in shown))
    return Table("log", title, columns, tuple(rows), (heads, tuple(records)), protocol(measured), notes)


def _entry(each: Experiment, name: str) -> Entry:
    value, expected = _last(each, name), _last(each, EXPECTED.format(name))
    if value is None:
        return Entry("")
    if name not in SHARES:
        return Entry(f"{value:.4g}")
    return Entry(f"{value:.1%}", "" if expected is None else f"log {expected:.1%}")


def _last(each: Experiment, name: str) -> float | None:
    """The mean over seeds of a figure's last evaluations."""
    curve = each.curve(name)
    return None if curve is None else float(np.nanmean(curve.values[:, -LAST:]))
