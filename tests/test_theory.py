"""What the paper proves, on problems whose truth is known; and where its text does not hold, that it does
not."""

import importlib
import itertools
import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import gridcount.commands.theory as commands
from gridcount import GridCounter
from gridcount.cli import main
from gridcount.counts.grid import StateCells
from gridcount.losses import count_uncertainty
from gridcount.theory import codes, linear_mdp, tabular
from gridcount.theory.bonus import count_bonus
from gridcount.theory.codes import Space

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "theory.json"


# --- a table: u is the LCB bonus ---


@pytest.mark.parametrize("rows", [20, 4000], ids=["with pairs the log does not hold", "with all pairs"])
def test_in_a_table_u_is_the_lcb_bonus_of_one_hot_features_with_ridge_one(rows: int) -> None:
    found = tabular.equality(seed=1, rows=rows)
    assert (found["unseen_pairs"] > 0) == (rows == 20)
    assert found["largest_relative_difference"] < 1e-6
    assert 1 < found["largest_ratio_without_ridge"] <= np.sqrt(2) + 1e-6


def test_the_lemma_s_own_features_cancel_the_logarithm_they_were_to_bring_in() -> None:
    for row in tabular.printed_features(ridge=1.0):
        n, log_epoch = row["count"], np.log(row["epoch"])
        assert row["definition"] == pytest.approx(1 / np.sqrt(n + 1 / np.sqrt(log_epoch)))
        assert row["definition"] <= 1 / np.sqrt(n)  # whatever T is
        assert row["statement"] == pytest.approx(
            row["last_line"] * np.sqrt(log_epoch)
        )  # equal at ln T = 1 only


def test_in_a_table_u_covers_as_often_as_hoeffding_promises() -> None:
    rows = tabular.coverage(seed=2, logs=400)
    assert [row["promise"] for row in rows if row["epoch"] in (2, 10)] == [0.5, 0.98]
    for row in rows:
        assert row["fixed_worst_pair"] >= row["promise"] - 1e-12
        assert row["fixed_mean"] >= row["promise"]


def test_the_first_epoch_of_the_text_covers_nothing_and_ours_does() -> None:
    first = tabular.coverage(seed=2, logs=50)[0]
    assert first["epoch"] == 1
    assert first["fixed_mean"] < 0.01
    assert count_bonus(7, np.log(1)) == 0
    assert float(count_uncertainty(jnp.array(7.0), jnp.array(1), 1.0)) == pytest.approx(
        float(count_bonus(7, np.log(2)))
    )


def test_counting_the_policy_s_visits_loses_the_coverage_that_counting_the_log_has() -> None:
    rows = tabular.training_counts(seed=3, logs=60)
    data, policy = ([row[f"{name}_coverage"] for row in rows] for name in ("data", "policy"))
    assert min(data) > 0.9
    assert max(policy) < 0.5
    assert policy[-1] < 0.1
    assert all(before < after for before, after in itertools.pairwise(row["data_bonus"] for row in rows))
    assert all(before > after for before, after in itertools.pairwise(row["policy_bonus"] for row in rows))


# --- a continuous linear MDP: Theorem 1 ---


@pytest.fixture(scope="module")
def mdp() -> linear_mdp.LinearMDP:
    return linear_mdp.make_mdp(np.random.default_rng(0))


@pytest.fixture(scope="module")
def refined() -> dict[str, Any]:
    return linear_mdp.refine(seed=5, rows=(500, 4000), bins=(1, 4, 16, 64), logs=24)


def cell(refined: dict[str, Any], rows: int, bins: int) -> dict[str, Any]:
    return next(row for row in refined["grids"] if (row["rows"], row["bins"]) == (rows, bins))


def test_the_mdp_is_linear_with_probabilities_as_features() -> None:
    phi = linear_mdp.features(*linear_mdp.lattice())
    assert phi.min() >= 0
    assert phi.sum(axis=1) == pytest.approx(1)
    assert np.linalg.matrix_rank(phi) == linear_mdp.SIZE**2
    assert linear_mdp.feature_slope() == pytest.approx(3 * np.sqrt(3), rel=1e-4)  # at a corner, by hand


