"""Render the measured numbers in the docs from the files in results/: every figure there was made by a
command."""

import re
from pathlib import Path

from rendering import ROOT
from rendering.anonymous import anonymous_table, anonymous_times
from rendering.estimates import bars_table, estimates_tables, naive_table, tried_table, tune_tables
from rendering.guard import guard_logs_table, guard_table
from rendering.invariance import invariance_table
from rendering.logs import logs_tables
from rendering.reports import report_tables
from rendering.service import service_texts
from rendering.tasks import tasks_tables
from rendering.theory import theory_tables
from rendering.training import (
    baselines_table,
    bench_table,
    crosscheck_table,
    results_table,
    time_table,
    trials_table,
)
from rendering.tutorial import tutorial_texts


def insert(path: Path, marker: str, text: str) -> None:
    """Replace what stands between a page's markers."""
    page = path.read_text()
    pattern = re.compile(rf"(<!-- {marker}:.*?-->\n).*?(<!-- /{marker} -->)", re.S)
    if not pattern.search(page):
        raise ValueError(f"{path}: no markers for '{marker}'")
    path.write_text(pattern.sub(lambda match: f"{match[1]}{text}\n{match[2]}", page))


if __name__ == "__main__":
    insert(
        ROOT / "README.md",
        "results",
        report_tables()["paper-maze2d-scores"].replace("(images/", "(docs/images/"),
    )
    insert(ROOT / "docs" / "results.md", "runs", results_table())
    insert(ROOT / "docs" / "performance.md", "bench", bench_table())
    for marker, table in {
        "cost": bench_table,
        "baselines": baselines_table,
        "crosscheck": crosscheck_table,
    }.items():
        insert(ROOT / "docs" / "algorithms" / "index.md", marker, table())
    insert(ROOT / "docs" / "results.md", "recollected-time", time_table())
    insert(ROOT / "docs" / "gpc-anchor-trials.md", "trials", trials_table())
    insert(ROOT / "docs" / "gpc-anchor.md", "anonymous", anonymous_table())
    insert(ROOT / "docs" / "gpc-anchor.md", "anonymous-times", anonymous_times())
    insert(ROOT / "docs" / "gpc-anchor.md", "invariance", invariance_table())
    insert(ROOT / "docs" / "estimate.md", "estimates", estimates_tables())
    insert(ROOT / "docs" / "estimate.md", "bars", bars_table())
    insert(ROOT / "docs" / "estimate.md", "tried", tried_table())
    insert(ROOT / "docs" / "guard.md", "guard-logs", guard_logs_table())
    insert(ROOT / "docs" / "guard.md", "guard", guard_table())
    for (page, marker), text in service_texts().items():
        insert(ROOT / "docs" / page, marker, text)
    insert(ROOT / "docs" / "tune.md", "tune", tune_tables())
    insert(ROOT / "docs" / "tune.md", "naive", naive_table())
    for marker, text in tutorial_texts().items():
        insert(ROOT / "docs" / "tutorial.md", marker, text)
    tasks = tasks_tables()
    insert(ROOT / "README.md", "tasks-short", tasks.pop("tasks-short"))
    for marker, text in tasks.items():
        insert(ROOT / "docs" / "results.md", marker, text)
    for marker, text in report_tables().items():
        insert(ROOT / "docs" / "results.md", marker, text)
    for marker, text in theory_tables().items():
        insert(ROOT / "docs" / "theory.md", marker, text)
    for marker, text in logs_tables().items():
        insert(ROOT / "docs" / "data.md", marker, text)
