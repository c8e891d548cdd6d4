"""The line under every table that describes how its numbers were made."""

from collections.abc import Callable, Sequence

from gridcount.report.experiments import Experiment


def protocol(experiments: Sequence[Experiment]) -> tuple[tuple[str, str], ...]:
    """How numbers were made: shared values once, different values with their experiments."""
    named: dict[str, Callable[[Experiment], str]] = {
        "Seeds": lambda each: f"{len(each.scored_seeds)} ({_ranges(each.scored_seeds)})",
        "Updates": _updates,
        "Evaluated": _evaluated,
        "Data": lambda each: each.source,
        "Preset": lambda each: ", ".join(each.recorded("preset")) or "not recorded",
    }
    found = []
    for name, describe in named.items():
        groups: dict[str, list[Experiment]] = {}
        for each in experiments:
            groups.setdefault(describe(each), []).append(each)
        if len(groups) == 1:
            found.append((name, next(iter(groups))))
        else:
            found.append(
                (
                    name,
                    "; ".join(f"{text}: {_describe_group(own, experiments)}" for text, own in groups.items()),
                )
            )
    return tuple(found)


def _updates(each: Experiment) -> str:
    last = {
        row["seed"]: row["updates"] for row in sorted(each.rows, key=lambda row: int(row["updates"]))
    }  # seed -> its last update
    low, high, planned = min(last.values()), max(last.values()), each.rows[0].get("planned_updates")
    reached = f"{high:,}" if low == high else f"{low:,} to {high:,}"
    return reached if planned in (None, low) else f"{reached} of {planned:,} planned"


def _evaluated(each: Experiment) -> str:
    # the first gives the interval: the last one may be shorter
    updates = sorted({row["updates"] for row in each.rows} - {0})
    every = f"every {updates[0]:,} updates" if len(updates) > 1 else "once"
    return (
        f"{every}, on {each.rows[0].get('episodes', 'an unknown number of')} episodes"
        if each.scores
        else "not scored"
    )


def _describe_group(own: Sequence[Experiment], everyone: Sequence[Experiment]) -> str:
    """Name experiments by datasets if these are unique, else by methods, else by both."""
    datasets = dict.fromkeys(each.dataset for each in own)
    if sum(each.dataset in datasets for each in everyone) == len(own):
        return ", ".join(datasets)
    elsewhere = {each.method for each in everyone if each not in own}
    return ", ".join(
        dict.fromkeys(
            f"{each.method} on {each.dataset}" if each.method in elsewhere else each.method for each in own
        )
    )


def _ranges(seeds: Sequence[int]) -> str:
    if len(seeds) > 2 and seeds == tuple(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))
