"""Rows of results as the sections of a report, one per suite, with names that tell experiments apart."""

import json
from collections import defaultdict
from collections.abc import Sequence

from gridcount.report.experiments import RUNS, Experiment, Layout, Section, rank
from gridcount.training.logs import Row

NAMED = 3  # number of differing settings in a name
WAYS = {
    "planned_updates": "{:,} updates",
    "episodes": "{:,} episodes",
    "environment": "scored in {}",
    "source": "{} data",
    "preset": "preset {}",
}  # how it was run, in words


def sections(rows: Sequence[Row], layouts: dict[str, Layout]) -> list[Section]:
    """Rows by suite and experiment, tables beside a paper's first and ablations last but for plain runs.

    Experiments with the same name get their differences in their names.
    """
    suites: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        suites[row["suite"]][row["key"]].append(row)
    found = []
    for name, own in suites.items():
        _validate_one_name(name, own)
    laid_out = [
        (name, layouts.get(name) or Layout(name, "Runs" if name == RUNS else name)) for name in suites
    ]
    for name, layout in sorted(
        laid_out,
        key=lambda each: (each[0] == RUNS, each[1].kind == "ablation", not each[1].published, each[0]),
    ):
        experiments = _with_distinct_notes([Experiment(key, tuple(own)) for key, own in suites[name].items()])

        def place(each: Experiment, layout: Layout = layout) -> tuple[object, ...]:
            ranks = (
                rank(layout.algorithms, each.algorithm),
                rank(layout.variants, each.variant),
                rank(layout.datasets, each.dataset),
            )
            return (*ranks, bool(each.note), each.rows[0].get("planned_updates", 0), each.note)

        found.append(Section(layout, tuple(sorted(experiments, key=place))))
    return found


def _validate_one_name(suite: str, experiments: dict[str, list[Row]]) -> None:
    """Raise ValueError if one experiment has two variant names, such as before and after a renaming."""
    for rows in experiments.values():
        names = list(dict.fromkeys(row.get("variant", "") for row in rows))
        if len(names) > 1:
            what = f"{suite}: {rows[0]['algorithm']} on {rows[0]['dataset']}"
            raise ValueError(
                f"{what} is called '{names[0]}' in some of the results and '{names[1]}' in others, with the"
                " same settings. "
                "Run `gridcount benchmark` again in the folder of the older results: it renames them"
            )


def _with_distinct_notes(experiments: list[Experiment]) -> list[Experiment]:
    groups: dict[tuple[str, str, str], list[Experiment]] = defaultdict(list)
    for each in experiments:
        groups[each.algorithm, each.dataset, each.variant].append(each)
    found = []
    for (algorithm, _, variant), group in groups.items():
        elsewhere = [
            each
            for each in experiments
            if (each.algorithm, each.variant) == (algorithm, variant) and each not in group
        ]
        notes = _notes(group, elsewhere) if len(group) > 1 else [""]
        found += [Experiment(each.key, each.rows, note) for each, note in zip(group, notes, strict=True)]
    return found


def _notes(group: list[Experiment], elsewhere: list[Experiment]) -> list[str]:
    """For each of several experiments, the settings that differ among them; if these are not unique, their
    names too.

    The experiment with the same settings as on other datasets needs no note; fields come second, because a
    preset may set them.
    """
    facts = [_facts(each) for each in group]
    differing = [
        name
        for name in dict.fromkeys(name for each in facts for name in each)
        if len({str(each.get(name)) for each in facts}) > 1
    ]
    others = [_facts(other) for other in elsewhere]
    ways = [name for name in differing if name in WAYS]
    alike = [
        tuple(sum(all(o.get(n) == each.get(n) for n in names) for o in others) for names in (ways, differing))
        for each in facts
    ]

    def notes_of(names: list[str]) -> list[str]:
        return [", ".join(str(each.get(name, f"no {name}")) for name in names) for each in facts]

    enough = "preset" in ways and len(set(notes_of(ways))) == len(
        group
    )  # a preset's name stands for its fields
    notes = notes_of(ways if enough else differing[:NAMED])
    if len(set(notes)) == len(notes):
        usual = [index for index, count in enumerate(alike) if count == max(alike) > (0, 0)]
        return [("" if usual == [index] else note) for index, note in enumerate(notes)]
    names = [(each.recorded("run") or [each.key.rsplit("--", 1)[-1]])[0] for each in group]
    if len(set(names)) < len(names):
        names = [each.key for each in group]
    return [", ".join(filter(None, both)) for both in zip(notes, names, strict=True)]


def _facts(each: Experiment) -> dict[str, str]:
    """The settings that may distinguish experiments of the same name: setting -> its text."""
    row = each.rows[0]
    settings = {
        name: f"{name} {_plain(value)}" for name, value in sorted(json.loads(row.get("config", "{}")).items())
    }
    recorded = {name: text.format(row[name]) for name, text in WAYS.items() if row.get(name) is not None}
    recorded.setdefault("environment", "the dataset's own environment")
    data = {"fingerprint": f"data {str(row.get('fingerprint'))[:6]}"}
    updates = sorted({row["updates"] for row in each.rows} - {0})
    return (
        recorded
        | settings
        | data
        | ({"every": f"evaluated every {updates[0]:,}"} if len(updates) > 1 else {})
    )


def _plain(value: object) -> str:
    return "x".join(map(str, value)) if isinstance(value, list) else str(value)
