"""The appendix's other statements: what holds of them, and the counterexamples where they fail as written."""

import json
from pathlib import Path

import numpy as np
import pytest

from gridcount.theory import guarantees
from gridcount.theory.tabular import random_mdp

RESULTS = Path(__file__).parent.parent / "results" / "theory.json"


def test_soft_values_solve_their_own_equation() -> None:
    rng = np.random.default_rng(0)
    mdp = random_mdp(rng)
    policy = rng.dirichlet(np.ones(3), 10)
    bonus = rng.random(mdp.reward.shape)
    q = guarantees.soft_values(mdp, policy, bonus)
    value = (policy * (q - np.log(policy))).sum(axis=1)
    np.testing.assert_allclose(q, mdp.reward - bonus + mdp.discount * mdp.transition @ value, rtol=1e-10)


def test_the_new_policy_is_the_nearest_to_the_exponential_of_q() -> None:
    rng = np.random.default_rng(0)
    q = rng.normal(size=(4, 3))
    new = guarantees.improved(q)
    np.testing.assert_allclose(new.sum(axis=1), 1)
    least = (new * (np.log(new) - q)).sum(axis=1)
    for other in rng.dirichlet(np.ones(3), (50, 4)):
        assert (least <= (other * (np.log(other) - q)).sum(axis=1) + 1e-12).all()


def test_policies_improve_everywhere_only_while_u_does_not_grow() -> None:
    """Theorem A.3, and its counterexample: an epoch later, where only the policy's own actions were
    counted."""
    stays, falls, rises = guarantees.improvement(seed=1, problems=40)
    assert stays["smallest_gain"] > -1e-9
    assert falls["smallest_gain"] > 0
    assert stays["pairs_worse"] == falls["pairs_worse"] == 0
    assert rises["smallest_gain"] < -1e-3
    assert rises["pairs_worse"] > 0.1


def test_the_bonus_of_smooth_features_is_continuous_and_that_of_cells_is_not() -> None:
    rows = guarantees.continuity(seed=1)
    for row in rows:
        assert row["smooth"] <= row["smooth_bound"]
    assert rows[-1]["smooth"] < 1e-3
    assert rows[-2]["cells"] > 0.1  # a step of a thousandth
    assert rows[-1]["smooth_bound"] / rows[0]["smooth_bound"] == pytest.approx(
        rows[-1]["step"] / rows[0]["step"]
    )


def test_gamma_is_a_posterior_variance_for_the_prior_that_the_ridge_means_and_not_as_printed() -> None:
    for row in guarantees.variance(seed=1):
        assert row["meant_least"] == pytest.approx(1)
        assert row["meant_most"] == pytest.approx(1)
        ends = sorted((1.0, row["ridge"] ** 2))
        assert ends[0] - 1e-9 <= row["printed_least"] <= row["printed_most"] <= ends[1] + 1e-9
        assert (row["printed_least"] == pytest.approx(1)) == (row["ridge"] == 1)
        assert row["estimate"] < 1


def test_collisions_are_rarer_than_epsilon_only_above_some_epsilon_or_for_actions_with_a_bound() -> None:
    rows = guarantees.selection(seed=1)
    fails = [row["fails_below"] for row in rows]
    assert sorted(fails, reverse=True) == fails  # a larger base helps
    assert fails[-1] > 0  # and never all the way
    for row in rows:
        if row["base"] > row["span"]:
            assert row["fails_below_cut_off"] == 0
    assert rows[0]["fails_below_cut_off"] > 0.001


def test_the_kept_results_hold_the_page_s_claims_of_the_appendix() -> None:
    kept = json.loads(RESULTS.read_text())["guarantees"]
    assert [row["pairs_worse"] > 0 for row in kept["improvement"]] == [False, False, True]
    assert kept["continuity"][-1]["cells"] > 0.1
    assert all(row["meant_most"] == pytest.approx(1) for row in kept["variance"])
    assert all(row["fails_below"] > 0 for row in kept["selection"])
