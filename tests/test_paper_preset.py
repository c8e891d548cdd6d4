"""`--preset paper` is the paper's own code where that differs from the fast preset: floor, initialisation,
counting of states."""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import MakeLog

from gridcount.algorithms import make_algorithm
from gridcount.algorithms.gpc import count, init_counts, prepare_counts
from gridcount.algorithms.gpc_sac import GPCSAC
from gridcount.algorithms.sac import SAC, init_networks
from gridcount.benchmark.suites import read_suite
from gridcount.catalogue import NAMES
from gridcount.networks import MLP, TanhGaussian
from gridcount.training.plan import settings


@pytest.mark.parametrize("dataset", [*NAMES, "a log of mine"])
@pytest.mark.parametrize("name", ["gpc-sac", "gpc-td3", "pbrl"])
def test_the_paper_preset_has_the_paper_s_floor_on_every_dataset(name: str, dataset: str) -> None:
    assert make_algorithm(name, dataset, "paper").q_floor == 0


def test_the_floor_stays_0_where_rewards_are_negative_and_the_fast_preset_s_follows_them(
    make_log: MakeLog,
) -> None:
    data = make_log()
    data.reward[:] -= 2
    paper = make_algorithm("gpc-sac", "walker2d-medium-v2", "paper").prepare(data).algorithm
    fast = make_algorithm("gpc-sac", "walker2d-medium-v2", "fast").prepare(data).algorithm
    assert paper.q_floor == 0
    assert fast.q_floor == pytest.approx(float(data.reward.min()) / 0.01)
    suite = read_suite("ablation-floor")
    assert {cell.plan.fields["q_floor"] for cell in suite.cells()} == {0.0, "auto"}


def test_the_published_initialisation_is_that_of_the_authors_code() -> None:
    """Bounds of hidden weights by the layer's outputs, biases of 0.1, and a last layer within its own
    small bound."""
    network = MLP((5, 400, 100, 2), jax.random.key(0), last_scale=1e-3, initialisation="published")
    for weight, outputs in zip(network.weights[:-1], (400, 100), strict=True):
        assert float(jnp.abs(weight).max()) == pytest.approx(outputs**-0.5, rel=0.01)
    assert [float(bias.min()) for bias in network.biases[:-1]] == pytest.approx([0.1, 0.1])
    assert [float(bias.max()) for bias in network.biases[:-1]] == pytest.approx([0.1, 0.1])
    assert float(jnp.abs(network.weights[-1]).max()) == pytest.approx(1e-3, rel=0.05)
    assert 0 < float(jnp.abs(network.biases[-1]).max()) <= 1e-3
    usual = MLP((5, 400, 100, 2), jax.random.key(0))
    for weight, inputs in zip(usual.weights[:-1], (5, 400), strict=True):
        assert float(jnp.abs(weight).max()) == pytest.approx(inputs**-0.5, rel=0.01)
    assert max(float(jnp.abs(bias).max()) for bias in usual.biases) == 0


def test_targets_are_a_draw_of_their_own_only_where_the_published_code_is_followed() -> None:
    for start, same in (("fan-in", True), ("published", False)):
        state = init_networks(SAC(hidden=(8, 8), initialisation=start), jax.random.key(0), 3, 2)  # type: ignore[arg-type]
        pairs = zip(state.critics.members.weights, state.target_critics.members.weights, strict=True)
        assert all(bool((one == other).all()) == same for one, other in pairs)


def test_the_policy_s_deviation_stays_above_the_published_bound() -> None:
    observation = jnp.zeros((4, 3))
    for low in (-5.0, -20.0):
        policy = TanhGaussian(3, 1, (8,), jax.random.key(0), log_std_low=low)
        sure = policy.trunk.biases[-1].at[1].set(-30.0)
        policy = jax.tree.map(
            lambda leaf, sure=sure, own=policy.trunk.biases[-1]: sure if leaf is own else leaf, policy
        )
        spread = policy.raw(observation, jax.random.key(1), 2000).std()
        assert float(spread) == pytest.approx(np.exp(low), rel=0.1)


def test_the_paper_preset_turns_them_on_and_the_fast_one_does_not_know_of_them() -> None:
    paper = make_algorithm("gpc-sac", "hopper-medium-v2", "paper")
    assert (paper.initialisation, paper.log_std_low, paper.state_resolution) == ("published", -5.0, "rounded")
    for dataset in ("maze2d-umaze-v1", "hopper-medium-v2", "mine"):
        recorded = settings(make_algorithm("gpc-sac", dataset, "fast"))
        assert "initialisation" not in recorded
        assert "log_std_low" not in recorded


class Drawn(NamedTuple):
    action: Any
    next_action: Any


def test_a_batch_is_counted_as_a_whole_before_it_is_read_where_the_published_code_counts_s_first(
    make_log: MakeLog,
) -> None:
    """Where a cell repeats in a batch ours is the larger count: at s of what s' adds, and of a pair that
    stands there twice."""
    data = make_log(rows=4, observation_dim=1, action_dim=1)
    data.observation[:] = [[0.0], [0.0], [1.0], [1.0]]
    data.next_observation[:] = [[0.0], [1.0], [1.0], [0.0]]
    prepared = prepare_counts(GPCSAC(bins=2, pessimism=1.0, q_floor=0.0), data)
    learner = init_networks(replace(prepared.algorithm, hidden=(4,)), jax.random.key(0), 1, 1)
    state = init_counts(prepared.algorithm, learner, prepared.rows)
    batch = jax.tree.map(jnp.asarray, prepared.rows)
    action = jnp.zeros((4, 1))
    _, found = count(prepared.algorithm, state, batch, Drawn(action, action))
    assert found.visits.tolist() == [4] * 8  # each cell four times: twice as s, twice as s'

    published: dict[int, int] = {}
    read = []
    for cells in (prepared.rows.state_cell, prepared.rows.next_state_cell):  # s first, then s'
        published |= {
            cell: published.get(cell, 0) + 1 for cell in cells.tolist()
        }  # a pair that stands twice counts once
        read += [published[cell] for cell in cells.tolist()]
    assert read == [1, 1, 1, 1, 2, 2, 2, 2]
