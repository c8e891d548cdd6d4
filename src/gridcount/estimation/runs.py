"""What is estimated on which episodes: runs, policies and rules by name, and the log of a run with the
episodes it held out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridcount.estimation.problem import Rule
from gridcount.policy.policy import Policy
from gridcount.training.experiment import load_whole
from gridcount.training.plan import fingerprint, read_plan
from gridcount.training.policies import policies_of
from gridcount.transitions import Transitions


class Evaluated(NamedTuple):
    """A log, and the episodes that no policy was trained on."""

    data: Transitions
    held_out: NDArray[np.bool_] | None  # [episodes]; None: none is known, so values are cross-fitted
    notes: tuple[str, ...] = ()


def rules_of(runs: Mapping[str, Path], at: int | str = "last") -> dict[str, Rule]:
    """The policies of runs by name: each seed's."""
    rules: dict[str, Rule] = {}
    for name, path in runs.items():
        policies = policies_of(path, at=at)
        for policy in policies:
            rules[name if len(policies) == 1 else f"{name}, seed {policy.seed}"] = policy
    return rules


def held_out_of(runs: Mapping[str, Path], data: Transitions | None = None) -> Evaluated:
    """The log of some runs, and the episodes that all of them held out; `data` is their log, if it was not
    read from a file."""
    if not runs:
        raise ValueError(
            "a policy or a rule needs data to be estimated on; give transitions, a name or a file"
        )
    plans = {name: read_plan(path) for name, path in runs.items()}
    first = next(iter(plans.values()))
    for name, plan in plans.items():
        if not plan.hold_out:
            raise ValueError(
                f"{runs[name]}: the run held out no episodes, so its estimate would be too high; train with"
                " --hold-out 0.1,"
                " or name data that it was not trained on with --data"
            )
        if plan.fingerprint != first.fingerprint:
            raise ValueError(
                f"{runs[name]}: the run was trained on other data than {next(iter(runs.values()))}; name"
                " data with --data"
            )
    whole = load_whole(next(iter(runs.values())), data)
    held = np.logical_and.reduce([plan.split().held_out(whole) for plan in plans.values()])
    if not held.any():
        raise ValueError(
            "the runs held out different episodes (--hold-out-seed), and none that all of them did; estimate"
            " them one by one"
        )
    return Evaluated(whole, held)


def given(data: Transitions, rules: Mapping[str, Any], runs: Mapping[str, Path]) -> Evaluated:
    """Data that the user named: if the runs held out some of its episodes, these are estimated.

    A policy that was trained on all of it, or that observes columns of other names, is noted.
    """
    digest = fingerprint(data)
    policies = {name: rule for name, rule in rules.items() if isinstance(rule, Policy)}
    trained = [name for name, policy in policies.items() if policy.facts.fingerprint == digest]
    plans = [read_plan(path) for path in runs.values() if (path / "config.json").is_file()]
    apart = [plan for plan in plans if plan.hold_out and plan.fingerprint == digest]
    if apart and len(apart) == len(runs) and len(trained) == sum(len(plan.seeds) for plan in apart):
        return held_out_of(runs, data)
    notes = [
        f"{name} observes {', '.join(policy.observation_names)}, and the data has"
        f" {', '.join(data.observation_names)}; they must mean the same, in this order"
        for name, policy in policies.items()
        if policy.observation_names != data.observation_names
    ]
    note = f"{', '.join(trained)} learnt from this very data, so the estimate is probably too high; hold episodes out"
    return Evaluated(data, None, (*notes, note) if trained else tuple(notes))
