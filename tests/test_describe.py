"""What a description says is what the data holds."""

import json
from collections import Counter
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from log_files import EXCERPTS, smooth
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from rich.console import Console

from gridcount.algorithms.gpc import settle
from gridcount.algorithms.gpc_sac import GPCSAC
from gridcount.counts.grid import Grid
from gridcount.data.formats.d4rl import read_hdf5, write_hdf5
from gridcount.data.quality.describe import coverage, describe, render, sparkline, summarise
from gridcount.paper import PAPER
from gridcount.report.dataset import plot_description
from gridcount.transitions import Transitions


@pytest.fixture(scope="module")
def hopper() -> Transitions:
    return read_hdf5(EXCERPTS / "hopper_medium-v2.hdf5", name="hopper-medium-v2")


def test_figures_are_those_of_the_columns(hopper: Transitions) -> None:
    d = describe(hopper)
    assert (d.transitions, d.episodes, d.terminal_episodes) == (911, 2, 2)
    assert (d.lengths.low, d.lengths.high) == (441, 470)
    np.testing.assert_allclose([d.returns.low, d.returns.high], sorted(hopper.episode_returns))
    reward = hopper.reward.astype(np.float64)
    np.testing.assert_allclose(
        [d.reward_low, d.reward_mean, d.reward_high], [reward.min(), reward.mean(), reward.max()]
    )
    assert d.reward_middle == pytest.approx((reward.min() + reward.max()) / 2)
    assert len(d.observation) == 11
    np.testing.assert_allclose(
        [x.deviation for x in d.observation], hopper.observation.astype(np.float64).std(axis=0), rtol=1e-5
    )
    np.testing.assert_allclose([x.low for x in d.action], hopper.action.min(axis=0))


@pytest.mark.parametrize("bins", [1, 4, 15])
def test_coverage_is_that_of_a_count_by_hand(hopper: Transitions, bins: int) -> None:
    both = np.concatenate([hopper.observation, hopper.next_observation])
    states = [
        tuple(row) for row in np.asarray(Grid.fit(both, bins).cell(jnp.asarray(hopper.observation))).tolist()
    ]
    actions = [
        tuple(row)
        for row in np.asarray(Grid.fit(hopper.action, bins).cell(jnp.asarray(hopper.action))).tolist()
    ]
    visits = sorted(Counter(states).values(), reverse=True)
    found = coverage(hopper, bins, state_resolution="exact")
    assert found.state_cells == len(visits)
    assert found.pairs == len(set(zip(states, actions, strict=True)))
    assert found.seen_once == pytest.approx(visits.count(1) / len(visits))
    assert found.top_share == pytest.approx(sum(visits[: -(-len(visits) // 100)]) / len(states))


def test_suggestions_are_what_training_would_settle_on(hopper: Transitions) -> None:
    settled, notes = settle(GPCSAC(), hopper)
    suggestions = describe(hopper).suggestions
    for name in ("bins", "pessimism", "q_floor"):
        assert suggestions[name].value == pytest.approx(getattr(settled, name), rel=1e-5)
        assert suggestions[name].rule == notes[name]


def test_the_paper_stands_beside_its_own_datasets_only(hopper: Transitions) -> None:
    assert len(PAPER) == 21
    paper = describe(hopper).paper
    assert paper == {
        "action_dim": 3,
        "bins": 15,
        "reward_mean": 3.11,
        "reward_middle": 3.25,
        "pessimism": 4,
        "epochs": 3000,
    }
    assert describe(read_hdf5(EXCERPTS / "hopper_medium-v2.hdf5")).paper is None


def test_a_description_is_plain_data_and_readable(hopper: Transitions) -> None:
    d = describe(hopper)
    assert json.loads(json.dumps(d.as_json()))["coverage"]["state_cells"] == d.coverage.state_cells
    console = Console(width=140)
    with console.capture() as capture:
        console.print(render(d))
    text = capture.get()
    for fact in (
        "911",
        "observation[10]",
        "pessimism",
        "compared with the paper",
        "3.11",
        "█",
        "sqrt(bins) * 3 action dimensions",
    ):
        assert fact in text


def test_histograms_show_every_count() -> None:
    assert sparkline([0, 1, 800]) == " ▁█"
    assert sum(summarise(np.array([1e9, 1e9 + 1e-7])).histogram) == 2
    assert sum(summarise(np.full(5, 3.0)).histogram) == 5


def test_pictures_are_written(tmp_path: Path, hopper: Transitions) -> None:
    assert [path.name for path in plot_description(hopper, tmp_path)] == [
        "episodes.png",
        "dimensions.png",
        "coverage.png",
    ]
    columns = smooth(200, dims=4)
    write_hdf5(tmp_path / "maze.hdf5", columns, {})
    maze = plot_description(read_hdf5(tmp_path / "maze.hdf5", name="maze2d-umaze-v1"), tmp_path / "maze")
    assert maze[-1].name == "map.png"
    for path in maze:
        assert path.read_bytes().startswith(b"\x89PNG")


def test_no_label_of_a_picture_covers_another_or_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = smooth(300, dims=7, actions=2)
    long = tmp_path / "a" / ("deep/" * 20) / "log.hdf5"
    write_hdf5(long, columns, {})
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **_: figures.append(figure))
    names = tuple(f"temperature_of_the_{i}th_reactor_wall" for i in range(7))
    plot_description(replace(read_hdf5(long), observation_names=names), tmp_path)
    plot_description(replace(read_hdf5(long), name="maze2d-umaze-v1"), tmp_path)
    for figure in figures:
        canvas = FigureCanvasAgg(figure)
        canvas.draw()  # type: ignore[no-untyped-call]
        width, height = canvas.get_width_height()
        boxes = {}
        for text in figure.findobj(Text):
            box = text.get_window_extent()
            shown = text.get_visible() and (text.axes is None or text.axes.axison)
            if shown and len(text.get_text()) > 6 and "$" not in text.get_text():  # all but the ticks
                assert box.x0 >= -1, text
                assert box.y0 >= -1, text
                assert box.x1 <= width + 1, text
                assert box.y1 <= height + 1, text
                boxes[text] = box
        for one, other in combinations(boxes, 2):
            assert not boxes[one].overlaps(boxes[other]), (one, other)
        assert figure.get_suptitle().startswith(("log.hdf5: ", "maze2d-umaze-v1: "))
        for axis in figure.axes:
            assert not axis.axison or axis.get_xlabel() or axis.get_title() or axis.get_ylabel()
