"""CQL, SAC-N, EDAC and PBRL against problems whose answers are known, and their losses against NumPy."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import MakeLog
from problems import EDGE, OPTIMISED, PROBE, bandit, bandit_reward

from gridcount.algorithms import make_algorithm
from gridcount.algorithms.blocks import make_block
from gridcount.algorithms.cql import CQL, best_target, sample_actions
from gridcount.algorithms.edac import EDAC
from gridcount.algorithms.pbrl import PBRL, RECORD, next_weight, ood_beta
from gridcount.algorithms.sac import SAC, draw_actions
from gridcount.algorithms.sac_n import SACN
from gridcount.losses import ensemble_similarity
from gridcount.networks import Critics, TanhGaussian
from gridcount.transitions import Batch, Transitions

FIELDS: dict[str, Any] = {"hidden": (32, 32), "batch_size": 32, "critic_rate": 2e-3, "policy_rate": 2e-3}
SMALL: dict[str, Any] = {"hidden": (16, 16), "batch_size": 32}


PESSIMIST = PBRL(**FIELDS, n_critics=5, ood_updates=500, sampled_actions=4)
UPDATES = 2000
SIZES = {
    "hopper-medium-v2": 500,
    "hopper-medium-expert-v2": 200,
    "walker2d-medium-v2": 20,
    "halfcheetah-medium-v2": 10,
}
SIZES |= {f"maze2d-{maze}-v1": 25 for maze in ("umaze", "medium", "large")}


def learner_of(state: Any) -> Any:
    return getattr(state, "learner", state)


@cache
def learnt(algorithm: Any, problem: Callable[[], Transitions], seeds: int = 3) -> tuple[Any, ...]:
    """The learners of several seeds after UPDATES updates, all in one program."""
    prepared = algorithm.prepare(problem())
    rows = jax.tree.map(jnp.asarray, prepared.rows)
    block = make_block(prepared.algorithm, UPDATES)

    def run(seed: Any) -> Any:
        init_key, train_key = jax.random.split(jax.random.key(seed))
        return block(prepared.algorithm.init(init_key, rows), rows, train_key, jnp.asarray(0))[0]

    after = jax.jit(jax.vmap(run), compiler_options=OPTIMISED)(jnp.arange(seeds))
    return tuple(learner_of(jax.tree.map(lambda leaf, seed=seed: leaf[seed], after)) for seed in range(seeds))


def own_values(learner: Any) -> tuple[Any, Any]:
    """The actions a learner would take in a bandit, and the values it gives them."""
    actions = learner.acting_policy.actor()(PROBE)
    return actions, q_of(learner.critics, PROBE, actions).min(axis=0)


def sideways() -> Transitions:
    """A bandit whose log never moved the second of two actions: whatever critics say of that direction,
    they made up."""
    rng = np.random.default_rng(0)
    action = np.zeros((2000, 2), np.float32)
    action[:, 0] = rng.uniform(-1, 1, 2000)
    still = rng.uniform(-1, 1, (2000, 1)).astype(np.float32)
    done = np.ones(2000, np.bool_)
    return Transitions(still, action, sideways_reward(action), still, done, done)


def sideways_reward(action: Any) -> Any:
    """What an action is truly worth: best at 0.5 ahead, and the less the further aside."""
    return (1 - (action[:, 0] - 0.5) ** 2 - 2 * np.abs(action[:, 1])).astype(np.float32)


def wishes(learners: tuple[Any, ...], reward: Callable[[Any], Any]) -> list[float]:
    """How far each seed's values of its own actions lie above what those are truly worth."""
    return [float(np.mean(np.asarray(q) - reward(np.asarray(a)))) for a, q in map(own_values, learners)]


def stretched(learner: Any) -> Any:
    """The same learner with critics and targets that differ from each other and are far from 0."""

    def last(critics: Critics, scale: float) -> Critics:
        moved: Critics = eqx.tree_at(
            lambda c: c.members.weights[-1], critics, scale * critics.members.weights[-1]
        )
        return moved

    return learner._replace(
        critics=last(learner.critics, 300.0), target_critics=last(learner.target_critics, -200.0)
    )


q_of = jax.jit(Critics.__call__)


def start(algorithm: Any, data: Transitions) -> tuple[Any, Any, Batch]:
    prepared = algorithm.prepare(data)
    state = jax.jit(lambda key: prepared.algorithm.init(key, prepared.rows))(jax.random.key(0))
    return prepared.algorithm, state, jax.tree.map(lambda column: jnp.asarray(column[:32]), prepared.rows)


