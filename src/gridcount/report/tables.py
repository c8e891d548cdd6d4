"""The report's tables as data."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gridcount.report.analysis import AGGREGATES
from gridcount.report.experiments import Experiment, Section
from gridcount.report.protocol import protocol
from gridcount.report.scores import LAST
from gridcount.report.statistics import Estimate

PAPER_ONLY = "paper only"
OTHER_DATA = "†"  # marks a difference between scores on different data
FEW = 5  # with fewer seeds a bootstrap interval is too narrow
Number = float | int | str | None


@dataclass(frozen=True)
class Entry:
    """The content of a table's cell."""

    text: str
    under: str = ""  # a second, smaller line
    difference: float | None = None  # to the paper
    marked: bool = False  # the difference is between scores on different data
    best: bool = False  # of its line
    muted: bool = False  # not ours

    def plain(self) -> str:
        """The cell as one line."""
        difference = (
            "" if self.difference is None else f"{self.difference:+.1f}{OTHER_DATA if self.marked else ''}"
        )
        under = ", ".join(filter(None, (self.under, difference)))
        return f"{self.text} ({under})" if under and self.text else under or self.text


@dataclass(frozen=True)
class Table:
    """A table, the protocol that made it, and the numbers behind it."""

    name: str  # its file's
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]  # the first entry is the line's heading
    records: tuple[tuple[str, ...], tuple[tuple[Number, ...], ...]]  # columns and lines of its CSV
    protocol: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = field(default=())


def score_table(section: Section) -> Table | None:
    """Headline scores, a line per dataset and a column per method, with the paper's numbers and the
    differences."""
    if not section.scored:
        return None
    ours = tuple(dict.fromkeys(each.method for each in section.experiments if each.scores or each.diverged))
    algorithms = {each.algorithm for each in section.scored}
    theirs = tuple(
        name
        for name, printed in section.layout.published.items()
        if name not in algorithms
        and section.layout.kind == "scores"
        and any(dataset in printed for dataset in section.datasets)
    )
    rows, records = [], []
    for dataset in section.datasets:
        cells = [section.find(dataset, method) for method in ours]
        means = {index: cell.scores.mean for index, cell in enumerate(cells) if cell and cell.scores}
        if not means and not any(cell and cell.diverged for cell in cells):
            continue
        best = max(means, key=lambda index: means[index]) if len(means) > 1 else None
        entries = [
            _score_entry(section, cell, index == best)
            if cell
            else _paper_entry(section, dataset, method, "paper ")
            for index, (method, cell) in enumerate(zip(ours, cells, strict=True))
        ]
        rows.append((Entry(dataset), *entries, *(_paper_entry(section, dataset, name) for name in theirs)))
        records += [_score_record(section, cell) for cell in cells if cell and cell.scores]
        absent = [method for method, cell in zip(ours, cells, strict=True) if cell is None]
        records += [
            _paper_record(dataset, name, printed)
            for name in (*absent, *theirs)
            if (printed := section.published(dataset, name))
        ]
    if len(rows) > 1:
        rows.append(_averages(rows, section, ours, theirs))
    columns = ("dataset", *ours, *(f"{name} ({PAPER_ONLY})" for name in theirs))
    heads = (
        "suite",
        "dataset",
        "method",
        "algorithm",
        "variant",
        "metric",
        "seeds",
        "mean",
        "std",
        "paper_mean",
        "paper_std",
        "difference",
    )
    more = ("each_seed", "updates", "episodes", "data", "preset")
    title = f"Scores: {_headline(section)}" + (
        ", ± standard deviation over seeds" if _several_seeds(section) else ""
    )
    notes = _score_notes(section, rows)
    return Table(
        "scores",
        title,
        columns,
        tuple(rows),
        ((*heads, *more), tuple(records)),
        protocol(section.scored),
        notes,
    )


def oracle_table(section: Section) -> Table | None:
    """The best evaluation of each seed, which cannot be selected offline."""
    if not section.scored:
        return None
    methods = tuple(dict.fromkeys(each.method for each in section.scored))
    rows, records = [], []
    for dataset in section.datasets:
        line = [Entry(dataset)]
        for method in methods:
            cell = section.find(dataset, method)
            if cell is None or cell.scores is None:
                line.append(Entry(""))
                continue
            best = list(cell.scores.oracle().values())
            line.append(Entry(_spread(float(np.mean(best)), float(np.std(best)) if len(best) > 1 else None)))
            records.append(
                (section.layout.name, dataset, method, len(best), float(np.mean(best)), float(np.std(best)))
            )
        if any(entry.text for entry in line[1:]):
            rows.append(tuple(line))
    heads = ("suite", "dataset", "method", "seeds", "oracle_mean", "oracle_std")
    note = "An oracle: selecting a run's best evaluation needs the environment, which offline learning does not have. For comparison only."
    title = "Oracle: the best evaluation of each seed"
    return Table(
        "oracle",
        title,
        ("dataset", *methods),
        tuple(rows),
        (heads, tuple(records)),
        protocol(section.scored),
        (note, *_divergences(section)),
    )


