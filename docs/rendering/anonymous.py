"""Logs without a name: what last policies return, beside the log's own behaviour."""

import json
import math
from typing import Any

import numpy as np

from gridcount.benchmark.store import read_results
from gridcount.benchmark.suites import read_suite
from gridcount.report.scores import LAST
from rendering import ROOT


def anonymous_table() -> str:
    """The logs without a name: what the log's own behaviour and each algorithm's last policy return."""
    measured = json.loads((ROOT / "results" / "anonymous.json").read_text())
    suite, rows = read_suite("anonymous"), read_results(ROOT / "results" / "anonymous" / "results.parquet")
    algorithms = suite.algorithms
    lines = [
        f"| log | its own episodes | its behaviour, rolled out | {' | '.join(algorithms)} |",
        "|---" * (3 + len(algorithms)) + "|",
    ]
    for name in suite.datasets:
        entry = measured[name]
        policies = _last_evaluations(rows, name) | entry.get("policies", {})
        best = max((each["mean"] for each in policies.values()), default=math.inf)
        cells = [_with_error(policies.get(each), best) for each in algorithms]
        behaviour = _with_error(entry.get("behaviour"), math.inf, missing="")
        lines.append(
            f"| {name} | {_with_error(entry['log'], math.inf)} | {behaviour} | {' | '.join(cells)} |"
        )
    return "\n".join([*lines, "", *_anonymous_goals(measured, algorithms[0])])


def _anonymous_goals(measured: dict[str, Any], ours: str) -> list[str]:
    """How often our last policy is at or above the behaviour, BC and 97 % of the best."""
    own = {
        name: entry["policies"][ours] for name, entry in measured.items() if ours in entry.get("policies", {})
    }
    if not own:
        return [f"{ours} is not yet measured."]
    behaviour = {name: measured[name].get("behaviour", measured[name]["log"]) for name in own}
    others = {name: [each["mean"] for each in measured[name]["policies"].values()] for name in own}
    cloned = {name: measured[name]["policies"]["bc"] for name in own if "bc" in measured[name]["policies"]}
    best = sum(own[name]["mean"] >= max(means) - 0.03 * abs(max(means)) for name, means in others.items())
    return [
        f"{ours} against the log's behaviour: {_compared(own, behaviour)}. Against BC:"
        f" {_compared(own, cloned)}.",
        f"It is the best, or within 3 % of the best that was run, on {best} of {len(own)}.",
    ]


def _compared(own: dict[str, Any], other: dict[str, Any]) -> str:
    """On how many logs a mean is clearly above, level with or clearly below another: two standard errors."""
    apart = [
        (own[name]["mean"] - each["mean"]) / math.hypot(own[name]["standard_error"], each["standard_error"])
        for name, each in other.items()
    ]
    above, below = sum(each > 2 for each in apart), sum(each < -2 for each in apart)
    return f"above on {above}, level (within two standard errors) on {len(apart) - above - below}, below on {below}"


def _with_error(entry: dict[str, Any] | None, best: float, missing: str = "not yet run") -> str:
    if entry is None:
        return missing
    bold = "**" if entry["mean"] >= best else ""
    error = f" ± {entry['standard_error']:,.1f}" if "standard_error" in entry else ""
    return f"{bold}{entry['mean']:,.1f}{error}{bold}"


def _last_evaluations(rows: list[dict[str, Any]], dataset: str) -> dict[str, dict[str, float]]:
    """By algorithm: the mean return of a run's last evaluations, for runs whose last policy was not scored
    again."""
    found: dict[str, list[float]] = {}
    for row in sorted(rows, key=lambda row: int(row["updates"])):
        if row["dataset"] == dataset:
            found.setdefault(row["algorithm"], []).append(row["return"])
    return {name: {"mean": float(np.mean(returns[-LAST:]))} for name, returns in found.items()}
