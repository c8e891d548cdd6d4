"""TD3 and its relatives: what each adds keeps its policy where the log went, and its equations are the
papers'."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import MakeLog
from problems import PROBE, bandit, chain, learn, overestimate

from gridcount.algorithms import papers
from gridcount.algorithms.contract import Prepared, act
from gridcount.algorithms.gpc_td3 import GPCTD3
from gridcount.algorithms.presets import preset_fields
from gridcount.algorithms.rebrac import ReBRAC, next_actions
from gridcount.algorithms.td3 import TD3, TD3State, smoothed
from gridcount.algorithms.td3_bc import TD3BC
from gridcount.algorithms.td3_cvae import TD3CVAE, bonus
from gridcount.catalogue import NAMES
from gridcount.networks import Normaliser
from gridcount.training.checkpoints import flatten, unflatten
from gridcount.transitions import Batch

SMALL: dict[str, Any] = {"hidden": (16, 16), "batch_size": 32}
QUICK: dict[str, Any] = {"hidden": (32, 32), "batch_size": 64, "critic_rate": 3e-3, "policy_rate": 3e-3}
UPDATES = 1000

ON_THE_BANDIT: dict[str, Any] = {
    "td3": TD3(**QUICK),
    "td3-bc": TD3BC(
        **QUICK, ambition=0.5
    ),  # 2.5 walks 0.3 past the edge here: this log's mean action is far left of its best
    "gpc-td3": GPCTD3(**QUICK, bins=10, pessimism=3.0),
    "rebrac": ReBRAC(
        **QUICK, policy_penalty=1.0
    ),  # of the order of the values, as any penalty that is to outweigh them
    "td3-cvae": TD3CVAE(**QUICK, cvae_hidden=(32, 32), cvae_rate=3e-3, cvae_updates=1000),
}


WITHOUT: dict[str, Any] = {  # the same without the term that each is about
    "td3-bc": replace(ON_THE_BANDIT["td3-bc"], ambition=1e3),  # nothing to the imitation's weight beside it
    "gpc-td3": replace(ON_THE_BANDIT["gpc-td3"], pessimism=0.0),
    "rebrac": replace(ON_THE_BANDIT["rebrac"], policy_penalty=0.0),
    "td3-cvae": replace(ON_THE_BANDIT["td3-cvae"], policy_penalty=0.0),
}


@cache
def on_the_bandit(name: str) -> tuple[Prepared, Any]:
    return learn(ON_THE_BANDIT[name], bandit(), UPDATES)


def own_actions(prepared: Prepared, state: Any) -> tuple[jax.Array, float]:
    """What a learner does in the bandit, and how far it overestimates that."""
    action = act(prepared.algorithm, state, PROBE)
    learner: TD3State = getattr(state, "learner", state)
    normaliser = getattr(state, "normaliser", None)
    seen = PROBE if normaliser is None else normaliser(PROBE)
    scale = getattr(prepared.algorithm, "reward_scale", 1.0)
    return action, overestimate(action, learner.critics(seen, action).min(axis=0) / scale)


def test_td3_leaves_the_log_and_believes_in_what_it_finds() -> None:
    action, wishful = own_actions(*on_the_bandit("td3"))
    assert float(action.mean()) > 0.6
    assert wishful > 1


@pytest.mark.parametrize("name", [name for name in ON_THE_BANDIT if name != "td3"])
def test_the_others_stay_where_the_log_went_and_know_what_it_is_worth(name: str) -> None:
    action, sober = own_actions(*on_the_bandit(name))
    assert -0.6 < float(action.mean()) < 0.4
    assert sober < 0.5


@pytest.mark.parametrize("name", WITHOUT)
def test_without_what_it_adds_each_leaves_the_log_as_td3_does(name: str) -> None:
    """TD3+BC's imitation, GPC's penalty, ReBRAC's penalty on the policy, TD3-CVAE's bonus in the policy's
    objective."""
    action, wishful = own_actions(*learn(WITHOUT[name], bandit(), UPDATES))
    assert float(action.mean()) > 0.6
    assert wishful > 1


def test_rebrac_normalises_after_the_relu_and_the_others_before(make_log: MakeLog) -> None:
    for kind, after in ((ReBRAC, True), (TD3, False)):
        _, state, batch = started(kind(hidden=(16,), batch_size=32, layer_norm=True), make_log)
        network = jax.tree.map(lambda leaf: np.asarray(leaf[0], np.float64), state.critics.members)
        x = np.concatenate([batch.observation, batch.action], axis=1) @ network.weights[0]

        def normal(x: Any) -> Any:
            return (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)

        hidden = normal(np.maximum(x, 0)) if after else np.maximum(normal(x), 0)
        q = (hidden @ network.weights[1])[:, 0]
        np.testing.assert_allclose(state.critics(batch.observation, batch.action)[0], q, rtol=1e-3, atol=1e-6)


def started(algorithm: Any, make_log: MakeLog, **log: Any) -> tuple[Any, Any, Batch]:
    prepared = algorithm.prepare(make_log(**log))
    state = prepared.algorithm.init(jax.random.key(0), prepared.rows)
    return prepared.algorithm, state, jax.tree.map(lambda column: jnp.asarray(column[:32]), prepared.rows)


# --- TD3 ---


def test_td3_learns_the_exact_values_of_a_chain() -> None:
    _, state = learn(TD3(**QUICK, discount=0.8, target_step=0.05), chain(), UPDATES)
    q = state.critics(jnp.array([[-1.0], [1.0]]), jnp.zeros((2, 1))).min(axis=0)
    assert q.tolist() == pytest.approx([0.8, 1.0], abs=0.1)


@cache
def compiled(algorithm: Any) -> Any:
    return jax.jit(algorithm.update)


def due(state: Any) -> Any:
    """A state whose next update also moves the policy."""
    if hasattr(state, "learner"):
        return state._replace(learner=due(state.learner))
    return state._replace(updates=jnp.asarray(1, jnp.int32))


def test_the_policy_and_the_targets_wait_for_every_second_update(make_log: MakeLog) -> None:
    algorithm, state, batch = started(TD3(**SMALL), make_log)
    moved = []
    for step in range(4):
        after, metrics = compiled(algorithm)(state, batch, jax.random.key(step))
        parts: dict[str, Callable[[TD3State], jax.Array]] = {
            "policy": lambda s: s.policy.trunk.weights[0],
            "target policy": lambda s: s.target_policy.trunk.weights[0],
            "target critics": lambda s: s.target_critics.members.weights[0],
            "critics": lambda s: s.critics.members.weights[0],
        }
        moved.append({name for name, part in parts.items() if not np.array_equal(part(state), part(after))})
        assert (float(metrics["policy_loss"]) == 0) == ("policy" not in moved[-1])
        state = after
    assert moved == [{"critics"}, set(parts)] * 2
    assert int(state.updates) == 4


def test_td3_s_target_takes_the_smaller_critic_at_a_smoothed_action(make_log: MakeLog) -> None:
    algorithm, state, batch = started(TD3(**SMALL), make_log)
    key = jax.random.key(3)
    action = smoothed(algorithm, state.target_policy(batch.next_observation), key)
    noise = np.asarray(action - state.target_policy(batch.next_observation))
    assert np.abs(noise).max() <= 0.5 + 1e-6
    assert 0.1 < noise.std() < 0.25
    _, metrics = compiled(algorithm)(state, batch, key)
    assert float(metrics["critic_loss"]) == pytest.approx(bellman_error(state, batch, action), rel=1e-5)


def bellman_error(
    state: TD3State, batch: Batch, next_action: jax.Array, penalty: Any = 0.0, scale: float = 1.0
) -> float:
    """TD3's critic loss, written again in NumPy: networks only called."""
    smaller = np.asarray(state.target_critics(batch.next_observation, next_action)).min(axis=0) - np.asarray(
        penalty
    )
    target = scale * np.asarray(batch.reward) + 0.99 * (1 - np.asarray(batch.terminated)) * smaller
    return float(
        ((np.asarray(state.critics(batch.observation, batch.action)) - target) ** 2).mean(axis=1).sum()
    )


