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
from gridcount.algorithms.blocks import make_block
from gridcount.algorithms.contract import act
from gridcount.algorithms.gpc_anchor import GPCAnchor, anchored, second_half
from gridcount.algorithms.td3 import TD3
from gridcount.cli import main
from gridcount.losses import counted_gap_loss, row_agreement, slope_agreement, tail_step
from gridcount.networks import Critics, Deterministic
from gridcount.transitions import Transitions

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
    prepared, state = learn(GPCAnchor(**SMALL, **PLAIN, ood_weight=0.0, anchor=0.0), bandit(), 2000)
    assert actions(prepared, state, PROBE).mean() > EDGE + 0.3


def test_the_counted_gap_alone_keeps_the_policy_in_the_log() -> None:
    held, held_state = learn(GPCAnchor(**SMALL, **PLAIN, anchor=0.0, pessimism=1.0), bandit(), 2000)
    assert actions(held, held_state, PROBE).mean() < EDGE + 0.15


def test_the_anchor_alone_keeps_the_policy_near_the_log() -> None:
    far, far_state = learn(GPCAnchor(**SMALL, **PLAIN, ood_weight=0.0, anchor=0.0), bandit(), 2000)
    near, near_state = learn(GPCAnchor(**SMALL, **PLAIN, ood_weight=0.0, anchor=1.0), bandit(), 2000)
    log = bandit().action.mean()
    assert abs(actions(near, near_state, PROBE).mean() - log) < 0.5 * abs(
        actions(far, far_state, PROBE).mean() - log
    )


def fork(rows: int = 4000) -> Transitions:
    """A decision, right or left, and then another one. On the left the log always does nearly the same. On the
    right it pays a little more, and has two ways to act: a policy that imitates both does what it never
    does."""
    rng = np.random.default_rng(5)
    first = np.arange(rows) % 2 == 0
    action = rng.uniform(-1, 1, rows)
    right = np.where(first, action > 0, np.roll(action, 1) > 0)
    then = rng.normal(np.where(right, rng.choice([-0.8, 0.8], rows), 0.5), 0.05)
    action = np.where(first, action, then)
    state = np.where(first, 0.0, np.where(right, 1.0, -1.0))
    following = np.where(first, np.where(right, 1.0, -1.0), 0.0)
    reward = np.where(first, 0.0, np.where(right, 1.1, 1.0))
    seen, taken, paid, after = (column.astype(np.float32) for column in (state, action, reward, following))
    return Transitions(seen[:, None], taken[:, None], paid, after[:, None], ~first, ~first)


def test_the_policy_prefers_states_in_which_it_can_stay_in_the_log() -> None:
    free: dict[str, Any] = {**SMALL, "discount": 0.5, "q_floor": -10.0, "anchor": 0.02}
    # the cost alone, and the last policy
    free |= {"ood_weight": 0.0, "halves": False, "weight_decay": 0.0, "average_share": 0.0, "batch_size": 256}
    start = np.zeros((1, 1), np.float32)
    careless, careful = (
        [
            actions(*learn(GPCAnchor(**free, support_cost=cost), fork(), 2000, seed=seed), start)
            for seed in range(3)
        ]
        for cost in (0.0, 30.0)
    )
    assert min(careless) > 0 > max(careful)  # a policy whose critics disagree in that state stays in between
    assert np.median(careful) < -0.5


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
    prepared, state = learn(GPCAnchor(**fields, halves=False, weight_decay=0.0), lasting(), 2000)
    assert actions(prepared, state, np.full((1, 1), -1, np.float32))[0, 0] < 0


def test_the_log_s_spread_is_learnt_state_by_state() -> None:
    rng = np.random.default_rng(9)
    place = rng.uniform(-1, 1, (4000, 1)).astype(np.float32)
    spread = np.where(place < 0, 0.1, 0.4)
    action = np.clip(0.3 * place + rng.normal(0, spread), -1, 1).astype(np.float32)
    done = np.ones(4000, np.bool_)
    prepared, state = learn(GPCAnchor(**SMALL), Transitions(place, action, place[:, 0], place, done, done), 2000)
    found = state.behaviour.network.deviation(state.seen(jnp.array([[-0.6], [0.6]])))[:, 0]
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


