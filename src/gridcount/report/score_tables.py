"""Tables of scores: the headline with the paper's numbers, the oracle's, and an ablation's settings."""

from collections.abc import Sequence

import numpy as np

from gridcount.report.experiments import Experiment, Section
from gridcount.report.protocol import protocol
from gridcount.report.scores import LAST
from gridcount.report.table import OTHER_DATA, Entry, Number, Table, divergences, spread

PAPER_ONLY = "paper only"
SETTING_HEADS = ("suite", "dataset", "method", "algorithm", "variant", "metric", "seeds", "mean", "std")
PAPER_HEADS = ("paper_mean", "paper_std", "difference")
RUN_HEADS = ("each_seed", "updates", "episodes", "data", "preset")


def score_table(section: Section) -> Table | None:
    """Headline scores, a line per dataset and a column per method, with the paper's numbers and the
    differences."""
    if not section.scored:
        return None
    ours, theirs = _methods_with_results(section), _methods_of_the_paper(section)
    rows, records = [], list[tuple[Number, ...]]()
    for dataset in section.datasets:
        cells = {method: section.find(dataset, method) for method in ours}
        if any(cell and (cell.scores or cell.diverged) for cell in cells.values()):
            entries = _score_entries(section, dataset, cells)
            rows.append(
                (Entry(dataset), *entries, *(_paper_entry(section, dataset, name) for name in theirs))
            )
            records += _score_records(section, dataset, cells, theirs)
    if len(rows) > 1:
        rows.append(_averages(rows, section, ours, theirs))
    several = any(len(each.seeds) > 1 for each in section.scored)
    return Table(
        "scores",
        f"Scores: {_headline(section)}" + (", ± standard deviation over seeds" if several else ""),
        ("dataset", *ours, *(f"{name} ({PAPER_ONLY})" for name in theirs)),
        tuple(rows),
        ((*SETTING_HEADS, *PAPER_HEADS, *RUN_HEADS), tuple(records)),
        protocol(section.scored),
        _score_notes(section, rows),
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
            line.append(Entry(spread(float(np.mean(best)), float(np.std(best)) if len(best) > 1 else None)))
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
        (note, *divergences(section)),
    )


def ablation_table(section: Section) -> Table | None:
    """The numbers behind the ablation's figure, a line per setting."""
    if not is_ablation(section):
        return None
    methods = _methods_with_results(section)
    rows, records = [], []
    for method in methods:
        cells = [section.find(dataset, method) for dataset in section.datasets]
        rows.append((Entry(method), *(_score_entry(section, cell, False) for cell in cells)))
        records += [
            _score_record(section, cell)[: len(SETTING_HEADS)] for cell in cells if cell and cell.scores
        ]
    title = f"Settings: {_headline(section)}, ± standard deviation over seeds"
    columns = ("setting", *section.datasets)
    return Table(
        "ablation",
        title,
        columns,
        tuple(rows),
        (SETTING_HEADS, tuple(records)),
        protocol(section.scored),
        divergences(section),
    )


def is_ablation(section: Section) -> bool:
    """Whether settings of an algorithm are compared: the suite is an ablation, or has several settings of
    one."""
    if not section.scored:
        return False
    settings = {(each.algorithm, each.variant) for each in section.scored}
    return section.layout.kind == "ablation" or len(settings) > len({algorithm for algorithm, _ in settings})


def _methods_with_results(section: Section) -> tuple[str, ...]:
    found = (each.method for each in section.experiments if each.scores or each.diverged)
    return tuple(dict.fromkeys(found))


def _methods_of_the_paper(section: Section) -> tuple[str, ...]:
    """The algorithms that only the paper has results of, on a dataset of the section."""
    if section.layout.kind != "scores":
        return ()
    ours, datasets = {each.algorithm for each in section.scored}, set(section.datasets)
    published = section.layout.published.items()
    return tuple(name for name, printed in published if name not in ours and datasets & printed.keys())


def _score_entries(section: Section, dataset: str, cells: dict[str, Experiment | None]) -> list[Entry]:
    """Our scores on a dataset, the best of several marked; the paper's where we have none."""
    means = {method: cell.scores.mean for method, cell in cells.items() if cell and cell.scores}
    best = max(means, key=lambda method: means[method]) if len(means) > 1 else None
    return [
        _score_entry(section, cell, method == best)
        if cell
        else _paper_entry(section, dataset, method, "paper ")
        for method, cell in cells.items()
    ]


def _score_records(
    section: Section, dataset: str, cells: dict[str, Experiment | None], theirs: Sequence[str]
) -> list[tuple[Number, ...]]:
    """The lines of a dataset in the CSV: ours, then the paper's where we have none."""
    found = [_score_record(section, cell) for cell in cells.values() if cell and cell.scores]
    absent = [method for method, cell in cells.items() if cell is None]
    for name in (*absent, *theirs):
        if printed := section.published(dataset, name):
            found.append(_paper_record(dataset, name, printed))
    return found


def _score_entry(section: Section, cell: Experiment | None, best: bool) -> Entry:
    if cell is None or cell.scores is None:
        return Entry("diverged" if cell and cell.diverged else "")
    scores = cell.scores
    lost = f"{len(cell.diverged)} of {len(cell.seeds)} diverged" if cell.diverged else ""
    text = spread(scores.mean, scores.spread if len(scores.seeds) > 1 else None)
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
        ", ".join(filter(None, (lost, f"paper {spread(*printed)}"))),
        scores.mean - printed[0],
        marked,
        best,
    )


def _paper_entry(section: Section, dataset: str, algorithm: str, before: str = "") -> Entry:
    """The paper's number where there is none of ours."""
    printed = section.published(dataset, algorithm)
    return Entry("" if printed is None else f"{before}{spread(*printed)}", muted=True)


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
                    spread(float(np.mean(means))),
                    f"paper {paper:.1f}",
                    float(np.mean(means)) - paper,
                    marked,
                )
            )
        else:
            line.append(Entry(spread(float(np.mean(means)))))
    for name in theirs:
        printed = [section.published(dataset, name) for dataset in datasets]
        line.append(
            Entry(
                spread(float(np.mean([each[0] for each in printed if each]))) if all(printed) else "",
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
    return (*notes, *divergences(section))


def _headline(section: Section) -> str:
    """What a score is the mean of: a short run has fewer evaluations than the last three."""
    counts = sorted({min(LAST, len({row["updates"] for row in each.rows})) for each in section.scored})
    return (
        f"mean of the last {' or '.join(map(str, counts))} evaluations"
        if counts != [1]
        else "the only evaluation"
    )
