"""BC, IQL and UWAC: what each learns where the answer is known, and that its distinguishing term is what brings it about."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import MakeLog
from problems import EDGE, PROBE, bandit, learn

from gridcount.algorithms.bc import BC

FIELDS: dict[str, Any] = {"hidden": (32, 32), "batch_size": 64, "policy_rate": 1e-3}


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
