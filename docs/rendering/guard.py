"""What a guard holds back, and what it is worth."""

import json
from typing import Any

import numpy as np

from rendering import ROOT, table

GUARD_COLUMNS = {
    "steps_unseen": "steps in unseen states",
    "steps_held": "steps held",
    "episodes_that_enter": "episodes that enter the region",
    "score": "score",
    "score_if_hazard": "score if the region were a hazard",
}


def guard_logs_table() -> str:
    """The defaults of a guard on several logs."""
    path = ROOT / "results" / "guard-logs.json"
    if not path.exists():
        return "Not yet measured."
    head = "log | columns, actions | looked up in | resolution | min_count | own decisions held back | mixed states held | other rows' actions held"
    rows = []
    for name, row in json.loads(path.read_text()).items():
        group = "all columns" if row["groups"] == 1 else f"{row['groups']} groups of {row['group']}"
        shares = (row["held_back"], row["mixed_states_held"], row["other_actions_held"])
        told = [f"{row['columns']}, {row['actions']}", group, str(row["resolution"]), str(row["min_count"])]
        rows.append([name, *told, *(f"{share:.1%}" for share in shares)])
    times = [row["decide_microseconds"] for row in json.loads(path.read_text()).values()]
    slowest = max(times, key=lambda each: each["median"])
    return table(head, rows) + (
        "\n\nHeld back: of held-out episodes. Mixed states: each column from another row. Other rows'"
        " actions: those of a random row. "
        f"A decision takes {slowest['median']:.0f} microseconds at most (median over single observations;"
        f" p99 {slowest['p99']:.0f}), "
        "on one core of a busy machine."
    )


def guard_table() -> str:
    """What a guard is worth in a maze with a hole in the log, and its figure."""
    path = ROOT / "results" / "guard.json"
    if not path.exists():
        return "Not yet measured."
    found = json.loads(path.read_text())
    rows = []
    for algorithm, fallbacks in found["policies"].items():
        for fallback, seeds in fallbacks.items():
            values = {name: [seed[name] for seed in seeds] for name in GUARD_COLUMNS}
            told = [
                f"{np.mean(each):.1f} ± {np.std(each):.1f}" if "score" in name else f"{np.mean(each):.0%}"
                for name, each in values.items()
            ]
            rows.append([algorithm, fallback, *told])
    _guard_figure(found)
    row, column = found["removed"]
    said = (
        f"In {found['maze']}, a controller drives to the goal from anywhere, and goes around the cell ({row},"
        f" {column}) although there is no wall. Its log has {found['rows']:,} rows and a mean score of"
        f" {found['log_score']:.1f}. Policies were trained on it for {found['updates']:,} updates,"
        f" {found['seeds']} seeds, and rolled out in the maze, {found['episodes']} episodes each. If the"
        " region were a hazard, an episode that enters it earns nothing more.\n\n"
    )
    head = " | ".join(["policy", "fallback", *GUARD_COLUMNS.values()])
    return said + table(head, rows) + "\n\n![With and without a guard](images/guard.png)"


def _guard_figure(found: dict[str, Any]) -> None:
    """Unseen steps and scores, with and without the guard, a dot per seed."""
    from matplotlib.figure import Figure

    from gridcount.report.pictures import COLOURS, save_figure

    shown = ("steps_unseen", "episodes_that_enter", "score")
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    names = list(next(iter(found["policies"].values())))
    for axes, column in zip(figure.subplots(1, len(shown)), shown, strict=True):
        for place, (algorithm, fallbacks) in enumerate(found["policies"].items()):
            x = np.arange(len(names)) + (place - (len(found["policies"]) - 1) / 2) * 0.36
            values = np.array([[seed[column] for seed in fallbacks[name]] for name in names])
            axes.bar(x, values.mean(axis=1), 0.32, color=COLOURS[place], alpha=0.75, label=algorithm)
            axes.plot(x, values, "o", color="#333", markersize=3)
        axes.set_xticks(np.arange(len(names)), names, rotation=25, ha="right")
        axes.set(title=GUARD_COLUMNS[column])
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(frameon=False)
    save_figure(figure, ROOT / "docs" / "images" / "guard.png")
