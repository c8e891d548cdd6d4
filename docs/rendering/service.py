"""The time of decisions, and the load that the service holds."""

import json
from typing import Any

from rendering import ROOT, table


def service_texts() -> dict[tuple[str, str], str]:
    """What the benchmarks of exports and of the service found, by page and marker."""
    export, serve, frameworks = (
        json.loads((ROOT / "results" / f"{name}.json").read_text())
        for name in ("export", "serve", "frameworks")
    )
    head = "framework | version | requests for a second of CPU"
    rows = (
        [name, found["version"], f"{found['requests_per_cpu_second']:,}"]
        for name, found in frameworks.items()
    )
    return {
        ("export.md", "export"): _export_text(export),
        ("serve.md", "serve"): _serve_text(serve),
        ("serve.md", "frameworks"): table(head, rows),
    }


def _export_text(found: dict[str, Any]) -> str:
    head = f"`{found['policy'].strip('<>')}`, one observation at a time, one core | median | 99th percentile"
    times = found["microseconds"]
    rows = (
        [words, f"{times[f'{clock}_median']:.0f} µs", f"{times[f'{clock}_p99']:.0f} µs"]
        for clock, words in (
            ("cpu", "CPU time"),
            ("wall", "time by the clock"),
            ("alone", "time by the clock, of decisions that no other process interrupted"),
        )
    )
    return f"{table(head, rows)}\n\n{_others(found)}"


def _serve_text(found: dict[str, Any]) -> str:
    answered = ", ".join(f"{count:,} with status {status}" for status, count in found["answered"].items())
    times, fuzzing = found["milliseconds"], found.get("fuzzing")
    text = (
        f"`{found['policy'].strip('<>')}`, with the guard and a decision log: {found['requests']:,} requests"
        " of one observation at"
        f" {found['rate']:,} a second from a second process were answered ({answered}), while"
        f" {found['promotions']} policies were"
        f" promoted. Latency: {times['median']:.1f} ms in the median, {times['p99']:.1f} ms at the 99th"
        " percentile. A request takes"
        f" {found['cpu_milliseconds']:.2f} ms of the service's CPU time. As fast as possible:"
        f" {found['fastest']:,.0f} requests a"
        f" second. {_others(found)}"
    )
    if fuzzing:
        text += f"\n\nOf {fuzzing['requests']:,} requests that schemathesis made, {fuzzing['failed']} had a wrong answer."
    return text


def _others(found: dict[str, Any]) -> str:
    return f"On average {found['others']:.1f} processes, others included, wanted the machine's {found['cores']} cores meanwhile."