# --- TD3+BC ---


def test_td3_bc_s_policy_loss_is_the_paper_s(make_log: MakeLog) -> None:
    algorithm, state, batch = started(TD3BC(**SMALL), make_log)
    data = make_log().observation
    seen = jnp.asarray((np.asarray(batch.observation) - data.mean(axis=0)) / (data.std(axis=0) + 1e-3))
    action = state.learner.policy(seen)
    assert np.allclose(act(algorithm, state, batch.observation), action, atol=1e-5)
    after, metrics = compiled(algorithm)(due(state), batch, jax.random.key(0))
    q = np.asarray(after.learner.critics(seen, action))[0]  # the policy climbs the critics just updated
    expected = ((np.asarray(action) - np.asarray(batch.action)) ** 2).mean() - 2.5 * (
        q / np.abs(q).mean()
    ).mean()
    assert float(metrics["policy_loss"]) / 2 == pytest.approx(
        float(expected), rel=1e-4
    )  # a step every second update counts twice


def test_the_moments_of_observations_do_not_depend_on_where_they_are(tmp_path: Path) -> None:
    observation = np.random.default_rng(0).normal(5, 3, (70_000, 3)).astype(np.float32)
    observation.tofile(tmp_path / "observation")
    mapped = np.memmap(tmp_path / "observation", np.float32, "r", shape=observation.shape)
    one, two = Normaliser.fit(observation), Normaliser.fit(mapped)
    assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True))
    assert np.allclose(one.mean, observation.mean(axis=0, dtype=np.float64), rtol=1e-6)
    assert np.allclose(one.deviation, observation.std(axis=0, dtype=np.float64) + 1e-3, rtol=1e-6)


