"""One page for the owner of a plant: the log, the estimate, the support of a policy and the verdict. It
opens without a network."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gridcount.data.quality.describe import Description
from gridcount.files import read_record
from gridcount.policy.support import SupportReport
from gridcount.report.owner_drawings import episode_drawing, map_drawing
from gridcount.report.page import ASSETS
from gridcount.report.support_text import (
    ACTIONS,
    OUTSIDE,
    REGIONS,
    SHARES,
    action_rows,
    alone_table,
    in_short,
    outside_rows,
    region_rows,
    share_rows,
)

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"  # no script, nothing from elsewhere
STYLE = """
svg { max-width: 46rem; width: 100%; height: auto; display: block; }
svg text { font-size: 12px; fill: var(--soft); }
.frame { fill: none; stroke: var(--line); } .wall { fill: var(--soft); opacity: 0.55; }
.line { fill: none; stroke: var(--c1); stroke-width: 1.5; }
.verdict { border-left: 4px solid var(--accent); padding: 0.4rem 0 0.4rem 1rem; font-size: 1.08rem; }
pre { background: var(--faint); padding: 0.8rem 1rem; border-radius: 9px; overflow-x: auto; }
"""
SECTIONS = {
    "verdict": "Verdict",
    "log": "The log",
    "estimate": "The estimate",
    "support": "The support",
    "guard": "The guard",
}


@dataclass(frozen=True)
class Interval:
    """A value and the limits of its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class PolicyEstimate:
    """What a policy is worth, as `gridcount estimate` says."""

    name: str
    fitted_q: Interval
    gain: Interval | None = None  # over the log's policy
    unseen: float | None = None
    verdict: str = ""


@dataclass(frozen=True)
class Estimates:
    """The part of an estimate's file that the page shows."""

    policies: list[PolicyEstimate]
    notes: list[str] = field(default_factory=list)


def read_estimates(path: Path) -> Estimates:
    """The file that `gridcount estimate RUN --json FILE` writes."""
    return read_record(path, Estimates, "make it again with `gridcount estimate RUN --json FILE`")


def owner_page(
    report: SupportReport,
    log: Description,
    run: str,
    estimates: Estimates | None = None,
    walls: NDArray[np.float64] | None = None,
) -> str:
    """The whole page."""
    bodies = {
        "verdict": _verdict(report, estimates),
        "log": _log(log),
        "estimate": _estimate(estimates, run),
        "support": _support(report, walls),
        "guard": _guard(report, run),
    }
    links = "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title in SECTIONS.items())
    sections = "".join(
        f'<section class="suite" id="{name}"><h2>{SECTIONS[name]}</h2>{body}</section>'
        for name, body in bodies.items()
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(report.dataset)}: can this policy be used?</title>
<link rel="icon" href="data:,">
<style>
{(ASSETS / "page.css").read_text()}{STYLE}</style>
</head>
<body>
<header class="top"><div class="bar">
<div class="brand">gridcount<span> support</span></div>
<nav aria-label="Sections"><ul>{links}</ul></nav>
</div></header>
<main id="main">
<h1>Can this policy be used?</h1>
<p class="lead">{escape(report.policy)}</p>
{sections}
</main>
<footer>Made by <code>gridcount support</code> from the log and the policy only; this page loads nothing from other sites.</footer>
</body>
</html>
"""


def _verdict(report: SupportReport, estimates: Estimates | None) -> str:
    said = [report.verdict()]
    if estimates is None:
        said.append("What the policy is worth has not been estimated.")
    else:
        said += [f"{each.name}: {each.verdict}" for each in estimates.policies if each.verdict]
    return "".join(f'<p class="verdict">{escape(text)}</p>' for text in said)


def _log(log: Description) -> str:
    facts = (
        f"{log.transitions:,} decisions in {log.episodes:,} episodes, of {log.lengths.mean:,.0f} steps on"
        " average. "
        f"An episode returns {log.returns.mean:.4g} on average, from {log.returns.low:.4g} to"
        f" {log.returns.high:.4g}."
    )
    rows = [
        [each.name, kind, *(f"{value:.4g}" for value in (each.low, each.mean, each.high))]
        for kind, dimensions in (("observation", log.observation), ("action", log.action))
        for each in dimensions
    ]
    return f"<p>{escape(facts)}</p>" + _table(
        "Columns", ("column", "role", "smallest", "mean", "largest"), rows
    )


def _estimate(estimates: Estimates | None, run: str) -> str:
    if estimates is None:
        return (
            "<p>There is no estimate yet. These two commands make one and show it here:</p>"
            f"<pre>gridcount estimate {escape(run)} --json estimate.json\n"
            f"gridcount support {escape(run)} --estimate estimate.json --out page.html</pre>"
        )
    rows = [
        [
            each.name,
            _interval(each.fitted_q),
            "" if each.gain is None else _interval(each.gain),
            "" if each.unseen is None else f"{each.unseen:.0%}",
        ]
        for each in estimates.policies
    ]
    heads = ("policy", "estimated return (95 %)", "gain over the log (95 %)", "actions never seen")
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in estimates.notes)
    return _table("Returns that the policies would earn, from the log alone", heads, rows) + notes


def _support(report: SupportReport, walls: NDArray[np.float64] | None) -> str:
    heads, alone = alone_table(report)
    worst = "".join(
        f"<h4>Episode {each.episode}: the guard would act in {each.held:.0%} of its"
        f" steps</h4>{episode_drawing(each)}"
        for each in report.worst
    )
    parts = [
        f"<p>{escape(in_short(report))}</p>",
        _table("How often the log has an action", SHARES, share_rows(report)),
        "<h3>Where</h3><p>Each cell is a part of the state space that the data visits. Green: the log has"
        " the policy's actions there. "
        "Red: it does not.</p>",
        map_drawing(report.map, walls),
        _table("By region, the least supported first", REGIONS, region_rows(report)),
        _table("Action dimensions, the one that leaves the log most first", ACTIONS, action_rows(report)),
    ]
    if outside := outside_rows(report):
        parts.append(_table("Columns that leave the log's range", OUTSIDE, outside))
    parts += [
        f"<h3>The {len(alone)} states where the policy is most alone</h3>",
        _table("At most one of each episode", heads, alone),
        "<h3>The episodes with the least support</h3><p>Uncertainty along the episode: 1 means that the log"
        " has nothing like the "
        "policy's action there.</p>",
        worst,
    ]
    return "".join(parts)


def _guard(report: SupportReport, run: str) -> str:
    held = report.shares["policy"].in_log
    own = (
        ""
        if report.held_back is None
        else f" It would hold back {report.held_back:.1%} of the log's own decisions."
    )
    return (
        f"<p>With a guard, the policy acts in {held:.1%} of these states, and the fallback in the"
        f" others.{own} "
        f"From Python:</p><pre>import gridcount as gc\n\npolicy = gc.load_policy({escape(repr(run))})\n"
        "decision = policy.decide(observation)\ndecision.action,"
        " decision.held</pre>"
    )


def _interval(interval: Interval) -> str:
    return f"{interval.value:.4g} [{interval.low:.4g}, {interval.high:.4g}]"


def _table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(each)}</th>' for each in heads)
    lines = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>'
        for row in rows
    )
    return (
        '<div class="scroll" tabindex="0" role="region"'
        f' aria-label="{escape(caption)}"><table><caption><span>{escape(caption)}'
        f"</span></caption><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"
    )
