"""The report as one HTML page that needs no network: tables as markup, plots drawn by its script from
embedded numbers."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

from gridcount.algorithms.presets import PRESETS
from gridcount.report.analysis import AGGREGATES
from gridcount.report.experiments import UNRECORDED, Experiment, Section
from gridcount.report.log_table import log_table
from gridcount.report.page_numbers import curve_metrics, page_numbers, slug
from gridcount.report.protocol import protocol
from gridcount.report.scores import LAST
from gridcount.report.statistics import REPETITIONS
from gridcount.report.tables import (
    OTHER_DATA,
    Entry,
    Table,
    ablation_table,
    aggregate_table,
    cost_table,
    improvement_table,
    is_ablation,
    oracle_table,
    score_table,
)

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


def all_tables(section: Section) -> list[Table]:
    """Every table a suite has results for."""
    makers = (
        score_table,
        ablation_table,
        oracle_table,
        log_table,
        aggregate_table,
        improvement_table,
        cost_table,
    )
    made = [table for maker in makers if (table := maker(section)) is not None]
    return [replace(table, title=f"{table.title}{_presets(table)}") for table in made]


def _presets(table: Table) -> str:
    """The presets of a table's numbers: a suite named after a paper need not use the paper's."""
    presets = dict(table.protocol).get("Preset", "")
    names = [part.split(":")[0] for part in presets.split("; ")]
    known = [name for name in PRESETS if name in names]
    return f"; preset{'s' if len(known) > 1 else ''} {' and '.join(known)}" if known else ""


def slugs(sections: Sequence[Section]) -> list[str]:
    """A unique identifier for each suite."""
    found: list[str] = []
    for section in sections:
        base = slug(section.layout.name)
        found.append(base if base not in found else f"{base}-{len(found)}")
    return found


def page(sections: Sequence[Section], title: str = "gridcount report") -> str:
    """The whole page."""
    names = slugs(sections)
    tables = {name: all_tables(section) for name, section in zip(names, sections, strict=True)}
    numbers = {
        "suites": [page_numbers(section, name) for name, section in zip(names, sections, strict=True)],
        "tables": {
            f"{name}-{table.name}": {
                "file": f"{name}-{table.name}",
                "columns": table.records[0],
                "rows": table.records[1],
            }
            for name, own in tables.items()
            for table in own
        },
    }
    links = "".join(
        f'<li><a href="#{name}">{escape(section.layout.name)}</a></li>'
        for name, section in zip(names, sections, strict=True)
    )
    bodies = "".join(
        _section(section, name, tables[name]) for name, section in zip(names, sections, strict=True)
    )
    reading = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in READING)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{(ASSETS / "page.css").read_text()}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the results</a>
<header class="top"><div class="bar">
<div class="brand">gridcount<span> report</span></div>
<nav aria-label="Suites"><ul>{links}</ul></nav>
<button id="theme" type="button">Dark</button>
</div></header>
<main id="main">
<h1>{escape(title)}</h1>
<p class="lead">{escape(_summary(sections))}</p>
<details><summary>How to read this page</summary><div class="inside"><dl class="reading">{reading}</dl></div></details>
<noscript><p>Plots are drawn by a script that is part of this file; without JavaScript only the tables are shown.</p></noscript>
{bodies}
</main>
<footer>Made by <code>gridcount report</code> from the results only; this page loads nothing from other sites.</footer>
<script id="data" type="application/json">{_embedded(numbers)}</script>
<script>
{(ASSETS / "page.js").read_text()}</script>
</body>
</html>
"""


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
        parts.append(_block(found["scores"], name, "Scores"))
        parts.append(_folded(found["oracle"], name))
    if "ablation" in found:
        parts += [
            _ablation(section, name),
            _block(found["ablation"], name, "The numbers of the settings"),
            _folded(found["oracle"], name),
        ]
    if "log" in found:
        show = (
            _folded(found["log"], name)
            if section.scored
            else _block(found["log"], name, "Compared with the log")
        )
        parts.append(show)
    if section.drawn_datasets():
        parts.append(_curves(section, name))
    if "aggregates" in found:
        parts += [_aggregates(section, name), _block(found["aggregates"], name, "The numbers over datasets")]
        if "improvement" in found:
            parts.append(_folded(found["improvement"], name))
    if "cost" in found:
        parts.append(_block(found["cost"], name, "Cost"))
    return "".join([*parts, _provenance(section), "</section>"])


