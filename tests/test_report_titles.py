"""Titles of a report's tables say what their numbers were made with."""

from results_maker import make_rows, section_of

from gridcount.report.tables import all_tables
from gridcount.training.logs import Row

SUITE = "paper/maze2d"


def titles(rows: list[Row]) -> list[str]:
    return [table.title for table in all_tables(section_of(rows))]


def with_preset(rows: list[Row], preset: str | None) -> list[Row]:
    return [row | {"preset": preset} for row in rows]


def test_every_table_s_title_says_which_preset_its_numbers_were_made_with() -> None:
    fast = with_preset(make_rows(SUITE, "sac", "maze2d-umaze-v1"), "fast")
    assert titles(fast)
    assert all(title.endswith("; preset fast") for title in titles(fast))
    paper = with_preset(make_rows(SUITE, "sac", "maze2d-large-v1"), "paper")
    assert titles(fast + paper)[0].endswith("; presets fast and paper")


def test_runs_that_recorded_no_preset_are_not_given_one() -> None:
    assert not any(
        "preset" in title for title in titles(with_preset(make_rows("runs", "sac", "maze2d-umaze-v1"), None))
    )
