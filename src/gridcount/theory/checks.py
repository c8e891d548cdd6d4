"""All checks that `gridcount theory` runs, as plain numbers."""

from collections.abc import Callable
from typing import Any

from gridcount.theory import codes, guarantees, linear_mdp, tabular


def run_checks(report: Callable[[str], None] = lambda _: None, seed: int = 0) -> dict[str, Any]:
    """Every figure of docs/theory.md; the same seed gives the same figures."""
    report("tabular MDPs: u and the LCB bonus")
    tables = {
        "equality": tabular.equality(seed),
        "printed_features": tabular.printed_features(),
        "coverage": tabular.coverage(seed),
        "training": tabular.training_counts(seed),
    }
    report("a continuous linear MDP: Theorem 1 as the grid is refined")
    linear = linear_mdp.refine(seed)
    report("what else the appendix promises")
    promised = {
        "improvement": guarantees.improvement(seed),
        "continuity": guarantees.continuity(seed),
        "variance": guarantees.variance(seed),
        "selection": guarantees.selection(seed),
    }
    report("codes: how often two cells share one")
    return {
        "seed": seed,
        "tabular": tables,
        "linear": linear,
        "guarantees": promised,
        "codes": {
            "collisions": codes.collisions(seed),
            "blur": codes.blur(seed),
            "appendix": codes.appendix(),
            "fingerprints": codes.fingerprints(),
        },
    }
