"""GPC-Anchor: stays where the log has support, improves where it has room, and does not care about units."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import MakeLog
from problems import BRISK, EDGE, PROBE, actions, bandit, journey, learn

import gridcount as gc
from gridcount.algorithms.blocks import make_block
from gridcount.algorithms.gpc_anchor import GPCAnchor
from gridcount.algorithms.td3 import TD3
from gridcount.losses import counted_gap_loss, tail_step
from gridcount.transitions import Transitions

FREE: dict[str, Any] = {"anchor": 0.0, "doubt": 0.0}  # nothing draws the policy to the log
PLAIN: dict[str, Any] = {"layer_norm": False}  # LayerNorm alone keeps small networks from extrapolating


def habit(misleading: float = 0.0) -> Transitions:
    """A log of one decision that is nearly always 0.9; rewards rise to the left by `misleading`, as far as
    the few others show."""
    rng = np.random.default_rng(0)
    action = np.where(rng.random(2000) < 0.99, 0.9, rng.uniform(-1, 1, 2000)).astype(np.float32)[:, None]
    state = rng.uniform(-1, 1, (2000, 2)).astype(np.float32)
    reward = (-misleading * action[:, 0] + rng.normal(0, 1, 2000)).astype(np.float32)
    done = np.ones(2000, np.bool_)
    return Transitions(state, action, reward, state, done, done)


def test_the_policy_takes_the_best_of_what_the_log_has() -> None:
    prepared, state = learn(GPCAnchor(**BRISK), bandit(), 2000)
    taken = actions(prepared, state, PROBE)
    assert EDGE - 0.45 < taken.mean() < EDGE + 0.1
    td3, free = learn(TD3(**BRISK), bandit(), 2000)
    assert (
        actions(td3, free, PROBE).mean() > EDGE + 0.3
    )  # without counts and anchor it believes what it extrapolates


def test_without_the_counted_gap_and_the_anchor_the_policy_leaves_the_log() -> None:
    prepared, state = learn(GPCAnchor(**BRISK, **PLAIN, **FREE, ood_weight=0.0), bandit(), 2000)
    assert actions(prepared, state, PROBE).mean() > EDGE + 0.3


def test_the_counted_gap_alone_keeps_the_policy_in_the_log() -> None:
    held, held_state = learn(GPCAnchor(**BRISK, **PLAIN, **FREE, pessimism=1.0), bandit(), 2000)
    assert actions(held, held_state, PROBE).mean() < EDGE + 0.15


def test_the_anchor_alone_keeps_the_policy_near_the_log() -> None:
    far, far_state = learn(GPCAnchor(**BRISK, **PLAIN, **FREE, ood_weight=0.0), bandit(), 2000)
    near, near_state = learn(
        GPCAnchor(**BRISK, **PLAIN, ood_weight=0.0, anchor=1.0, doubt=0.0), bandit(), 2000
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
    free: dict[str, Any] = {**BRISK, "discount": 0.5, "q_floor": -10.0, "anchor": 0.2, "doubt": 0.0}
    # the cost alone, and the last policy
    free |= {"ood_weight": 0.0, "average_share": 0.0, "batch_size": 256}
    free |= {"halves": False, "weight_decay": 0.0, "correction_updates": 0}  # as in a large log
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


def test_acting_as_the_log_does_costs_little_so_a_policy_does_not_end_its_episodes() -> None:
    fields: dict[str, Any] = {**BRISK, "discount": 0.9, "support_cost": 100.0, "q_floor": -10.0}
    fields |= {"anchor": 0.05, "doubt": 0.0}
    prepared, state = learn(GPCAnchor(**fields, halves=False, weight_decay=0.0), lasting(), 2000)
    assert actions(prepared, state, np.full((1, 1), -1, np.float32))[0, 0] < 0


def test_an_action_is_uncertain_as_far_as_it_is_less_known_than_the_logs_own() -> None:
    rng = np.random.default_rng(4)
    state = rng.uniform(-1, 1, (2000, 1)).astype(np.float32)
    action = rng.normal(0.4, 0.1, (2000, 1)).clip(-1, 1).astype(np.float32)
    done = np.ones(2000, np.bool_)
    prepared = GPCAnchor(**BRISK).prepare(Transitions(state, action, state[:, 0], state, done, done))
    learner, cell = (
        prepared.algorithm.init(jax.random.key(0), prepared.rows),
        jnp.asarray(prepared.rows.state_cell),
    )
    count, excess = learner.excess(cell, jnp.full((2000, 1), 0.4))
    assert float(count.min()) > 10
    assert float(excess.max()) == 0
    none, unseen = learner.excess(cell, jnp.full((2000, 1), -0.9))
    assert float(none.max()) == 0
    assert float(unseen.min()) > 0.5
    assert float(unseen.max()) < 1  # 1 would be the whole uncertainty
    u = prepared.algorithm.uncertainty(learner, cell, jnp.full((2000, 1), 0.4))
    assert float(u.max()) == 0


def test_a_policy_that_acts_as_the_log_does_is_hardly_penalised() -> None:
    algorithm = GPCAnchor(**BRISK, anchor=100.0, rows_per_cell=20)
    prepared, state = learn(algorithm, journey(), 1000)
    seen = jax.tree.map(lambda column: jnp.asarray(column[:256]), prepared.rows)
    state, metrics = jax.jit(prepared.algorithm.update)(state, seen, jax.random.key(1))
    whole = algorithm.pessimism * algorithm.value_spread * state.usual_uncertainty[seen.state_cell].mean()
    assert 0 < float(metrics["uncertainty"]) < 0.4 * float(whole)


def test_a_habit_of_the_log_is_kept() -> None:
    prepared, state = learn(GPCAnchor(**BRISK), habit(), 1500)
    assert np.abs(actions(prepared, state, habit().observation[:200]) - 0.9).max() < 0.2


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
        **BRISK, rows_per_cell=50, doubt=0.0
    )  # so soon little of what critics predict comes true
    (one, one_state), (two, two_state) = learn(bold, log, 100), learn(bold, other, 100)
    taken = actions(one, one_state, log.observation[:100])
    assert np.abs(taken).max() > 0.5  # it has learnt
    np.testing.assert_allclose(taken, actions(two, two_state, other.observation[:100]), atol=2e-3)
    np.testing.assert_allclose(one_state.came_true, two_state.came_true, rtol=1e-2)


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
    prepared = GPCAnchor(**BRISK).prepare(log)
    state = prepared.algorithm.init(jax.random.key(0), prepared.rows)
    rows = jax.tree.map(jnp.asarray, prepared.rows)
    block = jax.jit(make_block(prepared.algorithm, 500))
    state, _ = block(state, rows, jax.random.key(1), jnp.asarray(0))
    _, metrics = block(state, rows, jax.random.key(1), jnp.asarray(500))
    assert float(metrics["q_data"]) == pytest.approx(float(log.reward.mean()), rel=0.2)


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
