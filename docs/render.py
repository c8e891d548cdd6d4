"""Render the measured numbers in the docs from the files in results/: every figure there was made by a
command."""

import json
import math
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
from gridcount.training.plan import read_plan

ROOT = Path(__file__).parent.parent
BAR = 1.3  # times the matrix-multiply time that an update should not exceed


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


def trials_table() -> str:
    """What was tried while GPC-Anchor's settings were chosen, with the score at each evaluation."""
    lines = ["| settings | set | seed | updates | scores along training |", "|---|---|---|---|---|"]
    for trial in json.loads((ROOT / "results" / "choosing" / "trials.json").read_text()):
        scores = ", ".join(f"{score:.0f}" for score in trial["scores"])
        lines.append(
            f"| {trial['trial']} | {trial['dataset']} | {trial['seed']} | {trial['updates'][-1]:,} |"
            f" {scores} |"
        )
    return "\n".join(lines)


def _after(row: dict[str, Any] | None) -> str:
    return "never" if row is None else f"{row['updates']:,} updates, {row['seconds'] / 60:.0f} min"


def _source(rows: list[dict[str, Any]], dataset: str) -> str:
    return ", ".join(sorted({row["source"] for row in rows if row["dataset"] == dataset})) or "not yet run"


def logs_tables() -> dict[str, str]:
    """What `benchmarks/logs.py` measured, by the marker in docs/data.md where it belongs."""
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
            f"\n\nWith `ulimit -d` at {limited['limit']} MiB, a shuffled log of {limited['rows']:,} rows was"
            " sorted,"
            f" imported and checked. Its columns take {limited['stored']} MiB, {times:.1f} times as much."
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
        for clock, words in (
            ("cpu", "CPU time"),
            ("wall", "time by the clock"),
            ("alone", "time by the clock, of decisions that no other process interrupted"),
        )
    )
    return f"{_table(head, rows)}\n\n{_others(found)}"


def _serve_text(found: dict[str, Any]) -> str:
    answered = ", ".join(f"{count:,} with status {status}" for status, count in found["answered"].items())
    times, fuzzing = found["milliseconds"], found.get("fuzzing")
    text = (
        f"`{found['policy'].strip('<>')}`, with the guard and a decision log: {found['requests']:,} requests"
        " of one observation at"
        f" {found['rate']:,} a second from a second process were answered ({answered}), while"
        f" {found['promotions']} policies were"
        f" promoted. Latency: {times['median']:.1f} ms in the median, {times['p99']:.1f} ms at the 99th"
        " percentile. A request takes"
        f" {found['cpu_milliseconds']:.2f} ms of the service's CPU time. As fast as possible:"
        f" {found['fastest']:,.0f} requests a"
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
        f"\n\nThe proposition's left side less its right side, at its largest over all {len(grids)}"
        " combinations of grid and size,"
        f" {linear['logs']} logs each and {linear['points']} points: {excess:.3f} (never positive). With its"
        " c = b / √ln T and no ε at"
        " all, the least coverage over all combinations is"
        f" {min(row['theory_coverage'] for row in grids):.1%}."
    )
    return _table(head, rows) + claim


