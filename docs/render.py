"""Render the measured numbers in the docs from the files in results/: every figure there was made by a command."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from gridcount.report.headline import told_by_all
from gridcount.report.labels import dataset_in_words, distinctions
from gridcount.report.scores import LAST
from gridcount.training.logs import read_rows
from gridcount.training.run import read_plan

ROOT = Path(__file__).parent.parent


def results_table() -> str:
    """Scores of the runs kept in results/, as they came out."""
    lines = [
        "| | seeds | updates | mean of the last three evaluations | each seed | episodes that reached the goal |",
        "|---|---|---|---|---|---|",
    ]
    runs = [path.parent for path in sorted((ROOT / "results").glob("*/config.json"))]
    plans = [read_plan(run) for run in runs]
    plans = [replace(plan, source=plan.source or "generated") for plan in plans]  # the oldest did not record it
    for run, plan, told in zip(runs, plans, distinctions(plans), strict=True):
        name, *flags = told.removesuffix(f" on {dataset_in_words(plan)}").split(", ")
        label = ", ".join([name, *(f"`{flag}`" for flag in flags)]) + f" on {dataset_in_words(plan)}"
        rows = told_by_all(read_rows(run))
        last = {seed: [row for row in rows if row["seed"] == seed][-LAST:] for seed in plan.seeds}
        means = [float(np.mean([row["score"] for row in each])) for each in last.values()]
        succeeded = [row["success"] for each in last.values() for row in each if "success" in row]
        success = f"{np.mean(succeeded):.0%}" if succeeded else ""
        each_seed = ", ".join(f"{mean:.1f}" for mean in means)
        headline = f"**{np.mean(means):.1f}** ± {np.std(means):.1f}"
        seeds = ", ".join(map(str, plan.seeds))
        lines.append(f"| {label} | {seeds} | {plan.updates:,} | {headline} | {each_seed} | {success} |")
    return "\n".join(lines)


def bench_table() -> str:
    """The last `make bench` whose figures were kept."""
    bench = json.loads((ROOT / "results" / "bench.json").read_text())
    lines = ["| | ms per update | MFLOP per update | GFLOP/s | share of matrix multiplication |", "|---|---|---|---|---|"]
    for name, row in bench["updates"].items():
        lines.append(f"| {name} | {row['milliseconds']:.2f} | {row['megaflop']:.0f} | {row['gigaflops']:.1f} | {row['share']:.0%} |")
    lines.append(f"| matrix multiplication (1024 x 1024) | | | {bench['matmul_gigaflops']:.1f} | 100% |")
    counting, ranking = bench["counting_share"], bench["ranking_seconds"]
    lines.append(f"\nCounting takes {counting:.1%} of a GPC-SAC update; ranking two million 17-d states takes {ranking:.1f} s.")
    lines.append(f"Measured on {bench['machine']}.")
    return "\n".join(lines)


def insert(path: Path, marker: str, text: str) -> None:
    """Replace what stands between a page's markers."""
    page = path.read_text()
    pattern = re.compile(rf"(<!-- {marker}:.*?-->\n).*?(<!-- /{marker} -->)", re.S)
    if not pattern.search(page):
        raise ValueError(f"{path}: no markers for '{marker}'")
    path.write_text(pattern.sub(lambda match: f"{match[1]}{text}\n{match[2]}", page))


if __name__ == "__main__":
    insert(ROOT / "README.md", "results", results_table())
    insert(ROOT / "docs" / "performance.md", "bench", bench_table())
