"""Description of a dataset: size, episodes, ranges, coverage of the grid, and suggested hyper-parameters."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gridcount.counts.auto import auto_bins, auto_pessimism, auto_q_floor
from gridcount.counts.grid import DEFAULT_RESOLUTION, StateCells, StateResolution, fit_states
from gridcount.paper import PAPER, PaperRow
from gridcount.transitions import Transitions, chunks

DISCOUNT = 0.99  # what the suggested q_floor assumes
HISTOGRAM_BINS = 40
BLOCKS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Summary:
    """Five statistics and a histogram of one quantity."""

    low: float
    mean: float
    median: float
    high: float
    histogram: list[int]  # over HISTOGRAM_BINS equal widths from low to high


@dataclass(frozen=True)
class Dimension:
    """Range and spread of one dimension."""

    name: str
    low: float
    mean: float
    high: float
    deviation: float
    bins: int  # number of bins when counting; 0: not counted


@dataclass(frozen=True)
class Coverage:
    """How the log's visits spread over the grid."""

    bins: int  # partitions per action dimension
    state_bins: int  # partitions per state dimension
    state_resolution: StateResolution  # rule that selects the state dimensions and their bins
    state_columns: tuple[int, ...]  # the state dimensions that count
    grid: str  # the same in words, with the columns' names
    state_cells: int  # distinct cells of the observations
    pairs: int  # different (state cell, action cell) pairs
    top_share: float  # share of visits that the most visited 1 % of state cells take
    seen_once: float  # share of state cells visited a single time


@dataclass(frozen=True)
class Suggestion:
    """A hyper-parameter for this data and the rule it came from."""

    value: float
    rule: str


@dataclass(frozen=True)
class Description:
    """The whole description, as plain data."""

    name: str
    transitions: int
    episodes: int
    terminal_episodes: int
    lengths: Summary
    returns: Summary
    reward_low: float
    reward_mean: float
    reward_high: float
    reward_middle: float  # (low + high) / 2, the paper's mid-range
    observation: list[Dimension]
    action: list[Dimension]  # in the log's units
    coverage: Coverage
    suggestions: dict[str, Suggestion]
    paper: dict[str, float] | None  # the paper's values, for its 21 datasets

    def as_json(self) -> dict[str, Any]:
        """The description as JSON data."""
        return asdict(self)


def describe(
    data: Transitions,
    bins: int | None = None,
    state_bins: int | None = None,
    state_resolution: StateResolution = DEFAULT_RESOLUTION,
) -> Description:
    """Describe a dataset; its coverage on a grid of `bins` partitions per dimension (default: the
    suggested number), or `state_bins`."""
    suggested, bins_rule = auto_bins(data.action_dim)
    reward_low, reward_high = float(data.reward.min()), float(data.reward.max())
    reward_mean = float(data.reward.mean(dtype=np.float64))
    pessimism, pessimism_rule = auto_pessimism(reward_low, reward_high, reward_mean)
    floor, floor_rule = auto_q_floor(reward_low, DISCOUNT)
    paper = PAPER.get(data.name)
    grid = coverage(data, suggested if bins is None else bins, state_bins, state_resolution)
    return Description(
        name=data.name,
        transitions=len(data),
        episodes=len(data.episode_lengths),
        terminal_episodes=int(np.count_nonzero(data.terminated)),
        lengths=summarise(data.episode_lengths.astype(np.float64)),
        returns=summarise(data.episode_returns),
        reward_low=reward_low,
        reward_mean=reward_mean,
        reward_high=reward_high,
        reward_middle=(reward_low + reward_high) / 2,
        observation=_dimensions(
            data.observation_names,
            data.observation,
            lambda d: grid.state_bins if d in grid.state_columns else 0,
        ),
        action=_in_units(data, _dimensions(data.action_names, data.action, lambda _: grid.bins)),
        coverage=grid,
        suggestions={
            "bins": Suggestion(suggested, bins_rule),
            "pessimism": Suggestion(pessimism, pessimism_rule),
            "q_floor": Suggestion(floor, floor_rule),
        },
        paper=None if paper is None else {field: float(value) for field, value in paper._asdict().items()},
    )


def coverage(
    data: Transitions,
    bins: int,
    state_bins: int | None = None,
    state_resolution: StateResolution = DEFAULT_RESOLUTION,
) -> Coverage:
    """How many cells the log visits, and how evenly, on GPC-SAC's grid."""
    cells, (state, _) = fit_states(
        data.observation, data.next_observation, bins, state_bins, state_resolution
    )
    actions, (action,) = StateCells.fit(
        data.action, bins=bins
    )  # ranked cells, which need no table of (bins + 1)^dims entries
    visits = np.bincount(state, minlength=cells.n_cells)
    visits = np.sort(visits[visits > 0])[::-1]  # cells of next observations only do not count as visits
    pair = state.astype(np.int64) * actions.n_cells + action
    return Coverage(
        bins=bins,
        state_bins=cells.bins,
        state_resolution=state_resolution,
        state_columns=tuple(int(d) for d in cells.kept),
        grid=f"actions: {bins} bins per dimension; states: {cells.in_words(data.observation_names)}",
        state_cells=len(visits),
        pairs=len(np.unique(pair)),
        top_share=float(visits[: math.ceil(len(visits) / 100)].sum() / len(data)),
        seen_once=float(np.mean(visits == 1)),
    )


