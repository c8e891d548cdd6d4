"""What training reached and cost: plain runs, the bench, baselines, times, trials, crosscheck."""

import json
from dataclasses import replace
from typing import Any

import numpy as np

from gridcount.algorithms import ALGORITHMS
from gridcount.algorithms.papers import PAPER_COST
from gridcount.benchmark.store import read_results
from gridcount.benchmark.suites import read_suite
from gridcount.catalogue import normalised_score
from gridcount.report.headline import told_by_all
from gridcount.report.labels import dataset_in_words, distinctions
from gridcount.report.scores import LAST, headline_scores, in_words
from gridcount.training.logs import read_rows
from gridcount.training.plan import read_plan
from rendering import ROOT

BAR = 1.3  # times the matrix-multiply time that an update should not exceed
RATE = 0.9  # of the rate of large matrices


def results_table() -> str:
    """Scores of the plain runs kept in results/, as they came out."""
    lines = [
        "| | seeds | updates | mean of the last three evaluations | each seed | episodes that reached the"
        " goal |",
        "|---|---|---|---|---|---|",
    ]
    runs = [path.parent for path in sorted((ROOT / "results").glob("*/config.json"))]
    plans = [read_plan(run) for run in runs]
    plans = [
        replace(plan, source=plan.source or "generated") for plan in plans
    ]  # the oldest did not record it
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
    lines = [
        "| | ms per update | MFLOP | GFLOP/s | times its matrix-multiply time | times its own matrices' |"
        " relative to SAC | in the paper |",
        "|---" * 8 + "|",
    ]
    for name, row in bench["updates"].items():
        times = f"{row['times_matmul']:.2f} | {row['times_own_products']:.2f}"
        figures = f"{row['milliseconds']:.2f} | {row['megaflop']:,.0f} | {row['gigaflops']:.1f} | {times}"
        paper = f"{PAPER_COST[name]:.2f}" if name in PAPER_COST else ""
        lines.append(f"| {name} | {figures} | {row['relative']:.2f} | {paper} |")
    lines.append(
        f"| matrix multiplication (1024 x 1024) | | | {bench['matmul_gigaflops']:.1f} | 1.00 | | | |"
    )
    bounds = (("times_matmul", "the rate of large matrices"), ("times_own_products", "its own matrices"))
    for column, bound in bounds:
        over = [
            f"{name} ({row[column]:.2f})"
            for name, row in bench["updates"].items()
            if round(row[column], 2) > BAR
        ]
        lines.append(f"\nAbove {BAR} times, against {bound}: {', '.join(over) or 'none'}.")
    slower = [
        f"{name} ({1 / row['times_matmul']:.2f}; {row['times_own_products']:.2f})"
        for name, row in bench["updates"].items()
        if round(1 / row["times_matmul"], 2) < RATE
    ]
    lines.append(
        f"\nBelow {RATE:.2f} of the rate of large matrices, and how many times the time of its own matrices it"
        f" takes: {', '.join(slower) or 'none'}."
    )
    counting, ranking = bench["counting_share"], bench["ranking_seconds"]
    lines.append(
        f"\nCounting takes {counting:.1%} of a GPC-SAC update; ranking two million 17-d states takes"
        f" {ranking:.1f} s."
    )
    lines.append(f"Measured on {bench['machine']}.")
    return "\n".join(lines)


def baselines_table() -> str:
    """Every algorithm on the same small budget, as it came out."""
    rows = read_results(ROOT / "results" / "baselines.parquet")
    datasets = list(dict.fromkeys(dataset for dataset in read_suite("baselines").datasets))
    scores = {
        (found.rows[0]["algorithm"], found.rows[0]["dataset"]): found
        for found in headline_scores(rows, "baselines").values()
    }
    lines = [
        "| | " + " | ".join(f"{dataset} ({_source(rows, dataset)})" for dataset in datasets) + " |",
        "|---" * (len(datasets) + 1) + "|",
    ]
    for algorithm in sorted(ALGORITHMS):
        cells = (
            in_words([scores[algorithm, dataset]]) if (algorithm, dataset) in scores else "not yet run"
            for dataset in datasets
        )
        lines.append(f"| {algorithm} | " + " | ".join(cells) + " |")
    behaviour = json.loads((ROOT / "results" / "hopper-medium-recollected.json").read_text())["returns"][
        "mean"
    ]
    score = normalised_score("hopper", behaviour)
    lines.append("| the log's own episodes | | | " + f"{score:.1f} |")
    seeds = {len(found.seeds) for found in scores.values()}
    lines.append(f"\n{'/'.join(map(str, sorted(seeds)))} seeds each.")
    return "\n".join(lines)


