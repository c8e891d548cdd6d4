"""GPC-Anchor's clone of the log, and its gate: how far the policy leaves the clone depends on what comes true."""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import BRISK, actions, journey, learn

from gridcount.algorithms.behaviour import Habit
from gridcount.algorithms.gpc_anchor import GPCAnchor, anchored, came_true_sums
from gridcount.algorithms.halves import second_half
from gridcount.cli import main
from gridcount.losses import gaussian_fit
from gridcount.networks import MLP, Critics, Deterministic, summed
from gridcount.transitions import Transitions


def test_the_log_s_spread_is_learnt_state_by_state() -> None:
    rng = np.random.default_rng(9)
    place = rng.uniform(-1, 1, (4000, 1)).astype(np.float32)
    spread = np.where(place < 0, 0.1, 0.4)
    action = np.clip(0.3 * place + rng.normal(0, spread), -1, 1).astype(np.float32)
    done = np.ones(4000, np.bool_)
    _, state = learn(GPCAnchor(**BRISK), Transitions(place, action, place[:, 0], place, done, done), 2000)
    found = state.behaviour.network.habit(state.seen(jnp.array([[-0.6], [0.6]]))).deviation[:, 0]
    assert float(found[0]) == pytest.approx(0.1, rel=0.25)
    assert float(found[1]) == pytest.approx(0.38, rel=0.25)  # a few actions are cut off at 1


def unrelated(rows: int = 600) -> Transitions:
    """A small log of single decisions, whose rewards have nothing to do with the actions."""
    rng = np.random.default_rng(7)
    state = rng.normal(size=(rows, 6)).astype(np.float32)
    action = (0.3 * np.tanh(state[:, :1]) + rng.normal(0, 0.15, (rows, 1))).astype(np.float32)
    done = np.ones(rows, np.bool_)
    return Transitions(state, action, rng.normal(size=rows).astype(np.float32), state, done, done)


def test_where_predictions_do_not_come_true_the_policy_imitates() -> None:
    log = unrelated()
    usual = 0.3 * np.tanh(log.observation[:, :1])
    off = {}
    for doubt in (1.0, 0.0):
        prepared, state = learn(GPCAnchor(**BRISK, doubt=doubt), log, 3000)
        off[doubt] = np.sqrt(((actions(prepared, state, log.observation) - usual) ** 2).mean())
    assert off[1.0] < 0.6 * off[0.0]


def test_weight_decay_keeps_the_policy_from_fitting_the_noise_of_actions() -> None:
    log = unrelated()
    fresh = np.random.default_rng(8).normal(size=(1000, 6)).astype(np.float32)
    off = {}
    for decay in ("auto", 0.0):
        prepared, state = learn(GPCAnchor(**BRISK, anchor=100.0, weight_decay=decay), log, 3000)
        off[decay] = np.sqrt(((actions(prepared, state, fresh) - 0.3 * np.tanh(fresh[:, :1])) ** 2).mean())
    assert off["auto"] < 0.9 * off[0.0]


def test_only_a_small_log_is_learnt_in_halves_with_weight_decay() -> None:
    prepared = [GPCAnchor().prepare(journey(rows)) for rows in (1200, 40_020, 120_000)]
    assert [each.algorithm.weight_decay for each in prepared] == [1.0, pytest.approx(10_000 / 40_020), 0.0]
    assert [each.algorithm.halves for each in prepared] == [True, True, False]
    assert ["half" in (each.rows.extra or {}) for each in prepared] == [True, True, False]
    assert "120,000 rows" in prepared[2].notes["halves"]


def test_critics_and_correction_use_each_row_of_a_small_log_a_hundred_times() -> None:
    prepared = [GPCAnchor().prepare(journey(rows)) for rows in (1200, 40_020, 120_000)]
    found = [each.algorithm.correction_updates for each in prepared]
    assert found == [5000, int(np.ceil(100 * 40_020 / 256)), 0]  # at least 5,000; 0: as long as the run
    assert "then only the clone learns" in prepared[1].notes["correction_updates"]


def test_when_the_correction_is_learnt_only_the_clone_goes_on() -> None:
    log = unrelated()
    (_, short), (prepared, long), (_, other) = (
        learn(GPCAnchor(**BRISK, correction_updates=count), log, updates)
        for count, updates in ((200, 200), (200, 400), (10_000, 400))
    )

    def same(a: Any, b: Any) -> bool:
        return all(jax.tree.leaves(jax.tree.map(lambda x, y: bool((x == y).all()), a, b)))

    parts = ("policy", "target_policy", "critics", "target_critics")
    assert all(same(getattr(short.learner, part), getattr(long.learner, part)) for part in parts)
    assert not any(same(getattr(other.learner, part), getattr(long.learner, part)) for part in parts)
    assert same(long.behaviour, other.behaviour)  # the clone learns as it does anyway
    assert not same(short.behaviour.network, long.behaviour.network)
    assert same(short.acting[0], long.acting[0])  # the policy acts with the correction of then
    assert same(long.acting[1], other.acting[1])  # and the clone of today
    observation = long.seen(jnp.asarray(log.observation))
    acting = jnp.tanh(long.acting[0].trunk(observation) + long.acting[1](observation)[0])
    assert actions(prepared, long, log.observation) == pytest.approx(np.asarray(acting), abs=1e-5)


