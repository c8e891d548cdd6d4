"""Tables of statistics over datasets: what all methods reach together, and which beats which."""

from gridcount.report.analysis import AGGREGATES
from gridcount.report.experiments import Section
from gridcount.report.protocol import protocol
from gridcount.report.statistics import Estimate
from gridcount.report.table import Entry, Table, divergences

FEW = 5  # with fewer seeds a bootstrap interval is too narrow


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
    return (*notes, *divergences(section))


def _estimate_entry(each: Estimate, scale: float, digits: int = 1) -> Entry:
    low, high = each.interval or (None, None)
    under = "" if low is None or high is None else f"[{scale * low:.{digits}f}, {scale * high:.{digits}f}]"
    return Entry(f"{scale * each.value:.{digits}f}", under)


def _ends(each: Estimate, scale: float) -> tuple[float | None, float | None]:
    return (None, None) if each.interval is None else (scale * each.interval[0], scale * each.interval[1])
