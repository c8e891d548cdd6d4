"""Logs without a name: what last policies return, beside the log's own behaviour."""

import json
import math
from typing import Any

import numpy as np

from gridcount.benchmark.store import read_results
from gridcount.benchmark.suites import read_suite
from gridcount.report.scores import LAST
from rendering import ROOT

OTHER_LOG = "†"


def anonymous_table() -> str:
    """The logs without a name: what the log's own behaviour and each algorithm's last policy return."""
    measured = json.loads((ROOT / "results" / "anonymous.json").read_text())
    suite, rows = read_suite("anonymous"), read_results(ROOT / "results" / "anonymous" / "results.parquet")
    algorithms = suite.algorithms
    learnt_from = {(row["dataset"], row["algorithm"]): row["fingerprint"] for row in rows}
    marked = False
    lines = [
        f"| log | its own episodes | its behaviour, rolled out | {' | '.join(algorithms)} |",
        "|---" * (3 + len(algorithms)) + "|",
    ]
    for name in suite.datasets:
        entry = measured[name]
        policies = _last_evaluations(rows, name) | entry.get("policies", {})
        best = max((each["mean"] for each in policies.values()), default=math.inf)
        own = entry["log"]["fingerprint"]
        others = {each for each in policies if learnt_from.get((name, each), own) != own}
        marked = marked or bool(others)
        cells = [
            _with_error(policies.get(each), best) + (OTHER_LOG if each in others else "")
            for each in algorithms
        ]
        behaviour = _with_error(entry.get("behaviour"), math.inf, missing="")
        lines.append(
            f"| {name} | {_with_error(entry['log'], math.inf)} | {behaviour} | {' | '.join(cells)} |"
        )
    lengths = {
        each: {row["planned_updates"] for row in rows if row["algorithm"] == each} for each in algorithms
    }
    trained = ", ".join(
        f"{each} {' or '.join(f'{updates:,}' for updates in sorted(found))}"
        for each, found in lengths.items()
        if found
    )
    note = [f"Updates: {trained}."]
    note += [f"{OTHER_LOG} Trained on another log of the same policies."] if marked else []
    return "\n".join([*lines, "", *_anonymous_goals(measured, algorithms[0]), *note])


def anonymous_times() -> str:
    """How long our runs took to reach their log's return, and to come near their own last one."""
    measured = json.loads((ROOT / "results" / "anonymous.json").read_text())
    suite, rows = read_suite("anonymous"), read_results(ROOT / "results" / "anonymous" / "results.parquet")
    ours = suite.algorithms[0]
    lines = [
        "| log | updates in all | minutes in all | to the log's return | to within 10 % of its own last return |",
        "|---" * 5 + "|",
    ]
    for name in suite.datasets:
        run = [row for row in rows if row["dataset"] == name and row["algorithm"] == ours]
        if run:
            own = measured[name].get("behaviour", measured[name]["log"])["mean"]
            last = float(np.mean([row["return"] for row in run[-LAST:]]))
            times = [_minutes(run, least) for least in (own, last - 0.1 * abs(last))]
            whole = f"{run[-1]['updates']:,} | {run[-1]['seconds'] / 60:.1f}"
            lines.append(f"| {name} | {whole} | {' | '.join(times)} |")
    return "\n".join(lines) if len(lines) > 2 else "Not yet measured."


def _minutes(run: list[dict[str, Any]], least: float) -> str:
    """Minutes of one core to the first evaluation that returns so much."""
    return next((f"{row['seconds'] / 60:.1f}" for row in run if row["return"] >= least), "never")


def _anonymous_goals(measured: dict[str, Any], ours: str) -> list[str]:
    """How often our last policy is at or above the behaviour, BC and 97 % of the best."""
    own = {
        name: entry["policies"][ours] for name, entry in measured.items() if ours in entry.get("policies", {})
    }
    if not own:
        return [f"No last policy of {ours} has been rolled out yet."]
    behaviour = {name: measured[name].get("behaviour", measured[name]["log"]) for name in own}
    means = {name: [each["mean"] for each in measured[name]["policies"].values()] for name in own}
    compared = {name: each for name, each in means.items() if len(each) > 1}
    cloned = {name: measured[name]["policies"]["bc"] for name in own if "bc" in measured[name]["policies"]}
    best = sum(own[name]["mean"] >= max(each) - 0.03 * abs(max(each)) for name, each in compared.items())
    return [
        f"{ours} against the log's behaviour: {_compared(own, behaviour)}. Against BC:"
        f" {_compared(own, cloned)}.",
        f"It is the best, or within 3 % of the best, on {best} of the {len(compared)} where another one was run.",
    ]


def _compared(own: dict[str, Any], other: dict[str, Any]) -> str:
    """On how many logs returns are clearly above, level with or clearly below others: two standard errors."""
    apart = {name: _errors_apart(own[name], each) for name, each in other.items()}
    above = [name for name, errors in apart.items() if errors > 2]
    below = [name for name, errors in apart.items() if errors < -2]
    level = len(apart) - len(above) - len(below)
    where = f" ({', '.join(below)})" if below else ""
    return (
        f"above on {len(above)}, level (within two standard errors) on {level}, below on {len(below)}{where}"
    )


def _errors_apart(own: dict[str, Any], other: dict[str, Any]) -> float:
    """The difference of two means in standard errors; episodes from the same starts are compared one by
    one."""
    gain = own["mean"] - other["mean"]
    if "returns" not in own or "returns" not in other:
        return float(gain / math.hypot(own["standard_error"], other["standard_error"]))
    pairs = np.subtract(own["returns"], other["returns"])
    error = pairs.std(ddof=1) / math.sqrt(len(pairs))
    return float(gain / error) if error else 0.0


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
