"""Pictures of a dataset: returns, lengths, dimensions, coverage, and the map of a maze. Needs matplotlib."""

from pathlib import Path
from typing import Any

import numpy as np

from gridcount.catalogue import MAZE_NAMES, NAMES
from gridcount.counts.grid import fit_states
from gridcount.data.quality.describe import Description, describe
from gridcount.files import whole_file
from gridcount.transitions import Transitions

PER_ROW = 6  # small histograms side by side
OBSERVATION, ACTION = "tab:blue", "tab:orange"


def plot_description(
    data: Transitions, folder: str | Path, description: Description | None = None
) -> list[Path]:
    """Write the pictures into a folder and return their paths."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ValueError(
            f"pictures need matplotlib ({error}). Install it with: pip install 'gridcount[plots]'"
        ) from error
    description = describe(data) if description is None else description
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {
        "episodes": _episodes(Figure, data),
        "dimensions": _dimensions(Figure, data),
        "coverage": _coverage(Figure, data, description),
    }
    if data.name in MAZE_NAMES:
        pictures["map"] = _map(Figure, data)
    # of a path its last part: the whole path would not fit
    title = data.name if data.name in NAMES else Path(data.name).name
    written = []
    for name, (subtitle, figure) in pictures.items():
        figure.suptitle(f"{title}: {subtitle}", fontsize=11)
        path = folder / f"{name}.png"
        with whole_file(path, durable=False) as file:
            figure.savefig(file, dpi=120, format="png")
        written.append(path)
    return written


def _episodes(figure_class: Any, data: Transitions) -> tuple[str, Any]:
    from matplotlib.ticker import MaxNLocator

    figure = figure_class(figsize=(9, 3.5), layout="constrained")
    count = len(data.episode_lengths)
    panels = {"return (sum of rewards)": data.episode_returns, "length (steps)": data.episode_lengths}
    for axis, (label, values) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        axis.hist(values, bins=min(50, max(10, count)), color=OBSERVATION)
        axis.set(xlabel=label, ylabel="episodes")
        axis.yaxis.set_major_locator(MaxNLocator(integer=True))
        _plain(axis)
    return f"{count:,} episode{'s' if count > 1 else ''}", figure


def _dimensions(figure_class: Any, data: Transitions) -> tuple[str, Any]:
    """A histogram per dimension; the actions begin a row of their own."""
    groups = (
        (data.observation_names, data.observation, OBSERVATION),
        (data.action_names, data.action, ACTION),
    )
    width = min(PER_ROW, max(len(names) for names, _, _ in groups))
    rows = sum(-(-len(names) // width) for names, _, _ in groups)
    figure = figure_class(figsize=(max(2.2 * width, 8), 1.6 * rows + 0.6), layout="constrained")
    axes = figure.subplots(rows, width, squeeze=False)
    for axis in axes.ravel():
        axis.set_axis_off()
    first = 0
    for names, column, colour in groups:
        for d, name in enumerate(names):
            axis = axes[first + d // width, d % width]
            axis.set_axis_on()
            axis.hist(column[:, d], bins=50, color=colour)
            axis.set_title(_short(name), fontsize=8)
            axis.tick_params(labelsize=7)
            axis.locator_params(axis="x", nbins=5)
            axis.set_yticks([])  # every panel has its own height: shapes are to be compared, not counts
            _plain(axis)
        first += -(-len(names) // width)
    return "how often each value occurs, observations (blue) and actions in [-1, 1] (orange)", figure


def _coverage(figure_class: Any, data: Transitions, description: Description) -> tuple[str, Any]:
    """Visits per state cell, most visited first, and what share of all visits the first cells take."""
    from matplotlib.ticker import StrMethodFormatter

    grid = description.coverage
    cells, (state, _) = fit_states(
        data.observation, data.next_observation, grid.bins, grid.state_bins, grid.state_resolution
    )
    visits = np.bincount(state, minlength=cells.n_cells)
    visits = np.sort(visits[visits > 0])[::-1]
    figure = figure_class(figsize=(9, 3.5), layout="constrained")
    rank, share = figure.subplots(1, 2)
    rank.loglog(np.arange(1, len(visits) + 1), visits, color=OBSERVATION, drawstyle="steps-mid")
    rank.set(xlabel="state cell, most visited first", ylabel="visits", ylim=(0.8, max(10, 1.3 * visits[0])))
    for axis in (rank.xaxis, rank.yaxis):
        axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    order = np.arange(len(visits) + 1) / len(visits)
    share.plot(order, np.append(0, np.cumsum(visits)) / visits.sum(), color=OBSERVATION, label="this log")
    share.plot([0, 1], [0, 1], color="#888", linewidth=0.8, linestyle=":", label="all cells visited alike")
    share.set(
        xlabel="share of the visited cells, most visited first",
        ylabel="share of the visits",
        xlim=(0, 1),
        ylim=(0, 1.02),
    )
    share.legend(frameon=False, loc="lower right")
    for axis in (rank, share):
        _plain(axis)
    return (
        f"visits to {len(visits):,} state cells, {grid.state_bins} bins in each of {len(grid.state_columns)}"
        " dimensions",
        figure,
    )


def _map(figure_class: Any, data: Transitions) -> tuple[str, Any]:
    """Where a maze's particle has been: row downwards and column to the right, as the maps are written."""
    figure = figure_class(figsize=(5.4, 4.6), layout="constrained")
    axis = figure.subplots()
    visits, down, right = np.histogram2d(data.observation[:, 0], data.observation[:, 1], bins=100)
    extent = (right[0], right[-1], down[-1], down[0])
    image = axis.imshow(
        np.where(visits > 0, visits, np.nan),
        extent=extent,
        cmap="viridis",
        norm="log",
        interpolation="nearest",
    )
    axis.set_facecolor("#e8e8e8")
    axis.set(xlabel="y, observation[1] (maze cells)", ylabel="x, observation[0] (maze cells)")
    figure.colorbar(image, ax=axis, label="visits (grey: none)")
    return "where the particle has been", figure


def _plain(axis: Any) -> None:
    axis.spines[["top", "right"]].set_visible(False)


def _short(name: str, most: int = 25) -> str:
    """Both ends of a long name, because names may differ at either end."""
    return name if len(name) <= most else f"{name[: most // 2]}…{name[-(most // 2) :]}"
