"""Judges of the actions: their bounds, and how many different ones there are."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from gridcount.counts.auto import auto_bins
from gridcount.data.formats.cut import bounds_advice, rounding
from gridcount.data.formats.log import Log
from gridcount.data.quality.judgement import Judgement
from gridcount.data.quality.scan import ROWS_PER_VALUE, Facts
from gridcount.transitions import ACTION_SLACK, CHUNK, Float, scaled

TINY_ACTIONS = 0.1  # actions within this range were probably not scaled
USUAL_WARNING = 0.95  # share of rows with the same action above which it is a warning
UNEVEN = 0.05  # tolerance of equally spaced values, as a share of the step
ROUNDED = "decide with policy.decide or policy.rounded, which give the nearest logged value"


def beyond_unit_range(log: Log, facts: Facts) -> Iterator[Judgement]:
    """Actions outside [-1, 1], or in a small part of it."""
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


def beyond_bounds(low: Float, high: Float, given: bool, log: Log, facts: Facts) -> Iterator[Judgement]:
    """Actions outside the bounds given, or those that the file declares."""
    if not facts.outside.count:
        return
    slack, bounds = rounding(low, high), "the bounds given" if given else "the bounds the file declares"
    for d, name in enumerate(log.action_names):
        count, first = _outside(log.action, d, low[d], high[d], slack[d])
        if count:
            problem = f"{count:,} rows have actions outside {bounds}, {low[d]:.9g} to {high[d]:.9g}"
            problem += f"; here {facts.action.low[d]:.9g} to {facts.action.high[d]:.9g}"
            yield "error", name, first, problem, bounds_advice(given)


def few_actions(log: Log, facts: Facts) -> Iterator[Judgement]:
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
