"""A guard: the policy acts where the log supports it, and the fallback where it does not."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from walks import HIGH, LOW, constant, policy_of, walk

import gridcount as gc
from gridcount.counts.seen import SeenStates
from gridcount.files.archive import save_arrays
from gridcount.policy.counts import LogCounts
from gridcount.policy.log_guard import HELD_BACK, held_out_rows
from gridcount.policy.policy import Policy
from gridcount.transitions import Transitions


@pytest.fixture(scope="module")
def holed() -> Transitions:
    return walk(hole=True)


@pytest.fixture(scope="module")
def policy(holed: Transitions) -> Policy:
    return policy_of(holed, clone=constant(0.5))


def test_a_state_in_a_hole_of_the_log_is_held_and_one_beside_it_is_not(policy: Policy) -> None:
    inside = np.random.default_rng(1).uniform(0.42, 0.58, (200, 2))
    beside = np.array([[0.5, 0.1], [0.5, 0.9], [0.52, 0.2]])
    assert policy.decide(inside).held.all()
    assert not policy.decide(beside).held.any()
    assert (policy.decide(inside).count == 0).all()
    assert (policy.decide(inside).resolution < policy.decide(beside).resolution.min()).all()


def test_a_state_outside_of_the_range_is_seen_at_no_resolution(policy: Policy) -> None:
    decision = policy.decide([3.0, 0.5])
    assert (decision.resolution, decision.count, decision.uncertainty, decision.held) == (0, 0, 1.0, True)


def test_an_action_that_the_log_does_not_have_in_a_seen_state_is_held(holed: Transitions) -> None:
    far = policy_of(holed, action=0.9).decide([0.1, 0.9])  # the log's action there is about -0.4, no clone
    assert far.resolution > 1
    assert far.count == 0
    assert far.held
    assert far.action == far.nearest_action
    assert 10 < far.action < 50  # in the log's units


@pytest.mark.parametrize(("dims", "rows"), [(1, 5_000), (2, 20_000), (6, 10_000), (30, 10_000)])
def test_held_out_decisions_of_the_log_are_rarely_held_back(dims: int, rows: int) -> None:
    data = walk(rows, dims)
    policy = policy_of(data)
    fresh = walk(5_000, dims, seed=1)
    counts = policy._counts
    assert counts is not None
    assert counts.guard is not None
    assert counts.guard.held_back <= 2 * HELD_BACK
    held = counts(fresh.observation, fresh.action) < counts.guard.min_count
    assert held.mean() <= 0.06  # episodes of the same kind, that it never saw
    mixed = np.random.default_rng(2).permuted(fresh.observation, axis=0) + np.where(
        np.arange(dims) % 2, 0, 0.6
    )
    assert policy.decide(mixed).held.mean() > 0.2


def test_in_many_dimensions_columns_that_never_go_together_are_not_seen() -> None:
    """Each column stays in its range, but 29 of 30 follow the first one in the log."""
    rng = np.random.default_rng(0)
    common = rng.uniform(0, 1, (20_000, 1))
    state = (common + rng.normal(0, 0.05, (20_000, 30))).astype(np.float32)
    seen = SeenStates.over(state).visited(state, np.arange(len(state)))
    assert len(seen.groups) == 30 * 29 / 2
    assert (seen.resolution(state) == seen.bins).all()
    apart = np.random.default_rng(1).permuted(state[:1000], axis=0)
    assert (seen.resolution(apart) <= 4).mean() > 0.99


def test_resolutions_are_nested_and_mean_bins_per_column() -> None:
    """In one dimension: the log has [0, 1/2) and 1, so a state between is seen only as far as its half,
    quarter and so on."""
    state = np.append(np.linspace(0, 0.45, 10_000), np.ones(50)).astype(np.float32)[:, None]
    seen = SeenStates.over(state).visited(state, np.arange(len(state)))
    asked = np.array([[0.2], [0.9], [0.6], [-0.5], [1.5]], np.float32)
    near, far, middle, below, above = seen.resolution(asked).tolist()
    assert near == seen.bins == 64
    assert 1 < middle < far < near
    assert below == above == 0


def test_a_constant_column_that_changes_was_never_seen() -> None:
    data = walk()
    state = np.column_stack([data.observation, np.full(len(data), 60.0, np.float32)])
    seen = SeenStates.over(state).visited(state, np.arange(len(state)))
    assert (seen.resolution(state[:10]) > 1).all()
    assert (seen.resolution(state[:10] + np.array([0, 0, 1], np.float32)) == 0).all()


def test_one_glitch_of_a_sensor_does_not_blur_the_grid(holed: Transitions) -> None:
    state = holed.observation.copy()
    state[17] = 99_999
    seen = SeenStates.over(state).visited(state, np.arange(len(state)))
    assert seen.resolution(np.array([[0.5, 0.5]], np.float32))[0] < 16
    assert seen.resolution(np.array([[5000.0, 0.1]], np.float32))[0] == 0
    assert np.count_nonzero(seen.resolution(state) < seen.bins) == 1  # the glitch itself


def test_numbers_near_the_largest_float_are_counted_like_others() -> None:
    state = (np.random.default_rng(0).uniform(-1, 1, (1000, 2)) * 3.3e38).astype(np.float32)
    seen = SeenStates.over(state).visited(state, np.arange(len(state)))
    assert (seen.resolution(state) == seen.bins).all()


def test_many_columns_keep_the_file_small_and_every_column_counts() -> None:
    state = np.random.default_rng(0).normal(size=(500, 200)).astype(np.float32)
    seen = SeenStates.over(state).visited(state, np.arange(len(state)))
    assert seen.finest.size < 1 << 20
    assert set(seen.groups.reshape(-1).tolist()) == set(range(200))


@pytest.mark.parametrize(
    ("fallback", "expected"), [("clone", 75.0), ("abstain", np.nan), ([12.5], 12.5), ("nearest", None)]
)
def test_the_fallback_acts_where_the_guard_holds_and_only_there(
    policy: Policy, fallback: Any, expected: float | None
) -> None:
    asked = np.array([[0.5, 0.5], [0.5, 0.1]])
    decision = policy.decide(asked, gc.Guard(fallback=fallback))
    assert decision.held.tolist() == [True, False]
    assert decision.action[1] == decision.policy_action[1] == 50
    np.testing.assert_allclose(
        decision.action[0], decision.nearest_action[0] if expected is None else expected
    )
    assert decision.policy_action[0] == 50


@pytest.mark.parametrize("cloned", [True, False])
def test_by_default_nothing_acts_outside_of_the_logs_range_and_the_clone_within_it(
    holed: Transitions, cloned: bool
) -> None:
    policy = policy_of(holed, clone=constant(0.5) if cloned else None)
    decision = policy.decide([[0.5, 0.5], [3.0, 0.5], [0.5, 0.1]])
    assert decision.held.tolist() == [True, True, False]
    assert decision.resolution[0] > decision.resolution[1] == 0
    hole, outside, seen = decision.action[:, 0]
    np.testing.assert_allclose(hole, 75.0 if cloned else decision.nearest_action[0, 0])
    assert np.isnan(outside)
    assert seen == 50
    assert policy.default_guard.fallback == ("clone-or-abstain" if cloned else "nearest-or-abstain")


def test_a_decision_about_a_switch_is_one_of_its_positions_and_is_counted_as_such(holed: Transitions) -> None:
    """Two values: a number between them is in no bin of the log, so a guard would hold every decision."""
    on = holed.observation[:, :1] > 0.3
    switched = replace(holed, action=np.where(on, 1, -1).astype(np.float32))
    policy = policy_of(switched, action=0.4)
    policy = Policy(
        policy._actor, replace(policy.facts, action_values=((0.0, 100.0),)), seed=0, updates=1,
        counts=policy.log, clone=constant(-0.3),
    )  # fmt: skip
    assert policy([0.9, 0.5]) == pytest.approx(70)  # the trained function itself stays continuous
    right, wrong, hole = [0.9, 0.5], [0.1, 0.5], [0.5, 0.5]
    decision = policy.decide([right, wrong, hole])
    assert decision.policy_action.ravel().tolist() == [100, 100, 100]
    assert decision.held.tolist() == [False, True, True]  # the log is never on where the state is below 0.3
    assert decision.action.ravel().tolist() == [100, 0, 0]  # of the clone, which wants 35
    assert set(decision.nearest_action.ravel().tolist()) <= {0, 100}
    assert policy.count(right) == decision.count[0] > 0
    assert policy.rounded(right) == 100


def test_one_observation_gives_plain_numbers_and_the_same_decision_as_many(policy: Policy) -> None:
    asked = np.random.default_rng(3).uniform(-0.2, 1.2, (100, 2))
    many = policy.decide(asked)
    for row in range(len(asked)):
        one = policy.decide(asked[row])
        assert (type(one.held), type(one.count), type(one.resolution)) == (bool, int, int)
        for field, value in one._asdict().items():
            np.testing.assert_allclose(value, getattr(many, field)[row], rtol=1e-6, err_msg=field)


def test_a_larger_minimum_holds_back_more_and_a_coarser_resolution_less(policy: Policy) -> None:
    asked = np.random.default_rng(4).uniform(0, 1, (2000, 2))
    held = [policy.decide(asked, gc.Guard(min_count=count)).held.mean() for count in (1, 20, 100)]
    assert held[0] < held[1] < held[2]
    seen = [policy.decide(asked, gc.Guard(1, bins)).held.mean() for bins in (64, 16, 0)]
    assert seen[0] > seen[1] > seen[2]


def test_threads_share_a_policy(policy: Policy) -> None:
    asked = np.random.default_rng(5).uniform(-0.2, 1.2, (8, 400, 2))
    alone = [policy.decide(each) for each in asked]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(policy.decide, asked))
    for one, other in zip(alone, together, strict=True):
        for mine, theirs in zip(one, other, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"min_count": 0}, "min_count is 0; it must be a whole number of at least 1"),
        ({"min_count": 2.5}, "min_count is 2.5"),
        ({"resolution": 3}, "resolution is 3; it must be one of 0, 1, 2, 4, 8, 16, 32, 64"),
        ({"fallback": "stop"}, "fallback is 'stop'; it must be .*'nearest', 'clone', 'abstain' or a list"),
        ({"fallback": [float("nan")]}, "needs finite numbers"),
        ({"fallback": 5.0}, "a fixed action is a list of numbers"),
    ],
)
def test_a_guard_that_cannot_be_is_refused_when_it_is_made(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gc.Guard(**values)


def test_a_guard_that_does_not_fit_the_policy_is_refused_for_every_observation(
    policy: Policy, holed: Transitions
) -> None:
    supported = [0.5, 0.1]
    with pytest.raises(ValueError, match="fixed action has 2 numbers; an action has 1: "):
        policy.decide(supported, gc.Guard(fallback=[1.0, 2.0]))
    with pytest.raises(ValueError, match="no clone of its log's behaviour"):
        policy_of(holed).decide(supported, gc.Guard(fallback="clone"))
    coarse = policy_of(walk(dims=4), clone=None)
    with pytest.raises(
        ValueError, match="resolution is 64; the finest grid of this policy's log has 16 bins"
    ):
        coarse.decide([0.5] * 4, gc.Guard(resolution=64))


def test_counts_of_an_older_version_still_count_but_cannot_guard(holed: Transitions) -> None:
    arrays = LogCounts.fit(holed).arrays()
    old = {name: arrays[name] for name in ("column", "threshold", "below", "above", "counts", "edges")}
    policy = policy_of(holed, counts=LogCounts.of(old, 2, 1))
    assert policy.count([0.5, 0.1]) > 0
    with pytest.raises(ValueError, match="older version saved this policy"):
        policy.decide([0.5, 0.1])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seen_bins", np.array(48)),
        ("resolution", np.array(0)),
        ("min_count", np.array(0.5)),
        ("seen_groups", np.array([[0, 7]], np.int32)),
        ("seen_groups", np.array([[0] * 64], np.int32)),
        ("seen_finest", np.full((1, 64 * 64), 9, np.uint8)),
        ("seen_scale", np.full(2, np.nan, np.float32)),
        ("seen_low", np.zeros(3, np.float32)),
        ("logged", np.full((1, 1, 1), np.inf, np.float32)),
        ("held_back", np.zeros(0)),
    ],
)
def test_damaged_tables_of_a_guard_are_refused(holed: Transitions, name: str, value: Any) -> None:
    arrays = LogCounts.fit(holed).arrays() | {name: value}
    with pytest.raises(ValueError, match="its "):
        LogCounts.of(arrays, 2, 1)


@pytest.mark.parametrize("rows", [1, 5, 40, 700])
def test_small_logs_have_a_guard_too(rows: int) -> None:
    data = walk(1000)
    names = ("observation", "action", "reward", "next_observation", "terminated", "episode_end")
    cut = Transitions(*(getattr(data, name)[:rows] for name in names))
    decision = policy_of(cut).decide(cut.observation)
    assert (decision.resolution > 0).all()
    assert np.isfinite(decision.nearest_action).all()


def test_held_out_rows_are_whole_episodes() -> None:
    data = walk()
    rows = held_out_rows(data)
    episode = np.arange(len(data)) // 50
    assert 0.05 < len(rows) / len(data) <= 0.1
    assert np.isin(episode, episode[rows]).sum() == len(rows)


def test_the_file_holds_all_that_a_decision_needs(holed: Transitions, policy: Policy, tmp_path: Path) -> None:
    """A reader in NumPy alone, on plain arrays: what `docs/guard.md` describes."""
    save_arrays(tmp_path / "counts.npz", LogCounts.fit(holed).arrays())
    with np.load(tmp_path / "counts.npz") as stored:
        file = dict(stored)
    assert not any("|" in name for name in file)
    for asked in np.random.default_rng(6).uniform(-0.1, 1.1, (200, 2)).astype(np.float32):
        ours, (count, resolution, nearest) = policy.decide(asked), read(file, asked, np.zeros(1, np.float32))
        assert (ours.count, ours.resolution, ours.nearest_action[0]) == (
            count,
            resolution,
            LOW + (nearest[0] + 1) / 2 * np.float64(HIGH - LOW),
        )


def read(file: dict[str, Any], x: Any, action: Any) -> tuple[int, int, Any]:
    node = 0
    while file["column"][node] >= 0:
        below = x[file["column"][node]] <= file["threshold"][node]
        node = file["below" if below else "above"][node]
    cell, dims = file["below"][node], np.arange(len(action))
    count = file["counts"][cell, dims, (action[:, None] >= file["edges"]).sum(axis=1)].min()
    logged = file["logged"][cell]
    nearest = logged[np.abs(logged - action).max(axis=1).argmin()]
    low, high, bins = file["seen_low"], file["seen_high"], int(file["seen_bins"])
    digit = np.floor((np.clip(x, low, high) - file["seen_origin"]) * file["seen_scale"]).clip(0, bins - 1)
    strides = bins ** np.arange(file["seen_groups"].shape[1])[::-1]
    code = digit.astype(np.int64)[file["seen_groups"]] @ strides
    level = file["seen_finest"][np.arange(len(code)), code].min()
    resolution = 1 << int(level) if ((x >= low) & (x <= high)).all() else 0
    return int(count) if resolution >= file["resolution"] else 0, resolution, nearest