def two_steps() -> Transitions:
    """Two decisions in a row, each paid like the bandit's, so that the log has the same gap twice."""
    rng = np.random.default_rng(0)
    second = np.arange(4000) % 2 == 1
    place = np.where(second, 1.0, -1.0).astype(np.float32)[:, None]
    action = rng.uniform(-1, EDGE, (4000, 1)).astype(np.float32)
    return Transitions(place, action, bandit_reward(action[:, 0]), np.ones_like(place), second, second)


def true_and_learnt(learner: Any, discount: float) -> tuple[Any, Any]:
    """The policy's exact value in both states of `two_steps` (as exact as 4,000 draws make it), and the
    value its critics give it."""
    rewards, values = [], []
    for place in (-1.0, 1.0):
        observation = jnp.full((4000, 1), place)
        action, _ = learner.policy.sample(observation, jax.random.key(0))
        rewards.append(bandit_reward(np.asarray(action)[:, 0]).mean())
        values.append(float(q_of(learner.critics, observation, action).min(axis=0).mean()))
    return np.array([rewards[0] + discount * rewards[1], rewards[1]]), np.array(values)


def gap_reward(action: Any) -> Any:
    return bandit_reward(action[:, 0])


def test_sac_believes_in_the_gap_and_cql_and_pbrl_do_not() -> None:
    """PBRL does without its penalties; CQL without its gap is in the next test."""
    assert min(wishes(learnt(SAC(**FIELDS), bandit), gap_reward)) > 1
    assert max(wishes(learnt(CQL(**FIELDS, sampled_actions=4), bandit), gap_reward)) < 0.3
    assert max(wishes(learnt(PESSIMIST, bandit), gap_reward)) < 0.3
    blind = replace(
        PESSIMIST, ood_start=0.0, ood_end=0.0, ood_floor=0.0, beta_next=0.0, beta_in=0.0, q_floor=-100.0
    )
    assert min(wishes(learnt(blind, bandit), gap_reward)) > 1


def test_cql_values_lie_below_the_policy_s_true_value_and_without_conservatism_above() -> None:
    """Theorem 3.2, in a two-step decision process whose values are known.

    The weight suits these rewards, which span 1.2: a much larger one makes values flat over the log's
    actions, the policy's choice among them arbitrary, and then its value is no longer bounded (it holds for
    the policy that goes where the values are high).
    """
    fields = FIELDS | {"discount": 0.8, "target_step": 0.05, "sampled_actions": 4}
    for learner in learnt(CQL(**fields, conservatism=1.0), two_steps):
        truth, value = true_and_learnt(learner, 0.8)
        assert (value < truth).all()
    for learner in learnt(CQL(**fields, conservatism=0.0), two_steps):
        truth, value = true_and_learnt(learner, 0.8)
        assert (value > truth + 0.5).all()


def test_sac_makes_up_values_where_the_log_never_moved_and_many_or_diversified_critics_do_not() -> None:
    """SAC is SAC-N with two critics, and SAC-N with ten is EDAC without the cosines."""
    sac, many, diverse, plain = (
        wishes(learnt(algorithm, sideways, seeds=3), sideways_reward)
        for algorithm in (
            SAC(**FIELDS),
            SACN(**FIELDS, n_critics=20),
            EDAC(**FIELDS, n_critics=10),
            SACN(**FIELDS, n_critics=10),
        )
    )
    assert np.mean(sac) > 0.3
    assert max(many) < 0.2
    assert max(diverse) < 0.3
    assert (
        np.mean(diverse) < -0.2 < np.mean(plain)
    )  # a lower bound on average, which ten plain critics do not give


def test_pbrl_s_critics_disagree_more_off_the_log_than_on_it() -> None:
    """For every seed, and by far on average: how far critics drift apart depends on how they were born."""
    ratio = []
    for learner in learnt(PESSIMIST, bandit):
        on, off = (
            q_of(learner.critics, PROBE, jnp.full_like(PROBE, action)).std(axis=0).mean()
            for action in (-0.4, 0.9)
        )
        ratio.append(float(off / on))
    assert min(ratio) > 1
    assert np.mean(ratio) > 5


