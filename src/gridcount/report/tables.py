"""Every table of the report."""

from dataclasses import replace

from gridcount.algorithms.presets import PRESETS
from gridcount.report.aggregate_tables import aggregate_table, improvement_table
from gridcount.report.cost_table import cost_table
from gridcount.report.experiments import Section
from gridcount.report.log_table import log_table
from gridcount.report.score_tables import ablation_table, oracle_table, score_table
from gridcount.report.table import Table


def all_tables(section: Section) -> list[Table]:
    """Every table a suite has results for."""
    makers = (
        score_table,
        ablation_table,
        oracle_table,
        log_table,
        aggregate_table,
        improvement_table,
        cost_table,
    )
    made = [table for maker in makers if (table := maker(section)) is not None]
    return [replace(table, title=f"{table.title}{_presets(table)}") for table in made]


def _presets(table: Table) -> str:
    """The presets of a table's numbers: a suite named after a paper need not use the paper's."""
    presets = dict(table.protocol).get("Preset", "")
    names = [part.split(":")[0] for part in presets.split("; ")]
    known = [name for name in PRESETS if name in names]
    return f"; preset{'s' if len(known) > 1 else ''} {' and '.join(known)}" if known else ""
