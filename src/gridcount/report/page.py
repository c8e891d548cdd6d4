"""The report as one HTML page that needs no network: tables as markup, plots drawn by its script from
embedded numbers."""

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from gridcount.report.experiments import Section
from gridcount.report.page_numbers import page_numbers, slug
from gridcount.report.page_plots import ablation, aggregates, curves
from gridcount.report.page_provenance import provenance
from gridcount.report.page_tables import block, folded
from gridcount.report.score_tables import is_ablation
from gridcount.report.scores import LAST
from gridcount.report.statistics import REPETITIONS
from gridcount.report.table import Table
from gridcount.report.tables import all_tables

ASSETS = Path(__file__).parent / "assets"
# nothing from elsewhere
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
READING = (
    (
        "Score",
        f"Mean of a run's last {LAST} evaluations, D4RL's normalisation: 0 is a random policy, 100 the"
        " reference. ± is over seeds.",
    ),
    ("Oracle", "A run's best evaluation. Selecting it needs the environment, so no headline uses it."),
    (
        "IQM",
        "Interquartile mean: the mean of the middle half of all runs of all datasets. As robust as a median,"
        " less noisy.",
    ),
    (
        "Optimality gap",
        "100 minus the mean of all runs, each counted as 100 at most: how far runs fall short. Smaller is"
        " better.",
    ),
    (
        "Probability of improvement",
        "How often a run of one method scores higher than a run of another on the same dataset, averaged"
        " over datasets.",
    ),
    (
        "Performance profile",
        "The share of runs that score above τ, for every τ. A curve above another is better at every"
        " threshold.",
    ),
    (
        "Intervals",
        "95 % percentile intervals of a bootstrap that draws seeds with replacement within each dataset,"
        f" {REPETITIONS:,} times.",
    ),
)


def slugs(sections: Sequence[Section]) -> list[str]:
    """A unique identifier for each suite."""
    found: list[str] = []
    for section in sections:
        base = slug(section.layout.name)
        found.append(base if base not in found else f"{base}-{len(found)}")
    return found


def page(sections: Sequence[Section], title: str = "gridcount report") -> str:
    """The whole page."""
    named = dict(zip(slugs(sections), sections, strict=True))
    tables = {name: all_tables(section) for name, section in named.items()}
    bodies = "".join(_section(section, name, tables[name]) for name, section in named.items())
    return f"""<!DOCTYPE html>
<html lang="en">
{_head(title)}
<body>
<a class="skip" href="#main">Skip to the results</a>
{_top(named)}
<main id="main">
<h1>{escape(title)}</h1>
<p class="lead">{escape(_summary(sections))}</p>
{_how_to_read()}
{bodies}
</main>
<footer>Made by <code>gridcount report</code> from the results only; this page loads nothing from other sites.</footer>
<script id="data" type="application/json">{_embedded(_numbers(named, tables))}</script>
<script>
{(ASSETS / "page.js").read_text()}</script>
</body>
</html>
"""


def _head(title: str) -> str:
    return f"""<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{(ASSETS / "page.css").read_text()}</style>
</head>"""


def _top(named: dict[str, Section]) -> str:
    """The bar with a link to each suite."""
    links = "".join(
        f'<li><a href="#{name}">{escape(section.layout.name)}</a></li>' for name, section in named.items()
    )
    return f"""<header class="top"><div class="bar">
<div class="brand">gridcount<span> report</span></div>
<nav aria-label="Suites"><ul>{links}</ul></nav>
<button id="theme" type="button">Dark</button>
</div></header>"""


def _how_to_read() -> str:
    reading = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in READING)
    return f"""<details><summary>How to read this page</summary><div class="inside"><dl class="reading">{reading}</dl></div></details>
<noscript><p>Plots are drawn by a script that is part of this file; without JavaScript only the tables are shown.</p></noscript>"""


def _numbers(named: dict[str, Section], tables: dict[str, list[Table]]) -> dict[str, Any]:
    """What the page's script draws and saves."""
    records = {f"{name}-{table.name}": table.records for name, own in tables.items() for table in own}
    return {
        "suites": [page_numbers(section, name) for name, section in named.items()],
        "tables": {
            file: {"file": file, "columns": columns, "rows": rows}
            for file, (columns, rows) in records.items()
        },
    }


def _section(section: Section, name: str, tables: list[Table]) -> str:
    found = {table.name: table for table in tables}
    named = (
        f"<code>{escape(section.layout.name)}</code>, "
        if section.layout.name.lower() != section.layout.title.lower()
        else ""
    )
    parts = [
        f'<section class="suite" id="{name}" aria-labelledby="{name}-title"><header>',
        f'<h2 id="{name}-title">{escape(section.layout.title)}</h2>',
        f"<p>{named}{escape(_size(section))}</p></header>",
    ]
    if "scores" in found and not is_ablation(section):
        parts.append(block(found["scores"], name, "Scores"))
        parts.append(folded(found["oracle"], name))
    if "ablation" in found:
        parts += [
            ablation(section, name),
            block(found["ablation"], name, "The numbers of the settings"),
            folded(found["oracle"], name),
        ]
    if "log" in found:
        show = (
            folded(found["log"], name)
            if section.scored
            else block(found["log"], name, "Compared with the log")
        )
        parts.append(show)
    if section.drawn_datasets():
        parts.append(curves(section, name))
    if "aggregates" in found:
        parts += [aggregates(section, name), block(found["aggregates"], name, "The numbers over datasets")]
        if "improvement" in found:
            parts.append(folded(found["improvement"], name))
    if "cost" in found:
        parts.append(block(found["cost"], name, "Cost"))
    return "".join([*parts, provenance(section), "</section>"])


def _summary(sections: Sequence[Section]) -> str:
    experiments = [each for section in sections for each in section.experiments]
    started = sorted(text for each in experiments for text in each.recorded("started"))
    dates = (
        f", started {started[0][:10]}"
        + (f" to {started[-1][:10]}" if started[-1][:10] != started[0][:10] else "")
        if started
        else ""
    )
    evaluations = sum(len(each.rows) for each in experiments)
    runs = sum(len(each.seeds) for each in experiments)
    return f"{_count(len(experiments), 'experiment')}, {_count(runs, 'run')}, {_count(evaluations, 'evaluation')}{dates}."


def _size(section: Section) -> str:
    runs = sum(len(each.seeds) for each in section.experiments)
    return f"{_count(len(section.methods), 'method')} on {_count(len(section.datasets), 'dataset')}, {_count(runs, 'run')}"


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _embedded(numbers: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(numbers, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return (
        text.replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )
