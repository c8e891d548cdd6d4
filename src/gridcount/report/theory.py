"""Pictures of the theory's checks, from the figures that `gridcount theory` wrote."""

from pathlib import Path
from typing import Any

from gridcount.report.pictures import COLOURS, save_figure

try:
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter, ScalarFormatter
except ImportError as error:
    raise ImportError(
        f"pictures need Matplotlib ({error}). Install it with: pip install 'gridcount[plots]'"
    ) from error

GREY = "#777777"


def draw_theory(result: dict[str, Any], directory: Path) -> list[Path]:
    """All three pictures."""
    return [
        draw_tabular(result["tabular"], directory / "theory-tabular.png"),
        draw_linear(result["linear"], directory / "theory-linear.png"),
        draw_codes(result["codes"], directory / "theory-codes.png"),
    ]


def draw_tabular(result: dict[str, Any], path: Path) -> Path:
    """Coverage against Hoeffding's promise, and coverage while a run trains under both counts."""
    figure = Figure(figsize=(10, 3.9), layout="constrained")
    promised, trained = figure.subplots(1, 2)
    epochs = [row["epoch"] for row in result["coverage"]]
    for name, label, style in (
        ("promise", "promised by Hoeffding: 1 - 2/T²", {"color": GREY, "linestyle": "--"}),
        ("fixed_mean", "measured, all pairs", {"color": COLOURS[0], "marker": "o"}),
        ("fixed_worst_pair", "measured, worst pair", {"color": COLOURS[1], "marker": "s"}),
    ):
        promised.plot(epochs, [row[name] for row in result["coverage"]], label=label, **style)
    promised.annotate(
        "ln 1 = 0: nothing is covered",
        (1, 0),
        (1.3, 0.12),
        arrowprops={"arrowstyle": "->", "color": GREY},
        color=GREY,
    )
    promised.set(
        xscale="log",
        xlabel="T",
        ylabel="share of logs with |B̂V - BV| ≤ u",
        title="u with the log's own counts",
        ylim=(-0.03, 1.05),
    )
    epochs = [row["epoch"] for row in result["training"]]
    for name, label, colour in (
        ("data", "n counted on the log", COLOURS[0]),
        ("policy", "n counted on the policy's visits", COLOURS[1]),
    ):
        trained.plot(
            epochs, [row[f"{name}_coverage"] for row in result["training"]], "o-", color=colour, label=label
        )
    trained.set(
        xscale="log",
        xlabel="epochs of training (1,000 updates each)",
        title="the same, while a run trains",
        ylim=(-0.03, 1.05),
    )
    for axes in (promised, trained):
        finish(axes, percent=True)
    return save_figure(figure, path)


def draw_linear(result: dict[str, Any], path: Path) -> Path:
    """The smallest c over grids for both estimates, what the first c covers, and how well u follows the
    true error."""
    figure = Figure(figsize=(12.5, 7.2), layout="constrained")
    (constant, averaged, shape), (covers, averaged_covers, empty) = figure.subplots(2, 3)
    sizes = sorted({row["rows"] for row in result["grids"]})
    for rows, colour in zip(sizes, COLOURS, strict=False):
        grids = [row for row in result["grids"] if row["rows"] == rows]
        bins, label = [row["bins"] for row in grids], f"{rows:,} rows"
        for name, upper, lower in (("linear", constant, covers), ("cells", averaged, averaged_covers)):
            upper.plot(bins, [row[name]["smallest_c"] for row in grids], "o-", color=colour, label=label)
            lower.plot(
                bins, [row[name]["fixed_c_coverage"] for row in grids], "o-", color=colour, label=label
            )
        shape.plot(bins, [row["rank_correlation"] for row in grids], "o-", color=colour, label=label)
        empty.plot(bins, [row["empty"] for row in grids], "o-", color=colour, label=label)
    first = [row for row in result["grids"] if row["rows"] == sizes[-1]]
    bins = [row["bins"] for row in first]
    guide = [first[0]["linear"]["smallest_c"] * 2 / (b + 1) for b in bins]
    constant.plot(bins, guide, "--", color=GREY, label="∝ 1 / √cells")
    share = 1 - result["failure"]
    for axes in (covers, averaged_covers):
        axes.axhline(share, color=GREY, linestyle="--", linewidth=1, label=f"1 - ξ = {share:.0%}")
    constant.set(yscale="log", ylabel="smallest c (ln T = 1)", title="least squares on φ (the theorem's B̂)")
    averaged.set(yscale="log", ylabel="smallest c (ln T = 1)", title="average over the cell")
    shape.set(
        ylabel="rank correlation of u with the error", ylim=(0, 1.02), title="does u follow the true error?"
    )
    covers.set(
        ylabel="share with |B̂V - BV| ≤ c u",
        ylim=(0, 1.05),
        title=f"c fixed at {first[0]['linear']['fixed_c']:.2f}",
    )
    averaged_covers.set(
        ylabel="share with |B̂V - BV| ≤ c u",
        ylim=(0, 1.05),
        title=f"c fixed at {first[0]['cells']['fixed_c']:.2f}",
    )
    empty.set(ylabel="share of (s, a) in an empty cell", ylim=(-0.02, 1.05), title="what refining costs")
    for axes in (constant, averaged, shape, covers, averaged_covers, empty):
        _over_bins(axes, bins, percent=axes in (covers, averaged_covers, empty))
    return save_figure(figure, path)