# --- GPC on TD3 ---


def test_the_count_penalty_on_td3_is_the_paper_s(make_log: MakeLog) -> None:
    """Its OOD loss written again in NumPy: counts by a dictionary, networks only called."""
    algorithm, state, batch = started(
        GPCTD3(**SMALL, bins=3, pessimism=2.0, q_floor=-1e6, ood_next_weight=0.5), make_log, rows=64
    )
    counts: Counter[tuple[int, ...]] = Counter()
    for step in range(3):
        key = jax.random.key(step)
        here_key, there_key = jax.random.split(key)
        here = smoothed(algorithm, state.learner.policy(batch.observation), here_key)
        there = smoothed(algorithm, state.learner.target_policy(batch.next_observation), there_key)
        halves = [
            (batch.observation, here, batch.state_cell),
            (batch.next_observation, there, batch.next_state_cell),
        ]
        cells = [
            [(int(s), *c) for s, c in zip(cell, np.asarray(state.grid.cell(a)).tolist(), strict=True)]
            for _, a, cell in halves
        ]
        for half in cells:
            counts.update(half)
        expected = 0.0
        for (observation, action, _), half, beta in zip(halves, cells, (1.0, 0.1), strict=True):
            u = 2.0 * np.sqrt(np.log(2) / np.array([counts[cell] for cell in half]))
            expected += 0.5 * float(
                ((beta * u) ** 2).mean() * len(state.learner.critics(observation, action))
            )
        state, metrics = compiled(algorithm)(state, batch, key)
        assert float(metrics["loss_ood"]) == pytest.approx(expected, rel=1e-3)
        assert float(metrics["critic_loss"]) == pytest.approx(float(metrics["loss_in"]) + expected, rel=1e-3)
    assert max(counts.values()) > 1


# --- ReBRAC ---


def test_rebrac_s_losses_are_the_paper_s(make_log: MakeLog) -> None:
    """Fails if either penalty is left out, or either weight is used for both."""
    algorithm, state, batch = started(
        ReBRAC(**SMALL, policy_penalty=0.3, critic_penalty=0.7, reward_scale=2.0), make_log
    )
    state, key = due(state), jax.random.key(1)
    next_action = smoothed(algorithm, state.target_policy(batch.next_observation), key)
    strayed = ((np.asarray(next_action) - np.asarray(batch.next_action)) ** 2).sum(axis=1)
    after, metrics = compiled(algorithm)(state, batch, key)
    assert float(metrics["critic_loss"]) == pytest.approx(
        bellman_error(state, batch, next_action, 0.7 * strayed, 2.0), rel=1e-4
    )
    action = state.policy(batch.observation)
    q = np.asarray(after.critics(batch.observation, action)).min(axis=0)
    imitation = ((np.asarray(action) - np.asarray(batch.action)) ** 2).sum(axis=1).mean()
    assert float(metrics["policy_loss"]) / 2 == pytest.approx(
        float(0.3 * imitation - (q / np.abs(q).mean()).mean()), rel=1e-4
    )


def test_the_next_action_is_the_log_s_own_inside_an_episode_and_repeated_at_its_end(
    make_log: MakeLog, tmp_path: Path
) -> None:
    data = make_log(rows=120)  # episodes of 50 rows; the last is cut off
    following = next_actions(data)
    ends = (49, 99, 119)
    inside = np.setdiff1d(np.arange(120), ends)
    assert np.array_equal(following[inside], data.action[inside + 1])
    assert np.array_equal(following[list(ends)], data.action[list(ends)])
    data.action.tofile(tmp_path / "action")
    mapped = np.memmap(tmp_path / "action", np.float32, "r", shape=data.action.shape)
    assert np.array_equal(next_actions(replace(data, action=mapped)), following)


