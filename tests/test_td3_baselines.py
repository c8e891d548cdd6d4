"""TD3 and its relatives: what each adds keeps its policy where the log went, and its equations are the papers'."""

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import MakeLog
from problems import PROBE, bandit, chain, learn, overestimate

from gridcount.algorithms.contract import Prepared
from gridcount.algorithms.gpc_td3 import GPCTD3
from gridcount.algorithms.td3 import TD3, TD3State, smoothed
from gridcount.algorithms.td3_bc import TD3BC, moments_of
from gridcount.data.transitions import Batch

SMALL: dict[str, Any] = {"hidden": (16, 16), "batch_size": 32}
QUICK: dict[str, Any] = {"hidden": (32, 32), "batch_size": 64, "critic_rate": 3e-3, "policy_rate": 3e-3}
UPDATES = 1000

ON_THE_BANDIT = {
    "td3": TD3(**QUICK),
    "td3-bc": TD3BC(**QUICK, ambition=0.5),  # 2.5 walks 0.3 past the edge here: this log's mean action is far left of its best
    "gpc-td3": GPCTD3(**QUICK, bins=10, pessimism=3.0),
}


@cache
def on_the_bandit(name: str) -> tuple[Prepared, Any]:
    return learn(ON_THE_BANDIT[name], bandit(), UPDATES)


def own_actions(name: str) -> tuple[jax.Array, float]:
    """What a learner does in the bandit, and how far it overestimates that."""
    prepared, state = on_the_bandit(name)
    action = prepared.algorithm.act(state, PROBE)
    learner: TD3State = getattr(state, "learner", state)
    seen = state.moments.normalise(PROBE) if hasattr(state, "moments") else PROBE
    scale = getattr(prepared.algorithm, "reward_scale", 1.0)
    return action, overestimate(action, learner.critics(seen, action).min(axis=0) / scale)


def test_td3_leaves_the_log_and_believes_in_what_it_finds() -> None:
    action, wishful = own_actions("td3")
    assert float(action.mean()) > 0.6
    assert wishful > 1


@pytest.mark.parametrize("name", [name for name in ON_THE_BANDIT if name != "td3"])
def test_the_others_stay_where_the_log_went_and_know_what_it_is_worth(name: str) -> None:
    """Fails without: TD3+BC's imitation, GPC's penalty, ReBRAC's penalty on the policy, TD3-CVAE's bonus in the policy's objective."""
    action, sober = own_actions(name)
    assert -0.6 < float(action.mean()) < 0.4
    assert sober < 0.5


def started(algorithm: Any, make_log: MakeLog, **log: Any) -> tuple[Any, Any, Batch]:
    prepared = algorithm.prepare(make_log(**log))
    state = prepared.algorithm.init(jax.random.key(0), prepared.rows)
    return prepared.algorithm, state, jax.tree.map(lambda column: jnp.asarray(column[:32]), prepared.rows)


# --- TD3 ---


def test_td3_learns_the_exact_values_of_a_chain() -> None:
    _, state = learn(TD3(**QUICK, discount=0.8, target_step=0.05), chain(), UPDATES)
    q = state.critics(jnp.array([[-1.0], [1.0]]), jnp.zeros((2, 1))).min(axis=0)
    assert q.tolist() == pytest.approx([0.8, 1.0], abs=0.1)


def test_the_policy_and_the_targets_wait_for_every_second_update(make_log: MakeLog) -> None:
    algorithm, state, batch = started(TD3(**SMALL), make_log)
    update = jax.jit(algorithm.update)
    moved = []
    for step in range(4):
        after, metrics = update(state, batch, jax.random.key(step))
        same = [
            bool(np.array_equal(getattr(state, part).trunk.weights[0], getattr(after, part).trunk.weights[0]))
            for part in ("policy", "target_policy")
        ]
        same.append(bool(np.array_equal(state.target_critics.members.weights[0], after.target_critics.members.weights[0])))
        assert not np.array_equal(state.critics.members.weights[0], after.critics.members.weights[0])
        assert (float(metrics["policy_loss"]) == 0) == all(same)
        moved.append(same)
        state = after
    assert moved == [[True] * 3, [False] * 3] * 2
    assert int(state.updates) == 4