def time_table() -> str:
    """How long a core took to the log's own score and to the end, on the re-collected sets."""
    lines = [
        "| | transitions | the log's own episodes | first evaluation above it after | mean of 3 evaluations"
        " above it after "
        "| evaluations above it since then | mean of the last 3 | all of it |",
        "|---" * 8 + "|",
    ]
    files = sorted((ROOT / "results").glob("*.parquet"))
    rows = [row for row in read_results(*files) if row["suite"].startswith("recollected") and "score" in row]
    for dataset, key in sorted({(row["dataset"], row["key"]) for row in rows}):
        run = sorted((row for row in rows if row["key"] == key), key=lambda row: int(row["updates"]))
        # what `gridcount data info --json` told of the very log it learnt from
        name = f"{dataset}--{run[0]['fingerprint']}.json"
        log = json.loads((ROOT / "results" / "recollected" / name).read_text())
        own = normalised_score(dataset.split("-")[0], log["returns"]["mean"])
        last = np.convolve([row["score"] for row in run], np.ones(LAST) / LAST, "valid")
        above = [row for row, mean in zip(run[LAST - 1 :], last, strict=True) if mean > own]
        first = next((row for row in run if row["score"] > own), None)
        since = [row["score"] > own for row in run if above and row["updates"] > above[0]["updates"]]
        share = f"{sum(since)} of {len(since)}" if since else ""
        told = [_after(first), _after(above[0] if above else None), share, f"{last[-1]:.1f}", _after(run[-1])]
        what = ", ".join(filter(None, (dataset, run[0]["variant"])))
        lines.append(" | ".join([f"| {what} | {log['transitions']:,} | {own:.1f}", *told]) + " |")
    return "\n".join(lines) if len(lines) > 2 else "Not yet measured."


def trials_table() -> str:
    """What was tried while GPC-Anchor's settings were chosen, with the score at each evaluation."""
    lines = ["| settings | set | seed | updates | scores along training | gain | $b$ |", "|---" * 7 + "|"]
    for trial in json.loads((ROOT / "results" / "choosing" / "trials.json").read_text()):
        scores = ", ".join(f"{score:.0f}" for score in trial["scores"])
        lines.append(
            f"| {trial['trial']} | {trial['dataset']} | {trial['seed']} | {trial['updates'][-1]:,} |"
            f" {scores} | {_gain(trial)} | {trial.get('came_true', '')} |"
        )
    return "\n".join(lines)


def _gain(trial: dict[str, Any]) -> str:
    return "{:+.1f} ± {:.1f}".format(*trial["gain"]) if "gain" in trial else ""


def _after(row: dict[str, Any] | None) -> str:
    return "never" if row is None else f"{row['updates']:,} updates, {row['seconds'] / 60:.0f} min"


def _source(rows: list[dict[str, Any]], dataset: str) -> str:
    return ", ".join(sorted({row["source"] for row in rows if row["dataset"] == dataset})) or "not yet run"


def crosscheck_table() -> str:
    """The last `make crosscheck`."""
    record = json.loads((ROOT / "results" / "crosscheck.json").read_text())
    lines = ["| loss | gridcount | d3rlpy | relative difference |", "|---|---|---|---|"]
    for name, pair in record["losses"].items():
        ours, theirs = pair["gridcount"], pair["d3rlpy"]
        lines.append(f"| {name} | {ours:.6g} | {theirs:.6g} | {abs(ours - theirs) / abs(theirs):.0e} |")
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    return "\n".join([*lines, f"\n{versions}; a difference above {record['tolerance']:g} fails."])
