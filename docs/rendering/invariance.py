"""The same log written in other ways: what each policy returns."""

import json

from rendering import ROOT


def invariance_table() -> str:
    """Returns of policies whose logs differ only in how they are written, and how far their actions are
    apart."""
    found = json.loads((ROOT / "results" / "invariance.json").read_text())
    variants = found["variants"]
    usual = next(iter(variants))
    lines = [
        "| log | return | difference | actions apart, share of their range |",
        "|---|---|---|---|",
        f"| {usual} | {variants[usual]['return']:.1f} | | |",
    ]
    for name, each in variants.items():
        if name != usual:
            difference = f"{each['difference']:+.1f} ± {each['error']:.1f}"
            lines.append(f"| {name} | {each['return']:.1f} | {difference} | {each['apart']:.2%} |")
    return "\n".join(
        [
            *lines,
            "",
            f"Plant {found['plant']}, {found['rows']:,} rows, {found['updates']:,} updates, {found['episodes']}"
            " episodes from the same starts; ± is the standard error of the difference.",
        ]
    )
