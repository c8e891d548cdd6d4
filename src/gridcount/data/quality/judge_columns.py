"""Judges of the values of columns."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from gridcount.counts.auto import auto_bins
from gridcount.counts.grid import DEFAULT_RESOLUTION, StateCells
from gridcount.data.formats.log import Log
from gridcount.data.formats.missing import missing_advice
from gridcount.data.quality.judgement import Judgement
from gridcount.data.quality.scan import Facts, Span
from gridcount.transitions import HUGE, Float, first_where

SCALES = 1e4  # ratio of ranges above which the smaller dimension is hardly used


def non_finite(log: Log, facts: Facts) -> Iterator[Judgement]:
    """Values that are NaN, infinite or empty."""
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


def constant(log: Log, facts: Facts) -> Iterator[Judgement]:
    """Columns with a single value."""
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


def twin_columns(log: Log, facts: Facts) -> Iterator[Judgement]:
    """Columns that hold the same values as another."""
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


def scales(log: Log, facts: Facts) -> Iterator[Judgement]:
    """Observations with ranges of very different size."""
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


def huge(log: Log, facts: Facts) -> Iterator[Judgement]:
    """Values so large that they may break training."""
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


def counted(log: Log, facts: Facts) -> Iterator[Judgement]:
    """The columns that distinguish states when counting: by default all that vary, with as many bins as
    possible."""
    span = facts.observation
    low, high = span.low.astype(np.float32), span.high.astype(np.float32)
    cells = StateCells.over(low, high, auto_bins(facts.action.dims)[0], DEFAULT_RESOLUTION)
    if len(cells.kept):
        problem = f"in a dataset of your own, states are counted with {cells.in_words(log.observation_names)}"
        advice = "fewer columns leave room for more bins; --state-resolution exact uses all of --state-bins"
        yield "note", None, None, problem, advice


def _groups(log: Log, facts: Facts) -> list[tuple[Span, tuple[str, ...]]]:
    groups = [
        (facts.observation, log.observation_names),
        (facts.action, log.action_names),
        (facts.reward, (log.reward_name,)),
    ]
    if facts.next_observation is not None:
        groups.append((facts.next_observation, log.next_observation_names))
    return groups


def _huge_in(dimension: int, values: Float) -> Any:
    return (np.arange(values.shape[1]) == dimension) & np.isfinite(values) & (np.abs(values) > HUGE)
