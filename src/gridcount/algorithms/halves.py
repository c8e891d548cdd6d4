"""Two halves of a log, so that what one critic learns can be checked on rows that it has not seen."""

from typing import Any

import numpy as np

BLOCKS = 16  # parts that a log is divided into, at least, before they are dealt to the two critics


def second_half(episode_end: Any) -> Any:
    """[rows] 1 in a random half of the episodes, 0 in the others; few or long episodes are cut into parts.

    Neighbouring rows resemble each other, so whole episodes are dealt, not rows.
    """
    rows = len(episode_end)
    ends = np.append(np.flatnonzero(episode_end[:-1]) + 1, rows)
    longest = -(-rows // BLOCKS)
    cuts = np.unique(np.concatenate([ends, *_inner_cuts(ends, longest)]))
    dealt = np.random.default_rng(0).permutation(np.arange(len(cuts)) % 2)
    return np.repeat(dealt, np.diff(cuts, prepend=0)).astype(np.float32)


def _inner_cuts(ends: Any, longest: int) -> list[Any]:
    """Where episodes that are longer than `longest` are cut."""
    starts = np.append(0, ends[:-1])
    long = ends - starts > longest
    return [
        np.arange(start + longest, end, longest) for start, end in zip(starts[long], ends[long], strict=True)
    ]
