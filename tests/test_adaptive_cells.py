"""Adaptive cells: they follow the log's actions, whatever the columns' number, order and units."""

import numpy as np
import pytest
from numpy.typing import NDArray

from gridcount.counts.adaptive import ActionCounts, AdaptiveCells
from gridcount.counts.units import RewardUnits, returns_to_go
from gridcount.transitions import Transitions

Floats = NDArray[np.float32]


def steered(rows: int = 4000, columns: int = 40) -> tuple[Floats, Floats]:
    """A log of many columns whose action depends on the sign of one of them."""
    rng = np.random.default_rng(0)
    observation = rng.normal(size=(rows, columns)).astype(np.float32)
    action = np.where(observation[:, 7] > 0, 0.8, -0.8) + rng.normal(0, 0.1, rows)
    return observation, np.clip(action, -1, 1).astype(np.float32)[:, None]


def same_partition(one: NDArray[np.int32], other: NDArray[np.int32]) -> bool:
    """Whether two numberings put the same rows together."""
    pairs = len(np.unique(np.stack([one, other]), axis=1).T)
    return pairs == len(np.unique(one)) == len(np.unique(other))


def test_a_cell_holds_enough_rows_in_forty_dimensions() -> None:
    observation, action = steered()
    cells = AdaptiveCells.fit(observation, action, 100)
    rows = np.bincount(cells.rank(observation), minlength=cells.n_cells)
    assert rows.min() >= 100
    assert 10 <= cells.n_cells <= 40


def test_the_column_that_decides_the_action_is_cut_first() -> None:
    observation, action = steered()
    cells = AdaptiveCells.fit(observation, action, 1000)
    assert cells.column[0] == 7
    assert cells.threshold[0] == pytest.approx(0, abs=0.15)
    cell = cells.rank(observation)
    assert max(action[cell == each].std() for each in range(cells.n_cells)) < 0.45 < action.std()


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x * np.float32(1024),
        lambda x: x[:, np.random.default_rng(1).permutation(x.shape[1])],
        lambda x: np.concatenate([np.full((len(x), 1), 3, np.float32), x], axis=1),
    ],
    ids=["other units", "shuffled columns", "a constant column"],
)
def test_cells_hold_the_same_rows_whatever_the_columns_look_like(change: object) -> None:
    observation, action = steered()
    changed = change(observation)  # type: ignore[operator]
    one, other = (AdaptiveCells.fit(x, action, 100).rank(x) for x in (observation, changed))
    assert same_partition(one, other)


def test_states_far_outside_the_log_have_a_cell() -> None:
    observation, action = steered()
    cells = AdaptiveCells.fit(observation, action, 100)
    far = cells.rank(np.full((3, 40), 1e30, np.float32))
    assert ((far >= 0) & (far < cells.n_cells)).all()


def test_a_log_that_always_acts_alike_is_one_cell() -> None:
    observation, _ = steered()
    assert AdaptiveCells.fit(observation, np.full((4000, 1), 0.5, np.float32), 100).n_cells == 1


def test_the_count_of_an_action_is_that_of_its_least_known_part() -> None:
    action = np.array([[-0.95, 0.0], [-0.95, 0.95], [-0.95, 0.95]], np.float32)
    counts = ActionCounts.fit(np.zeros(3, np.int32), 1, action, 20)
    asked = np.array([[-0.95, 0.95], [-0.95, 0.01], [0.95, 0.95], [1.0, 1.0]], np.float32)
    read = counts(np.zeros(4, np.int32), np.asarray(asked))
    assert np.asarray(read).tolist() == [2, 1, 0, 0]


def log_of(reward: list[float], terminated: list[bool], episode_end: list[bool]) -> Transitions:
    rows = len(reward)
    return Transitions(
        np.arange(rows, dtype=np.float32)[:, None],
        np.zeros((rows, 1), np.float32),
        np.array(reward, np.float32),
        np.arange(rows, dtype=np.float32)[:, None],
        np.array(terminated),
        np.array(episode_end),
    )


def test_returns_are_summed_within_an_episode() -> None:
    reward = np.array([1.0, 2.0, 3.0, 4.0])
    ends = np.array([False, True, False, True])
    assert returns_to_go(reward, ends, ends, 0.5).tolist() == [2.0, 2.0, 5.0, 4.0]


def test_an_episode_that_was_cut_off_goes_on_at_the_mean_reward() -> None:
    reward = np.array([1.0, 2.0, 3.0, 4.0])
    ends = np.array([False, True, False, True])
    returns = returns_to_go(reward, np.array([False, True, False, False]), ends, 0.5)
    assert returns.tolist() == [2.0, 2.0, 3 + 0.5 * 4 + 0.25 * 5, 4 + 0.5 * 5]


