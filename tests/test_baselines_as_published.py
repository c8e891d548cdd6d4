"""Baselines as the code does them that they are compared with: thresholds, weights and penalties, and the
presets that have them."""

import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import MakeLog
from problems import SMALL

from gridcount.algorithms import make_algorithm
from gridcount.algorithms.cql import CQL, threshold
from gridcount.algorithms.td3_cvae import TD3CVAE
from gridcount.algorithms.uwac import UWAC
from gridcount.losses import conservative_gap, weighted_bellman_loss
from gridcount.training.plan import settings


def start(algorithm: Any, make_log: MakeLog) -> tuple[Any, Any, Any]:
    prepared = algorithm.prepare(make_log())
    batch = jax.tree.map(lambda column: jnp.asarray(column[:32]), prepared.rows)
    return prepared.algorithm, prepared.algorithm.init(jax.random.key(0), prepared.rows), batch


# --- CQL: a threshold for ten sampled actions of a kind ---


def test_fewer_samples_lower_the_gap_by_the_logarithm_of_their_ratio() -> None:
    rng = np.random.default_rng(0)
    q, density = rng.normal(size=(1, 30, 20_000)), rng.normal(size=(30, 20_000)) * 0.3
    data = np.zeros((1, 20_000))
    ten = float(conservative_gap(jnp.asarray(q), jnp.asarray(density), jnp.asarray(data))[0])
    four = float(conservative_gap(jnp.asarray(q[:, :12]), jnp.asarray(density[:12]), jnp.asarray(data))[0])
    assert ten - four == pytest.approx(math.log(30 / 12), abs=0.1)


def test_the_threshold_follows_the_number_of_samples_in_loss_and_multiplier(make_log: MakeLog) -> None:
    """Fails where either of the two uses of the threshold forgets to."""
    fields: dict[str, Any] = {**SMALL, "conservatism": 10.0, "sampled_actions": 4, "scale_threshold": True}
    gap = float(
        jax.jit(start(CQL(**fields), make_log)[0].update)(
            *start(CQL(**fields), make_log)[1:], jax.random.key(0)
        )[1]["gap"]
    )
    middle = 10 * gap + 5 * math.log(
        10 / 4
    )  # above the gap by half of the shift: only the scaled threshold lies below it
    algorithm, state, batch = start(CQL(**fields, lagrange_threshold=middle), make_log)
    assert threshold(algorithm) == pytest.approx(middle - 10 * math.log(10 / 4))
    after, metrics = jax.jit(algorithm.update)(state, batch, jax.random.key(0))
    assert float(after.log_multiplier) > 0
    held = 2 * (10 * float(metrics["gap"]) - threshold(algorithm))
    assert float(metrics["critic_loss"]) == pytest.approx(float(metrics["loss_in"]) + held, rel=1e-3)
    as_measured, _ = jax.jit(replace(algorithm, scale_threshold=False).update)(
        state, batch, jax.random.key(0)
    )
    assert float(as_measured.log_multiplier) < 0


def test_ten_samples_of_a_kind_need_no_shift_and_no_threshold_stays_none() -> None:
    assert threshold(make_algorithm("cql", "maze2d-umaze-v1", "paper")) == 50
    assert threshold(make_algorithm("cql", "maze2d-umaze-v1", "fast")) == pytest.approx(
        50 - 10 * math.log(10 / 4)
    )
    assert threshold(CQL(scale_threshold=True, sampled_actions=2)) == 0


# --- UWAC: the weights of the authors' code ---


def test_the_authors_code_weighs_errors_before_they_are_squared(make_log: MakeLog) -> None:
    """Fails where the weight is not squared, or the policy's is."""
    lean: dict[str, Any] = {
        "hidden": (16,),
        "behaviour_hidden": (16,),
        "passes": 4,
        "next_actions": 2,
        "warmup_updates": 0,
    }
    ways: dict[str, Any] = {
        "weighting": "exponential",
        "weight_limit": 1.0,
        "weight_scale": 5.0,
        "dropout": 0.3,
    }
    authors, state, batch = start(UWAC(**lean, **ways, weight_errors=True), make_log)
    key = jax.random.key(1)
    _, squared = jax.jit(authors.update)(state, batch, key)
    _, plain = jax.jit(replace(authors, weight_errors=False).update)(state, batch, key)
    assert 0 < float(plain["weight"]) < 1
    assert float(squared["critic_loss"]) < 0.9 * float(plain["critic_loss"])
    assert float(squared["policy_loss"]) == pytest.approx(float(plain["policy_loss"]), rel=1e-5)
    q, target, weight = jnp.array([[3.0, 1.0]]), jnp.array([1.0, 0.0]), jnp.array([0.5, 1.0])
    assert float(weighted_bellman_loss(q, target, weight**2)) == pytest.approx(((0.5 * 2) ** 2 + 1) / 2)


def test_the_paper_preset_of_uwac_is_the_authors_code() -> None:
    paper = make_algorithm("uwac", "hopper-medium-v2", "paper")
    assert (paper.weighting, paper.weight_limit, paper.weight_scale, paper.weight_errors) == (
        "exponential",
        1.0,
        0.5,
        True,
    )
    assert "weight_errors" not in settings(make_algorithm("uwac", "maze2d-umaze-v1", "fast"))


# --- TD3-CVAE: the weight of the research code ---


def test_the_bonus_is_divided_by_the_square_of_the_dimensions_in_target_and_policy(make_log: MakeLog) -> None:
    """Fails where either use of the bonus forgets to: with two dimensions a weight of 4 is then a weight
    of 1."""
    fields: dict[str, Any] = {**SMALL, "cvae_hidden": (16,), "cvae_updates": 5}
    research, state, batch = start(
        TD3CVAE(**fields, average_bonus=True, target_penalty=4.0, policy_penalty=4.0), make_log
    )
    plain = replace(research, average_bonus=False, target_penalty=1.0, policy_penalty=1.0)
    state = state._replace(
        learner=state.learner._replace(updates=jnp.asarray(research.policy_every - 1))
    )  # the policy's turn
    found, expected = (jax.jit(each.update)(state, batch, jax.random.key(1))[1] for each in (research, plain))
    assert float(found["critic_loss"]) == pytest.approx(float(expected["critic_loss"]), rel=1e-5)
    assert float(found["policy_loss"]) == pytest.approx(float(expected["policy_loss"]), rel=1e-5)
    assert float(found["policy_loss"]) != 0
    assert float(found["next_bonus"]) == pytest.approx(float(expected["next_bonus"]) / 4, rel=1e-5)


@pytest.mark.parametrize("preset", ["paper", "fast"])
@pytest.mark.parametrize("dataset", ["maze2d-umaze-v1", "hopper-medium-v2", "mine"])
def test_presets_have_the_research_code_s_weight(dataset: str, preset: str) -> None:
    algorithm = make_algorithm("td3-cvae", dataset, preset)
    assert (algorithm.target_penalty, algorithm.policy_penalty, algorithm.average_bonus) == (1.0, 1.0, True)
