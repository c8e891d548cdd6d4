"""Judges of the order of rows: steps, flags and episodes."""

from collections.abc import Iterator

import numpy as np

from gridcount.data.formats.log import Log
from gridcount.data.quality.judgement import Judgement
from gridcount.data.quality.scan import Facts

# share of rows whose next observation is not the row below, above which it is an error
MISALIGNED_ERROR = 0.1
ONE_ROW_WARNING = 0.05  # share of one-row episodes above which it is a warning
# mean squared step over twice the variance: 1 where rows are independent of each other, near 0 in a log
SHUFFLED = 0.7
SHORTEST_TWIN = 3  # rows; shorter episodes may be equal by chance


def steps(log: Log, facts: Facts) -> Iterator[Judgement]:
    """Steps of the observations: jumps, next observations of other rows, shuffled rows."""
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


def flags(log: Log, facts: Facts) -> Iterator[Judgement]:
    """Flags that are never or always set."""
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


def episodes(log: Log, facts: Facts) -> Iterator[Judgement]:
    """Episodes of one row, and episodes that repeat another."""
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