def aggregate_table(section: Section) -> Table | None:
    """IQM, mean and optimality gap over the datasets that all methods have."""
    scores = section.common()
    if not scores:
        return None
    rows, records = [], []
    for method in scores:
        estimates = [found[method] for found in section.analysis.aggregates.values()]
        rows.append((Entry(method), *(_estimate_entry(each, 100) for each in estimates)))
        for name, each in zip(AGGREGATES, estimates, strict=True):
            records.append((section.layout.name, method, name, 100 * each.value, *_ends(each, 100)))
    heads = ("suite", "method", "statistic", "value", "low", "high")
    title = "Over datasets: interquartile mean, mean and optimality gap"
    columns = ("method", "IQM", "mean", "optimality gap")
    facts = protocol(section.aggregated())
    return Table(
        "aggregates", title, columns, tuple(rows), (heads, tuple(records)), facts, _aggregate_notes(section)
    )


def improvement_table(section: Section) -> Table | None:
    """The probability that a run of one method beats a run of another."""
    scores = section.common()
    if len(scores) < 2:
        return None
    pairs = section.analysis.improvements
    columns = ("P(line > column)", *scores)
    rows = [
        (Entry(a), *(Entry("") if a == b else _estimate_entry(pairs[a, b], 1, 2) for b in scores))
        for a in scores
    ]
    records = [(section.layout.name, a, b, each.value, *_ends(each, 1)) for (a, b), each in pairs.items()]
    heads = ("suite", "method", "than", "probability", "low", "high")
    title = "Probability of improvement: a run of the row's method scores higher than a run of the column's"
    facts = protocol(section.aggregated())
    return Table(
        "improvement", title, columns, tuple(rows), (heads, tuple(records)), facts, _aggregate_notes(section)
    )


def cost_table(section: Section) -> Table | None:
    """Seconds per 1,000 updates of a seed: a line per method and how many seeds shared how many cores, the
    mean over datasets first."""
    lines: dict[tuple[str, tuple[int, int]], dict[str, float]] = {}
    memory: dict[tuple[str, tuple[int, int]], float] = {}
    records = []
    printed = section.layout.published if section.layout.kind == "cost" else {}
    algorithms = {each.method: each.algorithm for each in section.experiments}
    for each in section.experiments:
        for shared, seconds in each.seconds_per_1000().items():
            together, cores = shared
            lines.setdefault((each.method, shared), {})[each.dataset] = seconds / together
            machine = "; ".join(each.recorded("machine")) or "not recorded"
            most = each.gigabytes(shared)
            if most is not None:
                memory[each.method, shared] = max(most, memory.get((each.method, shared), 0))
            records.append(
                (
                    section.layout.name,
                    each.dataset,
                    each.method,
                    together,
                    cores,
                    seconds / together,
                    seconds,
                    most,
                    machine,
                )
            )
    if not lines:
        return None
    datasets = [dataset for dataset in section.datasets if any(dataset in line for line in lines.values())]
    rows = []
    for (method, shared), line in lines.items():
        together, cores = shared
        paper = _paper_cost(printed.get(algorithms[method], {}))
        theirs = [] if not printed else [Entry(paper, muted=True)]
        held = (
            [Entry(f"{memory[method, shared]:.1f}" if (method, shared) in memory else "")] if memory else []
        )
        cells = [Entry(f"{line[dataset]:.2f}" if dataset in line else "") for dataset in datasets]
        average = Entry(
            f"{np.mean(list(line.values())):.2f}",
            "" if len(line) == len(datasets) else f"of {len(line)} datasets",
        )
        seeds = Entry(f"{together} on {cores} cores" if cores > 1 else str(together))
        rows.append((Entry(method), seeds, *([average] if len(datasets) > 1 else []), *theirs, *cells, *held))
    ours = (
        *(["mean"] if len(datasets) > 1 else []),
        *(["paper (one GPU)"] if printed else []),
        *datasets,
        *(["GB"] if memory else []),
    )
    columns = ("method", "seeds together", *ours)
    heads = (
        *(
            "suite",
            "dataset",
            "method",
            "seeds_together",
            "cores",
            "seconds_per_1000_updates_and_seed",
            "seconds_per_1000_updates",
        ),
        *("gigabytes", "machine"),
    )
    notes = [
        "Time of training only, the median over intervals between evaluations. Evaluations and the first"
        " interval, which includes "
        "compilation, are not counted. Seeds trained together share the time, on one core unless stated"
        " otherwise. Other work on "
        "the machine increases it."
    ]
    if memory:
        notes.append("GB: peak memory of the process, including data, seeds and the compiler.")
    machines = (
        "; ".join(dict.fromkeys(name for each in section.experiments for name in each.recorded("machine")))
        or "not recorded"
    )
    facts = (*protocol(section.experiments), ("Machine", machines))
    title = "Cost: seconds per 1,000 updates and seed"
    return Table(
        "cost", title, columns, tuple(rows), (heads, tuple(records)), facts, (*notes, *_divergences(section))
    )