def test_cql_s_loss_is_the_paper_s(make_log: MakeLog) -> None:
    """Fails if a kind of sampled action, an importance weight or the log's own value is left out, or
    entropy is bootstrapped."""
    algorithm, state, batch = start(CQL(**SMALL, conservatism=3.0), make_log())
    state = state._replace(learner=stretched(state.learner))
    key = jax.random.key(5)
    _, metrics = jax.jit(algorithm.update)(state, batch, key)
    learner = state.learner
    draw_key, sample_key = jax.random.split(key)
    uniform_key, policy_key, next_key = jax.random.split(sample_key, 3)
    tries = [(jax.random.uniform(uniform_key, (10, 32, 2), minval=-1, maxval=1), None)]
    tries += [
        learner.policy.sample_many(o, 10, k)
        for o, k in ((batch.observation, policy_key), (batch.next_observation, next_key))
    ]
    weighted = []
    for action, log_prob in tries:
        for i in range(10):
            q = np.asarray(q_of(learner.critics, batch.observation, action[i]), np.float64)
            weighted.append(np.exp(q) / (0.25 if log_prob is None else np.exp(np.asarray(log_prob[i]))))
    q_data = np.asarray(q_of(learner.critics, batch.observation, batch.action))
    gap = (np.log(np.sum(weighted, axis=0)) - q_data).mean(axis=1)
    draw = draw_actions(learner.policy, batch, draw_key)
    next_q = np.asarray(q_of(learner.target_critics, batch.next_observation, draw.next_action)).min(axis=0)
    target = np.asarray(batch.reward) + 0.99 * (1 - np.asarray(batch.terminated)) * next_q
    bellman = ((q_data - target) ** 2).mean(axis=1)
    assert float(metrics["gap"]) == pytest.approx(gap.mean(), rel=1e-4)
    assert float(metrics["critic_loss"]) == pytest.approx((bellman + 3 * gap).sum(), rel=1e-4)


def test_a_policy_s_densities_of_given_and_of_drawn_actions_agree() -> None:
    policy = TanhGaussian(3, 2, (8,), jax.random.key(0))
    observation = jax.random.normal(jax.random.key(1), (5, 3))
    action, log_prob = policy.sample_many(observation, 4, jax.random.key(2))
    assert action.shape == (4, 5, 2)
    assert np.allclose(jax.vmap(lambda a: policy.log_prob(observation, a))(action), log_prob, atol=1e-3)
    assert np.isfinite(policy.log_prob(observation, jnp.ones((5, 2)))).all()


def test_cql_s_multiplier_rises_while_the_gap_is_above_its_threshold_and_falls_below_it(
    make_log: MakeLog,
) -> None:
    change = []
    for threshold in (0.0, 1000.0):
        algorithm, state, batch = start(CQL(**SMALL, lagrange_threshold=threshold), make_log())
        after, metrics = jax.jit(algorithm.update)(state, batch, jax.random.key(0))
        change.append(float(after.log_multiplier - state.log_multiplier))
        assert float(metrics["multiplier"]) == 1
        held = 2 * (
            algorithm.conservatism * float(metrics["gap"]) - threshold
        )  # of both critics: the weighted gap is what is held
        assert float(metrics["critic_loss"]) == pytest.approx(float(metrics["loss_in"]) + held, rel=1e-4)
    assert change[0] > 0 > change[1]


def test_cql_s_policy_imitates_first_and_listens_to_the_critics_afterwards(make_log: MakeLog) -> None:
    algorithm, state, batch = start(CQL(**SMALL, imitation_updates=10), make_log())
    update, weights = jax.jit(algorithm.update), []
    for updates in (0, 10):
        for scale in (1.0, -50.0):
            critics = jax.tree.map(lambda leaf, scale=scale: scale * leaf, state.learner.critics)
            learner = state.learner._replace(updates=jnp.asarray(updates), critics=critics)
            after, _ = update(state._replace(learner=learner), batch, jax.random.key(0))
            weights.append(after.learner.policy.trunk.weights[0])
    assert np.allclose(weights[0], weights[1], atol=1e-7)
    assert not np.allclose(weights[2], weights[3], atol=1e-5)


