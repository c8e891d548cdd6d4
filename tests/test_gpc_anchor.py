"""GPC-Anchor: stays where the log has support, improves where it has room, and does not care about units."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import MakeLog
from problems import EDGE, PROBE, bandit, learn

import gridcount as gc
from gridcount.algorithms.behaviour import Habit
from gridcount.algorithms.blocks import make_block
from gridcount.algorithms.contract import act
from gridcount.algorithms.gpc_anchor import GPCAnchor, anchored, predicted_share, second_half
from gridcount.algorithms.td3 import TD3
from gridcount.cli import main
from gridcount.losses import counted_gap_loss, gaussian_fit, tail_step
from gridcount.networks import MLP, Critics, Deterministic, summed
from gridcount.transitions import Transitions

FREE: dict[str, Any] = {"anchor": 0.0, "doubt": 0.0}  # nothing draws the policy to the log
PLAIN: dict[str, Any] = {"layer_norm": False}  # LayerNorm alone keeps small networks from extrapolating
SMALL: dict[str, Any] = {
    "hidden": (32, 32),
    "batch_size": 64,
    "policy_rate": 1e-3,
    "critic_rate": 1e-3,
}


def actions(prepared: Any, state: Any, observation: Any) -> Any:
    return np.asarray(act(prepared.algorithm, state, jnp.asarray(observation)))


def habit(misleading: float = 0.0) -> Transitions:
    """A log of one decision that is nearly always 0.9; rewards rise to the left by `misleading`, as far as
    the few others show."""
    rng = np.random.default_rng(0)
    action = np.where(rng.random(2000) < 0.99, 0.9, rng.uniform(-1, 1, 2000)).astype(np.float32)[:, None]
    state = rng.uniform(-1, 1, (2000, 2)).astype(np.float32)
    reward = (-misleading * action[:, 0] + rng.normal(0, 1, 2000)).astype(np.float32)
    done = np.ones(2000, np.bool_)
    return Transitions(state, action, reward, state, done, done)


def journey(rows: int = 1200) -> Transitions:
    """Episodes of equal length, none terminated, in which the action that follows the state pays."""
    rng = np.random.default_rng(3)
    state = rng.normal(size=(rows, 3)).astype(np.float32)
    action = np.clip(rng.normal(0, 0.5, (rows, 2)), -1, 1).astype(np.float32)
    reward = (action[:, 0] * np.sign(state[:, 1])).astype(np.float32)
    following = np.roll(state, -1, axis=0)
    ends = (np.arange(rows) + 1) % 60 == 0
    return Transitions(state, action, reward, following, np.zeros(rows, np.bool_), ends)


def test_the_policy_takes_the_best_of_what_the_log_has() -> None:
    prepared, state = learn(GPCAnchor(**SMALL), bandit(), 2000)
    taken = actions(prepared, state, PROBE)
    assert EDGE - 0.45 < taken.mean() < EDGE + 0.1
    td3, free = learn(TD3(**SMALL), bandit(), 2000)
    assert (
        actions(td3, free, PROBE).mean() > EDGE + 0.3
    )  # without counts and anchor it believes what it extrapolates


def test_without_the_counted_gap_and_the_anchor_the_policy_leaves_the_log() -> None:
    prepared, state = learn(GPCAnchor(**SMALL, **PLAIN, **FREE, ood_weight=0.0), bandit(), 2000)
    assert actions(prepared, state, PROBE).mean() > EDGE + 0.3


def test_the_counted_gap_alone_keeps_the_policy_in_the_log() -> None:
    held, held_state = learn(GPCAnchor(**SMALL, **PLAIN, **FREE, pessimism=1.0), bandit(), 2000)
    assert actions(held, held_state, PROBE).mean() < EDGE + 0.15


def test_the_anchor_alone_keeps_the_policy_near_the_log() -> None:
    far, far_state = learn(GPCAnchor(**SMALL, **PLAIN, **FREE, ood_weight=0.0), bandit(), 2000)
    near, near_state = learn(
        GPCAnchor(**SMALL, **PLAIN, ood_weight=0.0, anchor=1.0, doubt=0.0), bandit(), 2000
    )
    log = bandit().action.mean()
    assert abs(actions(near, near_state, PROBE).mean() - log) < 0.5 * abs(
        actions(far, far_state, PROBE).mean() - log
    )


def fork(rows: int = 4000) -> Transitions:
    """A decision, right or left, and then another one. On the left the log always does nearly the same. On the
    right it pays a little more, and has two ways to act: a policy that imitates both does what it never
    does. Either decision pays more the more decided it is."""
    rng = np.random.default_rng(5)
    first = np.arange(rows) % 2 == 0
    action = rng.uniform(-1, 1, rows)
    right = np.where(first, action > 0, np.roll(action, 1) > 0)
    then = rng.normal(np.where(right, rng.choice([-0.8, 0.8], rows), 0.5), 0.05)
    action = np.where(first, action, then)
    state = np.where(first, 0.0, np.where(right, 1.0, -1.0))
    following = np.where(first, np.where(right, 1.0, -1.0), 0.0)
    reward = np.where(first, 0.2 * np.abs(action), np.where(right, 1.1, 1.0))
    seen, taken, paid, after = (column.astype(np.float32) for column in (state, action, reward, following))
    return Transitions(seen[:, None], taken[:, None], paid, after[:, None], ~first, ~first)


def test_the_policy_prefers_states_in_which_it_can_stay_in_the_log() -> None:
    free: dict[str, Any] = {**SMALL, "discount": 0.5, "q_floor": -10.0, "anchor": 0.2, "doubt": 0.0}
    # the cost alone, and the last policy
    free |= {"ood_weight": 0.0, "halves": False, "weight_decay": 0.0, "average_share": 0.0, "batch_size": 256}
    start = np.zeros((1, 1), np.float32)
    careless, careful = (
        [
            actions(*learn(GPCAnchor(**free, support_cost=cost), fork(), 4000, seed=seed), start)
            for seed in range(3)
        ]
        for cost in (0.0, 30.0)
    )
    assert min(careless) > 0
    assert max(careful) < -0.5


def lasting(rows: int = 4000) -> Transitions:
    """Episodes that an action of more than 0 in their first step ends, unpaid; the others go on for nine
    steps more, are paid a little in each, and have actions of every kind."""
    rng = np.random.default_rng(6)
    step = np.arange(rows) % 10
    action = rng.uniform(-1, 1, rows).astype(np.float32)
    kept = (step == 0) | np.repeat(action[::10] <= 0, 10)
    ends = ((step == 0) & (action > 0)) | (step == 9)
    state, after = (np.where(each == 0, -1.0, 1.0).astype(np.float32)[:, None] for each in (step, step + 1))
    paid = np.where(ends & (step == 0), 0.0, 0.2 + 0.05 * rng.normal(size=rows)).astype(np.float32)
    columns = state, action[:, None], paid, after, ends, ends
    return Transitions(*(column[kept] for column in columns))


def test_acting_as_the_log_does_costs_nothing_so_a_policy_does_not_end_its_episodes() -> None:
    fields: dict[str, Any] = {**SMALL, "discount": 0.9, "support_cost": 100.0, "q_floor": -10.0}
    fields |= {"anchor": 0.05, "doubt": 0.0}
    prepared, state = learn(GPCAnchor(**fields, halves=False, weight_decay=0.0), lasting(), 2000)
    assert actions(prepared, state, np.full((1, 1), -1, np.float32))[0, 0] < 0


def test_an_action_is_uncertain_as_far_as_it_is_less_known_than_the_logs_own() -> None:
    rng = np.random.default_rng(4)
    state = rng.uniform(-1, 1, (2000, 1)).astype(np.float32)
    action = rng.normal(0.4, 0.1, (2000, 1)).clip(-1, 1).astype(np.float32)
    done = np.ones(2000, np.bool_)
    prepared = GPCAnchor(**SMALL).prepare(Transitions(state, action, state[:, 0], state, done, done))
    learner, cell = (
        prepared.algorithm.init(jax.random.key(0), prepared.rows),
        jnp.asarray(prepared.rows.state_cell),
    )
    count, usual = learner.excess(cell, jnp.full((2000, 1), 0.4))
    assert float(count.min()) > 10
    assert float(usual.max()) == 0
    none, unseen = learner.excess(cell, jnp.full((2000, 1), -0.9))
    assert float(none.max()) == 0
    assert float(unseen.min()) > 0.5
    assert float(unseen.max()) < 1  # 1 would be the whole uncertainty


def test_a_policy_that_acts_as_the_log_does_is_hardly_penalised() -> None:
    algorithm = GPCAnchor(**SMALL, anchor=100.0, rows_per_cell=20)
    prepared, state = learn(algorithm, journey(), 1000)
    seen = jax.tree.map(lambda column: jnp.asarray(column[:256]), prepared.rows)
    state, metrics = jax.jit(prepared.algorithm.update)(state, seen, jax.random.key(1))
    whole = algorithm.pessimism * algorithm.value_spread * state.usual[seen.state_cell].mean()
    assert 0 < float(metrics["uncertainty"]) < 0.4 * float(whole)


def test_the_log_s_spread_is_learnt_state_by_state() -> None:
    rng = np.random.default_rng(9)
    place = rng.uniform(-1, 1, (4000, 1)).astype(np.float32)
    spread = np.where(place < 0, 0.1, 0.4)
    action = np.clip(0.3 * place + rng.normal(0, spread), -1, 1).astype(np.float32)
    done = np.ones(4000, np.bool_)
    _, state = learn(GPCAnchor(**SMALL), Transitions(place, action, place[:, 0], place, done, done), 2000)
    found = state.behaviour.network.habit(state.seen(jnp.array([[-0.6], [0.6]]))).deviation[:, 0]
    assert float(found[0]) == pytest.approx(0.1, rel=0.25)
    assert float(found[1]) == pytest.approx(0.38, rel=0.25)  # a few actions are cut off at 1


def test_a_habit_of_the_log_is_kept() -> None:
    prepared, state = learn(GPCAnchor(**SMALL), habit(), 1500)
    assert np.abs(actions(prepared, state, habit().observation[:200]) - 0.9).max() < 0.2


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
        prepared, state = learn(GPCAnchor(**SMALL, doubt=doubt), log, 3000)
        off[doubt] = np.sqrt(((actions(prepared, state, log.observation) - usual) ** 2).mean())
    assert off[1.0] < 0.6 * off[0.0]


def test_weight_decay_keeps_the_policy_from_fitting_the_noise_of_actions() -> None:
    log = unrelated()
    fresh = np.random.default_rng(8).normal(size=(1000, 6)).astype(np.float32)
    off = {}
    for decay in ("auto", 0.0):
        prepared, state = learn(GPCAnchor(**SMALL, anchor=100.0, weight_decay=decay), log, 3000)
        off[decay] = np.sqrt(((actions(prepared, state, fresh) - 0.3 * np.tanh(fresh[:, :1])) ** 2).mean())
    assert off["auto"] < 0.9 * off[0.0]


def test_only_a_small_log_is_learnt_in_halves_with_weight_decay() -> None:
    prepared = [GPCAnchor().prepare(journey(rows)) for rows in (1200, 40_020, 120_000)]
    assert [each.algorithm.weight_decay for each in prepared] == [1.0, pytest.approx(10_000 / 40_020), 0.0]
    assert [each.algorithm.halves for each in prepared] == [True, True, False]
    assert ["half" in (each.rows.extra or {}) for each in prepared] == [True, True, False]
    assert "120,000 rows" in prepared[2].notes["halves"]


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
    assert "the policy does little else than the log does: a larger log may allow more" in out


def test_how_much_came_true_is_told_in_words() -> None:
    low, middle, high = (GPCAnchor().remark({"came_true": each}) for each in (0.3, 0.6, 0.8))
    assert "30%" in low
    assert "little else than the log does" in low
    assert "in part" in middle
    assert high == GPCAnchor().remark({}) == ""


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
        return ratio(predicted_share(critics, rows, usual_of(rows, 0.3), target, halves=False))

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
    sums = predicted_share(memory, rows, usual_of(rows, 0.3), worth, halves=True)
    assert ratio(sums) == pytest.approx(-1)


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


@pytest.mark.parametrize(
    "change",
    [
        lambda log: replace(log, reward=300 * log.reward + 5),
        lambda log: replace(
            log, observation=log.observation * 64, next_observation=log.next_observation * 64
        ),
        lambda log: replace(
            log,
            **{name: _with_constant(getattr(log, name)) for name in ("observation", "next_observation")},
            observation_names=(),
        ),
        lambda log: replace(
            log,
            observation=log.observation[:, [2, 0, 1]],
            next_observation=log.next_observation[:, [2, 0, 1]],
        ),
    ],
    ids=["rewards x 300 + 5", "other units", "a constant column", "columns in another order"],
)
def test_the_same_log_written_differently_gives_the_same_policy(
    change: Callable[[Transitions], Transitions],
) -> None:
    log, other = journey(), change(journey())
    bold = GPCAnchor(
        **SMALL, rows_per_cell=50, doubt=0.0
    )  # so soon little of what critics predict comes true
    (one, one_state), (two, two_state) = learn(bold, log, 100), learn(bold, other, 100)
    taken = actions(one, one_state, log.observation[:100])
    assert np.abs(taken).max() > 0.5  # it has learnt
    np.testing.assert_allclose(taken, actions(two, two_state, other.observation[:100]), atol=2e-3)
    np.testing.assert_allclose(one_state.share, two_state.share, rtol=1e-2)


def _with_constant(column: Any) -> Any:
    return np.concatenate([np.full((len(column), 1), 7, np.float32), column], axis=1)


def test_a_reward_per_step_matters_where_episodes_can_end() -> None:
    log = replace(journey(), terminated=journey().episode_end & (np.arange(1200) > 600))
    log = replace(log, episode_end=log.episode_end | (np.arange(1200) == 100))
    plain, shifted = (
        GPCAnchor().prepare(each).algorithm for each in (log, replace(log, reward=log.reward + 5))
    )
    assert plain.reward_level == shifted.reward_level == 0
    assert GPCAnchor().prepare(
        replace(journey(), reward=journey().reward + 5)
    ).algorithm.reward_level == pytest.approx(5, abs=0.1)


def test_a_log_of_whole_numbers_trains(tmp_path: Path) -> None:
    log = journey()
    run = gc.train(
        replace(log, action=(np.round(5 * log.action) / 5).astype(np.float32)),
        updates=20,
        evaluate_every=20,
        out=tmp_path / "run",
        progress=False,
    )
    assert run.metrics["updates"].tolist() == [20]
    assert (
        run.metrics["unseen"][0] < 0.2
    )  # with bins of equal width half of all actions would lie where none can


def test_values_are_told_in_the_logs_own_units() -> None:
    log = replace(bandit(), reward=300 * bandit().reward)
    prepared = GPCAnchor(**SMALL).prepare(log)
    state = prepared.algorithm.init(jax.random.key(0), prepared.rows)
    rows = jax.tree.map(jnp.asarray, prepared.rows)
    block = jax.jit(make_block(prepared.algorithm, 500))
    state, _ = block(state, rows, jax.random.key(1), jnp.asarray(0))
    _, metrics = block(state, rows, jax.random.key(1), jnp.asarray(500))
    assert float(metrics["q_data"]) == pytest.approx(float(log.reward.mean()), rel=0.2)


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


def test_two_networks_side_by_side_are_one_whose_outputs_are_their_sum() -> None:
    one, other = (MLP((3, 8, 5, 2), jax.random.key(seed), last_scale=1.0) for seed in range(2))
    rows = some_rows().observation
    both = summed(one.perceptron(), other.perceptron())(rows)
    np.testing.assert_allclose(both, one(rows) + other(rows), rtol=1e-5, atol=1e-6)


def test_a_gap_between_values_does_not_widen_without_limit() -> None:
    force = jax.grad(lambda q: counted_gap_loss(q, jnp.zeros((1, 3)), jnp.ones(3), 2.0))(
        jnp.array([[1.0, -1.0, -3.0]])
    )
    np.testing.assert_allclose(force, [[2 / 3, 2 / 3, 0]])


def test_the_acting_policy_averages_the_last_part_of_all_updates(make_log: MakeLog) -> None:
    prepared = GPCAnchor(hidden=(4,), batch_size=8, average_share=0.5).prepare(make_log())
    rows = jax.tree.map(jnp.asarray, prepared.rows)
    state = prepared.algorithm.init(jax.random.key(0), prepared.rows)
    first = jax.tree.map(jnp.copy, state.acting[0].trunk.weights[0])
    learnt = []
    for update in range(60):
        batch = jax.tree.map(lambda column: column[:8], rows)
        state, _ = jax.jit(prepared.algorithm.update)(state, batch, jax.random.key(update))
        learnt.append(np.asarray(state.learner.policy.trunk.weights[0]))
    share = np.arange(60) + 1.0  # with a share of 1/2 the k-th of t updates counts in proportion to k
    expected = np.tensordot(share / share.sum(), np.stack(learnt), axes=1)
    np.testing.assert_allclose(state.acting[0].trunk.weights[0], expected, rtol=1e-4, atol=1e-6)
    assert not np.allclose(expected, first)
    assert [float(tail_step(jnp.asarray(done), 0.0)) for done in (1, 1000)] == [1, 1]  # the last alone


def test_a_published_dataset_without_its_name_trains_to_the_same_bits(tmp_path: Path) -> None:
    named = gc.load(Path(__file__).parent / "data" / "hopper_medium-v2.hdf5")
    parts = {
        "joint": named.observation,
        "torque": named.action,
        "next_joint": named.next_observation,
        "pay": named.reward[:, None],
        "fell": named.terminated[:, None],
        "cut": (named.episode_end & ~named.terminated)[:, None],
    }
    header = [f"{name}{i}" for name, columns in parts.items() for i in range(columns.shape[1])]
    table = np.concatenate([columns.astype(np.float64) for columns in parts.values()], axis=1)
    path = tmp_path / "line_7.csv"
    np.savetxt(path, table, "%.9g", ",", header=",".join(header), comments="")
    columns = gc.Columns("joint*", "torque*", "pay0", "fell0", "cut0", next_observation="next_joint*")
    unnamed = gc.load(path, columns)
    brief: dict[str, Any] = {"updates": 20, "batch_size": 32, "progress": False}
    policies = [
        gc.train(data, "gpc-anchor", **brief, out=tmp_path / str(i)).policy()
        for i, data in enumerate((replace(named, name="hopper-medium-v2"), unnamed))
    ]
    one, other = (policy(named.observation[:50]) for policy in policies)
    np.testing.assert_array_equal(one, other)