def test_where_rewards_are_noise_the_policy_imitates() -> None:
    log = unrelated()
    usual = 0.3 * np.tanh(log.observation[:, :1])
    off = {}
    for halves in (True, False):
        prepared, state = learn(GPCAnchor(**SMALL, anchor=0.1, halves=halves), log, 3000)
        off[halves] = np.sqrt(((actions(prepared, state, log.observation) - usual) ** 2).mean())
    assert off[True] < 0.6 * off[False]


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
    assert ["half" in each.rows.extra for each in prepared] == [True, True, False]
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
    assert "the policy is only drawn to the log's actions: a larger log may allow more" in out


def test_agreement_is_told_in_words() -> None:
    low, middle, high = (GPCAnchor().remark({"agreement": each}) for each in (0.3, 0.5, 0.7))
    assert "30%" in low
    assert "only drawn to the log's actions" in low
    assert "in part" in middle
    assert "larger log" not in high
    assert GPCAnchor().remark({}) == ""


def test_in_a_large_log_whose_critics_share_all_rows_their_agreement_is_no_message() -> None:
    assert GPCAnchor(halves=False).remark({"agreement": 0.1}) == ""


def test_critics_agree_on_a_slope_that_is_real() -> None:
    rng = np.random.default_rng(0)
    slope, noise = rng.normal(size=(500, 3)), rng.normal(size=(2, 500, 3))
    equal, unlike, opposite = (
        float(slope_agreement(jnp.asarray(each)))
        for each in (np.stack([slope, slope]), noise, np.stack([slope, -slope]))
    )
    assert equal == pytest.approx(1)
    assert opposite == pytest.approx(-1)
    assert abs(unlike) < 0.1
    assert float(slope_agreement(jnp.asarray(slope + noise))) == pytest.approx(0.5, abs=0.05)


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
    one, one_state = learn(GPCAnchor(**SMALL, rows_per_cell=50), log, 100)
    two, two_state = learn(GPCAnchor(**SMALL, rows_per_cell=50), other, 100)
    taken = actions(one, one_state, log.observation[:100])
    assert np.abs(taken).max() > 0.5  # it has learnt
    np.testing.assert_allclose(taken, actions(two, two_state, other.observation[:100]), atol=2e-3)


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


def some_rows() -> Any:
    """Rows as an update sees them."""
    return jax.tree.map(lambda column: jnp.asarray(column[:64]), GPCAnchor().prepare(journey()).rows)


def test_the_policys_loss_weighs_values_by_what_a_deviation_gains() -> None:
    rows = some_rows()
    critics = Critics(2, 3, 2, (16,), jax.random.key(0))
    louder = jax.tree.map(lambda leaf: leaf, critics)
    louder.members.weights[-1] = 100 * louder.members.weights[-1]
    policy = Deterministic(3, 2, (16,), jax.random.key(1))
    deviation = jnp.full((64, 2), 0.3)

    def slope(critics: Critics, deviation: Any) -> Any:
        return jax.grad(lambda p: anchored(0.2, critics, rows, deviation, halves=False)(p)[0])(
            policy
        ).trunk.weights[0]

    quiet, loud, broad = slope(critics, deviation), slope(louder, deviation), slope(critics, 3 * deviation)
    np.testing.assert_allclose(quiet, loud, rtol=1e-3, atol=1e-6)
    assert not np.allclose(quiet, broad, rtol=0.1)