def test_cql_can_bootstrap_the_best_of_several_next_actions(make_log: MakeLog) -> None:
    algorithm, state, batch = start(CQL(**SMALL, max_backup=True), make_log())
    sampled = sample_actions(state.learner.policy, batch, 10, jax.random.key(0))
    q = np.stack(
        [q_of(state.learner.target_critics, batch.next_observation, action) for action in sampled.next_action]
    )
    expected = batch.reward + 0.99 * (1 - batch.terminated) * q.max(axis=0).min(axis=0)
    assert np.allclose(best_target(algorithm, state.learner, batch, sampled.next_action), expected, atol=1e-5)
    learner = stretched(state.learner)
    _, sample_key = jax.random.split(jax.random.key(5))
    sampled = sample_actions(learner.policy, batch, 10, sample_key)
    target = best_target(algorithm, learner, batch, sampled.next_action)
    _, metrics = jax.jit(algorithm.update)(state._replace(learner=learner), batch, jax.random.key(5))
    error = (
        ((np.asarray(q_of(learner.critics, batch.observation, batch.action)) - np.asarray(target)) ** 2)
        .mean(axis=1)
        .sum()
    )
    assert float(metrics["loss_in"]) == pytest.approx(error, rel=1e-4)


def test_similarity_is_the_mean_over_rows_of_every_pair_s_cosine() -> None:
    slopes = np.random.default_rng(0).normal(size=(5, 7, 3))
    unit = slopes / np.linalg.norm(slopes, axis=2, keepdims=True)
    pairs = [(unit[i] * unit[j]).sum(axis=1).mean() for i in range(5) for j in range(5) if i != j]
    assert float(ensemble_similarity(jnp.asarray(slopes))) == pytest.approx(sum(pairs) / 4, rel=1e-4)


def test_edac_s_loss_adds_the_similarity_of_its_critics_action_gradients(make_log: MakeLog) -> None:
    algorithm, state, batch = start(EDAC(**SMALL, n_critics=4, diversity=7.0), make_log())
    q, slopes = state.critics.with_slopes(batch.observation, batch.action)
    each = jax.jit(jax.jacrev(lambda action: state.critics(batch.observation, action).sum(axis=1)))(
        batch.action
    )
    assert np.allclose(q, q_of(state.critics, batch.observation, batch.action), atol=1e-6)
    assert np.allclose(slopes, each, atol=1e-6)
    _, metrics = jax.jit(algorithm.update)(state, batch, jax.random.key(0))
    assert float(metrics["similarity"]) == pytest.approx(float(ensemble_similarity(slopes)), rel=1e-4)
    assert float(metrics["critic_loss"]) == pytest.approx(
        float(metrics["loss_in"] + 7 * metrics["similarity"]), rel=1e-4
    )
    some, _, _ = start(EDAC(**SMALL, n_critics=4, compare_some=True), make_log())
    _, of_two = jax.jit(some.update)(state, batch, jax.random.key(0))
    _, member_key = jax.random.split(jax.random.key(0))
    drawn = slopes[jax.random.permutation(member_key, 4)[:2]]  # as many as actions have dimensions
    assert float(of_two["similarity"]) == pytest.approx(float(ensemble_similarity(drawn)), rel=1e-4)
    with pytest.raises(ValueError, match="at least 2"):
        start(EDAC(**SMALL, n_critics=1), make_log())


def test_sac_n_and_edac_can_standardise_rewards(make_log: MakeLog) -> None:
    for kind in (SACN, EDAC):
        prepared = kind(standardise_reward=True).prepare(make_log(scale=9.0))
        assert abs(float(prepared.rows.reward.mean())) < 1e-5
        assert float(prepared.rows.reward.std()) == pytest.approx(1, rel=1e-4)
        assert "standardised" in prepared.notes["rewards"]


