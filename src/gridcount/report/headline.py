"""Terminal output about a policy: its scores per seed, or how to judge it without scores."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.table import Table

from gridcount.report.scores import LAST
from gridcount.training.judging import LogJudge, Worth, caution_flag
from gridcount.training.logs import Row

SHOWN = ("score", "return", "success")
IN_PER_CENT = {"success": "success", "in_log": "in log", "action_distance": "distance"}
# relative to the log's own actions: a policy with a smaller share of actions in the log leaves it often
FAR_BELOW = 0.5


def headline_table(rows: Sequence[Row]) -> Table:
    """The mean of the last evaluations, per seed and over seeds."""
    rows = told_by_all(rows)
    figures = ("score" if "score" in rows[-1] else "return", "success", "in_log", "action_distance")
    shown: list[str] = [name for name in figures if all(row.get(name) is not None for row in rows)]
    last = {
        seed: [row for row in rows if row["seed"] == seed][-LAST:]
        for seed in sorted({row["seed"] for row in rows})
    }
    means = {
        seed: {name: float(np.mean([row[name] for row in each])) for name in shown}
        for seed, each in last.items()
    }
    count = max(map(len, last.values()))
    table = Table(title=f"mean of the last {count} evaluations" if count > 1 else "the only evaluation")
    return filled(table, means, shown)


def scores_table(title: str, seeds: Mapping[int, Mapping[str, float]]) -> Table:
    """All figures of one evaluation, per seed and over seeds."""
    completed = dict(zip(seeds, told_by_all(list(seeds.values())), strict=True))
    return filled(
        Table(title=title),
        completed,
        [name for name in SHOWN if any(name in figures for figures in completed.values())],
    )


def told_by_all(rows: Sequence[Mapping[str, float]]) -> list[Row]:
    """Rows with success 0 where it is missing, if any row has it: some environments report only success."""
    tells = any("success" in row for row in rows)
    return [({"success": 0.0} if tells else {}) | dict(row) for row in rows]


def filled(table: Table, seeds: Mapping[int, Mapping[str, float]], shown: Sequence[str]) -> Table:
    """A line per seed, and the mean and spread over seeds of the first figure shown."""
    for name in ("seed", *shown):
        table.add_column(IN_PER_CENT.get(name, name), justify="right")
    for seed, figures in seeds.items():
        table.add_row(
            str(seed),
            *(f"{figures[name]:.0%}" if name in IN_PER_CENT else f"{figures[name]:.1f}" for name in shown),
        )
    first = [figures[shown[0]] for figures in seeds.values()]
    table.add_section()
    table.add_row("mean ± std", f"{np.mean(first):.1f} ± {np.std(first):.1f}")
    return table


def how_to_judge(rows: Sequence[Row], judge: LogJudge, directory: Path) -> str:
    """Checks of a policy against its log, if no environment scored it."""
    last = {row["seed"]: row for row in rows}.values()  # each seed's newest
    parts = ["Not scored. How to judge the policy without an environment:", _in_log(list(last), judge)]
    q = [row["q_data"] for row in last if row.get("q_data") is not None]
    if q and judge.worth is not None:
        parts.append(_values(float(np.mean(q)), judge, judge.worth))
    parts += _remarks(list(last), judge)
    if any("first_visits" in row for row in last):
        parts.append(
            f"uncertainty and first_visits in {directory / 'metrics.jsonl'} are read from the table that the"
            " algorithm counts in. Unless"
            " --prior is dataset-only, it counts the policy's own actions too: low values do not mean that"
            " the log has these actions."
        )
    parts.append(
        "None of this proves that the policy performs well. Test it in a simulator"
        " (gridcount evaluate RUN --env, with a Gymnasium id) or in a trial."
    )
    return "\n".join(parts)


def _remarks(rows: Sequence[Row], judge: LogJudge) -> list[str]:
    """What the algorithm itself says about metrics, averaged over seeds."""
    if (remark := getattr(judge.algorithm, "remark", None)) is None:
        return []
    shared = [name for name, value in rows[0].items() if isinstance(value, float)]
    means = {
        name: float(np.mean([row[name] for row in rows]))
        for name in shared
        if all(name in row for row in rows)
    }
    return [text] if (text := remark(means)) else []


def _in_log(rows: Sequence[Row], judge: LogJudge) -> str:
    """How far the policy is from the log, and what reduces the distance."""
    if not all(row.get("in_log") is not None for row in rows):
        return "No evaluation compared it with the log."
    share, distance = (float(np.mean([row[name] for row in rows])) for name in ("in_log", "action_distance"))
    itself = judge.support.itself
    text = (
        f"At {len(judge.support.rows):,} states of the log, {share:.0%} of its actions lie in a cell that"
        " the log visits there;"
        f" the nearest logged action is {distance:.1%} of the actions' range away."
        f" For comparison, {itself.in_log:.0%} of the log's own actions lie in a cell with another logged"
        " action"
    )
    text += (
        "."
        if math.isnan(itself.action_distance)
        else f", and the nearest one is {itself.action_distance:.1%} away."
    )
    if share < FAR_BELOW * itself.in_log:
        return f"{text} The policy often does what the log never tried: try {caution_flag(judge.algorithm, more=True)}, or more data."
    return text


def _values(q: float, judge: LogJudge, worth: Worth) -> str:
    """The critics' values compared with the log's returns."""
    text = (
        f"The critics estimate a mean value (Q) of {q:.4g} for the log's actions."
        f" The log's returns are {worth.mean:.4g} on average and {worth.best:.4g} at best: discounted sums"
        " of rewards to the end of the"
        " episode. Truncated episodes are continued at the log's mean reward."
    )
    if problem := worth.problem(q, ended=True):
        return f"{text} The values are {problem}: {judge.way_out(problem)}."
    return f"{text} Values far above the best return are probably overestimates."
