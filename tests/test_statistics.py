"""Aggregates agree with rliable's definitions, and their intervals cover what they say."""

import numpy as np
import pytest
from scipy import stats

from gridcount.report import statistics
from gridcount.report.scores import LAST, headline
from gridcount.report.statistics import (
    estimate,
    estimate_improvement,
    estimate_over_tasks,
    estimate_profile,
    improvement,
)

# Scores [seeds, tasks] and what rliable 1.2.0 computes from them, its intervals with 20,000 draws (2,000 for
# the improvement).
A = np.array(
    [
        [0.8, 0.919, 0.69],
        [0.444, 0.618, 0.403],
        [0.824, 1.336, 0.603],
        [0.552, 0.996, 0.943],
        [0.842, 0.428, 0.788],
    ]
)
B = np.array([[0.809, 1.336, 0.463], [0.03, 0.213, 0.047], [0.529, 0.22, 0.681], [0.647, 0.544, -0.155]])
THRESHOLDS = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]


def test_aggregates_are_rliables() -> None:
    assert statistics.interquartile_mean(A.ravel()) == pytest.approx(0.7373333333333333)
    assert statistics.interquartile_mean(B.ravel()) == pytest.approx(0.436)
    assert statistics.optimality_gap(A.ravel()) == pytest.approx(0.2766666666666666)
    assert statistics.optimality_gap(B.ravel(), optimum=1.2) == pytest.approx(0.7643333333333333)
    assert statistics.mean(A.ravel()) == pytest.approx(0.7457333333333334)


def test_improvement_is_rliables_and_a_tie_counts_half() -> None:
    assert improvement(list(A.T), list(B.T)) == pytest.approx(0.7583333333333333)
    assert improvement(list(B.T), list(A.T)) == pytest.approx(0.24166666666666667)
    assert improvement(list(A.T), list(A.T)) == 0.5
    by_ranks = [
        stats.mannwhitneyu(a, b, alternative="greater").statistic / (len(a) * len(b))
        for a, b in zip(A.T, B.T, strict=True)
    ]
    assert improvement(list(A.T), list(B.T)) == pytest.approx(np.mean(by_ranks))


def test_profiles_are_rliables() -> None:
    np.testing.assert_allclose(
        statistics.profile(A.ravel(), THRESHOLDS), [1.0, 1.0, 0.8, 8 / 15, 1 / 15, 1 / 15]
    )
    np.testing.assert_allclose(
        statistics.profile(B.ravel(), THRESHOLDS), [11 / 12, 7 / 12, 0.5, 1 / 6, 1 / 12, 1 / 12]
    )


def test_intervals_are_rliables_up_to_the_draw() -> None:
    published = {
        statistics.interquartile_mean: ((0.5939, 0.8540), (0.1823, 0.6392)),
        statistics.optimality_gap: ((0.1826, 0.3771), (0.4018, 0.7578)),
    }
    for statistic, expected in published.items():
        for tasks, interval in zip((list(A.T), list(B.T)), expected, strict=True):
            found = estimate(tasks, statistic, repetitions=20_000).interval
            assert found == pytest.approx(interval, abs=0.015)
    assert estimate_improvement(list(A.T), list(B.T)).interval == pytest.approx((0.55, 0.9333), abs=0.03)


@pytest.mark.parametrize("runs", range(1, 14))
def test_the_interquartile_mean_is_scipys_trimmed_mean(runs: int) -> None:
    scores = np.random.default_rng(runs).normal(size=(3, runs))
    np.testing.assert_allclose(statistics.interquartile_mean(scores), stats.trim_mean(scores, 0.25, axis=1))


def test_draws_are_stratified_and_the_same_each_time() -> None:
    tasks = [np.array([0.0, 1.0, 2.0]), np.array([10.0, 11.0])]
    draws = statistics.resampled(tasks, seed=3, repetitions=500)
    assert draws.shape == (500, 5)
    assert draws[:, :3].max() <= 2
    assert draws[:, 3:].min() >= 10
    np.testing.assert_array_equal(draws, statistics.resampled(tasks, seed=3, repetitions=500))
    assert estimate(tasks, statistics.mean) == estimate(tasks, statistics.mean)
    assert (draws != statistics.resampled(tasks, seed=4, repetitions=500)).any()


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    """Normal scores around 0.5: their interquartile mean is 0.5, and 95 % intervals from 60 runs miss it
    about one time in twenty."""
    rng = np.random.default_rng(0)
    covered = []
    for repeat in range(400):
        tasks = list(rng.normal(0.5, 0.2, size=(3, 20)))
        interval = estimate(tasks, statistics.interquartile_mean, seed=repeat, repetitions=400).interval
        assert interval is not None
        covered.append(interval[0] <= 0.5 <= interval[1])
    assert 0.90 <= np.mean(covered) <= 0.98