def ablation_table(section: Section) -> Table | None:
    """The numbers behind the ablation's figure, a line per setting."""
    if not is_ablation(section):
        return None
    methods = tuple(
        dict.fromkeys(each.method for each in section.experiments if each.scores or each.diverged)
    )
    rows, records = [], []
    for method in methods:
        cells = [section.find(dataset, method) for dataset in section.datasets]
        rows.append((Entry(method), *(_score_entry(section, cell, False) for cell in cells)))
        records += [_score_record(section, cell)[:9] for cell in cells if cell and cell.scores]
    heads = ("suite", "dataset", "method", "algorithm", "variant", "metric", "seeds", "mean", "std")
    title = f"Settings: {_headline(section)}, ± standard deviation over seeds"
    columns = ("setting", *section.datasets)
    return Table(
        "ablation",
        title,
        columns,
        tuple(rows),
        (heads, tuple(records)),
        protocol(section.scored),
        _divergences(section),
    )


def is_ablation(section: Section) -> bool:
    """Whether settings of an algorithm are compared: the suite is an ablation, or has several settings of
    one."""
    if not section.scored:
        return False
    settings = {(each.algorithm, each.variant) for each in section.scored}
    return section.layout.kind == "ablation" or len(settings) > len({algorithm for algorithm, _ in settings})


def _score_entry(section: Section, cell: Experiment | None, best: bool) -> Entry:
    if cell is None or cell.scores is None:
        return Entry("diverged" if cell and cell.diverged else "")
    scores = cell.scores
    lost = f"{len(cell.diverged)} of {len(cell.seeds)} diverged" if cell.diverged else ""
    text = _spread(scores.mean, scores.spread if len(scores.seeds) > 1 else None)
    printed = (
        section.published(cell.dataset, cell.algorithm)
        if scores.metric == "score" and not cell.variant
        else None
    )
    if printed is None:
        return Entry(
            text,
            under=", ".join(filter(None, ("" if scores.metric == "score" else "return", lost))),
            best=best,
        )
    marked = cell.source != "D4RL's own"
    return Entry(
        text,
        ", ".join(filter(None, (lost, f"paper {_spread(*printed)}"))),
        scores.mean - printed[0],
        marked,
        best,
    )


def _paper_entry(section: Section, dataset: str, algorithm: str, before: str = "") -> Entry:
    """The paper's number where there is none of ours."""
    printed = section.published(dataset, algorithm)
    return Entry("" if printed is None else f"{before}{_spread(*printed)}", muted=True)


def _score_record(section: Section, cell: Experiment) -> tuple[Number, ...]:
    assert cell.scores is not None
    scores, printed = (
        cell.scores,
        section.published(cell.dataset, cell.algorithm) if not cell.variant else None,
    )
    paper = (*(printed or ()), None, None)[:2]
    return (
        *(
            section.layout.name,
            cell.dataset,
            cell.method,
            cell.algorithm,
            cell.variant,
            scores.metric,
            len(scores.seeds),
        ),
        *(
            scores.mean,
            scores.spread,
            *paper,
            scores.mean - printed[0] if printed and scores.metric == "score" else None,
        ),
        " ".join(f"{value:.6g}" for value in scores.seeds.values()),
        *(
            max(row["updates"] for row in cell.rows),
            cell.rows[0].get("episodes"),
            cell.source,
            ", ".join(cell.recorded("preset")),
        ),
    )


def _paper_cost(printed: dict[str, list[float]]) -> str:
    """The paper's cost of an algorithm, seconds and gigabytes over all its datasets."""
    seconds, *gigabytes = printed.get("average", [None])
    return "" if seconds is None else f"{seconds:.1f}" + "".join(f" ({each:.1f} GB)" for each in gigabytes)


def _paper_record(dataset: str, algorithm: str, printed: list[float]) -> tuple[Number, ...]:
    paper = (*printed, None)[:2]
    return (
        "",
        dataset,
        f"{algorithm} ({PAPER_ONLY})",
        algorithm,
        "",
        "score",
        None,
        None,
        None,
        *paper,
        None,
        "",
        None,
        None,
        "",
        "",
    )


