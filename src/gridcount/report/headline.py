"""What the terminal says of a policy: its scores seed by seed, or how to judge it where nothing scored it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.table import Table

from gridcount.data.transitions import Transitions
from gridcount.report.scores import LAST
from gridcount.training.logs import Row

SHOWN = ("score", "return", "success")


def headline_table(rows: Sequence[Row]) -> Table:
    """The mean of the last evaluations, per seed and over seeds."""
    rows = told_by_all(rows)
    shown: list[str] = [name for name in ("score" if "score" in rows[-1] else "return", "success") if name in rows[-1]]
    last = {seed: [row for row in rows if row["seed"] == seed][-LAST:] for seed in sorted({row["seed"] for row in rows})}
    means = {seed: {name: float(np.mean([row[name] for row in each])) for name in shown} for seed, each in last.items()}
    count = max(map(len, last.values()))
    table = Table(title=f"mean of the last {count} evaluations" if count > 1 else "the only evaluation")
    return filled(table, means, shown)


def scores_table(title: str, seeds: Mapping[int, Mapping[str, float]]) -> Table:
    """All figures of one evaluation, per seed and over seeds."""
    told = dict(zip(seeds, told_by_all(list(seeds.values())), strict=True))
    return filled(Table(title=title), told, [name for name in SHOWN if any(name in figures for figures in told.values())])


def told_by_all(rows: Sequence[Mapping[str, float]]) -> list[Row]:
    """Rows in which silence about success means none, where an environment spoke of it at least once: some tell it only when it happens."""
    tells = any("success" in row for row in rows)
    return [({"success": 0.0} if tells else {}) | dict(row) for row in rows]


def filled(table: Table, seeds: Mapping[int, Mapping[str, float]], shown: Sequence[str]) -> Table:
    """A line per seed, and the mean and spread over seeds of the first figure shown."""
    for heading in ("seed", *shown):
        table.add_column(heading, justify="right")
    for seed, figures in seeds.items():
        table.add_row(str(seed), *(f"{figures[name]:.0%}" if name == "success" else f"{figures[name]:.1f}" for name in shown))
    first = [figures[shown[0]] for figures in seeds.values()]
    table.add_section()
    table.add_row("mean ± std", f"{np.mean(first):.1f} ± {np.std(first):.1f}")
    return table


def how_to_judge(rows: Sequence[Row], data: Transitions, discount: float | None, directory: Path) -> str:
    """What a log alone can say of a policy that no environment scored."""
    text = "Not scored. How to judge the policy without an environment: "
    if discount is not None:
        returns = data.discounted_returns(discount)
        text += f"It values the log's decisions at {rows[-1]['q_data']:.4g} (Q). " if rows and "q_data" in rows[-1] else ""
        text += (
            f"The log's episodes are worth, discounted from their first step, {returns.mean():.4g} on average and {returns.max():.4g} at"
            " best (those that were cut off are carried on at the log's mean reward): values far above that are wishful. "
        )
    return text + (
        f"In {directory / 'metrics.jsonl'}, uncertainty and first_visits (of algorithms that count) say how far the policy strays from the "
        "log. Neither proves that it acts well: only a trial does, or a simulator (gridcount evaluate RUN --env, with a Gymnasium id)."
    )
