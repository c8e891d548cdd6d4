"""The tables of the report on kept results."""

import re

from gridcount.benchmark.store import read_results
from gridcount.commands.report import layouts
from gridcount.report.page import slugs
from gridcount.report.sections import sections
from gridcount.report.table_formats import to_markdown
from gridcount.report.tables import all_tables
from rendering import ROOT


def report_tables() -> dict[str, str]:
    """The report's tables of what is in results/, by the marker in docs/results.md where they belong."""
    rows = read_results(*sorted((ROOT / "results").glob("*.parquet")))
    found = sections(rows, layouts({row["suite"] for row in rows}))
    made = {
        f"{name}-{table.name}": (name, table)
        for name, section in zip(slugs(found), found, strict=True)
        for table in all_tables(section)
    }
    markers = re.findall(
        r"<!-- ([\w-]+): rendered by `make results`", (ROOT / "docs" / "results.md").read_text()
    )
    texts = {
        marker: to_markdown(made[marker][1]).strip() + _picture(made[marker][0], made[marker][1].name)
        for marker in made
    }
    return {marker: texts.get(marker, "Not yet measured.") for marker in markers}


def _picture(suite: str, table: str) -> str:
    """The figure that belongs to a table, where the docs have it."""
    figure = {"scores": "curves", "ablation": "curves", "aggregates": "aggregates"}.get(table)
    path = f"images/{suite}-{figure}.png"
    return f"\n\n![{suite}: {figure}]({path})" if (ROOT / "docs" / path).exists() else ""
