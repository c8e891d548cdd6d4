"""What the tutorial's commands printed, how long they took, and the truth."""

import json
from typing import Any

import numpy as np

from rendering import ROOT, table

SHOWN_LINES = 42  # of what a command of the tutorial printed


def tutorial_texts() -> dict[str, str]:
    """What the tutorial's commands printed, how long they took, and the truth over seeds, by marker."""
    if not (ROOT / "results" / "tutorial.json").exists():
        return {}
    kept, truth = (
        json.loads((ROOT / "results" / f"{name}.json").read_text()) for name in ("tutorial", "tutorial_truth")
    )
    texts = {marker: _shown(text) for marker, text in kept["printed"].items()}
    texts["tutorial-time"] = _time(kept)
    texts["tutorial-verdict"] = f"{_tutorial_truth(truth)}\n\n{_tutorial_estimates(truth)}"
    return texts


def _time(kept: dict[str, Any]) -> str:
    spent, before = kept["commands"], kept["installation"]
    return (
        f"The installation took {before['clock']} seconds ({before['cpu']} of CPU time), and all commands"
        f" below together {spent['clock']} seconds ({spent['cpu']} of CPU time). They ran from a new virtual"
        f" environment with the built wheel, on {kept['cores']} cores that {kept['others']:.0f} processes"
        " shared. The machine's own work is the CPU time; the rest of the 15 minutes is for reading."
    )


def _shown(text: str) -> str:
    """The lines that a command printed, the last of many left out."""
    lines = [line.rstrip() for line in text.rstrip().splitlines()]
    left = len(lines) - SHOWN_LINES
    shown = [*lines[:SHOWN_LINES], f"[... {left} more lines]"] if left > 1 else lines
    return "\n".join(("```text", *shown, "```"))


def _tutorial_truth(truth: dict[str, Any]) -> str:
    """Every controller in both weathers, over seeds."""
    cells: dict[tuple[str, str], list[dict[str, float]]] = {}
    for seed in truth["seeds"]:
        for row in seed["truth"]:
            cells.setdefault((row["weather"], row["controller"]), []).append(row)

    def over(rows: list[dict[str, float]], name: str, digits: int) -> str:
        values = [row[name] for row in rows]
        return f"{np.mean(values):.{digits}f} ± {np.std(values):.{digits}f}"

    rows = (
        [
            *where,
            over(each, "reward", 1),
            over(each, "cold", 1),
            f"{np.mean([row['held'] for row in each]):.1%}",
        ]
        for where, each in cells.items()
    )
    number = len(truth["seeds"])
    return (
        f"The same for {number} logs and {number} trained policies, mean ± standard deviation over them:\n\n"
        + table("weather | who opens the valve | euros per week | cold hours per week | guard held", rows)
    )


def _tutorial_estimates(truth: dict[str, Any]) -> str:
    """What was estimated from each log, beside what is true in the log's weather."""
    rows, inside, gains, above = [], 0, 0, 0
    for seed in truth["seeds"]:
        log, policy = (
            next(row["discounted"] for row in seed["truth"] if row["controller"] == name)
            for name in ("as in the log", "policy, no guard")
        )
        value, gain = seed["fitted_q"], seed["gain"]
        inside += value["low"] <= policy <= value["high"]
        gains += gain["low"] <= policy - log <= gain["high"]
        above += gain["value"] > policy - log
        words = {True: "yes", False: "no", None: "cannot say"}[seed["better"]]
        limits = [f"{each['value']:.2f} [{each['low']:.2f}, {each['high']:.2f}]" for each in (value, gain)]
        true = [f"{policy:.2f}", f"{policy - log:+.2f}"]
        rows.append([str(seed["seed"]), limits[0], true[0], limits[1], true[1], words])
    head = "log | estimated return | true return | estimated gain | true gain | better than the log?"
    return (
        "And what `gridcount estimate` said from each log alone, beside the truth (discounted, in euros):\n\n"
        + table(head, rows)
        + f"\n\nOf {len(rows)} intervals of the return {inside} contain the truth;"
        f" of those of the gain, {gains}. The gain was estimated too high {above} times."
    )
