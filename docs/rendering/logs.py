"""Logs as they come: memory, limits and DuckDB."""

import json

from rendering import ROOT, table


def logs_tables() -> dict[str, str]:
    """What `benchmarks/logs.py` measured, by the marker in docs/data.md where it belongs."""
    path = ROOT / "results" / "logs.json"
    record = json.loads(path.read_text()) if path.exists() else {}
    engines = table(
        "work | rows | engine | CPU seconds | MiB more at the peak",
        (
            [
                row["work"],
                f"{row['rows']:,}",
                row["engine"],
                f"{row['cpu_seconds']:.1f}",
                f"{row['more']:.0f}",
            ]
            for row in record.get("engines", [])
        ),
    )
    growth = table(
        "rows | order | imported, MiB | MiB more at the peak | CPU seconds",
        (
            [
                f"{row['rows']:,}",
                row["order"],
                str(row["stored"]),
                f"{row['more']:.0f}",
                f"{row['cpu_seconds']:.0f}",
            ]
            for row in record.get("growth", [])
        ),
    )
    if (limited := record.get("limited")) is not None:
        times = limited["stored"] / limited["limit"]
        growth += (
            f"\n\nWith `ulimit -d` at {limited['limit']} MiB, a shuffled log of {limited['rows']:,} rows was"
            " sorted,"
            f" imported and checked. Its columns take {limited['stored']} MiB, {times:.1f} times as much."
        )
    return {"engines": engines, "growth": growth}
