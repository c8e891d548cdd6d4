"""Where the results of the report page come from, as markup."""

import json
from collections.abc import Sequence
from html import escape
from typing import Any

from gridcount.report.experiments import UNRECORDED, Experiment, Section


def provenance(section: Section) -> str:
    """What all experiments share once, then each with its configuration."""
    everyone = section.experiments
    shared = _facts(everyone) | {
        "Data": "; ".join(
            dict.fromkeys(
                f"{each.dataset}: {each.source}, fingerprint"
                f" {', '.join(each.recorded('fingerprint')) or UNRECORDED}"
                for each in everyone
            )
        )
    }
    entries = []
    for each in everyone:
        settings = "; ".join(
            ", ".join(f"{name} = {_setting(value)}" for name, value in _object(text).items())
            for text in each.recorded("config")
        )
        own = {
            "Configuration": settings,
            "Seeds": ", ".join(map(str, each.seeds)),
            **_facts([each]),
            "Data": each.source,
        }
        own |= {"Fingerprint of the data": ", ".join(each.recorded("fingerprint")), "Experiment": each.key}
        title = escape(f"{each.method} on {each.dataset}")
        entries.append(f'<details><summary>{title}</summary><div class="inside">{_list(own)}</div></details>')
    fold = f'<details class="deeper"><summary>Configuration of each experiment</summary><div class="inside">{"".join(entries)}</div></details>'
    return f'<div class="sub"><h3>Provenance</h3></div>{_list(shared)}{fold}'


def _facts(experiments: Sequence[Experiment]) -> dict[str, str]:
    def recorded(name: str) -> list[str]:
        return list(dict.fromkeys(text for each in experiments for text in each.recorded(name)))

    started = sorted(recorded("started"))
    return {
        "Commit": ", ".join(recorded("commit")),
        "Versions": "; ".join(
            ", ".join(f"{package} {number}" for package, number in _object(text).items())
            for text in recorded("versions")
        ),
        "Machine": "; ".join(recorded("machine")),
        "Started": started[0] + (f" to {started[-1]}" if len(started) > 1 else "") if started else "",
    }


def _list(facts: dict[str, str]) -> str:
    return (
        '<dl class="facts">'
        + "".join(f"<dt>{escape(k)}</dt><dd>{escape(v or UNRECORDED)}</dd>" for k, v in facts.items())
        + "</dl>"
    )


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return {"": text}
    return found if isinstance(found, dict) else {"": found}


def _setting(value: object) -> str:
    return (
        "none"
        if value is None
        else json.dumps(value)
        if isinstance(value, list | dict | bool)
        else str(value)
    )