def _over_bins(axes: Any, bins: list[int], *, percent: bool) -> None:
    """An axis of bins per dimension."""
    axes.set(xscale="log", xlabel="bins per dimension", xticks=bins)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.minorticks_off()
    finish(axes, percent=percent)


def draw_codes(result: dict[str, Any], path: Path) -> Path:
    """Cells that share a code under each coding, and which state dimensions the published 32-bit code does
    not see."""
    figure = Figure(figsize=(14, 4.2), layout="constrained")
    inside, beyond, blurred = figure.subplots(1, 3)
    within = [row for row in result["collisions"] if not row["outside"]]
    outside = [row for row in result["collisions"] if row["outside"]]
    _draw_collisions(inside, within, "cells of the data's range")
    _draw_collisions(beyond, outside, "actions up to a width beyond it")
    for (task, row), colour in zip(result["blur"].items(), COLOURS, strict=False):
        dimensions = range(1, len(row["unseen"]) + 1)
        blurred.plot(dimensions, row["unseen"], "o-", markersize=3, color=colour, label=task)
    blurred.set(
        xlabel="state dimension",
        ylabel="steps to the next cell not seen",
        title="published 32-bit state code",
        ylim=(-0.03, 1.05),
    )
    finish(blurred, percent=True)
    return save_figure(figure, path)


def _draw_collisions(axes: Any, rows: list[dict[str, Any]], title: str) -> None:
    """Bars per task, one for each coding; a dot where no cell shares its code."""
    names = {
        "printed": "Eq. 3 as printed",
        "meant": "Eq. 3 as meant",
        "published": "published (32-bit)",
        "ours": "gridcount",
    }
    for i, (name, label) in enumerate(names.items()):
        colour = COLOURS[(1, 3, 5, 0)[i]]
        shares = [
            row["ours_near"] / max(row["ours_strangers"], 1) if name == "ours" else row[name] for row in rows
        ]
        places = [place + (i - 1.5) * 0.2 for place in range(len(rows))]
        axes.bar(places, shares, width=0.18, color=colour, label=label)
        for place, each in zip(places, shares, strict=True):
            if each == 0:
                axes.plot(place, 0, "o", markersize=4, color=colour, clip_on=False)
    axes.set(
        title=title,
        ylabel="share that shares a code nearby",
        ylim=(0, 1.3),
        yticks=[0, 0.25, 0.5, 0.75, 1],
    )
    tasks = [f"{row['task']}\n{row['states']}+{row['actions']} d" for row in rows]
    axes.set_xticks(range(len(rows)), tasks, fontsize=7)
    finish(axes, percent=True, columns=2)


def finish(axes: Any, percent: bool, columns: int = 1) -> None:
    """What all panels have in common."""
    if percent:
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.legend(frameon=False, fontsize=8, ncols=columns)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
