"""Checks of a log before training: all problems, with column, row and advice."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gridcount.counts.auto import auto_bins
from gridcount.counts.grid import DEFAULT_RESOLUTION, StateCells
from gridcount.data.formats.columns import Columns
from gridcount.data.formats.cut import Bounds, action_units, bounds_advice, declared_units, rounding, scaled
from gridcount.data.formats.databases import validate_no_password
from gridcount.data.formats.log import BadValue, Log, log_of
from gridcount.data.formats.missing import missing_advice
from gridcount.data.load import open_log
from gridcount.data.quality.scan import ROWS_PER_VALUE, Facts, Span, scan
from gridcount.transitions import ACTION_SLACK, CHUNK, HUGE, Float, Transitions, first_where

Severity = Literal["error", "warning", "note"]

SCALES = 1e4  # ratio of ranges above which the smaller dimension is hardly used
TINY_ACTIONS = 0.1  # actions within this range were probably not scaled
# share of rows whose next observation is not the row below, above which it is an error
MISALIGNED_ERROR = 0.1
ONE_ROW_WARNING = 0.05  # share of one-row episodes above which it is a warning
# mean squared step over twice the variance: 1 where rows are independent of each other, near 0 in a log
SHUFFLED = 0.7
USUAL_WARNING = 0.95  # share of rows with the same action above which it is a warning
UNEVEN = 0.05  # tolerance of equally spaced values, as a share of the step
ROUNDED = "round the policy's actions to the nearest logged value with policy.rounded(observation)"
SHORTEST_TWIN = 3  # rows; shorter episodes may be equal by chance


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
    facts = (
        scan(log, np.array(-1.0), np.array(1.0), ACTION_SLACK)
        if bounds is None
        else scan(log, *bounds, rounding(*bounds))
    )
    judges: list[Callable[[Log, Facts], Iterator[_Judgement]]] = [
        _non_finite,
        _constant,
        _twin_columns,
        _scales,
        _huge,
        _few_actions,
        _steps,
        _flags,
        _episodes,
        _counted,
    ]
    if bounds is not None:
        judges.append(partial(_bounded, *bounds, given))
    elif not scale_actions:
        judges.append(_actions)
    findings = [_unreadable(log.source, problem) for problem in log.problems] + [
        Finding(severity, log.source, column, row, problem, advice)
        for judge in judges
        for severity, column, row, problem, advice in judge(log, facts)
    ]
    findings += [
        Finding("warning", log.source, each.column, each.row, each.problem, each.advice)
        for each in log.remarks
    ]
    findings += [Finding("note", log.source, None, None, note, "") for note in log.notes]
    return sorted(findings, key=lambda finding: ("error", "warning", "note").index(finding.severity))


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


_Judgement = tuple[Severity, str | None, int | None, str, str]  # severity, column, row, problem, advice


def _groups(log: Log, facts: Facts) -> list[tuple[Span, tuple[str, ...]]]:
    groups = [
        (facts.observation, log.observation_names),
        (facts.action, log.action_names),
        (facts.reward, (log.reward_name,)),
    ]
    if facts.next_observation is not None:
        groups.append((facts.next_observation, log.next_observation_names))
    return groups


def _non_finite(log: Log, facts: Facts) -> Iterator[_Judgement]:
    unreadable = {problem.column for problem in log.problems}  # NaN replaces unreadable values
    advice = ""
    for span, names in _groups(log, facts):
        for d in np.flatnonzero(span.non_finite):
            if names[d] in unreadable or names[d].rpartition("[")[0] in unreadable:
                continue
            count = int(span.non_finite[d])
            advice = advice or missing_advice(log)
            yield (
                "error",
                names[d],
                int(span.first_non_finite[d]),
                f"{count:,} value{'s are' if count > 1 else ' is'} NaN, infinite or empty",
                advice,
            )


def _actions(log: Log, facts: Facts) -> Iterator[_Judgement]:
    span = facts.action
    largest = np.maximum(np.abs(span.low), np.abs(span.high))
    if facts.outside.count:
        for d in map(int, np.flatnonzero(largest > 1 + ACTION_SLACK)):
            count, first = _outside(log.action, d, np.array(-1.0), np.array(1.0), ACTION_SLACK)
            yield (
                "error",
                log.action_names[d],
                first,
                f"{count:,} rows have actions outside [-1, 1]; here {span.low[d]:.4g} to {span.high[d]:.4g}",
                "import with --scale-actions, or with --action-low and --action-high: actions are mapped to"
                " [-1, 1] and back",
            )
    elif largest.max() < TINY_ACTIONS and not span.constant.all():
        yield (
            "warning",
            log.action_names[int(np.argmax(largest))],
            None,
            f"all actions lie in [-{largest.max():.2g}, {largest.max():.2g}], a small part of [-1, 1]",
            "if these are not scaled yet, import with --scale-actions; otherwise the policy tries actions"
            " far outside the data",
        )


def _few_actions(log: Log, facts: Facts) -> Iterator[_Judgement]:
    """Actions that are not continuous, or that hardly vary."""
    span, bins = facts.action, auto_bins(log.action.shape[1])[0]
    if facts.whole_actions and span.low.min() >= 0 and not span.constant.all():
        yield (
            "warning",
            log.action_names[0],
            None,
            "every action is a non-negative integer, like a category code",
            "only continuous actions are supported; the order and distance of category codes have no meaning",
        )
    moving = [int(d) for d in np.flatnonzero(~span.constant)]
    few = {
        d: values for d in moving if (values := facts.action_values[d]) and _are_few(values, bins, len(log))
    }
    way_out = _few_values_advice(list(few.values()), bins)
    for d in moving:
        name, share = log.action_names[d], facts.usual_rows[d] / len(log)
        if share >= USUAL_WARNING:
            problem = f"is {facts.usual_action[d]:.6g} in {share:.1%} of the rows"
            advice = "few rows have other values, so estimates for other actions are unreliable; add rows that vary it, or leave it out"
            yield "warning", name, None, problem, advice
        if d in few:
            problem = f"takes only {len(few[d])} different values, {span.low[d]:.6g} to {span.high[d]:.6g}"
            yield "warning", name, None, problem, way_out


def _are_few(values: set[float], bins: int, rows: int) -> bool:
    """Whether an action has so few distinct values that bins between them stay empty."""
    return len(values) - 1 < bins and rows >= ROWS_PER_VALUE * len(values)


def _few_values_advice(columns: list[set[float]], bins: int) -> str:
    """Advice for actions with few values: a number of bins that separates all values, if there is one."""
    problem = f"a policy chooses from a continuous range: with the default {bins} bins, actions between these values count as never seen"
    counts = {len(values) for values in columns}
    if len(counts) == 1 and all(map(_equally_spaced, columns)):
        return f"{problem}. Train with --bins {counts.pop() - 1}, and {ROUNDED}"
    return f"{problem}. {ROUNDED.capitalize()}"


def _equally_spaced(values: set[float]) -> bool:
    ordered = np.sort(list(values))
    steps = (len(ordered) - 1) * (ordered - ordered[0]) / (ordered[-1] - ordered[0])
    return bool(np.abs(steps - np.arange(len(ordered))).max() < UNEVEN)


def _bounded(low: Float, high: Float, given: bool, log: Log, facts: Facts) -> Iterator[_Judgement]:
    if not facts.outside.count:
        return
    slack, bounds = rounding(low, high), "the bounds given" if given else "the bounds the file declares"
    for d, name in enumerate(log.action_names):
        count, first = _outside(log.action, d, low[d], high[d], slack[d])
        if count:
            problem = f"{count:,} rows have actions outside {bounds}, {low[d]:.9g} to {high[d]:.9g}"
            problem += f"; here {facts.action.low[d]:.9g} to {facts.action.high[d]:.9g}"
            yield "error", name, first, problem, bounds_advice(given)


def _outside(action: Any, dimension: int, low: Any, high: Any, slack: float) -> tuple[int, int]:
    """The number of rows outside the bounds of one dimension, and the first of them."""
    count, first = 0, -1
    for start in range(0, len(action), CHUNK):
        values = np.asarray(action[start : start + CHUNK])[:, dimension]
        with np.errstate(invalid="ignore", over="ignore"):
            beyond = (np.abs(scaled(values, low, high)) > 1 + slack) & np.isfinite(values)
        if beyond.any() and not count:
            first = start + int(np.argmax(beyond))
        count += int(np.count_nonzero(beyond))
    return count, first


def _constant(log: Log, facts: Facts) -> Iterator[_Judgement]:
    for span, names, role in (
        (facts.observation, log.observation_names, "observation"),
        (facts.action, log.action_names, "action"),
    ):
        for d in np.flatnonzero(span.constant & (span.non_finite < span.rows)):
            advice = (
                "leave it out, or find out why it is constant"
                if role == "observation"
                else "leave it out: a constant action cannot be learnt"
            )
            yield "warning", names[d], None, f"is always {span.low[d]:.6g}", advice
    if facts.reward.constant[0] and facts.reward.non_finite[0] < facts.reward.rows:
        advice = "with equal rewards nothing can be learnt; check the reward column, or add more data"
        yield "warning", log.reward_name, None, f"is always {facts.reward.low[0]:.6g}", advice


def _twin_columns(log: Log, facts: Facts) -> Iterator[_Judgement]:
    first: dict[int, str] = {}
    spans = (
        (facts.observation, log.observation_names),
        (facts.action, log.action_names),
        (facts.reward, (log.reward_name,)),
    )
    for span, names in spans:
        for d in np.flatnonzero(~span.constant):
            twin = first.setdefault(span.digest[d], names[d])
            if twin != names[d]:
                advice = (
                    "leave one of them out"
                    if span is facts.observation
                    else "a policy must not observe this: choose the columns again"
                )
                yield "warning", names[d], None, f"holds the same values as '{twin}'", advice


def _scales(log: Log, facts: Facts) -> Iterator[_Judgement]:
    span = facts.observation
    moving = np.flatnonzero(~span.constant)
    if len(moving) < 2:
        return
    width = (span.high - span.low)[moving]
    small, large = moving[int(np.argmin(width))], moving[int(np.argmax(width))]
    ratio = width.max() / width.min()
    if ratio > SCALES:
        yield (
            "warning",
            log.observation_names[small],
            None,
            f"has a range of {width.min():.3g}, but '{log.observation_names[large]}' has {width.max():.3g},"
            f" {ratio:.1g} times as much",
            "algorithms that normalise observations (--normalise; gpc-sac, td3-bc and bc do so by default)"
            " are not affected;"
            " for the others, rescale both to similar units",
        )


def _counted(log: Log, facts: Facts) -> Iterator[_Judgement]:
    """The columns that distinguish states when counting: by default all that vary, with as many bins as
    possible."""
    span = facts.observation
    low, high = span.low.astype(np.float32), span.high.astype(np.float32)
    cells = StateCells.over(low, high, auto_bins(facts.action.dims)[0], DEFAULT_RESOLUTION)
    if len(cells.kept):
        problem = f"in a dataset of your own, states are counted with {cells.in_words(log.observation_names)}"
        advice = "fewer columns leave room for more bins; --state-resolution exact uses all of --state-bins"
        yield "note", None, None, problem, advice


def _huge(log: Log, facts: Facts) -> Iterator[_Judgement]:
    groups = (
        (facts.observation, log.observation, log.observation_names),
        (facts.reward, log.reward, (log.reward_name,)),
    )
    for span, column, names in groups:
        size = np.maximum(np.abs(span.low), np.abs(span.high))
        for d in map(int, np.flatnonzero((size > HUGE) & (span.non_finite < span.rows))):
            if found := first_where(column, partial(_huge_in, d)):
                advice = (
                    "such large values may break training: repair or remove the row, or rescale the column"
                )
                yield "warning", names[d], found[0], f"holds {found[2]:.4g}", advice


def _huge_in(dimension: int, values: Float) -> Any:
    return (np.arange(values.shape[1]) == dimension) & np.isfinite(values) & (np.abs(values) > HUGE)


def _steps(log: Log, facts: Facts) -> Iterator[_Judgement]:
    for name, rows in zip(log.observation_names, facts.jumps, strict=True):
        if rows.count:
            yield (
                "warning",
                name,
                rows.first,
                f"jumps inside an episode {rows.count:,} time{'s' if rows.count > 1 else ''}, by much more"
                " than its usual step",
                "if an episode ends there, mark it (truncated, or an episode id); otherwise look for wrong"
                " measurements",
            )
    if facts.misaligned.count:
        share = facts.misaligned.count / max(facts.inside, 1)
        yield (
            "error" if share >= MISALIGNED_ERROR else "warning",
            "next_observation",
            facts.misaligned.first,
            f"is not the observation of the row below, in {facts.misaligned.count:,} rows inside episodes"
            f" ({share:.0%})",
            "leave the column out, so that it is computed; if rows have no time order, give each its own"
            " episode id",
        )
    variance = 2 * facts.observation.variance
    moving = ~facts.observation.constant & (variance > 0)
    if facts.inside >= 20 and moving.any() and log.next_observation is None:
        ratio = facts.step_squares[moving] / facts.inside / variance[moving]
        if ratio.min() > SHUFFLED:
            advice = "sort the rows by episode and time; next observations are taken from the next row"
            yield "warning", None, None, "rows look shuffled: adjacent rows are uncorrelated", advice


def _flags(log: Log, facts: Facts) -> Iterator[_Judgement]:
    terminals = int(np.count_nonzero(log.terminated))
    if terminals == 0:
        advice = (
            "correct for tasks that never end; if some states are terminal, name their flag with --terminated"
        )
        yield (
            "note",
            "terminated",
            None,
            "no row is terminal, so values are bootstrapped at the end of every episode",
            advice,
        )
    elif terminals == len(log) and len(log) > 1:
        advice = "check the column of the flag; with it only immediate rewards are learnt"
        yield "warning", "terminated", 0, "every row is terminal", advice


def _episodes(log: Log, facts: Facts) -> Iterator[_Judgement]:
    lengths, starts = facts.episode_lengths, facts.episode_starts
    single = np.flatnonzero(lengths == 1)
    if len(single):
        share = len(single) / len(log)
        fate = "they are dropped unless terminal" if log.next_observation is None else "they are kept"
        yield (
            "warning" if share > ONE_ROW_WARNING else "note",
            None,
            int(starts[single[0]]),
            f"{len(single):,} of {len(lengths):,} episodes have one row; {fate}",
            "if this is not intended, check the episode column and the flags",
        )
    if log.problems:
        return  # unreadable values are all NaN, so different episodes would look equal
    long = np.flatnonzero(lengths >= SHORTEST_TWIN)
    _, first, inverse = np.unique(facts.episode_digests[long], return_index=True, return_inverse=True)
    twins = long[first[inverse] != np.arange(len(long))]
    if len(twins):
        original = long[first[inverse[np.flatnonzero(long == twins[0])[0]]]]
        yield (
            "warning",
            None,
            int(starts[twins[0]]),
            f"{len(twins):,} episodes repeat an earlier one; the first repeats the episode at row"
            f" {starts[original]:,}",
            "remove the copies: they are counted twice, so coverage is overestimated",
        )