@pytest.mark.parametrize("prior_scale", [0.0, 1.0])
def test_pbrl_s_loss_is_the_authors(prior_scale: float, make_log: MakeLog) -> None:
    """Fails if the uncertainty is left out of a target or of a penalty, if critics share a target, or a
    half or the floor is missing."""
    algorithm = PBRL(**SMALL, n_critics=3, beta_in=0.7, q_floor=0.05, prior_scale=prior_scale)
    algorithm, state, _ = start(algorithm, make_log())
    batch = jax.tree.map(lambda column: jnp.asarray(column[:64]), make_log().rows())  # two parts
    learner = stretched(state.learner)
    state = state._replace(learner=learner)
    key = jax.random.key(5)
    after, metrics = jax.jit(algorithm.update)(state, batch, key)
    draw_key, policy_key, next_key = jax.random.split(key, 3)
    draw = draw_actions(learner.policy, batch, draw_key)
    next_q = np.asarray(q_of(learner.target_critics, batch.next_observation, draw.next_action))
    next_value = next_q - 0.7 * next_q.std(axis=0, ddof=1)
    target = np.asarray(batch.reward) + 0.99 * (1 - np.asarray(batch.terminated)) * next_value
    q_data = np.asarray(q_of(learner.critics, batch.observation, batch.action))
    halves = []
    for observation, half_key, beta in (
        (batch.observation, policy_key, 5.0),
        (batch.next_observation, next_key, 0.1),
    ):
        actions, _ = learner.policy.sample_many(observation, 10, half_key)
        q = np.stack(
            [q_of(learner.critics, observation, action) for action in actions], axis=1
        )  # [critics, samples, rows]
        penalised = np.maximum(q - beta * q.std(axis=0, ddof=1), 0.05)
        halves.append(((q - penalised) ** 2).mean(axis=(1, 2)).sum())
    assert float(metrics["loss_in"]) == pytest.approx(((q_data - target) ** 2).mean(axis=1).sum(), rel=1e-3)
    assert float(metrics["loss_ood"]) == pytest.approx(sum(halves) / 2, rel=1e-3)
    assert float(metrics["critic_loss"]) == pytest.approx(
        float(metrics["loss_in"] + metrics["loss_ood"]), rel=1e-4
    )
    if prior_scale:
        moved = jax.tree.map(lambda a, b: not np.array_equal(a, b), after.learner.critics, learner.critics)
        assert not any(jax.tree.leaves(moved.priors))
        assert any(jax.tree.leaves(moved.members))


@pytest.mark.parametrize("algorithm", [PBRL(**SMALL, n_critics=3), CQL(**SMALL)], ids=["pbrl", "cql"])
def test_a_step_in_parts_is_the_step_on_the_whole(
    algorithm: PBRL | CQL, make_log: MakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    after = []
    for part in (32, 8):
        monkeypatch.setattr(f"{type(algorithm).__module__}.PART", part)
        prepared, state, batch = start(algorithm, make_log())
        after.append(
            jax.jit(prepared.update)(state, batch, jax.random.key(0))[0].learner.critics.members.weights[1]
        )
    assert np.allclose(after[0], after[1], atol=1e-6)


def test_pbrl_s_penalty_descends_and_then_relents_only_where_values_fall() -> None:
    config = PBRL(**SMALL, q_floor=0.0)
    algorithm, state, _ = start(config, bandit())

    def at(updates: int, record: Any) -> Any:
        learner = state.learner._replace(updates=jnp.asarray(updates))
        return state._replace(learner=learner, record=jnp.asarray(record, jnp.float32))

    flat = np.zeros(RECORD)
    assert [float(ood_beta(algorithm, at(u, flat))) for u in (0, 25_000, 50_000, 90_000)] == pytest.approx(
        [5.0, 3.0, 1.0, 1.0]
    )
    falling = -np.arange(RECORD)
    cases = {(60_000, 1): 1 / 1.01, (60_000, -1): 1.0, (60_001, 1): 1.0, (40_000, 1): 1.0}
    for (updates, sign), expected in cases.items():
        weight, record = next_weight(algorithm, at(updates, sign * falling), jnp.ones(()), jnp.asarray(7.0))
        assert float(weight) == pytest.approx(expected)
        assert (float(record[-1]) == 7) == (updates % 1000 == 0)
    weight, _ = next_weight(algorithm, at(60_000, falling), jnp.asarray(0.19), jnp.asarray(7.0))
    assert float(weight) == 1


def test_presets_hold_the_papers_values() -> None:
    assert {name: make_algorithm("sac-n", name).n_critics for name in SIZES} == SIZES
    edac = (
        make_algorithm("edac", "hopper-medium-v2"),
        make_algorithm("edac", "walker2d-medium-expert-v2"),
        make_algorithm("edac", "pen-human-v1"),
    )
    assert [(a.n_critics, a.diversity) for a in edac] == [(50, 1.0), (10, 5.0), (20, 1000.0)]
    assert edac[2].standardise_reward
    maze = make_algorithm("cql", "maze2d-umaze-v1")
    assert (maze.conservatism, maze.lagrange_threshold) == (10.0, 50.0)  # a gap of 5, times its weight
    assert make_algorithm("cql", "hopper-medium-v2").imitation_updates == 40_000
    assert make_algorithm("cql", "hopper-medium-v2", "fast").imitation_updates == 0
    expert = make_algorithm("pbrl", "hopper-expert-v2")
    assert (expert.ood_start, expert.ood_end, expert.q_floor) == (2.0, 2.0, 0.0)
