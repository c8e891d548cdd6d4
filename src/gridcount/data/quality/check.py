"""Checks of a log before training: all problems, with column, row and advice."""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gridcount.data.formats.columns import Columns
from gridcount.data.formats.cut import Bounds, action_units, declared_units, rounding
from gridcount.data.formats.databases import validate_no_password
from gridcount.data.formats.log import BadValue, Log, log_of
from gridcount.data.load import open_log
from gridcount.data.quality.judge_actions import beyond_bounds, beyond_unit_range, few_actions
from gridcount.data.quality.judge_columns import constant, counted, huge, non_finite, scales, twin_columns
from gridcount.data.quality.judge_episodes import episodes, flags, steps
from gridcount.data.quality.judgement import Judge, Severity
from gridcount.data.quality.scan import Facts, scan
from gridcount.transitions import ACTION_SLACK, Transitions

# of every log; those of the bounds of actions come last
JUDGES: tuple[Judge, ...] = (
    non_finite,
    constant,
    twin_columns,
    scales,
    huge,
    few_actions,
    steps,
    flags,
    episodes,
    counted,
)


@dataclass(frozen=True)
class Finding:
    """One problem. Errors stop training; warnings cost performance or hint at a mistake; notes are
    information."""

    severity: Severity
    file: str
    column: str | None  # as the file calls it
    row: int | None  # the first affected, counted from 0 (a CSV's header is not counted)
    problem: str
    advice: str


def check(
    data: Log | Transitions | str | Path,
    columns: Columns | None = None,
    scale_actions: bool = False,
    action_bounds: Bounds | None = None,
) -> list[Finding]:
    """Every problem of a log, errors first; a file that cannot be read at all is a single error.

    Actions must lie in `action_bounds`. With `scale_actions`, ranges are checked only if the file declares
    bounds.
    """
    if isinstance(data, str | Path):
        validate_no_password(str(data))  # not among the findings, which repeat the address
        try:
            with open_log(data, columns) as log:
                return check(log, None, scale_actions, action_bounds)
        except (ValueError, FileNotFoundError) as error:
            return [_unreadable(str(data), error)]
    log = log_of(data) if isinstance(data, Transitions) else data
    given = action_bounds is not None
    bounds = action_units(log, False, action_bounds) or (declared_units(log) if scale_actions else None)
    judges = list(JUDGES)
    if bounds is not None:
        facts = scan(log, *bounds, rounding(*bounds))
        judges.append(partial(beyond_bounds, *bounds, given))
    else:
        facts = scan(log, np.array(-1.0), np.array(1.0), ACTION_SLACK)
        judges += [] if scale_actions else [beyond_unit_range]
    findings = _findings(log, facts, judges)
    return sorted(findings, key=lambda finding: ("error", "warning", "note").index(finding.severity))


def _findings(log: Log, facts: Facts, judges: list[Judge]) -> list[Finding]:
    """What the reader of a log and all judges found."""
    findings = [_unreadable(log.source, problem) for problem in log.problems]
    for judge in judges:
        for severity, column, row, problem, advice in judge(log, facts):
            findings.append(Finding(severity, log.source, column, row, problem, advice))
    for each in log.remarks:
        findings.append(Finding("warning", log.source, each.column, each.row, each.problem, each.advice))
    findings += [Finding("note", log.source, None, None, note, "") for note in log.notes]
    return findings


def _unreadable(source: str, error: Exception) -> Finding:
    """A reader's error as a finding; the message ends with the advice."""
    problem, _, advice = str(error).removeprefix(f"{source}: ").rpartition("; ")
    column, row = (error.column, error.row) if isinstance(error, BadValue) else (None, None)
    return Finding(
        "error", source, column, row, problem or advice, advice if problem else "repair or replace the file"
    )


def exit_code(findings: list[Finding]) -> int:
    """0 with only notes or nothing, 1 with warnings, 2 with errors."""
    return max(({"error": 2, "warning": 1}.get(finding.severity, 0) for finding in findings), default=0)


def as_json(source: str, findings: list[Finding]) -> dict[str, Any]:
    """The findings as plain data."""
    return {
        "source": source,
        "exit_code": exit_code(findings),
        "findings": [asdict(finding) for finding in findings],
    }


def render(source: str, findings: list[Finding]) -> RenderableType:
    """The findings as a table to read."""
    fine = Text(f"{source}: no problems found; ready for training", style="green")
    if not findings:
        return fine
    table = Table(
        "",
        "column",
        "row",
        "problem",
        "what to do",
        title=Text(source),
        title_justify="left",
        show_lines=True,
    )
    style = {"error": "bold red", "warning": "yellow", "note": "cyan"}
    for finding in findings:
        row = "" if finding.row is None else f"{finding.row:,}"
        cells = (finding.column or "", row, finding.problem, finding.advice)
        table.add_row(Text(finding.severity, style=style[finding.severity]), *map(Text, cells))
    return table if exit_code(findings) else Group(fine, table)