def test_what_a_user_says_about_halves_holds_for_any_log() -> None:
    settled = [
        GPCAnchor(halves=halves).prepare(journey(rows)).algorithm.halves
        for halves, rows in ((True, 120_000), (False, 1200))
    ]
    assert settled == [True, False]


def test_a_user_learns_that_the_log_is_too_small_to_improve_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, path = unrelated(), tmp_path / "log.npz"
    names: dict[str, Any] = {"observations": log.observation, "actions": log.action, "rewards": log.reward}
    np.savez(path, **names, terminals=log.terminated)
    words = [
        "--updates",
        "1500",
        "--hidden",
        "32",
        "32",
        "--critic-rate",
        "0.001",
        "--batch-size",
        "64",
        "--no-plot",
    ]
    assert main(["train", str(path), *words, "--run", str(tmp_path / "run")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "the policy does nearly what the log does: a larger log may allow more" in out


def test_how_much_came_true_is_told_in_words() -> None:
    low, middle, high = (GPCAnchor(halves=True).remark({"came_true": each}) for each in (0.3, 0.6, 0.8))
    assert "30%" in low
    assert "nearly what the log does: a larger log may allow more" in low
    assert "in part" in middle
    assert high == GPCAnchor().remark({}) == ""
    assert "hardly any" in GPCAnchor().remark({"came_true": 0.01})  # which may be less
    assert "larger" not in GPCAnchor(halves=False).remark({"came_true": 0.3})
    assert GPCAnchor(doubt=0.0).remark({"came_true": 0.3}) == ""  # then it changes nothing


class Sloped(NamedTuple):
    """Critics of given slopes, whatever the action, whose values of the log's mean action are 0."""

    slopes: Any  # [2, rows, action_dim]

    def with_slopes(self, observation: Any, action: Any) -> Any:
        return jnp.zeros(self.slopes.shape[:2]), self.slopes


def some_rows(halves: bool = False) -> Any:
    """Rows as an update sees them."""
    return jax.tree.map(
        lambda column: jnp.asarray(column[:600]), GPCAnchor(halves=halves).prepare(journey()).rows
    )


def usual_of(rows: Any, deviation: Any) -> Habit:
    """A log whose mean action is 0 everywhere."""
    return Habit(jnp.zeros(rows.action.shape), jnp.broadcast_to(deviation, rows.action.shape))


def ratio(sums: Any) -> float:
    return float(sums[0] / sums[1])


def test_what_comes_true_is_the_share_of_predicted_differences_that_targets_show() -> None:
    rows, rng = some_rows(), np.random.default_rng(0)
    slope, noise = (jnp.asarray(rng.normal(size=(600, 2)), jnp.float32) for _ in range(2))
    worth = (slope * rows.action).sum(axis=-1)

    def share(slopes: Any, target: Any) -> float:
        critics: Any = Sloped(jnp.stack([slopes, slopes]))
        return ratio(came_true_sums(critics, rows, usual_of(rows, 0.3), target, halves=False))

    assert share(slope, worth) == pytest.approx(1)
    assert share(slope, 0.3 * worth) == pytest.approx(0.3)
    assert share(2 * slope, worth) == pytest.approx(0.5)
    assert share(slope + noise, worth) == pytest.approx(0.5, abs=0.1)
    assert abs(share(noise, worth)) < 0.15


def test_with_halves_a_critic_is_checked_on_rows_that_it_did_not_learn_from() -> None:
    rows = some_rows(halves=True)
    first = (rows.extra["half"] == 0)[:, None]
    slope = jnp.ones((600, 2))
    worth = (slope * rows.action).sum(axis=-1)
    # each critic knows all of the rows it learnt from, and nothing of the others
    memory: Any = Sloped(jnp.stack([jnp.where(first, slope, -slope), jnp.where(first, -slope, slope)]))
    sums = came_true_sums(memory, rows, usual_of(rows, 0.3), worth, halves=True)
    assert ratio(sums) == pytest.approx(-1)


def test_with_halves_a_critic_learns_from_its_own_rows_only() -> None:
    algorithm = GPCAnchor(hidden=(16,), ood_weight=0.0, halves=True)
    prepared = algorithm.prepare(journey())
    state = prepared.algorithm.init(jax.random.key(0), prepared.rows)
    first = np.flatnonzero(prepared.rows.extra["half"] == 0)[:32]
    batch = jax.tree.map(lambda column: jnp.asarray(column[first]), prepared.rows)
    after, _ = jax.jit(prepared.algorithm.update)(state, batch, jax.random.key(1))
    before, now = (each.learner.critics.members.weights[0] for each in (state, after))
    assert not np.array_equal(before[0], now[0])
    np.testing.assert_array_equal(before[1], now[1])


@pytest.mark.parametrize("lengths", [[50] * 40, [1] * 1000, [1000], [900, 50, 50]])
def test_whole_episodes_are_dealt_to_the_critics_and_a_long_one_in_parts(lengths: list[int]) -> None:
    episode = np.repeat(np.arange(len(lengths)), lengths)
    half = second_half(np.append(np.diff(episode) > 0, True))
    assert set(half) == {0, 1}
    assert 0.35 < half.mean() < 0.65
    longest = -(-len(episode) // 16)
    whole = [half[episode == each] for each, length in enumerate(lengths) if length <= longest]
    assert all(len(set(rows)) == 1 for rows in whole)
    changes = np.count_nonzero(np.diff(half))
    assert changes < max(len(lengths), 20)  # parts are long: rows next to each other go to the same critic


def test_the_policys_loss_weighs_values_by_what_a_deviation_gains() -> None:
    rows = some_rows()
    critics = Critics(2, 3, 2, (16,), jax.random.key(0))
    louder = jax.tree.map(lambda leaf: leaf, critics)
    louder.members.weights[-1] = 100 * louder.members.weights[-1]
    policy = Deterministic(3, 2, (16,), jax.random.key(1))

    def slope(critics: Critics, deviation: float) -> Any:
        loss = anchored(jnp.array(0.2), critics, rows.observation, usual_of(rows, deviation))
        return jax.grad(lambda p: loss(p)[0])(policy).trunk.weights[0]

    quiet, loud, broad = slope(critics, 0.3), slope(louder, 0.3), slope(critics, 0.9)
    np.testing.assert_allclose(quiet, loud, rtol=1e-3, atol=1e-6)
    assert not np.allclose(quiet, broad, rtol=0.1)


def test_the_policy_moves_from_the_logs_action_by_deviations_in_the_direction_of_the_slope() -> None:
    rows = some_rows()
    slopes = jnp.broadcast_to(jnp.array([3.0, 4.0]), (2, 600, 2))
    critics: Any = Sloped(slopes)
    usual = usual_of(rows, jnp.array([0.02, 0.01]))
    loss = anchored(jnp.array(0.5), critics, rows.observation, usual)
    gain = float(jnp.hypot(3.0 * 0.02, 4.0 * 0.01))
    best = jnp.array([0.02**2 * 3, 0.01**2 * 4]) / (2 * 0.5 * gain)
    policy = Deterministic(3, 2, (), jax.random.key(0))
    still = jax.tree.map(jnp.zeros_like, policy)
    there = jax.tree.map(lambda leaf: leaf, still)
    there.trunk.biases[-1] = jnp.arctanh(best)
    slope = jax.grad(lambda p: loss(p)[0])
    assert np.abs(slope(there).trunk.biases[-1]).max() < 1e-3 * np.abs(slope(still).trunk.biases[-1]).max()


def test_the_clone_is_fitted_to_all_rows_alike() -> None:
    """Rows where the log's actions vary most are imitated as the others are."""
    rng = np.random.default_rng(2)
    mean, action = (jnp.asarray(rng.normal(size=(64, 2)), jnp.float32) for _ in range(2))
    narrow, wide = jnp.full((64, 2), -3.0), jnp.full((64, 2), 0.0)
    pulls = [jax.grad(gaussian_fit)(mean, jnp.where(row, narrow, wide), action) for row in (True, False)]
    np.testing.assert_allclose(*pulls)
    np.testing.assert_allclose(
        pulls[0] / (mean - action), jnp.broadcast_to((pulls[0] / (mean - action))[0], (64, 2)), rtol=1e-3
    )


@pytest.mark.parametrize("hidden", [(), (8,), (8, 5)])
def test_two_networks_side_by_side_are_one_whose_outputs_are_their_sum(hidden: tuple[int, ...]) -> None:
    one, other = (MLP((3, *hidden, 2), jax.random.key(seed), last_scale=1.0) for seed in range(2))
    rows = some_rows().observation
    both = summed(one.perceptron(), other.perceptron())(rows)
    np.testing.assert_allclose(both, one(rows) + other(rows), rtol=1e-5, atol=1e-6)
