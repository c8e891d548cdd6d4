"""Estimates and searches beside the truth."""

import json
from typing import Any

from rendering import ROOT, table


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
                f"{row['rolled_out'][0]:.4g}",
                f"{row['uncertainty']:.2f}",
                f"{row['unseen']:.0%}",
                {True: "yes", False: "no", None: "cannot say"}[row["better"]]
                if row["policy"] != "the log"
                else "",
            ]
            for row in sorted(found["policies"], key=lambda row: -row["truth"]["value"])
        ]
        each = "policy | truth | fitted Q | cautious | in a model | uncertainty met | never seen | better than the log"
        texts.append(
            f"**{name}**, {len(policies)} policies\n\n{table(head, rows)}\n\n{table(each, policies)}"
        )
    return "\n\n".join(texts)


ASKED = {"umaze": "0.8", "hopper": "0.6", "pen": ""}  # rank correlations
ASKED_COVERED = 0.8  # share of the intervals that hold the truth


def bars_table() -> str:
    """What was asked for on each log, and what came out."""
    path = ROOT / "results" / "estimates.json"
    if not path.exists():
        return "Not yet measured."
    rows = []
    for name, found in json.loads(path.read_text()).items():
        lower, value = found["scores"]["fitted Q, lower limit"], found["scores"]["fitted Q"]
        said = [row for row in found["policies"] if row["better"] is True]
        truth = found.get("within") or {row["policy"]: row["truth"] for row in found["policies"]}
        wrong = sum(truth[row["policy"]]["value"] <= truth["the log"]["value"] for row in said)
        rows.append(
            [
                name,
                ASKED[name],
                f"{lower['rank']:.2f}",
                f"{value['rank']:.2f}",
                f"{ASKED_COVERED:.0%}",
                f"{value['covered']:.0%} of {len(found['policies'])}",
                f"{lower['regret']:.0%}",
                f"{len(said)}",
                str(wrong),
                f"{found['seconds']:.0f}",
            ]
        )
    head = (
        "log | rank asked for | by the lower limit | by the value | intervals asked for | that hold the truth |"
        " regret@1 by the lower limit | called better | of these truly worse | seconds of a core"
    )
    return table(head, rows)


def tried_table() -> str:
    """Everything that was tried on umaze, chosen or not."""
    path = ROOT / "results" / "estimators.json"
    if not path.exists():
        return "Not yet measured."
    rows = [
        [
            what,
            f"{each['rank']:.2f}",
            f"{each['lower']:.2f}",
            f"{each['covered']:.0%}",
            f"{each['regret']:.0%}",
            f"{each['error']:+.1f}",
            f"{each['width']:.1f}",
        ]
        for what, each in json.loads(path.read_text()).items()
    ]
    head = "on umaze | rank | rank by the lower limit | intervals that hold the truth | regret@1 | mean error | mean width"
    return table(head, rows)


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
    shown = table("policy | naive estimate | lower limit | never seen | true discounted return", rows)
    return (
        f"{shown}\n\nThe naive ranking chooses {policies[0]['policy']}, whose true return is "
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
            f"{search['updates']:,} updates, true {kind} in {found['environment']} over {found['episodes']}"
            " episodes",
            table(head, rows),
            f"The winner, trial {winner['number']}, has a true {kind} of {winner['truth']:.4g}; the best of"
            " the "
            f"settings has {best['truth']:.4g} (trial {best['number']}): the choice loses {lost:.1f} %. The"
            " naive "
            f"ranking chooses trial {naive['number']}, whose true {kind} is {naive['truth']:.4g}. The winner"
            " was "
            f"estimated at {winner['cautious']['value']:.4g} in the search and at {fresh} on episodes that"
            " ranked "
            "nothing.",
        ]
    )
