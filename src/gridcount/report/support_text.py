"""The support report in the terminal."""

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gridcount.policy.support import State, SupportReport

SHOWN = 8  # columns of a listed state
WHO = {"policy": "the policy", "log": "the log itself", "random": "random actions"}


def render(report: SupportReport) -> RenderableType:
    """Everything but the map and the episodes, which need a page."""
    return Group(
        Text(report.verdict()),
        Text(in_short(report)),
        _table("Support", SHARES, share_rows(report)),
        _table("By region, the least supported first", REGIONS, region_rows(report)),
        _table("Action dimensions", ACTIONS, action_rows(report)),
        *_outside(report),
        _table(f"The {len(report.alone)} states where the policy is most alone", *alone_table(report, SHOWN)),
    )


def in_short(report: SupportReport) -> str:
    """What was counted, and how."""
    own = (
        ""
        if report.held_back is None
        else f" Of the log's own held-out decisions, {report.held_back:.1%} fail this."
    )
    return (
        f"{report.policy}: {report.rows:,} states of {report.episodes:,} episodes of {report.dataset}. An"
        " action is in the log if the log "
        f"has its state on a grid of {report.resolution} bins per column, and such an action at least"
        f" {report.min_count} "
        f"time{'' if report.min_count == 1 else 's'} in the state's cell.{own} {report.seen:.1%} of the"
        " states were seen."
    )


SHARES = ("actions of", "in the log", "median count", "uncertainty")
REGIONS = ("region", "states", "the policy", "the log", "random")
OUTSIDE = ("column", "log from", "to", "states beyond")
ACTIONS = ("action", "log from", "to", "policy from", "to", "outside of the log's range", "new in its cell")


def region_rows(report: SupportReport) -> list[list[str]]:
    """A row for each region."""
    return [
        [each.where, f"{each.rows:,}", *(f"{share:.0%}" for share in (each.policy, each.log, each.random))]
        for each in report.regions
    ]


def action_rows(report: SupportReport) -> list[list[str]]:
    """A row for each action dimension, the one that leaves the log most first."""
    return [
        [
            each.name,
            *(f"{value:.4g}" for value in (*each.log, *each.policy)),
            f"{each.outside:.1%}",
            f"{each.new:.1%}",
        ]
        for each in sorted(report.actions, key=lambda each: -each.new)
    ]


def outside_rows(report: SupportReport) -> list[list[str]]:
    """A row for each column that leaves the log's range."""
    left = sorted((each for each in report.columns if each.outside > 0), key=lambda each: -each.outside)
    return [[each.name, f"{each.log[0]:.4g}", f"{each.log[1]:.4g}", f"{each.outside:.2%}"] for each in left]


def alone_table(report: SupportReport, most: int | None = None) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the states where the policy is most alone; with `most`, only the first columns."""
    if not report.alone:
        return [], []
    observed = list(report.alone[0].observation)[:most]
    acted = list(report.alone[0].action)[:most]
    heads = ["row", "episode", "step", *observed, *(f"{name}: policy" for name in acted)]
    heads += [*(f"{name}: log" for name in acted), "count", "seen at (bins)"]
    return heads, [_alone(state, observed, acted) for state in report.alone]


def _alone(state: State, observed: Iterable[str], acted: Iterable[str]) -> list[str]:
    acted = list(acted)
    numbers = [state.observation[name] for name in observed]
    numbers += [state.action[name] for name in acted] + [state.logged_action[name] for name in acted]
    seen = str(state.resolution) if state.resolution else "outside"
    return [
        str(state.row),
        str(state.episode),
        str(state.step),
        *(f"{n:.4g}" for n in numbers),
        str(state.count),
        seen,
    ]


def share_rows(report: SupportReport) -> list[list[str]]:
    """A row each for the policy, the log and random actions."""
    return [
        [WHO[name], f"{each.in_log:.1%}", f"{each.count:g}", f"{each.uncertainty:.2f}"]
        for name, each in report.shares.items()
    ]


def _outside(report: SupportReport) -> list[RenderableType]:
    rows = outside_rows(report)
    return [_table("Columns that leave the log's range", OUTSIDE, rows)] if rows else []


def _table(title: str, heads: Iterable[str], rows: Iterable[list[str]]) -> Table:
    table = Table(title=title, title_justify="left")
    for place, head in enumerate(heads):
        table.add_column(head, justify="left" if place == 0 else "right")
    for row in rows:
        table.add_row(*row)
    return table
