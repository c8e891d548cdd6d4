"""The spread of the log's actions around what a cell's states explain."""

import numpy as np
import pytest

from gridcount.counts.spread import unexplained_deviation


def cells_of(
    rows: int, columns: int, explained: float, noise: float, n_cells: int = 20
) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    cell = np.arange(rows * n_cells) % n_cells
    states = rng.normal(size=(len(cell), columns))
    slopes = rng.normal(size=(columns, 2)) / columns**0.5
    action = explained * states @ slopes + rng.normal(0, noise, (len(cell), 2)) + cell[:, None] / n_cells
    return cell, states, action


def test_what_states_explain_is_no_spread() -> None:
    cell, states, action = cells_of(rows=128, columns=17, explained=0.5, noise=0.1)
    found = unexplained_deviation(cell, 20, states, action)
    np.testing.assert_allclose(found, 0.1, rtol=0.2)
    assert all(action[cell == number].std() > 0.3 for number in range(20))


@pytest.mark.parametrize(("rows", "columns"), [(128, 3), (64, 60), (40, 80), (6000, 3)])
def test_columns_that_explain_nothing_do_not_make_the_spread_smaller(rows: int, columns: int) -> None:
    cell, states, action = cells_of(rows, columns, explained=0.0, noise=0.3)
    found = unexplained_deviation(cell, 20, states, action)
    assert found.mean() == pytest.approx(0.3, rel=0.1)
    assert found.min() > 0.2


def test_a_cell_with_few_rows_has_the_spread_of_the_log() -> None:
    cell, states, action = cells_of(rows=128, columns=3, explained=0.5, noise=0.1)
    lonely = np.append(cell, [21, 22, 22]).astype(np.int32)
    more = np.append(states, np.zeros((3, 3)), axis=0), np.append(action, np.full((3, 2), 0.7), axis=0)
    found = unexplained_deviation(lonely, 23, *more)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[20:], 0.1, rtol=0.35)
