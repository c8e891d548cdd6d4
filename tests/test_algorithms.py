"""Every algorithm keeps the contract; GPC-SAC's loss is the paper's, term by term."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import MakeLog
from problems import PROBE, SMALL, bandit, chain, learn, overestimate, small

from gridcount.algorithms import ALGORITHMS, make_algorithm
from gridcount.algorithms.blocks import make_block
from gridcount.algorithms.contract import Prepared, act
from gridcount.algorithms.gpc_sac import GPCSAC
from gridcount.algorithms.sac import SAC, draw_actions
from gridcount.catalogue import ADROIT_NAMES, GYM_NAMES, NAMES
from gridcount.counts.tables import SparseTable
from gridcount.paper import PAPER
from gridcount.transitions import Batch, Transitions


def start(algorithm: Any, data: Transitions, seed: int = 0) -> tuple[Prepared, Any, Batch]:
    """A prepared algorithm, a fresh state and its first batch."""
    prepared = algorithm.prepare(data)
    state = prepared.algorithm.init(jax.random.key(seed), prepared.rows)
    return prepared, state, jax.tree.map(lambda column: jnp.asarray(column[:32]), prepared.rows)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_updates_keep_the_shape_of_the_state_and_repeat_to_the_same_bits(
    name: str, make_log: MakeLog
) -> None:
    prepared, state, _ = start(small(name), make_log())
    rows = jax.tree.map(jnp.asarray, prepared.rows)
    block = jax.jit(make_block(prepared.algorithm, 5), donate_argnums=0)

    def after(seed: int) -> Any:
        return block(jax.tree.map(jnp.copy, state), rows, jax.random.key(seed), jnp.asarray(0, jnp.int32))

    (one, metrics), (again, _), (other, _) = after(1), after(1), after(2)
    assert str(jax.tree.structure(one)) == str(jax.tree.structure(state))
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), one) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), state
    )
    assert all(
        np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(again), strict=True)
    )
    assert not all(
        np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    )
    assert all(np.isfinite(value) and value.shape == () for value in metrics.values())


@pytest.mark.parametrize("name", ["bc", "iql"])
def test_an_update_that_draws_nothing_is_a_function_of_its_batch(name: str, make_log: MakeLog) -> None:
    prepared, state, batch = start(small(name), make_log())
    update = jax.jit(prepared.algorithm.update)
    (one, _), (other, _) = update(state, batch, jax.random.key(1)), update(state, batch, jax.random.key(2))
    assert all(
        np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    )


@pytest.mark.parametrize("name", ALGORITHMS)
def test_actions_stay_in_range_for_any_observation(name: str, make_log: MakeLog) -> None:
    prepared, state, _ = start(small(name), make_log())
    actions = act(
        prepared.algorithm,
        state,
        jnp.asarray(np.random.default_rng(0).normal(size=(50, 3)) * 1e4, jnp.float32),
    )
    assert actions.shape == (50, 2)
    assert float(jnp.abs(actions).max()) <= 1


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_config_survives_json(name: str, make_log: MakeLog) -> None:
    algorithm = small(name).prepare(make_log()).algorithm
    fields = {field: getattr(algorithm, field) for field in algorithm.__dataclass_fields__}
    restored = json.loads(json.dumps(fields))
    assert (
        type(algorithm)(**{k: tuple(v) if isinstance(v, list) else v for k, v in restored.items()})
        == algorithm
    )


def test_every_dataset_of_the_paper_has_its_two_table_rows() -> None:
    paper = {name: make_algorithm("gpc-sac", name, "paper") for name in PAPER}
    assert len(paper) == 21
    assert set(paper) <= set(NAMES)
    assert {name: (a.bins, a.pessimism) for name, a in paper.items()} == {
        name: (row.bins, row.pessimism) for name, row in PAPER.items()
    }
    assert all(
        a.hidden == (256, 256, 256) and not a.layer_norm and a.discount == 0.99 for a in paper.values()
    )
    assert (paper["hopper-medium-expert-v2"].bins, paper["hopper-medium-expert-v2"].pessimism) == (25, 5.0)
    assert (paper["halfcheetah-random-v2"].bins, paper["halfcheetah-random-v2"].pessimism) == (5, 0.0)
    assert {paper[name].bins for name in ADROIT_NAMES if name in paper} == {1}
    rule = {name: paper[name].bins for name in GYM_NAMES if name in paper}
    dims = {name: 3 if name.startswith("hopper") else 6 for name in rule}
    assert all(
        11 <= np.sqrt(bins) * dims[name] <= 16 for name, bins in rule.items()
    )  # the paper's own rule, nearly


def gpc(**changes: Any) -> GPCSAC:
    return GPCSAC(
        **(SMALL | {"bins": 3, "pessimism": 2.0, "q_floor": -1e6, "ood_next_weight": 0.5} | changes)
    )


def expected_ood(
    algorithm: GPCSAC,
    state: Any,
    batch: Batch,
    key: jax.Array,
    counts: Counter[tuple[int, ...]],
    epoch: int = 1,
) -> dict[str, float]:
    """The paper's OOD loss, Eq. 6 to 8, written again in NumPy: counts by a dictionary, networks only
    called."""
    draw = draw_actions(state.learner.policy, batch, key)
    halves = [
        (batch.observation, draw.action, batch.state_cell),
        (batch.next_observation, draw.next_action, batch.next_state_cell),
    ]
    cells = [cells_of(state, cell, action) for _, action, cell in halves]
    log_only = algorithm.prior == "dataset-only"  # the log's counts stand still, and a use counts for itself
    most = algorithm.most_visits or np.inf
    for half in [] if log_only else cells:
        counts.update(half)

    def u_of(half: list[tuple[int, ...]]) -> Any:
        return float(algorithm.pessimism) * np.sqrt(
            np.log(2) / np.array([min(max(counts[cell] + log_only, 1), most) for cell in half])
        )

    terms: list[float] = []
    for (observation, action, _), half, beta in zip(
        halves, cells, (algorithm.beta, algorithm.beta_next), strict=True
    ):
        u = u_of(half)
        if algorithm.relative and not terms:
            u = np.maximum(u - u_of(cells_of(state, batch.state_cell, batch.action)), 0)
        q = np.asarray(state.learner.critics(observation, action), np.float64)
        terms.append(((q - np.maximum(q - beta * u, float(algorithm.q_floor))) ** 2).mean(axis=1).sum())
        if len(terms) == 1:
            uncertainty = u.mean()
    return {
        "loss_ood": algorithm.ood_weight * terms[0] + algorithm.ood_next_weight * terms[1],
        "uncertainty": float(uncertainty),
    }


def cells_of(state: Any, state_cells: Any, action: Any) -> list[tuple[int, ...]]:
    return [
        (int(s), *c) for s, c in zip(state_cells, np.asarray(state.grid.cell(action)).tolist(), strict=True)
    ]


@pytest.mark.parametrize(
    ("algorithm", "table"),
    [
        (gpc(), None),
        (gpc(), SparseTable.empty(megabytes=1)),
        (gpc(ood_weight=1.0, ood_next_weight=0.0), None),
        (gpc(ood_weight=0.0, ood_next_weight=1.0, beta_next=0.7), None),
        (gpc(beta=0.3, q_floor=0.0, margin=1.0), None),
        (gpc(prior="dataset-only"), None),
        (gpc(prior="dataset", relative=True), None),
        (gpc(prior="dataset-only", relative=True), None),
        (gpc(most_visits=2, prior="dataset", relative=True), None),
    ],
    ids=[
        *("both terms", "bounded table", "only s", "only s'", "floor of 0"),
        *("the log alone", "relative", "relative to the log alone", "counts read up to 2"),
    ],
)
def test_the_ood_loss_is_the_paper_s_over_many_updates(
    algorithm: GPCSAC, table: SparseTable | None, make_log: MakeLog
) -> None:
    """Fails if an OOD term, the floor, the logarithm, the count update, the most visits or what is
    subtracted for the log is left out."""
    data = make_log(rows=64)
    data.observation[:] = np.round(data.observation / 2)  # few state cells, so that counts grow
    data.next_observation[:] = np.round(data.next_observation / 2)
    prepared, state, batch = start(algorithm, data)
    if table is not None:
        state = state._replace(table=table)
    update = jax.jit(prepared.algorithm.update)
    log = [] if algorithm.prior == "none" else cells_of(state, prepared.rows.state_cell, prepared.rows.action)
    counts: Counter[tuple[int, ...]] = Counter(log)
    for step in range(6):
        key = jax.random.key(step)
        expected = expected_ood(prepared.algorithm, state, batch, key, counts)
        state, metrics = update(state, batch, key)
        assert {name: float(metrics[name]) for name in expected} == pytest.approx(expected, rel=1e-4)
    assert max(counts.values()) > 1


def test_pessimism_grows_with_the_logarithm_of_the_epoch(make_log: MakeLog) -> None:
    algorithm = gpc(prior="dataset-only")  # counts stand still, so only T moves u
    prepared, state, batch = start(algorithm, make_log())
    later = state._replace(learner=state.learner._replace(updates=jnp.asarray(98_999)))
    update = jax.jit(prepared.algorithm.update)
    u = [float(update(s, batch, jax.random.key(0))[1]["uncertainty"]) for s in (state, later)]
    assert u[1] / u[0] == pytest.approx(np.sqrt(np.log(100) / np.log(2)), rel=1e-5)


def test_priors_start_the_table_empty_with_the_log_or_with_the_log_alone(make_log: MakeLog) -> None:
    data = make_log(rows=400)
    total = {}
    for prior in ("none", "dataset", "dataset-only"):
        prepared, state, batch = start(gpc(prior=prior), data)
        after, _ = jax.jit(prepared.algorithm.update)(state, batch, jax.random.key(0))
        total[prior] = (int(state.table.counts.sum()), int(after.table.counts.sum()))
    assert total == {"none": (0, 64), "dataset": (400, 464), "dataset-only": (400, 400)}


@pytest.mark.parametrize("name", ["gpc-sac", "gpc-td3"])
def test_normalised_networks_learn_the_same_whatever_the_log_s_units(name: str, make_log: MakeLog) -> None:
    """Fails if observations reach the networks as they are in an update, at the next state or when acting."""
    data = make_log(rows=256)
    data.observation[:, 1] *= 10
    data.next_observation[:, 1] *= 10
    data.observation[:] += 3
    data.next_observation[:] += 3
    milli = replace(
        data, observation=data.observation * 1000 - 700, next_observation=data.next_observation * 1000 - 700
    )

    def actions(log: Transitions, normalise: bool) -> Any:
        algorithm = replace(small(name), normalise=normalise, policy_rate=3e-3, critic_rate=3e-3)
        prepared, state, _ = start(algorithm, log)
        block = jax.jit(make_block(prepared.algorithm, 100))
        state, _ = block(
            state, jax.tree.map(jnp.asarray, prepared.rows), jax.random.key(0), jnp.asarray(0, jnp.int32)
        )
        return np.asarray(act(prepared.algorithm, state, jnp.asarray(log.observation)))

    assert np.allclose(actions(data, True), actions(milli, True), atol=0.02)
    assert np.abs(actions(data, False) - actions(milli, False)).max() > 0.2


def test_sac_bootstraps_the_smaller_critic_less_the_entropy_s_price_and_stops_at_terminals(
    make_log: MakeLog,
) -> None:
    """Fails if a critic, the entropy or the terminals are left out of the target, or the policy's loss
    climbs one critic alone."""
    prepared, state, _ = start(SAC(**SMALL, critic_rate=1e-30), make_log())
    batch = jax.tree.map(lambda column: jnp.asarray(column[30:62]), prepared.rows)._replace(
        terminated=jnp.arange(32) % 2 == 0
    )
    targets = jax.tree.map(lambda leaf: 20 * leaf, state.target_critics)  # far from 0 and from each other
    state = state._replace(
        target_critics=targets, critics=jax.tree.map(lambda leaf: -15 * leaf, state.critics)
    )
    key = jax.random.key(3)
    draw = draw_actions(state.policy, batch, key)
    after, metrics = jax.jit(prepared.algorithm.update)(state, batch, key)
    temperature = float(jnp.exp(after.log_temperature))
    assert temperature != 1
    next_q = np.asarray(targets(batch.next_observation, draw.next_action)).min(
        axis=0
    ) - temperature * np.asarray(draw.next_log_prob)
    target = np.asarray(batch.reward) + 0.99 * (1 - np.asarray(batch.terminated)) * next_q
    q = np.asarray(state.critics(batch.observation, batch.action))
    assert float(metrics["critic_loss"]) == pytest.approx(((q - target) ** 2).mean(axis=1).sum(), rel=1e-4)
    climbed = np.asarray(state.critics(batch.observation, draw.action)).min(
        axis=0
    ) - temperature * np.asarray(draw.log_prob)
    assert float(metrics["policy_loss"]) == pytest.approx(
        -climbed.mean(), rel=1e-4
    )  # the critics hardly moved


def test_sac_learns_the_exact_values_of_a_chain() -> None:
    """Its soft values differ from these only by temperature times entropy, and the temperature is tuned
    away here."""
    algorithm = SAC(
        hidden=(32, 32), batch_size=64, critic_rate=3e-3, policy_rate=3e-3, discount=0.8, target_step=0.05
    )
    _, state = learn(algorithm, chain(), 1500)
    q = state.critics(jnp.array([[-1.0], [1.0]]), jnp.zeros((2, 1))).min(axis=0)
    assert float(jnp.exp(state.log_temperature)) < 0.1
    assert q.tolist() == pytest.approx([0.8, 1.0], abs=0.12)


def test_counting_keeps_the_policy_where_the_log_went_and_sac_leaves_it() -> None:
    fields: dict[str, Any] = {"hidden": (32, 32), "batch_size": 64, "critic_rate": 1e-3, "policy_rate": 1e-3}
    sac, state = learn(SAC(**fields), bandit(), 3000)
    assert float(act(sac.algorithm, state, PROBE).mean()) > 0.6
    held, held_state = learn(GPCSAC(**fields, bins=10, pessimism=3.0, prior="dataset-only"), bandit(), 3000)
    actions = act(held.algorithm, held_state, PROBE)
    assert -0.3 < float(actions.mean()) < 0.4
    wishful = overestimate(
        act(sac.algorithm, state, PROBE), state.critics(PROBE, act(sac.algorithm, state, PROBE)).min(axis=0)
    )
    sober = overestimate(actions, held_state.learner.critics(PROBE, actions).min(axis=0))
    assert wishful > 1
    assert sober < 0.5


def test_the_acting_policy_is_the_learning_one_unless_averaged(make_log: MakeLog) -> None:
    for step in (1.0, 0.01):
        prepared, state, batch = start(gpc(average_step=step), make_log())
        after, _ = jax.jit(prepared.algorithm.update)(state, batch, jax.random.key(0))
        weight, acting, before = (
            p.trunk.weights[0]
            for p in (after.learner.policy, after.learner.acting_policy, state.learner.policy)
        )
        assert np.allclose(acting, before + step * (weight - before), atol=1e-9)
        assert not np.allclose(weight, before, atol=1e-6)


def test_automatic_values_follow_the_paper_s_rules_and_say_so(make_log: MakeLog) -> None:
    for dims, bins in ((2, 30), (3, 22), (6, 5), (24, 1)):
        prepared = GPCSAC(**SMALL).prepare(make_log(action_dim=dims))
        assert prepared.algorithm.bins == bins
        assert f"{dims} action dimensions" in prepared.notes["bins"]
    data = make_log(scale=4.0)
    gains = GPCSAC(**SMALL).prepare(data).algorithm
    assert gains.pessimism == pytest.approx(
        (data.reward.mean() + (data.reward.min() + data.reward.max()) / 2) / 2, rel=1e-5
    )
    assert gains.q_floor == 0
    costs = replace(data, reward=-data.reward)
    held = GPCSAC(**SMALL).prepare(costs)
    assert held.algorithm.pessimism == pytest.approx(gains.pessimism)
    assert held.algorithm.q_floor == pytest.approx(costs.reward.min() / 0.01, rel=1e-4)
    with pytest.raises(ValueError, match="prepare"):
        GPCSAC(**SMALL).init(jax.random.key(0), held.rows)


def test_layer_norm_leaves_its_inputs_scale_out_of_the_critics(make_log: MakeLog) -> None:
    _, state, batch = start(gpc(layer_norm=True), make_log())
    _, plain, _ = start(gpc(), make_log())
    assert state.learner.critics.members.gains
    assert not plain.learner.critics.members.gains
    q, far = (
        state.learner.critics(batch.observation * scale, batch.action * scale) for scale in (100, 10_000)
    )
    assert np.allclose(q, far, rtol=0.05, atol=1e-4)
