"""BC, IQL and UWAC: what each learns where the answer is known, and that its distinguishing term is what brings it about."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import MakeLog
from problems import EDGE, PROBE, bandit, learn, overestimate

from gridcount.algorithms import make_algorithm
from gridcount.algorithms.bc import BC
from gridcount.algorithms.iql import IQL
from gridcount.algorithms.sac import SAC
from gridcount.data.transitions import Transitions
from gridcount.losses import advantage_weight, expectile_loss

FIELDS: dict[str, Any] = {"hidden": (32, 32), "batch_size": 64, "policy_rate": 1e-3}
PLACES = jnp.array([[-1.0], [1.0]])  # the two states of `fork`
GOOD, SHARE = 0.5, 0.25  # the action that pays at the second, and how often the log takes it


def fork() -> Transitions:
    """Two states in a row; only the second pays, 1 for the action GOOD, which the log takes in a quarter of its rows, 0 for -GOOD."""
    rng = np.random.default_rng(0)
    second = np.arange(4000) % 2 == 1
    good = np.repeat(rng.permutation(2000) < 2000 * SHARE, 2)  # at the second state exactly SHARE of the rows
    place = np.where(second, 1.0, -1.0).astype(np.float32)[:, None]
    action = np.where(good, GOOD, -GOOD).astype(np.float32)[:, None]
    reward = (second & good).astype(np.float32)
    return Transitions(place, action, reward, np.ones_like(place), second, second)


def fork_value(expectile: float) -> float:
    """The expectile of the second state's rewards: where the pull of the good rows upwards equals that of the others downwards."""
    up, down = expectile * SHARE, (1 - expectile) * (1 - SHARE)
    return up / (up + down)


@pytest.fixture(scope="module")
def wishful_sac() -> float:
    """How much SAC overestimates its own actions in the bandit's gap."""
    sac, state = learn(SAC(**FIELDS, critic_rate=1e-3), bandit(), 3000)
    actions = sac.algorithm.act(state, PROBE)
    return overestimate(actions, state.critics(PROBE, actions).min(axis=0))


# --- BC ---


def test_bc_gives_the_log_s_mean_action_and_stays_in_its_data() -> None:
    prepared, state = learn(BC(**FIELDS), bandit(), 1500)
    actions = prepared.algorithm.act(state, PROBE)
    assert float(actions.mean()) == pytest.approx((EDGE - 1) / 2, abs=0.06)
    assert float(actions.max()) < EDGE


def test_bc_of_the_best_episodes_gives_their_action() -> None:
    """Each step of the bandit is an episode: its best tenth lies just under the edge of the log. Fails if best_share is ignored."""
    prepared, state = learn(BC(**FIELDS, best_share=0.1), bandit(), 1500)
    best = bandit().action[bandit().reward >= np.quantile(bandit().reward, 0.9)]
    assert len(prepared.rows.reward) == 200
    assert np.asarray(prepared.rows.action).min() >= best.min()
    assert float(prepared.algorithm.act(state, PROBE).mean()) == pytest.approx(best.mean(), abs=0.06)


def test_the_best_episodes_are_kept_whole_and_in_order(make_log: MakeLog) -> None:
    data = make_log()  # ten episodes of 50
    prepared = BC(best_share=0.3).prepare(data)
    best = sorted(np.argsort(data.episode_returns)[-3:])
    rows = np.concatenate([np.arange(50 * episode, 50 * episode + 50) for episode in best])
    assert np.array_equal(prepared.rows.observation, data.observation[rows])
    assert np.array_equal(prepared.rows.terminated, data.terminated[rows])
    assert "150 of 500 rows" in prepared.notes["best_share"]
    assert len(BC(best_share=0.01).prepare(data).rows.reward) == 50
    with pytest.raises(ValueError, match="best_share is 0"):
        BC(best_share=0.0).prepare(data)


def test_bc_does_not_mind_the_scale_of_its_observations(make_log: MakeLog) -> None:
    data = make_log()
    scaled = replace(data, observation=100 * data.observation + 50)
    actions = []
    for log in (data, scaled):
        prepared, state = learn(BC(**FIELDS), log, 20)
        actions.append(prepared.algorithm.act(state, jnp.asarray(log.observation)))
    assert np.allclose(actions[0], actions[1], atol=2e-3)
    raw = BC(**FIELDS, normalise=False).init(jax.random.key(0), scaled.rows())
    assert np.array_equal(raw.normaliser(jnp.asarray(scaled.observation)), scaled.observation)


# --- IQL ---


def implicit(**changes: Any) -> IQL:
    fields = {"policy_rate": 3e-3, "critic_rate": 3e-3, "value_rate": 3e-3, "discount": 0.8, "target_step": 0.05}
    return IQL(**(FIELDS | fields | changes))