def test_the_closed_form_of_the_bellman_operator_agrees_with_quadrature(mdp: linear_mdp.LinearMDP) -> None:
    x = (np.arange(200_000) + 0.5) / 200_000
    s, a = np.array([0.1, 0.5, 0.93]), np.array([0.7, 0.2, 0.99])
    expected = []
    for first, second in zip(mdp.first, mdp.second, strict=True):
        density = x ** (first - 1) * (1 - x) ** (second - 1)
        expected.append(float((density * mdp.value(x)).sum() / density.sum()))
    phi = linear_mdp.features(s, a)
    assert phi @ mdp.weights == pytest.approx(phi @ (mdp.theta + mdp.discount * np.array(expected)), abs=1e-3)


def test_drawn_targets_have_the_bellman_operator_as_their_mean(mdp: linear_mdp.LinearMDP) -> None:
    log = linear_mdp.draw_log(mdp, 100_000, np.random.default_rng(1))
    phi = linear_mdp.features(
        log.observation[:, 0].astype(np.float64), (log.action[:, 0].astype(np.float64) + 1) / 2
    )
    noise = (
        log.reward
        + mdp.discount * mdp.value(log.next_observation[:, 0].astype(np.float64))
        - phi @ mdp.weights
    )
    assert np.abs(noise).max() <= mdp.target_range() + 1e-6
    moment = phi * noise[:, None]  # no feature may explain what is left
    assert (np.abs(moment.mean(axis=0)) <= 4.5 * moment.std(axis=0) / np.sqrt(len(log))).all()


@pytest.mark.parametrize("bins", [1, 5, 40])
def test_the_check_counts_as_the_project_counts(mdp: linear_mdp.LinearMDP, bins: int) -> None:
    log = linear_mdp.draw_log(mdp, 700, np.random.default_rng(2))
    state, action = linear_mdp.lattice()
    counter = GridCounter.fit(log, bins=bins)
    ours = counter.count(state[:, None], (2 * action - 1)[:, None])
    assert linear_mdp.locate(log, state, action, bins).visits().tolist() == ours.tolist()


def test_the_lcb_bonus_is_at_most_a_cell_s_count_bonus_and_an_epsilon(refined: dict[str, Any]) -> None:
    """The proposition of docs/theory.md: for every log, grid and point, without exception."""
    assert max(row["excess"] for row in refined["grids"]) <= 0


def test_without_epsilon_the_lcb_bonus_exceeds_the_count_bonus_on_coarse_grids_only(
    refined: dict[str, Any],
) -> None:
    for rows in (500, 4000):
        assert cell(refined, rows, 1)["gamma_over_u"] > 2
        assert cell(refined, rows, 16)["gamma_over_u"] <= 1
        assert cell(refined, rows, 64)["gamma_over_u"] <= 1


def test_lemma_2_covers_every_point_at_once(refined: dict[str, Any]) -> None:
    for row in refined["lemma"]:
        assert row["logs_covered_everywhere"] >= 1 - linear_mdp.FAILURE
        assert row["smallest_scale"] <= row["scale"]


def test_theorem_1_a_c_found_once_still_covers_as_the_grid_is_refined(refined: dict[str, Any]) -> None:
    for row in refined["grids"]:
        if row["bins"] > 1:
            assert row["linear"]["fixed_c_coverage"] >= 1 - linear_mdp.FAILURE, row
            assert row["linear"]["fixed_c_worst_point"] >= 1 - linear_mdp.FAILURE, row
        assert row["theory_coverage"] >= 1 - linear_mdp.FAILURE
        assert row["linear"]["held_out"] == pytest.approx(
            1 - linear_mdp.FAILURE, abs=0.08
        )  # 12 logs judge what 12 others gave


def test_the_smallest_c_depends_on_the_grid(refined: dict[str, Any]) -> None:
    """c n' = n and c u' = u: n' is n times a cell's volume, so the smallest c falls like 1 / sqrt(cells)
    while cells hold rows."""
    c = {bins: cell(refined, 4000, bins)["linear"]["smallest_c"] for bins in (1, 4, 16)}
    assert c[4] / c[1] == pytest.approx(2 / 5, rel=0.35)
    assert c[16] / c[1] == pytest.approx(2 / 17, rel=0.35)


