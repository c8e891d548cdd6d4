"""Render the measured numbers in the docs from the files in results/: every figure there was made by a command."""

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gridcount.algorithms import ALGORITHMS
from gridcount.algorithms.papers import PAPER_COST
from gridcount.benchmark.store import read_results
from gridcount.benchmark.suites import read_suite
from gridcount.catalogue import normalised_score
from gridcount.commands.report import layouts
from gridcount.report.experiments import sections
from gridcount.report.headline import told_by_all
from gridcount.report.labels import dataset_in_words, distinctions
from gridcount.report.page import all_tables, slugs
from gridcount.report.scores import LAST, headline_scores, in_words
from gridcount.report.table_formats import to_markdown
from gridcount.training.logs import read_rows
from gridcount.training.run import read_plan

ROOT = Path(__file__).parent.parent
BAR = 1.3  # times the matrix-multiply time that an update should not exceed


def results_table() -> str:
    """Scores of the plain runs kept in results/, as they came out."""
    lines = [
        "| | seeds | updates | mean of the last three evaluations | each seed | episodes that reached the goal |",
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
        "| | ms per update | MFLOP | GFLOP/s | times its matrix-multiply time | times its own matrices' | relative to SAC | in the paper |",
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
    counting, ranking = bench["counting_share"], bench["ranking_seconds"]
    lines.append(
        f"\nCounting takes {counting:.1%} of a GPC-SAC update; ranking two million 17-d states takes {ranking:.1f} s."
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
        "| | transitions | the log's own episodes | first evaluation above it after | mean of 3 evaluations above it after "
        "| evaluations above it since then | mean of the last 3 | all of it |",
        "|---" * 8 + "|",
    ]
    files = sorted((ROOT / "results").glob("*.parquet"))
    rows = [row for row in read_results(*files) if row["suite"].startswith("recollected") and "score" in row]
    for dataset, key in sorted({(row["dataset"], row["key"]) for row in rows}):
        run = sorted((row for row in rows if row["key"] == key), key=lambda row: int(row["updates"]))
        name = f"{dataset}--{run[0]['fingerprint']}.json"  # what `gridcount data info --json` told of the very log it learnt from
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


def anonymous_table() -> str:
    """The logs without a name: what each algorithm's last policies return, beside the log's own episodes, and how often the goals hold."""
    path, logs = (
        ROOT / "results" / "anonymous" / "results.parquet",
        json.loads((ROOT / "results" / "anonymous.json").read_text()),
    )
    rows = read_results(path) if path.exists() else []
    suite = read_suite("anonymous")
    lines = [
        f"| log | its own mean return | {' | '.join(suite.algorithms)} |",
        "|---" * (2 + len(suite.algorithms)) + "|",
    ]
    ours, kept = suite.algorithms[0], []
    for name in suite.datasets:
        means = {each: _last_return(rows, name, each) for each in suite.algorithms}
        found = [value for value in means.values() if value is not None]
        cells = [
            "not yet run"
            if value is None
            else f"{'**' * (value == max(found))}{value:,.1f}{'**' * (value == max(found))}"
            for value in means.values()
        ]
        lines.append(f"| {name} | {logs[name]['mean_return']:,.1f} | {' | '.join(cells)} |")
        if (own := means[ours]) is not None:
            kept.append((own, logs[name]["mean_return"], means["bc"], max(found)))
    if not kept:
        return "Not yet measured."
    above_log = sum(own >= log for own, log, _, _ in kept)
    cloned = [(own, bc) for own, _, bc, _ in kept if bc is not None]
    best = sum(own >= top - 0.03 * abs(top) for own, _, _, top in kept)
    lines.append(
        f"\n{ours} is at or above the log on {above_log} of {len(kept)}, at or above BC on {sum(own >= bc for own, bc in cloned)} of"
        f" {len(cloned)}, and the best or within 3 % of the best that was run on {best} of {len(kept)}."
    )
    return "\n".join(lines)


def _last_return(rows: list[dict[str, Any]], dataset: str, algorithm: str) -> float | None:
    """The mean return of the last evaluations, over seeds; None where it was not run."""
    own = [row for row in rows if (row["dataset"], row["algorithm"]) == (dataset, algorithm)]
    seeds = {row["seed"] for row in own}
    if not own:
        return None
    last = [
        [row["return"] for row in sorted(own, key=lambda row: row["updates"]) if row["seed"] == seed][-LAST:]
        for seed in seeds
    ]
    return float(np.mean([np.mean(each) for each in last]))


def trials_table() -> str:
    """What was tried while GPC-Anchor's settings were chosen, with the score at each evaluation."""
    lines = ["| settings | set | seed | updates | scores along training |", "|---|---|---|---|---|"]
    for trial in json.loads((ROOT / "results" / "choosing" / "trials.json").read_text()):
        scores = ", ".join(f"{score:.0f}" for score in trial["scores"])
        lines.append(
            f"| {trial['trial']} | {trial['dataset']} | {trial['seed']} | {trial['updates'][-1]:,} | {scores} |"
        )
    return "\n".join(lines)


def _after(row: dict[str, Any] | None) -> str:
    return "never" if row is None else f"{row['updates']:,} updates, {row['seconds'] / 60:.0f} min"


def _source(rows: list[dict[str, Any]], dataset: str) -> str:
    return ", ".join(sorted({row["source"] for row in rows if row["dataset"] == dataset})) or "not yet run"


def logs_tables() -> dict[str, str]:
    """What `benchmarks/logs.py` measured, by the marker in docs/data.md where it belongs; parts that were not run are named."""
    path = ROOT / "results" / "logs.json"
    record = json.loads(path.read_text()) if path.exists() else {}
    engines = _table(
        "work | rows | engine | CPU seconds | MiB more at the peak",
        (
            [
                row["work"],
                f"{row['rows']:,}",
                row["engine"],
                f"{row['cpu_seconds']:.1f}",
                f"{row['more']:.0f}",
            ]
            for row in record.get("engines", [])
        ),
    )
    growth = _table(
        "rows | order | imported, MiB | MiB more at the peak | CPU seconds",
        (
            [
                f"{row['rows']:,}",
                row["order"],
                str(row["stored"]),
                f"{row['more']:.0f}",
                f"{row['cpu_seconds']:.0f}",
            ]
            for row in record.get("growth", [])
        ),
    )
    if (limited := record.get("limited")) is not None:
        times = limited["stored"] / limited["limit"]
        growth += (
            f"\n\nWith `ulimit -d` at {limited['limit']} MiB, a shuffled log of {limited['rows']:,} rows was sorted, imported and checked."
            f" Its columns take {limited['stored']} MiB, {times:.1f} times as much."
        )
    return {"engines": engines, "growth": growth}


def crosscheck_table() -> str:
    """The last `make crosscheck`."""
    record = json.loads((ROOT / "results" / "crosscheck.json").read_text())
    lines = ["| loss | gridcount | d3rlpy | relative difference |", "|---|---|---|---|"]
    for name, pair in record["losses"].items():
        ours, theirs = pair["gridcount"], pair["d3rlpy"]
        lines.append(f"| {name} | {ours:.6g} | {theirs:.6g} | {abs(ours - theirs) / abs(theirs):.0e} |")
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    return "\n".join([*lines, f"\n{versions}; a difference above {record['tolerance']:g} fails."])


def service_texts() -> dict[tuple[str, str], str]:
    """What the benchmarks of exports and of the service found, by page and marker."""
    export, serve, frameworks = (
        json.loads((ROOT / "results" / f"{name}.json").read_text())
        for name in ("export", "serve", "frameworks")
    )
    head = "framework | version | requests for a second of CPU"
    rows = (
        [name, found["version"], f"{found['requests_per_cpu_second']:,}"]
        for name, found in frameworks.items()
    )
    return {
        ("export.md", "export"): _export_text(export),
        ("serve.md", "serve"): _serve_text(serve),
        ("serve.md", "frameworks"): _table(head, rows),
    }


def _export_text(found: dict[str, Any]) -> str:
    head = f"`{found['policy'].strip('<>')}`, one observation at a time, one core | median | 99th percentile"
    times = found["microseconds"]
    rows = (
        [words, f"{times[f'{clock}_median']:.0f} µs", f"{times[f'{clock}_p99']:.0f} µs"]
        for clock, words in (("cpu", "CPU time"), ("wall", "time by the clock"))
    )
    return f"{_table(head, rows)}\n\n{_others(found)}"


def _serve_text(found: dict[str, Any]) -> str:
    answered = ", ".join(f"{count:,} with status {status}" for status, count in found["answered"].items())
    times, fuzzing = found["milliseconds"], found.get("fuzzing")
    text = (
        f"`{found['policy'].strip('<>')}`, with the guard and a decision log: {found['requests']:,} requests of one observation at"
        f" {found['rate']:,} a second from a second process were answered ({answered}), while {found['promotions']} policies were"
        f" promoted. Latency: {times['median']:.1f} ms in the median, {times['p99']:.1f} ms at the 99th percentile. A request takes"
        f" {found['cpu_milliseconds']:.2f} ms of the service's CPU time. As fast as possible: {found['fastest']:,.0f} requests a"
        f" second. {_others(found)}"
    )
    if fuzzing:
        text += f"\n\nOf {fuzzing['requests']:,} requests that schemathesis made, {fuzzing['failed']} had a wrong answer."
    return text


def _others(found: dict[str, Any]) -> str:
    return f"On average {found['others']:.1f} processes, others included, wanted the machine's {found['cores']} cores meanwhile."


def theory_tables() -> dict[str, str]:
    """What `make theory` found, by the marker in docs/theory.md where it belongs."""
    theory = json.loads((ROOT / "results" / "theory.json").read_text())
    return (
        {
            f"theory-{name}": render(theory[name])
            for name, render in (("tabular", _tabular), ("linear", _linear), ("codes", _codes))
        }
        | {
            "theory-printed": _printed(theory["tabular"]),
            "theory-training": _training(theory["tabular"]),
            "theory-lemma": _lemma(theory["linear"]),
            "theory-blur": _blur(theory["codes"]),
            "theory-appendix": _appendix(theory["codes"]),
        }
        | {
            f"theory-{name}": table(theory["guarantees"][name])
            for name, table in (
                ("improvement", _improvement),
                ("continuity", _continuity),
                ("variance", _variance),
                ("selection", _selection),
            )
        }
    )


def _table(head: str, rows: Iterable[Iterable[str]]) -> str:
    return "\n".join(
        [f"| {head} |", "|---" * len(head.split("|")) + "|", *(f"| {' | '.join(row)} |" for row in rows)]
    )


def _tabular(tabular: dict[str, Any]) -> str:
    equal, names = (
        tabular["equality"],
        ("promise", "fixed_mean", "fixed_worst_pair", "learnt_mean", "learnt_worst_pair"),
    )
    head = "T | promised, 1 - 2 / T² | V fixed: all pairs | its worst pair | V learnt: all pairs | its worst pair"
    said = (
        f"Over the {equal['pairs']} pairs of a log and three values of T, u and Γ differ by at most"
        f" {equal['largest_relative_difference']:.1e} of their value, the rounding of 32-bit floats."
        f" With n instead of n + 1, u is at most {equal['largest_ratio_without_ridge']:.4f} times Γ.\n\n"
    )
    return said + _table(
        head, ([str(row["epoch"]), *(f"{row[name]:.2%}" for name in names)] for row in tabular["coverage"])
    )


def _improvement(found: list[dict[str, Any]]) -> str:
    head = "u from the old to the new policy | smallest change of Q | pairs that lose | problems in which one does"
    rows = (
        [
            row["case"],
            f"{row['smallest_gain']:.1e}",
            f"{row['pairs_worse']:.1%}",
            f"{row['problems_worse']:.1%}",
        ]
        for row in found
    )
    return _table(head, rows)


def _continuity(found: list[dict[str, float]]) -> str:
    head = "step | Γ with Bernstein features: largest change | its bound, L · step / √λ_min(Λ) | u' and Γ with one-hot cells: largest change"
    rows = (
        [f"{row['step']:g}", *(f"{row[name]:.2g}" for name in ("smooth", "smooth_bound", "cells"))]
        for row in found
    )
    return _table(head, rows)


def _variance(found: list[dict[str, float]]) -> str:
    head = "λ | prior N(0, λI), as printed | prior N(0, I/λ) | variance of the estimate ŵ alone, mean"
    rows = (
        [
            f"{row['ridge']:g}",
            *(f"{row[f'{name}_least']:.3f} to {row[f'{name}_most']:.3f}" for name in ("printed", "meant")),
            f"{row['estimate']:.3f}",
        ]
        for row in found
    )
    return _table(head, rows)


def _selection(found: list[dict[str, float]]) -> str:
    head = "κ | fails for every ε below: Gaussian actions | fails for every ε below: actions cut off"
    rows = (
        [str(row["base"]), f"{row['fails_below']:.1e}", f"{row['fails_below_cut_off']:.1e}"] for row in found
    )
    return (
        _table(head, rows)
        + f"\n\nActions of the policy that is cut off span {found[0]['span']} cells over all states."
    )


def _printed(tabular: dict[str, Any]) -> str:
    head = "T | n | the lemma's line, ln T / √(n + λ) | its proof's last line, √(ln T / (n + λ)) | Eq. 12 with its φ"
    names = ("statement", "last_line", "definition")
    return _table(
        head,
        (
            [str(row["epoch"]), str(row["count"]), *(f"{row[n]:.3f}" for n in names)]
            for row in tabular["printed_features"]
        ),
    )


def _training(tabular: dict[str, Any]) -> str:
    head = "epoch | n of the log: mean u | covered | smallest c for 90% | n of the policy's visits: mean u | covered | smallest c for 90%"
    rows = (
        [str(row["epoch"])]
        + [
            text
            for name in ("data", "policy")
            for text in (
                f"{row[f'{name}_bonus']:.4f}",
                f"{row[f'{name}_coverage']:.1%}",
                f"{row[f'{name}_smallest_c']:.2f}",
            )
        ]
        for row in tabular["training"]
    )
    return _table(head, rows)


def _lemma(linear: dict[str, Any]) -> str:
    head = "rows | b in theory | logs covered at every point at once | b that would have done for 90% of all"
    rows = (
        [
            f"{r['rows']:,}",
            f"{r['scale']:.2f}",
            f"{r['logs_covered_everywhere']:.0%}",
            f"{r['smallest_scale']:.2f}",
        ]
        for r in linear["lemma"]
    )
    grids, excess = linear["grids"], max(row["excess"] for row in linear["grids"])
    claim = (
        f"\n\nThe proposition's left side less its right side, at its largest over all {len(grids)} combinations of grid and size,"
        f" {linear['logs']} logs each and {linear['points']} points: {excess:.3f} (never positive). With its c = b / √ln T and no ε at"
        f" all, the least coverage over all combinations is {min(row['theory_coverage'] for row in grids):.1%}."
    )
    return _table(head, rows) + claim


def _linear(linear: dict[str, Any]) -> str:
    head = (
        "rows | bins | visits per cell | empty cells | least squares: smallest c | every point | first c covers | "
        "first c of every point, at its worst point | cell average: smallest c | first c covers | largest Γ / (b u) | "
        "rank correlation of u with the error | with Γ"
    )
    rows = []
    for row in linear["grids"]:
        fitted, averaged = row["linear"], row["cells"]
        rows.append(
            [
                f"{row['rows']:,}",
                str(row["bins"]),
                f"{row['mean_count']:.1f}",
                f"{row['empty']:.0%}",
                f"{fitted['smallest_c']:.3f}",
                f"{fitted['smallest_c_every_point']:.3f}",
                f"{fitted['fixed_c_coverage']:.1%}",
                f"{fitted['fixed_c_worst_point']:.0%}",
                f"{averaged['smallest_c']:.3f}",
                f"{averaged['fixed_c_coverage']:.1%}",
                f"{row['gamma_over_u']:.2f}",
                f"{row['rank_correlation']:.2f}",
                f"{row['gamma_rank_correlation']:.2f}",
            ]
        )
    best = ", ".join(
        f"{max((row for row in linear['grids'] if row['rows'] == size), key=lambda row: row['rank_correlation'])['bins']} for {size:,} rows"
        for size in sorted({row["rows"] for row in linear["grids"]})
    )
    return _table(head, rows) + f"\n\nBins at which u' follows the error best: {best}."


def _codes(codes: dict[str, Any]) -> str:
    head = (
        "task | dimensions | bins | cells | Eq. 3 printed | Eq. 3 meant | published | ours: strangers that found a count | "
        "random pairs with one code, Eq. 3 printed"
    )
    rows = (
        [
            row["task"],
            f"{row['states']} + {row['actions']}",
            str(row["bins"]),
            "actions beyond" if row["outside"] else "in range",
        ]
        + [f"{row[name]:.1%}" for name in ("printed", "meant", "published")]
        + [f"{row['ours_near']} of {row['ours_strangers']:,}", f"{row['printed_pairs']:.2g}"]
        for row in codes["collisions"]
    )
    prints = ", ".join(
        f"{row['measured']:.2e} against {row['predicted']:.2e} at {row['bits']} bits"
        for row in codes["fingerprints"]
    )
    return (
        _table(head, rows)
        + f"\n\nShort fingerprints, measured against entries per bucket / 2^bits: {prints}."
    )


def _blur(codes: dict[str, Any]) -> str:
    head = "task | state dimensions | 24 / log2(bins + 1) of them, rounded down | always seen | seen by half of the steps or more"
    rows = (
        [
            task,
            str(len(row["unseen"])),
            str(row["predicted"]),
            str(row["always_seen"]),
            str(sum(share <= 0.5 for share in row["unseen"])),
        ]
        for task, row in codes["blur"].items()
    )
    return _table(head, rows)


def _appendix(codes: dict[str, Any]) -> str:
    found = codes["appendix"]
    head = "code | v(0, 1) | v(1, -1) | v(1, 0)"
    rows = (
        ["Eq. 3 as printed", *map(str, found["printed"])],
        ["the code of the examples, m s + a with m = 2", *map(str, found["obeyed"])],
    )
    return _table(head, rows) + (
        f"\n\nThe nine cells of a 3 x 3 range have {found['square_codes_printed']} codes as printed and"
        f" {found['square_codes_meant']} as meant. With actions one width beyond the range on either side, {found['wide_cells']} cells have"
        f" {found['wide_codes_meant']} codes as meant; our table gets {found['wide_misread_by_ours']:.0%} of their counts wrong."
    )


def estimates_tables() -> str:
    """Off-policy estimates beside the truth, as they came out."""
    path = ROOT / "results" / "estimates.json"
    if not path.exists():
        return "Not yet measured."
    texts = []
    for name, found in json.loads(path.read_text()).items():
        rows = [
            [
                key,
                f"{each['rank']:.2f}",
                f"{each['covered']:.0%}",
                f"{each['regret']:.0%}",
                _effective(found, key),
            ]
            for key, each in found["scores"].items()
        ]
        head = "estimator | rank correlation | 95 % intervals that hold the truth | regret@1 | effective episodes"
        policies = [
            [
                row["policy"],
                f"{row['truth']['value']:.4g} ± {1.96 * row['truth']['error']:.2g}",
                "{:.4g} [{:.4g}, {:.4g}]".format(*row["fitted_q"]),
                f"{row['cautious']:.4g}",
                f"{row['unseen']:.0%}",
                {True: "yes", False: "no", None: "cannot say"}[row["better"]]
                if row["policy"] != "the log"
                else "",
            ]
            for row in sorted(found["policies"], key=lambda row: -row["truth"]["value"])
        ]
        each = "policy | truth | fitted Q | cautious | never seen | better than the log"
        texts.append(
            f"**{name}**, {len(policies)} policies\n\n{_table(head, rows)}\n\n{_table(each, policies)}"
        )
    return "\n\n".join(texts)


def _effective(found: dict[str, Any], name: str) -> str:
    return f"{found['effective'][name]:.1f}" if name in found["effective"] else ""


SHOWN_LINES = 34  # of what a command of the tutorial printed


def tutorial_texts() -> dict[str, str]:
    """What the tutorial's commands printed, how long they took, and the truth over seeds, by marker."""
    kept, truth = (
        json.loads((ROOT / "results" / f"{name}.json").read_text()) for name in ("tutorial", "tutorial_truth")
    )
    spent, before = kept["commands"], kept["installation"]
    texts = {marker: _shown(text) for marker, text in kept["printed"].items()}
    texts["tutorial-time"] = (
        f"The installation took {before['clock']} seconds ({before['cpu']} of CPU time), and all commands below together {spent['clock']} "
        f"seconds ({spent['cpu']} of CPU time), from a new virtual environment with the built wheel, on {kept['cores']} cores that about "
        f"{kept['others']:.0f} processes shared. The rest of the 15 minutes is for reading."
    )
    texts["tutorial-verdict"] = f"{_tutorial_truth(truth)}\n\n{_tutorial_estimates(truth)}"
    return texts


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
        + _table("weather | who opens the valve | euros per week | cold hours per week | guard held", rows)
    )


