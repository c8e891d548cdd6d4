"""A row of results: its columns, and how a run directory becomes rows. The results store and reports share
it."""

import json
from pathlib import Path

import msgspec

from gridcount.counts.support import EXPECTED, Support
from gridcount.files.records import Count, Real
from gridcount.training.logs import Row
from gridcount.training.machine import describe_starts
from gridcount.training.plan import Plan
from gridcount.training.times import read_times


class Facts(msgspec.Struct, kw_only=True):
    """What all rows of a run share; a missing or null value was not recorded."""

    suite: str
    key: str  # the same for all seeds of an experiment
    algorithm: str
    dataset: str
    config: str  # the hyper-parameters, as JSON
    fingerprint: str  # of the data
    planned_updates: Count
    variant: str | None = None
    preset: str | None = None
    environment: str | None = None  # where it was scored; left out: the dataset's own, or none
    source: str | None = None
    run: str | None = None
    commit: str | None = None
    versions: str | None = None
    machine: str | None = None
    started: str | None = None
    episodes: Count | None = None


class Costs(msgspec.Struct, kw_only=True):
    """What the evaluation of a seed had cost until then; the same run may cost more elsewhere."""

    seeds_together: Count | None = None
    cores_used: Count | None = None
    seconds: Real | None = None
    gigabytes: Real | None = None


class Outcome(msgspec.Struct, kw_only=True, rename={"returned": "return"}):
    """What an environment said of a policy."""

    score: Real | None = None
    returned: Real | None = None
    success: Real | None = None


class Place(msgspec.Struct, kw_only=True):
    """Which evaluation it is."""

    seed: Count
    updates: Count
    diverged: str | None = None


COLUMNS = (Facts, Costs, Place, Outcome)  # of a row, besides an algorithm's metrics


def column_names(*kinds: type[msgspec.Struct]) -> set[str]:
    """The names of columns."""
    return {name for kind in kinds for name in kind.__struct_encode_fields__}


# May differ between two records of the same evaluation, or be missing in older ones.
VOLATILE = column_names(Costs) | set(Support._fields) | set(map(EXPECTED.format, Support._fields))
_NO_CURVE = column_names(Facts, Costs, Place) | {"score"}


def is_metric(name: str, value: object) -> bool:
    """Whether a column is a figure that curves can show, besides the score."""
    if name in _NO_CURVE or name.endswith(EXPECTED.format("")):
        return False
    return isinstance(value, int | float)


def facts_of(plan: Plan, directory: Path, *, suite: str, key: str, **known: str | None) -> Row:
    """The columns that all rows of a run share; `known` is what its directory does not record."""
    starts = describe_starts(directory)
    return {
        "suite": suite,
        "algorithm": plan.algorithm,
        "dataset": plan.title,
        "variant": "",
        "key": key,
        "preset": plan.preset or None,
        "config": json.dumps(plan.fields, sort_keys=True),
        "planned_updates": plan.updates,
        "episodes": plan.episodes,
        "environment": plan.named_environment,
        "fingerprint": plan.fingerprint,
        # several where it went on with newer code
        "commit": ", ".join(dict.fromkeys(start.commit for start in starts if start.commit)) or None,
        "versions": json.dumps(starts[-1].versions, sort_keys=True),
        "machine": starts[-1].machine,
        "started": starts[0].started,
        "seeds_together": len(plan.seeds),
        "cores_used": starts[-1].cores_used,
    } | known


def with_facts(facts: Row, directory: Path, evaluations: list[Row]) -> list[Row]:
    """Evaluations as rows of results: with the facts of their run, and the time and memory until each."""
    costs = {
        each.updates: {"seconds": each.seconds, "gigabytes": each.gigabytes} for each in read_times(directory)
    }
    return [facts | costs.get(row["updates"], {}) | row for row in evaluations]