def _linear(linear: dict[str, Any]) -> str:
    head = (
        "rows | bins | visits per cell | empty cells | least squares: smallest c | every point | first c"
        " covers | "
        "first c of every point, at its worst point | cell average: smallest c | first c covers | largest Γ"
        " / (b u) | "
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
        "task | dimensions | bins | cells | Eq. 3 printed | Eq. 3 meant | published | ours: strangers that"
        " found a count | "
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
        f" {found['square_codes_meant']} as meant. With actions one width beyond the range on either side,"
        f" {found['wide_cells']} cells have"
        f" {found['wide_codes_meant']} codes as meant; our table gets {found['wide_misread_by_ours']:.0%} of"
        " their counts wrong."
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


def tune_tables() -> str:
    """Searches without an environment, and what each setting was worth in the environment afterwards."""
    path = ROOT / "results" / "tune.json"
    if not path.exists():
        return "Not yet measured."
    return "\n\n".join(_tuned(name, found) for name, found in json.loads(path.read_text()).items())


def naive_table() -> str:
    """Hopper's policies in the order of the naive estimate, and what each ranking chooses."""
    path = ROOT / "results" / "estimates.json"
    found = json.loads(path.read_text()).get("hopper") if path.exists() else None
    if found is None:
        return "Not yet measured."
    policies = sorted(found["policies"], key=lambda each: -each["fitted_q"][0])
    rows = [
        [
            each["policy"],
            f"{each['fitted_q'][0]:.4g}",
            f"{each['fitted_q'][1]:.4g}",
            f"{each['unseen']:.0%}",
            f"{each['truth']['value']:.4g}",
        ]
        for each in policies
    ]
    lower = max(policies, key=lambda each: each["fitted_q"][1])
    table = _table("policy | naive estimate | lower limit | never seen | true discounted return", rows)
    return (
        f"{table}\n\nThe naive ranking chooses {policies[0]['policy']}, whose true return is "
        f"{policies[0]['truth']['value']:.4g}. The lower limit chooses {lower['policy']}, with "
        f"{lower['truth']['value']:.4g}."
    )


def _tuned(name: str, found: dict[str, Any]) -> str:
    scored = [each for each in found["ranking"] if each.get("truth") is not None]
    rows = [
        [
            str(each["number"]),
            each["algorithm"] + (", automatic values" if each["automatic"] else ""),
            "{value:.4g} [{low:.4g}, {high:.4g}]".format(**each["cautious"]),
            f"{each['naive']['value']:.4g}",
            f"{each['unseen']:.0%}",
            f"{each['truth']:.4g}",
            each["status"],
        ]
        for each in scored
    ]
    best, winner = max(scored, key=lambda each: each["truth"]), scored[0]
    naive = max(scored, key=lambda each: each["naive"]["value"])
    kind, search = found["metric"], found["search"]
    head = f"trial | algorithm | cautious estimate | naive estimate | never seen | true {kind} | status"
    lost = 100 * (best["truth"] - winner["truth"]) / abs(best["truth"])
    fresh = "{value:.4g} [{low:.4g}, {high:.4g}]".format(**found["fresh"])
    return "\n\n".join(
        [
            f"**{name}**: {search['rows']:,} rows, {len(scored)} settings of "
            f"{search['updates']:,} updates, true {kind} in {found['environment']} over {found['episodes']} episodes",
            _table(head, rows),
            f"The winner, trial {winner['number']}, has a true {kind} of {winner['truth']:.4g}; the best of the "
            f"settings has {best['truth']:.4g} (trial {best['number']}): the choice loses {lost:.1f} %. The naive "
            f"ranking chooses trial {naive['number']}, whose true {kind} is {naive['truth']:.4g}. The winner was "
            f"estimated at {winner['cautious']['value']:.4g} in the search and at {fresh} on episodes that ranked "
            "nothing.",
        ]
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
    return _table(head, rows) + (
        "\n\nHeld back: of held-out episodes. Mixed states: each column from another row. Other rows'"
        " actions: those of a random row. "
        f"A decision takes {slowest['median']:.0f} microseconds at most (median over single observations;"
        f" p99 {slowest['p99']:.0f}), "
        "on one core of a busy machine."
    )


GUARD_COLUMNS = {
    "steps_unseen": "steps in unseen states",
    "steps_held": "steps held",
    "episodes_that_enter": "episodes that enter the region",
    "score": "score",
    "score_if_hazard": "score if the region were a hazard",
}


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
    return said + _table(head, rows) + "\n\n![With and without a guard](images/guard.png)"


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
    insert(ROOT / "docs" / "estimate.md", "estimates", estimates_tables())
    insert(ROOT / "docs" / "guard.md", "guard-logs", guard_logs_table())
    insert(ROOT / "docs" / "guard.md", "guard", guard_table())
    for (page, marker), text in service_texts().items():
        insert(ROOT / "docs" / page, marker, text)
    insert(ROOT / "docs" / "tune.md", "tune", tune_tables())
    insert(ROOT / "docs" / "tune.md", "naive", naive_table())
    for marker, text in report_tables().items():
        insert(ROOT / "docs" / "results.md", marker, text)
    for marker, text in theory_tables().items():
        insert(ROOT / "docs" / "theory.md", marker, text)
    for marker, text in logs_tables().items():
        insert(ROOT / "docs" / "data.md", marker, text)