@pytest.mark.parametrize("expectile", [0.5, 0.9, 0.99])
def test_iql_s_values_are_the_expectiles_of_the_log(expectile: float) -> None:
    """At 0.5 they are the values of the log's own policy, towards 1 the best the log supports. Fails with a symmetric loss."""
    prepared, state = learn(implicit(expectile=expectile), fork(), 2000)
    second = fork_value(expectile)
    assert state.value(PLACES)[:, 0].tolist() == pytest.approx([0.8 * second, second], abs=0.05)
    q = state.critics(jnp.repeat(PLACES, 2, axis=0), jnp.array([[-GOOD], [GOOD]] * 2)).min(axis=0)
    assert q.tolist() == pytest.approx([0.8 * second, 0.8 * second, 0, 1], abs=0.08)
    if expectile == 0.5:
        assert second == SHARE  # what the log's policy earns
    if expectile == 0.99:
        assert second > 0.97  # what the best action of the log earns
    if expectile == 0.9:
        # Rows weigh exp(scale * advantage), so the mean action is known too; behavioural cloning stays with the many.
        weights = SHARE * np.exp(3 * (1 - second)), (1 - SHARE) * np.exp(-3 * second)
        preferred = GOOD * (weights[0] - weights[1]) / sum(weights)
        assert preferred > 0.3
        assert float(prepared.algorithm.act(state, PLACES)[1, 0]) == pytest.approx(preferred, abs=0.08)
        cloned, clone = learn(BC(**FIELDS), fork(), 1000)
        assert float(cloned.algorithm.act(clone, PLACES)[1, 0]) == pytest.approx(GOOD * (2 * SHARE - 1), abs=0.05)


def test_iql_does_not_overestimate_in_the_gap_where_sac_does(wishful_sac: float) -> None:
    iql, state = learn(implicit(discount=0.99, expectile=0.9, advantage_scale=10.0), bandit(), 2000)
    actions = iql.algorithm.act(state, PROBE)
    assert -0.2 < float(actions.mean()) < EDGE
    assert wishful_sac > 1
    assert abs(overestimate(actions, state.critics(PROBE, actions).min(axis=0))) < 0.1


def test_the_expectile_loss_and_the_advantage_weight_are_the_paper_s() -> None:
    u = np.array([-2.0, -0.5, 0.0, 1.0, 3.0])
    assert float(expectile_loss(jnp.asarray(u), 0.7)) == pytest.approx(np.mean(np.abs(0.7 - (u < 0)) * u**2), rel=1e-6)
    assert advantage_weight(jnp.array([-1.0, 0.0, 9.0]), 3.0, 100.0).tolist() == pytest.approx([np.exp(-3), 1, 100], rel=1e-6)


def test_iql_scales_rewards_as_its_authors_do(make_log: MakeLog) -> None:
    data = make_log(scale=4.0)
    gym = make_algorithm("iql", "hopper-medium-v2").prepare(data)
    returns = data.episode_returns
    np.testing.assert_allclose(gym.rows.reward, data.reward * 1000 / (returns.max() - returns.min()), rtol=1e-5)
    assert "times" in gym.notes["reward"]
    ant = make_algorithm("iql", "antmaze-umaze-v2").prepare(data)
    np.testing.assert_allclose(ant.rows.reward, data.reward - 1, rtol=1e-6)
    plain = make_algorithm("iql", "maze2d-umaze-v1").prepare(data)
    assert plain.rows.reward is data.reward
    assert not plain.notes
    level = replace(data, reward=np.zeros_like(data.reward))
    assert np.array_equal(make_algorithm("iql", "hopper-medium-v2").prepare(level).rows.reward, level.reward)


def test_iql_s_policy_stops_at_the_end_of_its_schedule_and_its_values_go_on(make_log: MakeLog) -> None:
    prepared = implicit(schedule_updates=5).prepare(make_log())
    batch = jax.tree.map(jnp.asarray, prepared.rows)
    update = jax.jit(prepared.algorithm.update)
    states = [prepared.algorithm.init(jax.random.key(0), prepared.rows)]
    for step in range(7):
        states.append(update(states[-1], batch, jax.random.key(step))[0])
    moved = [bool((new.policy.trunk.weights[0] != old.policy.trunk.weights[0]).any()) for old, new in pairwise(states)]
    assert moved == [True] * 5 + [False] * 2
    assert not np.array_equal(states[-1].critics.members.weights[0], states[-2].critics.members.weights[0])


def test_dropout_acts_on_iql_s_training_and_not_on_its_actions(make_log: MakeLog) -> None:
    prepared = implicit(dropout=0.1).prepare(make_log())
    state = prepared.algorithm.init(jax.random.key(0), prepared.rows)
    batch = jax.tree.map(jnp.asarray, prepared.rows)
    update = jax.jit(prepared.algorithm.update)
    one, other = (update(state, batch, jax.random.key(key))[0] for key in (1, 2))
    assert not np.array_equal(one.policy.trunk.weights[-1], other.policy.trunk.weights[-1])
    assert np.array_equal(one.critics.members.weights[0], other.critics.members.weights[0])
    x = jax.random.normal(jax.random.key(3), (2000, 3))
    trunk = state.policy.trunk
    assert np.array_equal(trunk(x), trunk(x, dropout=0.1))
    dropped = trunk(x, dropout=0.1, key=jax.random.key(4))
    assert float((dropped - trunk(x)).mean()) == pytest.approx(0, abs=1e-4)
    assert float(jnp.abs(dropped - trunk(x)).mean()) > 1e-5