def _block(table: Table, name: str, heading: str) -> str:
    return f'<div class="sub"><h3>{escape(heading)}</h3>{_button(table, name)}</div>{_markup(table, name)}'


def _folded(table: Table, name: str) -> str:
    inside = f"<p>{_button(table, name)}</p>{_markup(table, name)}"
    return f'<details class="deeper"><summary>{escape(table.title)}</summary><div class="inside">{inside}</div></details>'


def _button(table: Table, name: str) -> str:
    label = escape(f"Download the data of: {table.title}")
    return f'<button type="button" data-table="{name}-{table.name}" aria-label="{label}">Data as CSV</button>'


def _markup(table: Table, name: str) -> str:
    heads = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    lines = []
    for row in table.rows:
        total = ' class="total"' if row[0].text == "average" else ""
        lines.append(
            f'<tr{total}><th scope="row">{escape(row[0].text)}</th>{"".join(map(_cell, row[1:]))}</tr>'
        )
    notes = f'<p class="note">{escape(" ".join(table.notes))}</p>' if table.notes else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}">'
        f'<table id="{name}-{table.name}-table"><caption><span>{escape(table.title)}</span></caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
        f"{_protocol(table.protocol)}{notes}"
    )


def _cell(entry: Entry) -> str:
    if not entry.text and not entry.under:
        return '<td class="muted">&ndash;</td>'
    text = escape(_minus(entry.text))
    inside = f"<b>{text}</b>" if entry.best else text
    if entry.under:
        inside += f"<small>{escape(_minus(entry.under))}</small>"
    if entry.difference is not None:
        kind = "better" if entry.difference >= 0 else "worse"
        inside += f'<small class="{kind}">{_minus(f"{entry.difference:+.1f}")}{OTHER_DATA if entry.marked else ""}</small>'
    return f'<td class="muted">{inside}</td>' if entry.muted else f"<td>{inside}</td>"


def _protocol(facts: Sequence[tuple[str, str]]) -> str:
    return (
        '<dl class="protocol">'
        + "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts)
        + "</dl>"
    )


def _figure(identity: str, caption: str, zoom: bool, control: str = "") -> str:
    reset = '<button type="button" class="reset" hidden>Reset zoom</button>' if zoom else ""
    label = escape(f"Download the data of this plot: {caption}")
    return (
        f'<figure id="{identity}"><figcaption><span>{escape(caption)}{control}</span><span'
        f' class="tools">{reset}'
        f'<button type="button" class="save" aria-label="{label}">CSV</button></span></figcaption><div'
        ' class="canvas"></div></figure>'
    )


def _legend(section: Section, methods: Sequence[str]) -> str:
    items = (
        '<li><button type="button" aria-pressed="true"'
        f' data-method="{section.methods.index(method)}">{escape(method)}</button></li>'
        for method in methods
    )
    return f'<ul class="legend" aria-label="Methods shown">{"".join(items)}</ul>'


def _curves(section: Section, name: str) -> str:
    methods = list(dict.fromkeys(each.method for each in section.experiments if each.scores or each.metrics))
    metrics = "".join(
        f'<option value="{escape(metric)}">{escape(label)}</option>'
        for metric, label in curve_metrics(section)
    )
    bands = {
        "std": "± standard deviation",
        "interval": "95 % interval of the mean",
        "range": "lowest to highest",
        "seeds": "each seed",
        "none": "none",
    }
    options = "".join(f'<option value="{value}">{text}</option>' for value, text in bands.items())
    windows = "".join(
        f'<option value="{n}">{text}</option>'
        for n, text in ((1, "none"), (5, "5 evaluations"), (20, "20 evaluations"))
    )
    printed = any(
        section.published(each.dataset, each.algorithm) for each in section.scored if not each.variant
    )
    label = '<label><input type="checkbox" data-control="paper" checked> the paper&rsquo;s scores (dotted)</label>'
    paper = label if printed else ""
    panels = "".join(
        _figure(f"{name}-curve-{i}", dataset, zoom=True) for i, dataset in enumerate(section.drawn_datasets())
    )
    columns = " one" if len(section.drawn_datasets()) == 1 else ""
    return (
        f'<div class="sub"><h3>Learning curves</h3></div>{_legend(section, methods)}<div class="controls">'
        f'<label>Show <select data-control="metric">{metrics}</select></label>'
        f'<label>Band over seeds <select data-control="band">{options}</select></label>'
        f'<label>Smoothing <select data-control="smooth">{windows}</select></label>{paper}</div>'
        f'<div class="grid{columns}">{panels}</div>'
        '<p class="hint">Mean over seeds. Drag across a plot to zoom, or click it and use the wheel or the'
        " keys + and &minus;; "
        "a double click or Esc resets.</p>"
        f"{_protocol(protocol(section.experiments))}"
    )


