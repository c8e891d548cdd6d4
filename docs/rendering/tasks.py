"""The paper's 21 tasks: what each algorithm scores, beside the log and the paper."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from gridcount.benchmark.store import read_results
from gridcount.benchmark.suites import Suite, read_suite
from gridcount.report.scores import LAST
from gridcount.report.statistics import CONFIDENCE, Estimate, estimate_over_tasks, interquartile_mean, mean
from rendering import ROOT, table

SUITE, PAPER = "paper/table", "gpc-sac"
FAR = 10.0  # points below the paper from which a reason is asked for
NEAR = 0.9  # of the final score
DIVERGED = "‡"

Runs = dict[tuple[str, str], list[list[dict[str, Any]]]]  # dataset, algorithm -> seeds -> evaluations


def tasks_tables() -> dict[str, str]:
    """By marker: scores, counts of wins (for the README in short), what holds over tasks, runs that are longer
    than most, and minutes of one core."""
    suite, logs = read_suite(SUITE), json.loads((ROOT / "results" / "tasks.json").read_text())
    found = _runs(suite, logs)
    runs = _kept(found, lambda planned, usual: planned == usual)
    longer = _kept(found, lambda planned, usual: planned > usual)
    return {
        "tasks": _scores_table(suite, logs, runs),
        "tasks-counts": _counts(suite, logs, runs, longer),
        "tasks-over": _over_tasks(suite, logs, runs),
        "tasks-short": _in_short(suite, logs, runs, longer),
        "tasks-longer": _longer_table(suite, logs, runs, longer),
        "tasks-times": _times_table(suite, logs, runs),
    }


def _runs(suite: Suite, logs: dict[str, Any]) -> Runs:
    """All runs of the suite; and ours on a log without its name, which trains to the same bits."""
    found: dict[tuple[str, str], dict[tuple[int, int], list[dict[str, Any]]]] = {}
    kept = ROOT / "results" / "table.parquet"
    for row in read_results(kept) if kept.exists() else []:
        _add(found, row["dataset"], row)
    ours, tasks = suite.algorithms[0], {log["fingerprint"]: name for name, log in logs.items()}
    own = {place: set(seeds) for place, seeds in found.items()}  # what the suite has itself
    for row in read_results(ROOT / "results" / "anonymous" / "results.parquet"):
        name = tasks.get(row["fingerprint"])
        if row["algorithm"] == ours and name is not None and _run(row) not in own.get((name, ours), ()):
            _add(found, name, row)
    return {place: list(seeds.values()) for place, seeds in found.items()}


def _kept(found: Runs, keep: Callable[[int, int], bool]) -> Runs:
    """The runs to keep, by their length and the most common one of their algorithm (of two, the shorter)."""
    usual = {}
    for each in {place[1] for place in found}:
        lengths = Counter(_run(run[0])[0] for place, own in found.items() if place[1] == each for run in own)
        usual[each] = max(lengths, key=lambda length, lengths=lengths: (lengths[length], -length))  # type: ignore[misc]
    kept = {
        place: [run for run in seeds if keep(_run(run[0])[0], usual[place[1]])]
        for place, seeds in found.items()
    }
    return {place: seeds for place, seeds in kept.items() if seeds}


def _lengths(runs: Runs) -> dict[str, str]:
    """By algorithm: how many updates its runs make."""
    return {place[1]: f"{seeds[0][0]['planned_updates']:,}" for place, seeds in runs.items()}


def _add(found: dict[tuple[str, str], dict[tuple[int, int], Any]], name: str, row: dict[str, Any]) -> None:
    found.setdefault((name, row["algorithm"]), {}).setdefault(_run(row), []).append(row)


def _run(row: dict[str, Any]) -> tuple[int, int]:
    return row["planned_updates"], row["seed"]


def _score(seeds: list[list[dict[str, Any]]] | None) -> float | None:
    """The mean over seeds of the last evaluations."""
    if not seeds:
        return None
    return float(np.mean([np.mean([row["score"] for row in rows[-LAST:]]) for rows in seeds]))


def _scores_table(suite: Suite, logs: dict[str, Any], runs: Runs) -> str:
    algorithms = [each for each in suite.algorithms if any(place[1] == each for place in runs)]
    rows = []
    for name in suite.datasets:
        scores = {each: _score(runs.get((name, each))) for each in algorithms}
        found = [each for each in scores.values() if each is not None]
        best = max(found) if len(found) > 1 else None
        cells = [
            "not yet run" if score is None else _bold(score, best) + _mark(runs[name, each])
            for each, score in scores.items()
        ]
        paper = f"{suite.published[PAPER][name][0]:.1f}"
        log = f"{logs[name]['score']:.1f}" if name in logs else ""
        size = f"{logs[name]['transitions']:,}" if name in logs else ""
        rows.append([name, size, log, *cells, paper])
    head = " | ".join(["dataset", "rows", "the log", *algorithms, "GPC-SAC in the paper"])
    waiting = [each for each in suite.algorithms if each not in algorithms]
    seeds = "/".join(str(count) for count in sorted({len(found) for found in runs.values()}))
    lengths = _lengths(runs)
    updates = ", ".join(f"{each} {lengths[each]}" for each in algorithms)
    notes = f"Mean of the last {LAST} evaluations of {seeds} seed each. Updates: {updates}."
    if any(_mark(found) for found in runs.values()):
        notes += f" {DIVERGED} Its values diverged before the end; the last evaluations before that, at most {LAST}."
    if waiting:
        notes += f" Not yet run: {', '.join(waiting)}."
    return f"{table(head, rows)}\n\n{notes}"


def _mark(seeds: list[list[dict[str, Any]]]) -> str:
    return DIVERGED if any(row.get("diverged") for rows in seeds for row in rows) else ""


def _bold(score: float, best: float | None) -> str:
    return f"**{score:.1f}**" if score == best else f"{score:.1f}"


def _counts(suite: Suite, logs: dict[str, Any], runs: Runs, longer: Runs) -> str:
    """How often our score reaches the log's and the paper's, and where it does not."""
    ours = suite.algorithms[0]
    scores, behaviour, paper = _compared(suite, logs, runs)
    far = [
        f"{name} ({score - paper[name]:+.1f})" for name, score in scores.items() if score < paper[name] - FAR
    ]
    return "\n".join(
        [
            f"- {ours} scores at least what the log does on {_at_least(scores, behaviour)}."
            f"{_after_longer(suite, logs, runs, longer)}",
            f"- It scores at least what the paper's GPC-SAC does on {_at_least(scores, paper)}.",
            f"- More than {FAR:.0f} points below the paper: {', '.join(far) or 'none'}.",
        ]
    )


def _over_tasks(suite: Suite, logs: dict[str, Any], runs: Runs) -> str:
    """Of each algorithm what holds over the tasks it was run on, and how ours compares there."""
    ours, _, paper = _compared(suite, logs, runs)
    own, lengths, rows = suite.algorithms[0], _lengths(runs), []
    for each in suite.algorithms:
        scores = {name: score for name in ours if (score := _score(runs.get((name, each)))) is not None}
        if not scores:
            continue
        values = np.array(list(scores.values()))
        there = np.array([ours[name] for name in scores])
        minutes = np.median([run[-1]["seconds"] / 60 for name in scores for run in runs[name, each]])
        least = [sum(scores[name] >= other[name] for name in scores) for other in (_of_logs(logs), paper)]
        compared = ["", ""]
        if each != own:
            wins = (there > values) + (there == values) / 2
            compared = [
                f"{interquartile_mean(there):.1f}",
                _with_interval(estimate_over_tasks(wins, mean), 2),
            ]
        iqm = _with_interval(estimate_over_tasks(values, interquartile_mean), 1)
        facts = [str(len(scores)), lengths[each], f"{minutes:.1f}", iqm, f"{values.mean():.1f}"]
        rows.append([each, *facts, *map(str, least), *compared])
    head = (
        "algorithm | tasks | updates | minutes, median | IQM | mean | at least the log"
        f" | at least the paper's GPC-SAC | IQM of {own} there | share of tasks where {own} scores more"
    )
    return f"{table(head, rows)}\n\nIn brackets: {CONFIDENCE:.0%} intervals of a bootstrap over tasks."


def _of_logs(logs: dict[str, Any]) -> dict[str, float]:
    return {name: log["score"] for name, log in logs.items()}


def _with_interval(found: Estimate, digits: int) -> str:
    assert found.interval is not None
    low, high = found.interval
    return f"{found.value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def _longer_table(suite: Suite, logs: dict[str, Any], runs: Runs, longer: Runs) -> str:
    """What more updates change, where a task was trained longer."""
    rows = []
    for name, each in [(name, each) for name in suite.datasets for each in suite.algorithms]:
        if (name, each) in longer:
            short, long = (_score(found.get((name, each))) for found in (runs, longer))
            scores = ["" if score is None else f"{score:.1f}" for score in (logs[name]["score"], short, long)]
            rows.append([name, each, *scores, _lengths({(name, each): longer[name, each]})[each]])
    head = "dataset | algorithm | the log | as in the table | longer | updates of that"
    return table(head, rows) if rows else "Not yet measured."


def _in_short(suite: Suite, logs: dict[str, Any], runs: Runs, longer: Runs) -> str:
    scores, behaviour, paper = _compared(suite, logs, runs)
    reached = sum(score >= paper[name] for name, score in scores.items())
    length = _lengths(runs)[suite.algorithms[0]]
    return (
        f"{len(scores)} of the {len(suite.datasets)} tasks are measured, with one seed and {length} updates. It"
        f" scores at least what the log does on {_at_least(scores, behaviour)}."
        f"{_after_longer(suite, logs, runs, longer)} It scores at least what the paper's GPC-SAC does on {reached} of"
        f" {len(scores)}.{_others_in_short(suite, runs, scores)}"
    )


def _others_in_short(suite: Suite, runs: Runs, ours: dict[str, float]) -> str:
    """The interquartile means of ours and of others that were run on the same tasks; empty without any."""
    means = {}
    for each in suite.algorithms[1:]:
        scores = [_score(runs.get((name, each))) for name in ours]
        found = [score for score in scores if score is not None]
        if len(found) == len(ours):
            means[each] = float(interquartile_mean(np.array(found)))
    if not means:
        return ""
    lengths, own = _lengths(runs), float(interquartile_mean(np.array(list(ours.values()))))
    others = " and ".join(f"{mean:.1f} for {each} ({lengths[each]} updates)" for each, mean in means.items())
    return f" Its interquartile mean over the tasks is {own:.1f}; in the same networks it is {others}."


def _after_longer(suite: Suite, logs: dict[str, Any], runs: Runs, longer: Runs) -> str:
    """What longer runs of ours change in that, in words; empty without any."""
    scores, behaviour, _ = _compared(suite, logs, longer)
    if not scores:
        return ""
    length = _lengths(longer)[suite.algorithms[0]]
    shorter, before, _ = _compared(suite, logs, runs)
    below = {name for name, score in shorter.items() if score < before[name]}
    among = ", these among them," if below and below <= set(scores) else ""
    return (
        f" Of the {len(scores)} tasks that were trained again for {length} updates{among} it scores at least what"
        f" the log does on {_at_least(scores, behaviour)}."
    )


def _compared(
    suite: Suite, logs: dict[str, Any], runs: Runs
) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Our scores by task, and the log's and the paper's there."""
    ours = suite.algorithms[0]
    scores = {name: score for name in suite.datasets if (score := _score(runs.get((name, ours)))) is not None}
    behaviour = {name: score for name, score in _of_logs(logs).items() if name in scores}
    return scores, behaviour, {name: suite.published[PAPER][name][0] for name in scores}


def _at_least(scores: dict[str, float], other: dict[str, float]) -> str:
    below = [f"{name} ({score - other[name]:+.1f})" for name, score in scores.items() if score < other[name]]
    count = f"{len(scores) - len(below)} of {len(scores)}"
    return f"{count}; below it on {', '.join(below)}" if below else count


def _times_table(suite: Suite, logs: dict[str, Any], runs: Runs) -> str:
    """Minutes of one core to the log's score and to most of our own last one, for seed 0."""
    ours, rows = suite.algorithms[0], []
    for name in suite.datasets:
        for run in runs.get((name, ours), [])[:1]:
            last = float(np.mean([row["score"] for row in run[-LAST:]]))
            near = last - (1 - NEAR) * abs(last)
            times = [_minutes(run, least) for least in (logs[name]["score"], near)]
            rows.append([name, f"{run[-1]['seconds'] / 60:.1f}", *times])
    head = f"dataset | minutes in all | to the log's score | to {NEAR:.0%} of its own final score"
    return table(head, rows) if rows else "Not yet measured."


def _minutes(run: list[dict[str, Any]], least: float) -> str:
    found = next((row["seconds"] for row in run if row["score"] >= least), None)
    return "never" if found is None else f"{found / 60:.1f}"
