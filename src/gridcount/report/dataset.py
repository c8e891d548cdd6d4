"""Pictures of a dataset: returns, lengths, dimensions, coverage, and the map of a maze. Needs matplotlib."""

from pathlib import Path
from typing import Any

import numpy as np

from gridcount.counts.grid import StateCells
from gridcount.data.catalogue import MAZE_NAMES
from gridcount.data.describe import Description, describe
from gridcount.data.transitions import Transitions

PER_ROW = 6  # small histograms side by side


def plot_description(data: Transitions, folder: str | Path, description: Description | None = None) -> list[Path]:
    """Write the pictures into a folder and return their paths."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ValueError(f"pictures need matplotlib ({error}). Install it with: pip install 'gridcount[plots]'") from error
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
    written = []
    for name, figure in pictures.items():
        figure.suptitle(f"{data.name}: {name}")
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=120)
        written.append(path)
    return written


def _episodes(figure_class: Any, data: Transitions) -> Any:
    figure = figure_class(figsize=(9, 3.5), layout="constrained")
    returns, lengths = figure.subplots(1, 2)
    returns.hist(data.episode_returns, bins=50)
    returns.set(xlabel="return", ylabel="episodes")
    lengths.hist(data.episode_lengths, bins=50)
    lengths.set(xlabel="length")
    return figure


def _dimensions(figure_class: Any, data: Transitions) -> Any:
    columns = [(name, data.observation[:, d], "tab:blue") for d, name in enumerate(data.observation_names)]
    columns += [(name, data.action[:, d], "tab:orange") for d, name in enumerate(data.action_names)]
    rows = -(-len(columns) // PER_ROW)
    figure = figure_class(figsize=(2.2 * PER_ROW, 1.6 * rows), layout="constrained")
    axes = figure.subplots(rows, PER_ROW, squeeze=False).ravel()
    for axis, (name, values, colour) in zip(axes, columns, strict=False):
        axis.hist(values, bins=50, color=colour)
        axis.set_title(name, fontsize=8)
        axis.tick_params(labelsize=6)
        axis.set_yticks([])
    for axis in axes[len(columns) :]:
        axis.set_axis_off()
    return figure


def _coverage(figure_class: Any, data: Transitions, description: Description) -> Any:
    """Visits per state cell, most visited first, and what share of all visits the first cells take."""
    grid = description.coverage
    cells, (state, _) = StateCells.fit(data.observation, data.next_observation, bins=grid.state_bins, resolution=grid.state_resolution)
    visits = np.bincount(state, minlength=cells.n_cells)
    visits = np.sort(visits[visits > 0])[::-1]
    figure = figure_class(figsize=(9, 3.5), layout="constrained")
    rank, share = figure.subplots(1, 2)
    rank.loglog(np.arange(1, len(visits) + 1), visits)
    rank.set(xlabel=f"state cell, by rank ({grid.state_bins} bins per dimension)", ylabel="visits")
    share.plot(np.arange(1, len(visits) + 1) / len(visits), np.cumsum(visits) / visits.sum())
    share.set(xlabel="share of visited cells", ylabel="share of visits", ylim=(0, 1.02))
    return figure


def _map(figure_class: Any, data: Transitions) -> Any:
    """Where a maze's particle has been: row downwards and column to the right, as the maps are written."""
    figure = figure_class(figsize=(5, 4.5), layout="constrained")
    axis = figure.subplots()
    visits, down, right = np.histogram2d(data.observation[:, 0], data.observation[:, 1], bins=100)
    image = axis.imshow(np.log10(1 + visits), extent=(right[0], right[-1], down[-1], down[0]), cmap="magma")
    axis.set(xlabel="y", ylabel="x")
    figure.colorbar(image, ax=axis, label="log10(1 + visits)")
    return figure