def test_refining_at_a_fixed_log_empties_the_cells_and_stops_following_the_error(
    refined: dict[str, Any],
) -> None:
    follows = {bins: cell(refined, 500, bins)["rank_correlation"] for bins in (1, 4, 16, 64)}
    assert cell(refined, 500, 64)["empty"] > 0.85
    assert follows[4] > follows[1] + 0.1
    assert follows[64] < max(follows.values())
    assert max(row["rank_correlation"] for row in refined["grids"]) < 0.99  # u is never Gamma, nor the error


def test_with_the_cell_s_average_no_c_serves_all_sizes_of_log(refined: dict[str, Any]) -> None:
    small, large = cell(refined, 500, 1)["cells"], cell(refined, 4000, 1)["cells"]
    assert large["smallest_c"] / small["smallest_c"] == pytest.approx(np.sqrt(8), rel=0.1)
    assert large["fixed_c_coverage"] < 0.7


# --- codes ---


def every_cell(space: Space, low: int = 0, high: int | None = None) -> np.ndarray:
    states = [range(space.bins + 1)] * space.states
    actions = [range(low, (space.bins if high is None else high) + 1)] * space.actions
    return np.array(list(itertools.product(*states, *actions)))


def test_the_appendix_example_is_not_true_of_eq_3_and_is_of_another_code() -> None:
    found = codes.appendix()
    assert found["printed"] == [2, 0, 2]  # v(0, 1) is not v(1, -1), it is v(1, 0)
    assert found["obeyed"] == [1, 1, 2]
    assert found["square_codes_printed"] == 5  # of nine: v = 2 (s + a)
    assert found["square_codes_meant"] == 9
    assert found["wide_codes_meant"] < found["wide_cells"]
    assert found["wide_misread_by_ours"] == 0


@pytest.mark.parametrize("space", [Space(2, 2, 3), Space(1, 2, 4), Space(3, 1, 2)])
def test_eq_3_as_printed_gives_the_last_state_and_the_first_action_one_weight(space: Space) -> None:
    weights = codes.printed_weights(space)
    assert weights[space.states - 1] == weights[space.states]
    cells = every_cell(space)
    last, first = cells[:, space.states - 1], cells[:, space.states]
    exchanged = ((last < space.bins) & (first > 0)) | ((last > 0) & (first < space.bins))
    assert exchanged.mean() == pytest.approx(codes.printed_partner_share(space))
    assert codes.linear_partnered(cells, space, weights, outside=False) >= codes.printed_partner_share(space)
    assert codes.sharing(codes.as_printed(cells, space))[0] >= codes.printed_partner_share(space)


def test_eq_3_as_printed_only_counts_ones_where_there_is_one_partition() -> None:
    space = Space(6, 4, 1)
    cells = every_cell(space)
    assert codes.as_printed(cells, space) == (2 * cells.sum(axis=1)).tolist()
    number = len(cells)
    distinct_pairs = (number**2 * codes.equal_ones_probability(10) - number) / (number * (number - 1))
    assert codes.sharing(codes.as_printed(cells, space))[1] == pytest.approx(distinct_pairs)


@pytest.mark.parametrize("space", [Space(2, 2, 3), Space(1, 3, 2)])
def test_eq_3_as_meant_is_injective_in_range_and_collides_by_carries_beyond_it(space: Space) -> None:
    inside = every_cell(space)
    assert len(set(codes.as_meant(inside, space))) == len(inside)
    wide = every_cell(space, -space.bins, 2 * space.bins)
    assert codes.sharing(codes.as_meant(wide, space))[0] > 0.5
    plane = Space(1, 1, 2)
    cells = every_cell(plane, -2, 4)
    code = np.array(codes.as_meant(cells, plane))
    step = cells[:, None] - cells[None]
    carried = step[..., 1] == -(plane.bins + 1) * step[..., 0]
    assert ((code[:, None] == code[None]) == carried).all()  # exactly there