def summarise(values: NDArray[np.float64]) -> Summary:
    """Five figures and a histogram."""
    # scaled first, because NumPy cannot make bins of values that differ only in the last digits
    width = np.ptp(values) or 1.0
    histogram, _ = np.histogram((values - values.min()) / width, bins=HISTOGRAM_BINS, range=(0, 1))
    return Summary(
        float(values.min()),
        float(values.mean()),
        float(np.median(values)),
        float(values.max()),
        histogram.tolist(),
    )


def _dimensions(
    names: tuple[str, ...], column: NDArray[np.float32], bins: Callable[[int], int]
) -> list[Dimension]:
    dims = column.shape[1]
    low, high = column.min(axis=0), column.max(axis=0)
    mean = column.mean(axis=0, dtype=np.float64)
    square = np.zeros(dims)
    for rows in chunks(len(column), 4 * dims):
        square += np.square(column[rows] - mean).sum(axis=0)
    deviation = np.sqrt(square / len(column))
    return [
        Dimension(names[d], float(low[d]), float(mean[d]), float(high[d]), float(deviation[d]), bins(d))
        for d in range(dims)
    ]


def _in_units(data: Transitions, actions: list[Dimension]) -> list[Dimension]:
    """Statistics of actions in the log's units."""
    low, mean, high = (
        data.in_units(np.array([getattr(each, end) for each in actions])) for end in ("low", "mean", "high")
    )
    width = (np.asarray(data.action_high, np.float64) - data.action_low) / 2
    scaled = zip(actions, low.tolist(), mean.tolist(), high.tolist(), width.tolist(), strict=True)
    return [replace(each, low=a, mean=b, high=c, deviation=each.deviation * w) for each, a, b, c, w in scaled]


def sparkline(histogram: list[int]) -> str:
    """A histogram in one line of block characters; any count above zero is visible."""
    top = max(histogram)
    return "".join(BLOCKS[math.ceil(8 * count / top)] for count in histogram)


def render(description: Description) -> RenderableType:
    """The description as tables to read."""
    d = description
    facts = Table.grid(padding=(0, 2))
    for name, value in {
        "transitions": f"{d.transitions:,}",
        "episodes": f"{d.episodes:,}, {d.terminal_episodes:,} of them terminated",
        "reward": f"mean {d.reward_mean:.4g}, from {d.reward_low:.4g} to {d.reward_high:.4g}, mid-range {d.reward_middle:.4g}",
    }.items():
        facts.add_row(name, value)
    for name, summary in {"episode return": d.returns, "episode length": d.lengths}.items():
        facts.add_row(name, f"mean {summary.mean:,.4g}, median {summary.median:,.4g}")
        ends = (f"{summary.low:,.4g} ", f" {summary.high:,.4g}")
        facts.add_row("", Text.assemble(ends[0], (sparkline(summary.histogram), "cyan"), ends[1]))
    c = d.coverage
    facts.add_row("grid", Text(c.grid))
    facts.add_row("", f"{c.state_cells:,} state cells visited, {c.pairs:,} (state, action) cells")
    facts.add_row(
        "",
        f"the top 1 % of cells take {c.top_share:.1%} of the visits; {c.seen_once:.1%} of the cells were"
        " seen once",
    )

    ranges = Table("dimension", "low", "mean", "high", "deviation", "bins")
    for dimension in (*d.observation, *d.action):
        figures = (dimension.low, dimension.mean, dimension.high, dimension.deviation)
        counted = str(dimension.bins) if dimension.bins else "not counted"
        ranges.add_row(Text(dimension.name), *(f"{figure:.4g}" for figure in figures), counted)

    suggestions = Table("suggested", "value", "rule")
    for name, suggestion in d.suggestions.items():
        suggestions.add_row(name, f"{suggestion.value:.4g}", Text(suggestion.rule))
    parts: list[RenderableType] = [Text(d.name, style="bold"), facts, ranges, suggestions]
    if d.paper is not None:
        parts.append(_paper_table(d, d.paper))
    return Group(*parts)


def _paper_table(d: Description, paper: dict[str, float]) -> Table:
    ours = {
        "bins": d.suggestions["bins"].value,
        "pessimism": d.suggestions["pessimism"].value,
        "reward_mean": d.reward_mean,
        "reward_middle": d.reward_middle,
        "action_dim": float(len(d.action)),
    }
    table = Table("", "the paper", "here", title="compared with the paper", title_justify="left")
    for field in PaperRow._fields:
        table.add_row(
            field.replace("_", " "), f"{paper[field]:.4g}", f"{ours[field]:.4g}" if field in ours else ""
        )
    return table