def test_rebrac_takes_its_batch_rates_and_penalties_from_the_paper_s_tables() -> None:
    assert set(papers.REBRAC_PENALTIES) <= set(NAMES)
    hopper = preset_fields("rebrac", "hopper-medium-replay-v2", "paper")
    assert {
        name: hopper[name]
        for name in ("batch_size", "policy_rate", "critic_rate", "policy_penalty", "critic_penalty")
    } == {
        "batch_size": 1024,
        "policy_rate": 1e-3,
        "critic_rate": 1e-3,
        "policy_penalty": 0.05,
        "critic_penalty": 0.5,
    }
    assert "batch_size" not in preset_fields("rebrac", "pen-human-v1", "paper")
    assert preset_fields("rebrac", "antmaze-large-play-v2", "paper")["discount"] == 0.999
    assert preset_fields("rebrac", "maze2d-umaze-dense-v1", "paper")["policy_penalty"] == 0.003


# --- TD3-CVAE ---

CVAE = TD3CVAE(
    **SMALL, cvae_hidden=(16,), cvae_updates=12, cvae_batch_size=8, policy_penalty=3.0, target_penalty=2.0
)


def test_the_reconstruction_error_is_larger_off_the_data_than_on_it() -> None:
    _, state = on_the_bandit("td3-cvae")
    keys = jax.random.split(jax.random.key(0), 9)
    errors = [
        float(bonus(state.cvae, PROBE, jnp.full((64, 1), a), k).mean())
        for a, k in zip(np.linspace(-0.6, 1, 9), keys, strict=True)
    ]
    on, off = errors[:5], errors[6:]  # up to 0.2, and from 0.6 on
    assert min(off) > 4 * max(
        on
    )  # a latent that says nothing gives the distance from the mean action: 2.8 times
    assert errors[-3:] == sorted(errors[-3:])


def test_td3_cvae_s_losses_are_the_paper_s_and_leave_the_autoencoder_alone(make_log: MakeLog) -> None:
    """Fails if the bonus is left out of the target or of the policy's objective, or either weight is used
    for both."""
    algorithm, state, batch = started(CVAE, make_log)
    state, key = due(state), jax.random.key(1)
    action_key, target_key, policy_key = jax.random.split(key, 3)
    next_action = smoothed(algorithm, state.learner.target_policy(batch.next_observation), action_key)
    decoded, _, _ = state.cvae(batch.next_observation, next_action, target_key)
    penalty = 2.0 * ((np.asarray(decoded) - np.asarray(next_action)) ** 2).sum(axis=1)
    reward = make_log().reward
    scale = 1 / float(reward.max() - reward.min())
    after, metrics = compiled(algorithm)(state, batch, key)
    assert float(metrics["critic_loss"]) == pytest.approx(
        bellman_error(state.learner, batch, next_action, penalty, scale), rel=1e-4
    )
    action = state.learner.policy(batch.observation)
    decoded, _, _ = state.cvae(batch.observation, action, policy_key)
    q = np.asarray(after.learner.critics(batch.observation, action))[0]
    expected = (3.0 * ((np.asarray(decoded) - np.asarray(action)) ** 2).sum(axis=1) - q).mean()
    assert float(metrics["policy_loss"]) / 2 == pytest.approx(float(expected), rel=1e-3)
    assert all(
        np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(state.cvae), jax.tree.leaves(after.cvae), strict=True)
    )


def test_pretraining_reports_after_every_block_and_its_state_is_known_without_making_one(
    make_log: MakeLog,
) -> None:
    prepared = replace(CVAE, cvae_updates=2500).prepare(make_log())
    reports: list[tuple[str, int, int]] = []
    state = prepared.algorithm.init(jax.random.key(0), prepared.rows, lambda *report: reports.append(report))
    assert reports == [("autoencoder of actions", done, 2500) for done in (1000, 2000, 2500)]
    template = jax.eval_shape(lambda key: prepared.algorithm.init(key, prepared.rows), jax.random.key(0))
    restored = unflatten(template, flatten(state), Path("checkpoint"))
    assert all(
        np.array_equal(a, b) for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(restored), strict=True)
    )


def test_pretraining_from_disk_gives_the_same_bits_as_from_memory(make_log: MakeLog, tmp_path: Path) -> None:
    prepared = CVAE.prepare(make_log())
    columns = {name: np.asarray(getattr(prepared.rows, name)) for name in ("observation", "action", "reward")}
    for name, column in columns.items():
        column.tofile(tmp_path / name)
    mapped: dict[str, Any] = {
        name: np.memmap(tmp_path / name, np.float32, "r", shape=c.shape) for name, c in columns.items()
    }
    on_disk = prepared.rows._replace(**mapped)
    one, two = (prepared.algorithm.init(jax.random.key(0), rows) for rows in (prepared.rows, on_disk))
    assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True))
    template = jax.eval_shape(lambda key: prepared.algorithm.init(key, on_disk), jax.random.key(0))
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), template) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), one
    )