def test_td3_s_target_takes_the_smaller_critic_at_a_smoothed_action(make_log: MakeLog) -> None:
    algorithm, state, batch = started(TD3(**SMALL), make_log)
    key = jax.random.key(3)
    action = smoothed(algorithm, state.target_policy(batch.next_observation), key)
    noise = np.asarray(action - state.target_policy(batch.next_observation))
    assert np.abs(noise).max() <= 0.5 + 1e-6
    assert 0.1 < noise.std() < 0.25
    smaller = np.asarray(state.target_critics(batch.next_observation, action)).min(axis=0)
    target = np.asarray(batch.reward) + 0.99 * (1 - np.asarray(batch.terminated)) * smaller
    expected = ((np.asarray(state.critics(batch.observation, batch.action)) - target) ** 2).mean(axis=1).sum()
    _, metrics = algorithm.update(state, batch, key)
    assert float(metrics["critic_loss"]) == pytest.approx(float(expected), rel=1e-5)


# --- TD3+BC ---


def test_td3_bc_s_policy_loss_is_the_paper_s(make_log: MakeLog) -> None:
    algorithm, state, batch = started(TD3BC(**SMALL), make_log)
    observation = np.asarray(batch.observation)
    data = np.asarray(algorithm.prepare(make_log()).rows.observation)
    seen = (observation - data.mean(axis=0)) / (data.std(axis=0) + 1e-3)
    action = np.asarray(state.learner.policy(jnp.asarray(seen)))
    assert np.allclose(algorithm.act(state, batch.observation), action, atol=1e-5)
    state = state._replace(learner=state.learner._replace(updates=jnp.asarray(1)))
    after, metrics = algorithm.update(state, batch, jax.random.key(0))
    q = np.asarray(after.learner.critics(jnp.asarray(seen), jnp.asarray(action)))[0]  # the policy climbs the critics just updated
    expected = ((action - np.asarray(batch.action)) ** 2).mean() - 2.5 * (q / np.abs(q).mean()).mean()
    assert float(metrics["policy_loss"]) / 2 == pytest.approx(float(expected), rel=1e-4)  # a step every second update counts twice


def test_the_moments_of_observations_do_not_depend_on_where_they_are(tmp_path: Path) -> None:
    observation = np.random.default_rng(0).normal(5, 3, (70_000, 3)).astype(np.float32)
    observation.tofile(tmp_path / "observation")
    mapped = np.memmap(tmp_path / "observation", np.float32, "r", shape=observation.shape)
    one, two = moments_of(observation), moments_of(mapped)
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert np.allclose(one.mean, observation.mean(axis=0, dtype=np.float64), rtol=1e-6)
    assert np.allclose(one.deviation, observation.std(axis=0, dtype=np.float64) + 1e-3, rtol=1e-6)


# --- GPC on TD3 ---


def test_the_count_penalty_on_td3_is_the_paper_s(make_log: MakeLog) -> None:
    """Its OOD loss written again in NumPy: counts by a dictionary, networks only called."""
    algorithm, state, batch = started(GPCTD3(**SMALL, bins=3, pessimism=2.0, q_floor=-1e6), make_log, rows=64)
    counts: Counter[tuple[int, ...]] = Counter()
    update = jax.jit(algorithm.update)
    for step in range(3):
        key = jax.random.key(step)
        here_key, there_key = jax.random.split(key)
        here = smoothed(algorithm, state.learner.policy(batch.observation), here_key)
        there = smoothed(algorithm, state.learner.target_policy(batch.next_observation), there_key)
        halves = [(batch.observation, here, batch.state_cell), (batch.next_observation, there, batch.next_state_cell)]
        cells = [[(int(s), *c) for s, c in zip(cell, np.asarray(state.grid.cell(a)).tolist(), strict=True)] for _, a, cell in halves]
        for half in cells:
            counts.update(half)
        expected = 0.0
        for (observation, action, _), half, beta in zip(halves, cells, (1.0, 0.1), strict=True):
            u = 2.0 * np.sqrt(np.log(2) / np.array([counts[cell] for cell in half]))
            expected += 0.5 * float(((beta * u) ** 2).mean() * len(state.learner.critics(observation, action)))
        state, metrics = update(state, batch, key)
        assert float(metrics["loss_ood"]) == pytest.approx(expected, rel=1e-3)
        assert float(metrics["critic_loss"]) == pytest.approx(float(metrics["loss_in"]) + expected, rel=1e-3)
    assert max(counts.values()) > 1