def _ablation(section: Section, name: str) -> str:
    panels = "".join(
        _figure(f"{name}-ablation-{i}", dataset, zoom=False)
        for i, dataset in enumerate(section.scored_datasets())
    )
    columns = "one" if len(section.scored_datasets()) == 1 else "two"
    return (
        f'<div class="sub"><h3>Score against the setting</h3></div><div class="grid {columns}">{panels}</div>'
        f'<p class="hint">Mean of the last {LAST} evaluations, bars ± standard deviation over seeds, a dot'
        " per seed.</p>"
        f"{_protocol(protocol(section.scored))}"
    )


def _aggregates(section: Section, name: str) -> str:
    scores = section.common()
    titles = {
        "IQM": "Interquartile mean",
        "mean": "Mean",
        "optimality gap": "Optimality gap (smaller is better)",
    }
    plots = "".join(_figure(f"{name}-{slug(kind)}", titles[kind], zoom=False) for kind in AGGREGATES)
    wide = _figure(f"{name}-profile", "Performance profile: share of runs above τ", zoom=True)
    if len(scores) > 1:
        options = "".join(
            f'<option value="{section.methods.index(method)}">{escape(method)}</option>' for method in scores
        )
        pick = f' <select data-control="reference" aria-label="Method that is compared with the others">{options}</select>'
        wide += _figure(f"{name}-improvement", "Probability of improvement of", zoom=False, control=pick)
    return (
        f'<div class="sub"><h3>Over datasets</h3></div>{_legend(section, list(scores))}'
        f'<div class="grid">{plots}</div><div class="grid two" style="margin-top:1rem">{wide}</div>'
    )


def _provenance(section: Section) -> str:
    """What all experiments share once, then each with its configuration."""
    everyone = section.experiments
    shared = _facts(everyone) | {
        "Data": "; ".join(
            dict.fromkeys(
                f"{each.dataset}: {each.source}, fingerprint"
                f" {', '.join(each.recorded('fingerprint')) or UNRECORDED}"
                for each in everyone
            )
        )
    }
    entries = []
    for each in everyone:
        settings = "; ".join(
            ", ".join(f"{name} = {_setting(value)}" for name, value in _object(text).items())
            for text in each.recorded("config")
        )
        own = {
            "Configuration": settings,
            "Seeds": ", ".join(map(str, each.seeds)),
            **_facts([each]),
            "Data": each.source,
        }
        own |= {"Fingerprint of the data": ", ".join(each.recorded("fingerprint")), "Experiment": each.key}
        title = escape(f"{each.method} on {each.dataset}")
        entries.append(f'<details><summary>{title}</summary><div class="inside">{_list(own)}</div></details>')
    fold = f'<details class="deeper"><summary>Configuration of each experiment</summary><div class="inside">{"".join(entries)}</div></details>'
    return f'<div class="sub"><h3>Provenance</h3></div>{_list(shared)}{fold}'


def _facts(experiments: Sequence[Experiment]) -> dict[str, str]:
    def recorded(name: str) -> list[str]:
        return list(dict.fromkeys(text for each in experiments for text in each.recorded(name)))

    started = sorted(recorded("started"))
    return {
        "Commit": ", ".join(recorded("commit")),
        "Versions": "; ".join(
            ", ".join(f"{package} {number}" for package, number in _object(text).items())
            for text in recorded("versions")
        ),
        "Machine": "; ".join(recorded("machine")),
        "Started": started[0] + (f" to {started[-1]}" if len(started) > 1 else "") if started else "",
    }


def _list(facts: dict[str, str]) -> str:
    return (
        '<dl class="facts">'
        + "".join(f"<dt>{escape(k)}</dt><dd>{escape(v or UNRECORDED)}</dd>" for k, v in facts.items())
        + "</dl>"
    )


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


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return {"": text}
    return found if isinstance(found, dict) else {"": found}


def _setting(value: object) -> str:
    return (
        "none"
        if value is None
        else json.dumps(value)
        if isinstance(value, list | dict | bool)
        else str(value)
    )


def _minus(text: str) -> str:
    """A true minus sign before numbers."""
    return re.sub(r"(?<![\w-])-(?=\d)", "\N{MINUS SIGN}", text)
