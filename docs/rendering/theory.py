"""What `make theory` found."""

import json
from typing import Any

from rendering import ROOT, table


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
    return said + table(
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
    return table(head, rows)


def _continuity(found: list[dict[str, float]]) -> str:
    head = "step | Γ with Bernstein features: largest change | its bound, L · step / √λ_min(Λ) | u' and Γ with one-hot cells: largest change"
    rows = (
        [f"{row['step']:g}", *(f"{row[name]:.2g}" for name in ("smooth", "smooth_bound", "cells"))]
        for row in found
    )
    return table(head, rows)


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
    return table(head, rows)


def _selection(found: list[dict[str, float]]) -> str:
    head = "κ | fails for every ε below: Gaussian actions | fails for every ε below: actions cut off"
    rows = (
        [str(row["base"]), f"{row['fails_below']:.1e}", f"{row['fails_below_cut_off']:.1e}"] for row in found
    )
    return (
        table(head, rows)
        + f"\n\nActions of the policy that is cut off span {found[0]['span']} cells over all states."
    )


def _printed(tabular: dict[str, Any]) -> str:
    head = "T | n | the lemma's line, ln T / √(n + λ) | its proof's last line, √(ln T / (n + λ)) | Eq. 12 with its φ"
    names = ("statement", "last_line", "definition")
    return table(
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
    return table(head, rows)


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
    return table(head, rows) + claim


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
    return table(head, rows) + f"\n\nBins at which u' follows the error best: {best}."


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
        table(head, rows) + f"\n\nShort fingerprints, measured against entries per bucket / 2^bits: {prints}."
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
    return table(head, rows)


def _appendix(codes: dict[str, Any]) -> str:
    found = codes["appendix"]
    head = "code | v(0, 1) | v(1, -1) | v(1, 0)"
    rows = (
        ["Eq. 3 as printed", *map(str, found["printed"])],
        ["the code of the examples, m s + a with m = 2", *map(str, found["obeyed"])],
    )
    return table(head, rows) + (
        f"\n\nThe nine cells of a 3 x 3 range have {found['square_codes_printed']} codes as printed and"
        f" {found['square_codes_meant']} as meant. With actions one width beyond the range on either side,"
        f" {found['wide_cells']} cells have"
        f" {found['wide_codes_meant']} codes as meant; our table gets {found['wide_misread_by_ours']:.0%} of"
        " their counts wrong."
    )