def _tutorial_estimates(truth: dict[str, Any]) -> str:
    """What was estimated from each log, beside what is true in the log's weather."""
    rows, inside = [], 0
    for seed in truth["seeds"]:
        log, policy = (
            next(row["discounted"] for row in seed["truth"] if row["controller"] == name)
            for name in ("as in the log", "policy, no guard")
        )
        value, gain = seed["fitted_q"], seed["gain"]
        inside += value["low"] <= policy <= value["high"]
        words = {True: "yes", False: "no", None: "cannot say"}[seed["better"]]
        limits = [f"{each['value']:.2f} [{each['low']:.2f}, {each['high']:.2f}]" for each in (value, gain)]
        true = [f"{policy:.2f}", f"{policy - log:+.2f}"]
        rows.append([str(seed["seed"]), limits[0], true[0], limits[1], true[1], words])
    head = "log | estimated return | true return | estimated gain | true gain | better than the log?"
    return (
        "And what `gridcount estimate` said from each log alone, beside the truth (discounted, in euros):\n\n"
        + _table(head, rows)
        + f"\n\n{inside} of {len(rows)} intervals of the return contain the truth."
    )


def report_tables() -> dict[str, str]:
    """The report's tables of what is in results/, by the marker in docs/results.md where they belong."""
    rows = read_results(*sorted((ROOT / "results").glob("*.parquet")))
    found = sections(rows, layouts({row["suite"] for row in rows}))
    made = {
        f"{name}-{table.name}": (name, table)
        for name, section in zip(slugs(found), found, strict=True)
        for table in all_tables(section)
    }
    markers = re.findall(
        r"<!-- ([\w-]+): rendered by `make results`", (ROOT / "docs" / "results.md").read_text()
    )
    texts = {
        marker: to_markdown(made[marker][1]).strip() + _picture(made[marker][0], made[marker][1].name)
        for marker in made
    }
    return {marker: texts.get(marker, "Not yet measured.") for marker in markers}


def _picture(suite: str, table: str) -> str:
    """The figure that belongs to a table, where the docs have it."""
    figure = {"scores": "curves", "ablation": "curves", "aggregates": "aggregates"}.get(table)
    path = f"images/{suite}-{figure}.png"
    return f"\n\n![{suite}: {figure}]({path})" if (ROOT / "docs" / path).exists() else ""


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
    insert(ROOT / "docs" / "gpc-anchor.md", "trials", trials_table())
    insert(ROOT / "docs" / "gpc-anchor.md", "anonymous", anonymous_table())
    for marker, text in tutorial_texts().items():
        insert(ROOT / "docs" / "tutorial.md", marker, text)
    for (page, marker), text in service_texts().items():
        insert(ROOT / "docs" / page, marker, text)
    insert(ROOT / "docs" / "estimate.md", "estimates", estimates_tables())
    for marker, text in report_tables().items():
        insert(ROOT / "docs" / "results.md", marker, text)
    for marker, text in theory_tables().items():
        insert(ROOT / "docs" / "theory.md", marker, text)
    for marker, text in logs_tables().items():
        insert(ROOT / "docs" / "data.md", marker, text)