def test_the_mod_of_eq_2_folds_the_data_s_own_range_unless_m_exceeds_the_partitions() -> None:
    cells = np.arange(16)  # 15 partitions
    assert len(set(codes.fold(cells, 16).tolist())) == 16
    assert codes.fold(15, 15) == codes.fold(0, 15)  # m = alpha: the last cell is the first
    assert codes.fold(-4, 6) == 2  # the appendix's m = 6: an action far below becomes one of the data's


@pytest.mark.parametrize("task", list(codes.SPACES))
def test_the_published_code_sees_about_24_bits_of_leading_dimensions(task: str) -> None:
    found = codes.blur(seed=1, number=1000)[task]
    kept = found["predicted"]
    assert all(share == 0 for share in found["unseen"][: kept - 1])
    assert all(share > 0.5 for share in found["unseen"][kept + 1 :])
    space = codes.SPACES[task]
    corners = np.array([np.zeros(space.states), np.full(space.states, space.bins)], np.float32)
    assert len(StateCells.fit(corners, bins=space.bins, resolution="leading")[0].kept) == kept


@pytest.mark.parametrize("task", ["hopper", "door"])
@pytest.mark.parametrize("outside", [False, True], ids=["in range", "beyond"])
def test_our_tables_share_no_count_where_the_printed_code_shares_nearly_all(task: str, outside: bool) -> None:
    rng, space = np.random.default_rng(4), codes.SPACES[task]
    cells = codes.random_cells(space, 300, rng, outside)
    assert codes.linear_partnered(cells, space, codes.printed_weights(space), outside) > 0.95
    assert codes.linear_partnered(cells, space, codes.place_weights(space), outside) == float(outside)
    found = codes.misread(cells, space, outside, rng)
    assert found["ours_strangers"] > 500
    assert found["ours"] == found["ours_near"] == 0


def test_short_fingerprints_are_mistaken_as_often_as_stated() -> None:
    for row in codes.fingerprints(bits=(8, 10), strangers=300_000):
        assert row["measured"] == pytest.approx(row["predicted"], rel=0.15)


# --- the command and the page ---


def test_the_command_prints_tables_and_writes_the_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = json.loads(RESULTS.read_text())
    monkeypatch.setattr(commands, "run_checks", lambda report, seed: kept)
    assert main(["theory", "--out", str(tmp_path)]) == 0
    assert json.loads((tmp_path / "theory.json").read_text()) == kept
    assert sorted(path.name for path in tmp_path.glob("*.png")) == [
        "theory-codes.png",
        "theory-linear.png",
        "theory-tabular.png",
    ]
    printed = capsys.readouterr().out
    for part in ("walker2d", "32,000", "one-hot"):
        assert part in printed


def test_the_page_shows_what_the_results_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    theory_tables = importlib.import_module("rendering.theory").theory_tables
    page = (ROOT / "docs" / "theory.md").read_text()
    for marker, text in theory_tables().items():
        assert f"-->\n{text}\n<!-- /{marker} -->" in page, marker


def test_the_kept_results_hold_the_page_s_claims() -> None:
    kept = json.loads(RESULTS.read_text())
    failure = kept["linear"]["failure"]
    assert failure == linear_mdp.FAILURE
    for row in kept["linear"]["grids"]:
        assert row["excess"] <= 0
        assert row["gamma_rank_correlation"] < 1
        if row["bins"] > 1:
            assert row["linear"]["fixed_c_coverage"] >= 1 - failure
            assert row["linear"]["fixed_c_worst_point"] >= 1 - failure
    coarsest = [row["linear"]["fixed_c_worst_point"] for row in kept["linear"]["grids"] if row["bins"] == 1]
    assert sorted(coarsest, reverse=True) == coarsest  # it loses coverage as the log grows
    assert coarsest[-1] < 1 - failure
    for row in kept["codes"]["collisions"]:
        assert row["ours"] == row["ours_near"] == 0
    assert all(
        row["fixed_worst_pair"] >= row["promise"] - 1e-12
        for row in kept["tabular"]["coverage"]
        if row["epoch"] < 100
    )
