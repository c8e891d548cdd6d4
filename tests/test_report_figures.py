"""The report's figures: names are whole, told apart and beside what is drawn, and what was measured can be
seen."""

from collections.abc import Callable
from typing import Any

import pytest
from results_maker import make_rows, section_of

from gridcount.report.figures import _profile, draw_curves


def test_each_panel_is_labelled_with_what_it_shows() -> None:
    rows = [
        {name: value for name, value in row.items() if name != "score"}
        for row in make_rows("s", "sac", "plant")
    ]
    drawn = draw_curves(section_of([*make_rows("s", "sac", "maze2d-umaze-v1"), *rows]))
    assert drawn is not None
    assert {axes.get_title(): axes.get_ylabel() for axes in drawn.axes} == {
        "maze2d-umaze-v1": "normalised score",
        "plant": "return",
    }


@pytest.mark.parametrize("length", [3, 20, 80])
def test_every_name_in_a_legend_is_inside_the_figure(length: int) -> None:
    variants = [letter * length for letter in "abcdef"]
    drawn = draw_curves(
        section_of([row for name in variants for row in make_rows("s", "sac", "maze2d-umaze-v1", name)])
    )
    assert drawn is not None
    drawn.draw_without_rendering()
    box = drawn.legends[0].get_window_extent()
    assert len(drawn.legends) == 1
    assert len(drawn.legends[0].get_texts()) == 6
    assert drawn.bbox.x0 <= box.x0 < box.x1 <= drawn.bbox.x1


def test_long_names_that_differ_at_their_ends_are_told_apart_in_a_legend() -> None:
    variants = [f"relative, counting the log's actions {ending}" for ending in ("alone", "and visits")]
    drawn = draw_curves(
        section_of([row for name in variants for row in make_rows("s", "gpc-sac", "maze2d-umaze-v1", name)])
    )
    assert drawn is not None
    assert len({text.get_text() for text in drawn.legends[0].get_texts()}) == 2


@pytest.mark.parametrize("draw", [draw_curves, _profile])
def test_many_names_take_nothing_from_what_is_drawn(draw: Callable[[Any], Any]) -> None:
    heights = []
    for count in (3, 40):
        variants = [f"a setting with quite a long name {number}" for number in range(count)]
        drawn = draw(
            section_of([row for name in variants for row in make_rows("s", "sac", "maze2d-umaze-v1", name)])
        )
        drawn.draw_without_rendering()
        panel, legend = drawn.axes[0].get_window_extent(), drawn.legends[0].get_window_extent()
        assert legend.y1 <= panel.y0
        assert drawn.bbox.y0 <= legend.y0
        heights.append(panel.height)
    assert heights[1] > 0.9 * heights[0]


def test_a_single_evaluation_can_be_seen() -> None:
    drawn = draw_curves(section_of(make_rows("s", "sac", "maze2d-umaze-v1", evaluations=1)))
    assert drawn is not None
    assert [line.get_marker() for line in drawn.axes[0].get_lines()] == ["o"]
