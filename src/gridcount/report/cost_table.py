"""The table of what training costs, in time and memory."""

from typing import NamedTuple

import numpy as np

from gridcount.report.experiments import Section
from gridcount.report.protocol import protocol
from gridcount.report.table import Entry, Number, Table, divergences

HEADS = (
    "suite",
    "dataset",
    "method",
    "seeds_together",
    "cores",
    "seconds_per_1000_updates_and_seed",
    "seconds_per_1000_updates",
    "gigabytes",
    "machine",
)
TIME_NOTE = (
    "Time of training only, the median over intervals between evaluations. Evaluations and the first"
    " interval, which includes compilation, are not counted. Seeds trained together share the time, on one"
    " core unless stated otherwise. Other work on the machine increases it."
)
MEMORY_NOTE = "GB: peak memory of the process, including data, seeds and the compiler."


class Measured(NamedTuple):
    """The measurements of an experiment whose seeds shared some cores."""

    dataset: str
    method: str
    together: int  # seeds
    cores: int
    seconds: float  # per 1,000 updates of all seeds
    gigabytes: float | None
    machine: str

    @property
    def seconds_per_seed(self) -> float:
        """Seconds per 1,000 updates of one seed."""
        return self.seconds / self.together

    def record(self, suite: str) -> tuple[Number, ...]:
        """The line of the CSV."""
        where = (suite, self.dataset, self.method, self.together, self.cores)
        return (*where, self.seconds_per_seed, self.seconds, self.gigabytes, self.machine)


def cost_table(section: Section) -> Table | None:
    """Seconds per 1,000 updates of a seed: a line per method and how many seeds shared how many cores, the
    mean over datasets first."""
    measured = _measured(section)
    if not measured:
        return None
    timed = {each.dataset for each in measured}
    datasets = [dataset for dataset in section.datasets if dataset in timed]
    printed = section.layout.published if section.layout.kind == "cost" else {}
    memory = any(each.gigabytes is not None for each in measured)
    columns = (
        "method",
        "seeds together",
        *(["mean"] if len(datasets) > 1 else []),
        *(["paper (one GPU)"] if printed else []),
        *datasets,
        *(["GB"] if memory else []),
    )
    algorithms = {each.method: each.algorithm for each in section.experiments}
    rows = []
    for line in _lines(measured):
        paper = _paper_cost(printed.get(algorithms[line[0].method], {}))
        theirs = [Entry(paper, muted=True)] if printed else []
        held = [_memory_entry(line)] if memory else []
        rows.append((*_headings(line), *_time_entries(line, datasets, theirs), *held))
    machines = (name for each in section.experiments for name in each.recorded("machine"))
    return Table(
        "cost",
        "Cost: seconds per 1,000 updates and seed",
        columns,
        tuple(rows),
        (HEADS, tuple(each.record(section.layout.name) for each in measured)),
        (*protocol(section.experiments), ("Machine", "; ".join(dict.fromkeys(machines)) or "not recorded")),
        (TIME_NOTE, *([MEMORY_NOTE] if memory else []), *divergences(section)),
    )


def _measured(section: Section) -> list[Measured]:
    found = []
    for each in section.experiments:
        machine = "; ".join(each.recorded("machine")) or "not recorded"
        for shared, seconds in each.seconds_per_1000().items():
            gigabytes = each.gigabytes(shared)
            found.append(Measured(each.dataset, each.method, *shared, seconds, gigabytes, machine))
    return found


def _lines(measured: list[Measured]) -> list[list[Measured]]:
    """The measurements of each line of the table: one method, as many seeds on as many cores."""
    lines: dict[tuple[str, int, int], list[Measured]] = {}
    for each in measured:
        lines.setdefault((each.method, each.together, each.cores), []).append(each)
    return list(lines.values())


def _headings(line: list[Measured]) -> tuple[Entry, Entry]:
    method, together, cores = line[0].method, line[0].together, line[0].cores
    return Entry(method), Entry(f"{together} on {cores} cores" if cores > 1 else str(together))


def _time_entries(line: list[Measured], datasets: list[str], theirs: list[Entry]) -> list[Entry]:
    """The mean over datasets, the paper's, and the time of each dataset."""
    seconds = {each.dataset: each.seconds_per_seed for each in line}
    cells = [Entry(f"{seconds[dataset]:.2f}" if dataset in seconds else "") for dataset in datasets]
    if len(datasets) == 1:
        return [*theirs, *cells]
    part = "" if len(seconds) == len(datasets) else f"of {len(seconds)} datasets"
    return [Entry(f"{np.mean(list(seconds.values())):.2f}", part), *theirs, *cells]


def _memory_entry(line: list[Measured]) -> Entry:
    held = [each.gigabytes for each in line if each.gigabytes is not None]
    return Entry(f"{max(held):.1f}" if held else "")


def _paper_cost(printed: dict[str, list[float]]) -> str:
    """The paper's cost of an algorithm, seconds and gigabytes over all its datasets."""
    seconds, *gigabytes = printed.get("average", [None])
    return "" if seconds is None else f"{seconds:.1f}" + "".join(f" ({each:.1f} GB)" for each in gigabytes)