def test_one_seed_has_no_interval() -> None:
    tasks = [np.array([0.4]), np.array([0.8])]
    assert estimate(tasks, statistics.mean).interval is None
    assert estimate_profile(tasks, [0.5])[1] is None
    assert estimate_improvement(tasks, tasks).interval is None
    assert statistics.mean_interval(np.ones((1, 4))) is None


def test_with_one_seed_a_task_intervals_are_scipys_bootstrap_over_tasks() -> None:
    scores = np.random.default_rng(3).normal(60.0, 30.0, 21)
    ours = estimate_over_tasks(scores, statistics.interquartile_mean, repetitions=20_000)
    scipys = stats.bootstrap(
        (scores,), lambda each, axis: stats.trim_mean(each, 0.25, axis=axis), method="percentile", rng=0
    ).confidence_interval
    assert ours.value == pytest.approx(stats.trim_mean(scores, 0.25))
    assert ours.interval == pytest.approx((scipys.low, scipys.high), abs=0.5)


def test_tasks_weigh_the_same_whatever_their_seeds() -> None:
    tasks = [np.array([0.2, 0.4, 0.9]), np.array([1.0]), np.array([0.1, 0.7])]
    found = estimate(tasks, statistics.mean)
    assert found.value == pytest.approx(np.mean([scores.mean() for scores in tasks]))
    assert found.interval is not None
    assert found.interval[0] < found.value < found.interval[1]
    assert estimate([tasks[0], tasks[0][:2]], statistics.mean).value == pytest.approx((0.5 + 0.3) / 2)
    alike = np.concatenate([np.repeat(scores, 6 // len(scores)) for scores in tasks])  # six runs of each task
    assert estimate(tasks, statistics.interquartile_mean).value == pytest.approx(stats.trim_mean(alike, 0.25))
    assert estimate(tasks, statistics.optimality_gap).value == pytest.approx(statistics.optimality_gap(alike))
    value, band = estimate_profile(tasks, THRESHOLDS)
    np.testing.assert_allclose(value, statistics.profile(alike, THRESHOLDS))
    assert band is not None
    assert (band[0] <= value).all()
    assert (value <= band[1]).all()


def test_profiles_fall_and_their_bands_hold_them() -> None:
    value, band = estimate_profile(list(A.T), THRESHOLDS)
    assert band is not None
    assert (np.diff(value) <= 0).all()
    assert (band[0] <= value).all()
    assert (value <= band[1]).all()


def test_the_band_of_a_curve_holds_its_mean() -> None:
    curves = np.random.default_rng(0).normal(size=(5, 30))
    band = statistics.mean_interval(curves)
    assert band is not None
    assert (band[0] < curves.mean(axis=0)).all()
    assert (curves.mean(axis=0) < band[1]).all()


def test_the_band_of_a_curve_is_of_the_seeds_that_have_it() -> None:
    curves = np.random.default_rng(0).normal(size=(4, 3))
    short = np.append(curves, [[5.0, np.nan, np.nan]], axis=0)  # a seed that ends early
    short[1:, 2] = np.nan  # and an evaluation that one seed alone has
    band = statistics.mean_interval(short)
    assert band is not None
    whole = statistics.mean_interval(short[:, :1])
    assert whole is not None
    np.testing.assert_allclose(band[:, 0], whole[:, 0])
    assert band[0, 1] < curves[:, 1].mean() < band[1, 1] <= curves[:, 1].max()
    assert np.isnan(band[:, 2]).all()
    level = statistics.mean_interval(np.array([[7.0, 7.0], [7.0, 7.0], [7.0, np.nan]]))
    assert level is not None
    np.testing.assert_allclose(level, 7.0)  # a seed that is not there is no 0


def test_the_headline_is_the_mean_of_the_last_evaluations_and_the_best_is_an_oracle() -> None:
    values = [50.0, 90.0, 10.0, 20.0, 30.0]
    rows = [{"seed": 0, "updates": 1000 * (i + 1), "score": value} for i, value in enumerate(values)]
    found = headline(rows[::-1])
    assert found is not None
    assert LAST == 3
    assert found.mean == 20.0
    assert found.oracle() == {0: 90.0}