def _averages(
    rows: list[tuple[Entry, ...]], section: Section, ours: Sequence[str], theirs: Sequence[str]
) -> tuple[Entry, ...]:
    """The mean over datasets of each column that has them all, as in the paper's last line."""
    line = [Entry("average")]
    datasets = [row[0].text for row in rows]
    for method in ours:
        cells = [section.find(dataset, method) for dataset in datasets]
        means = [cell.scores.mean for cell in cells if cell and cell.scores]
        printed = [
            section.published(cell.dataset, cell.algorithm) for cell in cells if cell and not cell.variant
        ]
        if len(means) < len(datasets) or {cell.scores.metric for cell in cells if cell and cell.scores} != {
            "score"
        }:
            line.append(Entry(""))
        elif len(printed) == len(datasets) and all(printed):
            paper = float(np.mean([each[0] for each in printed if each]))
            marked = any(cell.source != "D4RL's own" for cell in cells if cell)
            line.append(
                Entry(
                    _spread(float(np.mean(means))),
                    f"paper {paper:.1f}",
                    float(np.mean(means)) - paper,
                    marked,
                )
            )
        else:
            line.append(Entry(_spread(float(np.mean(means)))))
    for name in theirs:
        printed = [section.published(dataset, name) for dataset in datasets]
        line.append(
            Entry(
                _spread(float(np.mean([each[0] for each in printed if each]))) if all(printed) else "",
                muted=True,
            )
        )
    return tuple(line)


def _score_notes(section: Section, rows: Sequence[Sequence[Entry]]) -> tuple[str, ...]:
    notes = []
    if any(entry.difference is not None or entry.muted for row in rows for entry in row):
        notes.append("Paper: as printed there; the difference is ours minus the paper's.")
    if any(entry.marked for row in rows for entry in row):
        notes.append(
            f"{OTHER_DATA} The paper's number is from D4RL's own data, ours is not: the difference compares"
            " scores on different data."
        )
    if any(each.scores and each.scores.metric == "return" for each in section.scored):
        notes.append("Where there is no reference to normalise a score, the return is shown.")
    if silent := [dataset for dataset in section.datasets if dataset not in {row[0].text for row in rows}]:
        notes.append(f"Not scored: {', '.join(silent)}.")
    return (*notes, *_divergences(section))


def _divergences(section: Section) -> tuple[str, ...]:
    lost = [
        f"{each.method} on {each.dataset}, seed {seed}: {how}"
        for each in section.experiments
        for seed, how in each.diverged.items()
    ]
    return (
        (f"Diverged; the last evaluations before that are counted, if any: {'; '.join(lost)}.",)
        if lost
        else ()
    )


def _aggregate_notes(section: Section) -> tuple[str, ...]:
    shared = section.common_datasets()
    compared = section.compared()
    notes = [
        f"Over {len(shared)} dataset{'s' if len(shared) > 1 else ''} that all methods have:"
        f" {', '.join(shared)}."
    ]
    if left_out := dict.fromkeys(each.method for each in section.scored if each.method not in compared):
        notes.append(f"Left out, with fewer than half of the datasets: {', '.join(left_out)}.")
    sizes = [len(each.scored_seeds) for each in section.aggregated()]
    if min(sizes) != max(sizes):
        notes.append("All datasets have the same weight, whatever their number of seeds.")
    notes.append("In brackets: 95 % intervals of a stratified bootstrap over seeds.")
    if min(sizes) == 1:
        notes.append("Where every dataset has one seed there is no interval.")
    if min(sizes) < FEW:
        notes.append(f"From fewer than {FEW} seeds these intervals are too narrow.")
    return (*notes, *_divergences(section))


def _estimate_entry(each: Estimate, scale: float, digits: int = 1) -> Entry:
    low, high = each.interval or (None, None)
    under = "" if low is None or high is None else f"[{scale * low:.{digits}f}, {scale * high:.{digits}f}]"
    return Entry(f"{scale * each.value:.{digits}f}", under)


def _ends(each: Estimate, scale: float) -> tuple[float | None, float | None]:
    return (None, None) if each.interval is None else (scale * each.interval[0], scale * each.interval[1])


def _spread(mean: float, spread: float | None = None) -> str:
    return f"{mean:.1f}" if spread is None else f"{mean:.1f} ± {spread:.1f}"


def _headline(section: Section) -> str:
    """What a score is the mean of: a short run has fewer evaluations than the last three."""
    counts = sorted({min(LAST, len({row["updates"] for row in each.rows})) for each in section.scored})
    return (
        f"mean of the last {' or '.join(map(str, counts))} evaluations"
        if counts != [1]
        else "the only evaluation"
    )


def _several_seeds(section: Section) -> bool:
    return any(len(each.seeds) > 1 for each in section.scored)