def test_a_constant_reward_is_taken_out_where_no_episode_can_be_longer() -> None:
    truncated = log_of([6.0, 4.0, 5.0, 5.0], [False] * 4, [False, True, False, True])
    assert RewardUnits.fit(truncated, 0.9).level == 5
    unequal = log_of([6.0, 4.0, 5.0, 5.0], [True, False, False, True], [True, False, False, True])
    assert RewardUnits.fit(unequal, 0.9).level == 0


def test_a_single_outlier_does_not_set_the_unit() -> None:
    rng = np.random.default_rng(0)
    reward = rng.normal(size=20_000)
    ends = (np.arange(20_000) + 1) % 100 == 0

    def spread(reward: NDArray[np.float64]) -> float:
        return RewardUnits.fit(log_of(reward.tolist(), [False] * 20_000, ends.tolist()), 0.9).spread

    outlier = reward.copy()
    outlier[10_050] = -1e4
    assert spread(outlier) == pytest.approx(spread(reward), rel=0.15)
    assert spread(300 * reward + 5) == pytest.approx(300 * spread(reward), rel=1e-6)


def test_rare_successes_set_the_unit_where_there_is_nothing_else() -> None:
    rng = np.random.default_rng(0)
    ends = np.zeros(50_000, np.bool_)
    ends[np.cumsum(rng.integers(20, 60, 1000))[:1000]] = True
    reward = np.where(ends & (rng.random(50_000) < 0.005), 0.7, 0.0)
    units = RewardUnits.fit(log_of(reward.tolist(), ends.tolist(), ends.tolist()), 0.99)
    assert 0.001 < units.spread < 0.7
    assert units.worst == 0


def test_a_reward_per_step_stays_where_a_single_episode_ended() -> None:
    ended = [False, False, False, True]
    assert RewardUnits.fit(log_of([1.0, 1.0, 1.0, 0.0], ended, ended), 0.9).level == 0


@pytest.mark.parametrize("rare", [0.0, 1.0])
def test_a_flag_that_is_rarely_set_is_cut_whichever_way_it_is_coded(rare: float) -> None:
    rng = np.random.default_rng(0)
    unusual = rng.random(20_000) < 0.04
    observation = np.stack([np.where(unusual, rare, 1 - rare), rng.normal(size=20_000)], axis=1).astype(
        np.float32
    )
    action = np.where(unusual, 0.9, -0.9).astype(np.float32)[:, None]
    assert AdaptiveCells.fit(observation, action, 128).column[0] == 0


def test_a_column_that_cannot_be_cut_does_not_keep_others_from_it() -> None:
    rng = np.random.default_rng(0)
    binary = np.arange(300) < 200
    observation = np.stack([binary, rng.normal(size=300)], axis=1).astype(np.float32)
    action = np.where(binary, 0.9, -0.9).astype(np.float32)[:, None]
    assert AdaptiveCells.fit(observation, action, 128).n_cells == 2


def test_a_number_between_two_whole_ones_counts_as_the_nearer() -> None:
    doses = np.repeat([0, 1, 2, 4], [50, 30, 20, 10])  # of 0 to 10; nobody ever gave 3
    action = (doses / 5 - 1).astype(np.float32)[:, None]
    counts = ActionCounts.fit(np.zeros(len(action), np.int32), 1, action, 20)
    asked = np.array([0, 0.4, 0.6, 1, 2.3, 3, 4.2, 5, 10])
    read = counts(np.zeros(len(asked), np.int32), (asked / 5 - 1).astype(np.float32)[:, None])
    assert read.tolist() == [50, 50, 30, 30, 20, 0, 10, 0, 0]


def test_on_and_off_are_not_each_others_neighbours() -> None:
    action = np.where(np.arange(100) % 2 == 0, -1.0, 1.0).astype(np.float32)[:, None]
    counts = ActionCounts.fit(np.zeros(100, np.int32), 1, action, 20)
    assert counts(np.zeros(3, np.int32), np.array([[-1.0], [0.0], [1.0]], np.float32)).tolist() == [50, 0, 50]


def test_the_usual_uncertainty_is_the_mean_over_a_cells_own_actions() -> None:
    cell = np.array([0, 0, 0, 0, 2], np.int32)
    action = np.array([[-0.9], [-0.9], [-0.9], [0.9], [0.5]], np.float32)
    usual = ActionCounts.fit(cell, 3, action, 10).usual_uncertainty(cell, action)
    own = [1 / np.sqrt(4)] * 3 + [1 / np.sqrt(2)]  # three rows with an action that is there three times
    assert usual == pytest.approx([np.mean(own), np.mean([*own, 1 / np.sqrt(2)]), 1 / np.sqrt(2)])