def test_where_the_critics_disagree_the_policy_clones_all_rows_alike() -> None:
    rows = some_rows()
    alike = jax.tree.map(
        lambda leaf: jnp.stack([leaf[0], leaf[0]]), Critics(2, 3, 2, (16,), jax.random.key(0))
    )
    opposed = jax.tree.map(lambda leaf: leaf, alike)
    opposed.members.weights[-1] = opposed.members.weights[-1] * jnp.array([1.0, -1.0])[:, None, None]
    policy = Deterministic(3, 2, (16,), jax.random.key(1))
    # the log's actions vary ten times as much in the second half of the rows
    deviation = jnp.where(jnp.arange(64) < 32, 0.05, 0.5)[:, None] * jnp.ones(2)

    def slope(loss: Callable[[Deterministic], Any]) -> Any:
        return jax.grad(loss)(policy).trunk.weights[0]

    def cloned(policy: Deterministic) -> Any:
        apart = (policy(rows.observation) - rows.action) ** 2
        return (apart / (deviation**2).mean(axis=0)).sum(axis=-1).mean()

    def loss(critics: Critics) -> Callable[[Deterministic], Any]:
        return lambda policy: anchored(0.2, critics, rows, deviation, halves=True)(policy)[0]

    apart, agreed = slope(loss(opposed)), slope(loss(alike))
    np.testing.assert_allclose(apart, 0.2 * slope(cloned), rtol=1e-3, atol=1e-6)
    assert not np.allclose(agreed, apart, rtol=0.1, atol=1e-3)


def test_a_state_s_slope_counts_as_far_as_both_critics_agree_there() -> None:
    rows = some_rows()
    rng = np.random.default_rng(4)
    one, other = (jnp.asarray(rng.normal(size=(64, 2)), jnp.float32) for _ in range(2))
    second = jnp.where((jnp.arange(64) < 32)[:, None], one, -one)
    share = row_agreement(jnp.stack([one, second]))
    np.testing.assert_allclose(share, np.where(np.arange(64) < 32, 1, -1), rtol=1e-4)
    assert np.abs(row_agreement(jnp.stack([one, other]))).max() < 1

    class Sloped(NamedTuple):
        """Critics of these slopes, whatever the action."""

        slopes: Any

        def with_slopes(self, observation: Any, action: Any) -> Any:
            return jnp.zeros(self.slopes.shape[:2]), self.slopes

    policy = Deterministic(3, 2, (16,), jax.random.key(1))
    deviation = jnp.full((64, 2), 0.3)

    def moved(slopes: Any) -> Any:
        """What the slopes add to the gradient that imitation alone has."""
        critics: Any = Sloped(jnp.stack(slopes))
        loss = anchored(0.2, critics, rows, deviation, halves=False)
        none: Any = Sloped(jnp.zeros((2, 64, 2)))
        still = anchored(0.2, none, rows, deviation, halves=False)
        return jax.grad(lambda p: loss(p)[0] - still(p)[0])(policy).trunk.weights[-1]

    only_first = jnp.where((jnp.arange(64) < 32)[:, None], one, 0.0)
    gain = jnp.sqrt((one**2).sum(axis=-1).mean() / (only_first**2).sum(axis=-1).mean())
    np.testing.assert_allclose(
        moved([one, second]) * gain, moved([only_first, only_first]), rtol=1e-3, atol=1e-6
    )


def test_a_gap_between_values_does_not_widen_without_limit() -> None:
    force = jax.grad(lambda q: counted_gap_loss(q, jnp.zeros((1, 3)), jnp.ones(3), 2.0))(
        jnp.array([[1.0, -1.0, -3.0]])
    )
    np.testing.assert_allclose(force, [[2 / 3, 2 / 3, 0]])


def test_the_acting_policy_averages_the_last_part_of_all_updates(make_log: MakeLog) -> None:
    prepared = GPCAnchor(hidden=(4,), batch_size=8, average_share=0.5).prepare(make_log())
    rows = jax.tree.map(jnp.asarray, prepared.rows)
    state = prepared.algorithm.init(jax.random.key(0), prepared.rows)
    first = jax.tree.map(jnp.copy, state.acting_policy.trunk.weights[0])
    learnt = []
    for update in range(60):
        batch = jax.tree.map(lambda column: column[:8], rows)
        state, _ = jax.jit(prepared.algorithm.update)(state, batch, jax.random.key(update))
        learnt.append(np.asarray(state.learner.policy.trunk.weights[0]))
    share = np.arange(60) + 1.0  # with a share of 1/2 the k-th of t updates counts in proportion to k
    expected = np.tensordot(share / share.sum(), np.stack(learnt), axes=1)
    np.testing.assert_allclose(state.acting_policy.trunk.weights[0], expected, rtol=1e-4, atol=1e-6)
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
