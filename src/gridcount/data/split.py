"""A log split by episode: some episodes are held out, and training never sees them."""

import tempfile
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcount.files.cache import cache_directory
from gridcount.transitions import Transitions, chunks

COLUMNS = ("observation", "action", "reward", "next_observation", "terminated", "episode_end")


@dataclass(frozen=True)
class Split:
    """Which episodes are held out: a share of them, chosen by a seed."""

    share: float = 0.0
    seed: int = 0

    def check(self) -> None:
        """Raise ValueError for values that no split can have."""
        if not 0 <= self.share < 1:
            raise ValueError(
                f"--hold-out is {self.share:g}; it is a share of the episodes, from 0 to below 1"
            )
        if self.seed < 0:
            raise ValueError(f"--hold-out-seed is {self.seed}; it must be at least 0")

    def held_out(self, data: Transitions) -> NDArray[np.bool_]:
        """[episodes] whether each is held out.

        Episodes are put in an order that depends on the seed and their number alone, and the first ones are
        held out. So runs with one seed hold out the same episodes, and a larger share holds out those of a
        smaller one and more.
        """
        self.check()
        episodes = len(data.episode_lengths)
        held = np.zeros(episodes, np.bool_)
        if self.share == 0:
            return held
        if episodes < 2:
            raise ValueError(
                f"{data.name}: has 1 episode, and --hold-out needs at least 2; name the column that tells"
                " episodes"
                " apart with --episode, or leave out --hold-out"
            )
        count = min(max(1, round(self.share * episodes)), episodes - 1)
        held[np.random.default_rng(self.seed).permutation(episodes)[:count]] = True
        return held

    def training_part(self, data: Transitions) -> Transitions:
        """The episodes that are not held out; the data itself if none is."""
        return data if self.share == 0 else take_episodes(data, ~self.held_out(data))

    def held_out_part(self, data: Transitions) -> Transitions:
        """The episodes that are held out."""
        return take_episodes(data, self.held_out(data))


def take_episodes(data: Transitions, chosen: NDArray[np.bool_]) -> Transitions:
    """Some episodes of a log, in its order. Columns on disk stay there: they are copied to temporary
    files."""
    rows = np.flatnonzero(np.repeat(chosen, data.episode_lengths))
    columns: dict[str, Any] = {name: _take(getattr(data, name), rows) for name in COLUMNS}
    return replace(data, **columns)


def _take(column: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    if not isinstance(column, np.memmap):
        return column[rows]
    folder = cache_directory() / "split"
    folder.mkdir(parents=True, exist_ok=True)
    shape = (len(rows), *column.shape[1:])
    with tempfile.TemporaryFile(dir=folder) as file:  # the map keeps it after it is closed
        taken = np.memmap(file, column.dtype, "w+", shape=shape)
    for part in chunks(len(rows), column[:1].nbytes):
        taken[part] = column[rows[part]]
    return taken
