"""Labels that distinguish runs in a picture or a table."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gridcount.training.plan import Plan

SOURCES = {"d4rl": "D4RL's data", "generated": "generated data"}


def distinctions(plans: Sequence[Plan]) -> list[str]:
    """Per run its algorithm, the fields in which it differs from other runs of that algorithm, and its
    data if they differ."""
    same_data = len({(plan.dataset, plan.fingerprint) for plan in plans}) == 1
    labels = []
    for plan in plans:
        same_algorithm = [other.fields for other in plans if other.algorithm == plan.algorithm]
        own = {
            name: value
            for name, value in plan.fields.items()
            if any(fields.get(name) != value for fields in same_algorithm)
        }
        data = [] if same_data else [f"on {dataset_in_words(plan)}"]
        labels.append(
            " ".join(
                [", ".join([plan.algorithm, *(_flag(name, value) for name, value in own.items())]), *data]
            )
        )
    return labels


def run_labels(runs: Sequence[Path], plans: Sequence[Plan]) -> list[str]:
    """The same with the number of seeds, and the directory if labels are not unique."""
    labels = distinctions(plans)
    counted = [
        f"{label} ({len(plan.seeds)} seed{'s' if len(plan.seeds) > 1 else ''})"
        for label, plan in zip(labels, plans, strict=True)
    ]
    return [
        f"{label}, {run}" if labels.count(words) > 1 else label
        for label, words, run in zip(counted, labels, runs, strict=True)
    ]


def dataset_in_words(plan: Plan) -> str:
    """A dataset's name, and for a published one where the data came from, as far as that was recorded."""
    name = Path(plan.dataset).name
    return f"{name} ({SOURCES[plan.source]})" if plan.source in SOURCES else name


def _flag(name: str, value: Any) -> str:
    shown = (
        " ".join(map(str, value))
        if isinstance(value, list | tuple)
        else f"{value:g}"
        if isinstance(value, float)
        else value
    )
    return f"--{name.replace('_', '-')} {shown}"
