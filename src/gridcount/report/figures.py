"""The report's figures as PNG and PDF, in the colours and dashes of its page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gridcount.files import whole_file
from gridcount.report.experiments import Section, in_words
from gridcount.report.score_tables import is_ablation

try:
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle
    from matplotlib.ticker import EngFormatter
except ImportError as error:
    raise ImportError(
        f"figures need Matplotlib ({error}). Install it with: pip install 'gridcount[plots]'"
    ) from error

COLOURS = (
    "#0067a8",
    "#c8500a",
    "#007f5f",
    "#a8427f",
    "#8c6a00",
    "#5b4bb3",
    "#2f7f93",
    "#4a4a4a",
)  # distinguishable with colour blindness
DASHES = ((), (6, 2), (2, 2), (8, 2, 2, 2), (10, 3), (4, 1, 1, 1), (1, 1.5), (6, 2, 1, 2, 1, 2))
ABREAST = 3  # panels side by side, as in the paper's figures
MOST_ABREAST = 4  # names side by side in a legend
MOST_COMPARED = 30  # methods in the matrix of probabilities of improvement
LONGEST = 40  # characters of a name in a figure


def style(index: int) -> tuple[str, tuple[float, ...]]:
    """Colour and dashes of a method: the dashes change when the colours repeat."""
    return COLOURS[index % len(COLOURS)], DASHES[(index + index // len(COLOURS)) % len(DASHES)]


def draw_section(section: Section, folder: Path, stem: str) -> list[Path]:
    """All figures of a suite; those it has no results for are left out."""
    makers = {
        "curves": draw_curves,
        "ablation": _ablation,
        "aggregates": _aggregates,
        "profile": _profile,
        "improvement": _improvement,
    }
    figures = {name: draw(section) for name, draw in makers.items()}
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in figures.items():
        if figure is not None:
            for suffix, facts in (("png", {"Software": None}), ("pdf", {"CreationDate": None})):
                path = folder / f"{stem}-{name}.{suffix}"
                with whole_file(path, durable=False) as file:
                    figure.savefig(file, dpi=150, metadata=facts, format=suffix)
                written.append(path)
    return written


def draw_curves(section: Section) -> Figure | None:
    """A panel per dataset, a line per method."""
    datasets = section.drawn_datasets()
    if not datasets:
        return None
    figure, panels = _panels(len(datasets))
    for axes, dataset in zip(panels, datasets, strict=False):
        metric = section.shown_metric(dataset)
        for index, method in enumerate(section.methods):
            cell = section.find(dataset, method)
            if cell is None or (curve := cell.curve(metric)) is None:
                continue
            colour, dashes = style(index)
            mean, spread = np.nanmean(curve.values, axis=0), np.nanstd(curve.values, axis=0)
            axes.fill_between(
                curve.updates, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0
            )
            marker = "o" if len(curve.updates) == 1 else None  # a line of one point is invisible
            axes.plot(
                curve.updates, mean, color=colour, dashes=dashes, marker=marker, label=method, linewidth=1.6
            )
        axes.set(title=_text(dataset), xlabel="updates", ylabel=_text(in_words(metric)))
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    _legend(figure, panels[: len(datasets)], section.methods)
    return figure


def _ablation(section: Section) -> Figure | None:
    if not is_ablation(section):
        return None
    datasets = section.scored_datasets()
    figure, panels = _panels(len(datasets), abreast=2)
    for axes, dataset in zip(panels, datasets, strict=False):
        cells = [
            cell for method in section.methods if (cell := section.find(dataset, method)) and cell.scores
        ]
        for algorithm in dict.fromkeys(cell.algorithm for cell in cells):
            own = [(place, cell) for place, cell in enumerate(cells) if cell.algorithm == algorithm]
            colour, _ = style(
                list(dict.fromkeys(each.algorithm for each in section.experiments)).index(algorithm)
            )
            places, means = [place for place, _ in own], [cell.scores.mean for _, cell in own if cell.scores]
            spreads = [cell.scores.spread for _, cell in own if cell.scores]
            axes.errorbar(
                places,
                means,
                yerr=spreads,
                color=colour,
                marker="o",
                capsize=4,
                linewidth=1.4,
                label=_text(algorithm),
            )
            for place, cell in own:
                values = list(cell.scores.seeds.values()) if cell.scores else []
                axes.plot([place] * len(values), values, ".", color=colour, alpha=0.45)
        axes.set_xticks(
            range(len(cells)), [_text(cell.setting) for cell in cells], rotation=20 if len(cells) > 4 else 0
        )
        axes.set(title=_text(dataset), ylabel=in_words(section.shown_metric(dataset)))
    return figure


def _aggregates(section: Section) -> Figure | None:
    scores = section.common()
    if not scores:
        return None
    figure = Figure(figsize=(9, 1.2 + 0.4 * len(scores)), layout="constrained")
    estimates = section.analysis.aggregates
    for axes, (name, by_method) in zip(
        figure.subplots(1, len(estimates), sharey=True), estimates.items(), strict=True
    ):
        for index, (method, found) in enumerate(by_method.items()):
            colour, _ = style(section.methods.index(method))
            if found.interval:
                axes.plot(
                    [100 * end for end in found.interval],
                    [index, index],
                    color=colour,
                    linewidth=9,
                    alpha=0.3,
                    solid_capstyle="butt",
                )
            axes.plot(100 * found.value, index, "|", color=colour, markersize=13, markeredgewidth=2.5)
        axes.set_yticks(range(len(scores)), [_text(method) for method in scores])
        axes.set(title=name, ylim=(len(scores) - 0.5, -0.5))
        _tidy(axes)
    return figure


def _profile(section: Section) -> Figure | None:
    scores = section.common()
    if not scores:
        return None
    figure = Figure(figsize=(6, 3.8), layout="constrained")
    axes, thresholds = figure.subplots(), section.analysis.thresholds
    for method, (value, band) in section.analysis.profiles.items():
        colour, dashes = style(section.methods.index(method))
        if band is not None:
            axes.fill_between(100 * thresholds, band[0], band[1], color=colour, alpha=0.15, linewidth=0)
        axes.plot(100 * thresholds, value, color=colour, dashes=dashes, label=method)
    axes.set(xlabel="normalised score τ", ylabel="share of runs above τ", ylim=(-0.02, 1.02))
    _tidy(axes)
    _legend(figure, [axes], list(scores))
    return figure


def _improvement(section: Section) -> Figure | None:
    scores = section.common()
    if not 2 <= len(scores) <= MOST_COMPARED:  # the page and the tables have them all
        return None
    figure = Figure(figsize=(2.4 + 0.9 * len(scores), 1.4 + 0.6 * len(scores)), layout="constrained")
    axes, names = figure.subplots(), [_text(method) for method in scores]
    place = {method: index for index, method in enumerate(scores)}
    for (ours, theirs), (value, _) in section.analysis.improvements.items():
        row, column = place[ours], place[theirs]
        corner, shade = (column - 0.5, row - 0.5), 0.65 * value
        axes.add_patch(Rectangle(corner, 1, 1, color=COLOURS[0], alpha=shade, linewidth=0))
        axes.text(column, row, f"{value:.2f}", ha="center", va="center")
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
    axes.set_yticks(range(len(names)), names)
    axes.set(title="P(line > column)", xlim=(-0.5, len(names) - 0.5), ylim=(len(names) - 0.5, -0.5))
    axes.spines[:].set_visible(False)
    return figure


def _panels(count: int, abreast: int = ABREAST) -> tuple[Figure, list[Any]]:
    columns = min(abreast, count)
    rows = -(-count // columns)
    figure = Figure(
        figsize=(4.2 * columns + (1.8 if columns == 1 else 0), 3.2 * rows + 0.4), layout="constrained"
    )
    panels = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for axes in panels[count:]:
        axes.set_axis_off()
    for axes in panels[:count]:
        _tidy(axes)
    return figure, panels


def _legend(figure: Figure, panels: Sequence[Any], methods: Sequence[str]) -> None:
    """One legend below all panels, with as many names abreast as there is room for."""
    lines = {line.get_label(): line for axes in panels for line in axes.get_lines()}
    shown = [method for method in methods if method in lines]
    handles, names = [lines[method] for method in shown], [_text(method) for method in shown]
    for columns in range(MOST_ABREAST, 0, -1):
        legend = figure.legend(handles, names, loc="outside lower center", ncols=columns, frameon=False)
        extent = legend.get_window_extent()
        if columns == 1 or extent.width <= figure.bbox.width:
            figure.set_figheight(
                figure.get_figheight() + extent.height / figure.dpi
            )  # many names take nothing from the panels
            return
        legend.remove()


def _tidy(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#888", alpha=0.2, linewidth=0.6)


def _text(name: str) -> str:
    """A name as it is, without its middle if it is too long (settings often differ at the end); dollar
    signs are escaped."""
    half = LONGEST // 2
    return (name if len(name) <= LONGEST else f"{name[:half]}…{name[1 - half :]}").replace("$", r"\$")
