"""BC, IQL and UWAC: what each learns where the answer is known, and that its distinguishing term is what
brings it about."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import MakeLog
from problems import EDGE, PROBE, bandit, learn, overestimate

from gridcount.algorithms import make_algorithm
from gridcount.algorithms.bc import BC
from gridcount.algorithms.blocks import make_block
from gridcount.algorithms.contract import act
from gridcount.algorithms.iql import IQL
from gridcount.algorithms.regularisation import drop_units, first_directions, spectral_norm
from gridcount.algorithms.sac import SAC
from gridcount.algorithms.uwac import UWAC
from gridcount.cli import main
from gridcount.losses import advantage_weight, expectile_loss, mean_discrepancy, uncertainty_weight
from gridcount.networks import MLP, Critics
from gridcount.transitions import Transitions

FIELDS: dict[str, Any] = {"hidden": (32, 32), "batch_size": 64, "policy_rate": 1e-3}
PLACES = jnp.array([[-1.0], [1.0]])  # the two states of `fork`
GOOD, SHARE = 0.5, 0.25  # the action that pays at the second, and how often the log takes it


def fork() -> Transitions:
    """Two states in a row; only the second pays, 1 for the action GOOD, which the log takes in a quarter
    of its rows, 0 for -GOOD."""
    rng = np.random.default_rng(0)
    second = np.arange(4000) % 2 == 1
    good = np.repeat(rng.permutation(2000) < 2000 * SHARE, 2)  # at the second state exactly SHARE of the rows
    place = np.where(second, 1.0, -1.0).astype(np.float32)[:, None]
    action = np.where(good, GOOD, -GOOD).astype(np.float32)[:, None]
    reward = (second & good).astype(np.float32)
    return Transitions(place, action, reward, np.ones_like(place), second, second)


def fork_value(expectile: float) -> float:
    """The expectile of the second state's rewards: where the pull of the good rows upwards equals that of
    the others downwards."""
    up, down = expectile * SHARE, (1 - expectile) * (1 - SHARE)
    return up / (up + down)


@pytest.fixture(scope="module")
def wishful_sac() -> float:
    """How much SAC overestimates its own actions in the bandit's gap."""
    sac, state = learn(SAC(**FIELDS, critic_rate=1e-3), bandit(), 3000)
    actions = act(sac.algorithm, state, PROBE)
    return overestimate(actions, state.critics(PROBE, actions).min(axis=0))


# --- BC ---


def test_bc_gives_the_log_s_mean_action_and_stays_in_its_data() -> None:
    prepared, state = learn(BC(**FIELDS), bandit(), 1000)
    actions = act(prepared.algorithm, state, PROBE)
    assert float(actions.mean()) == pytest.approx((EDGE - 1) / 2, abs=0.06)
    assert float(actions.max()) < EDGE


def test_bc_of_the_best_episodes_gives_their_action() -> None:
    """Each step of the bandit is an episode: its best tenth lies just under the edge of the log. Fails if
    best_share is ignored."""
    prepared, state = learn(BC(**FIELDS, best_share=0.1), bandit(), 1500)
    best = bandit().action[bandit().reward >= np.quantile(bandit().reward, 0.9)]
    assert len(prepared.rows.reward) == 200
    assert np.asarray(prepared.rows.action).min() >= best.min()
    assert float(act(prepared.algorithm, state, PROBE).mean()) == pytest.approx(best.mean(), abs=0.06)


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
        actions.append(act(prepared.algorithm, state, jnp.asarray(log.observation)))
    assert np.allclose(actions[0], actions[1], atol=2e-3)
    raw = BC(**FIELDS, normalise=False).init(jax.random.key(0), scaled.rows())
    assert np.array_equal(raw.normaliser(jnp.asarray(scaled.observation)), scaled.observation)


# --- IQL ---


def implicit(**changes: Any) -> IQL:
    fields = {
        "policy_rate": 3e-3,
        "critic_rate": 3e-3,
        "value_rate": 3e-3,
        "discount": 0.8,
        "target_step": 0.05,
    }
    return IQL(**(FIELDS | fields | changes))


EXPECTILES = (0.5, 0.9, 0.99)


@pytest.fixture(scope="module")
def implicit_states() -> dict[float, Any]:
    """IQL's state after learning from `fork`, by its expectile: all in one program."""
    prepared = implicit().prepare(fork())
    rows = jax.tree.map(jnp.asarray, prepared.rows)
    start = prepared.algorithm.init(jax.random.key(0), prepared.rows)

    def train(expectile: Any) -> Any:
        return make_block(replace(prepared.algorithm, expectile=expectile), 2000)(
            start, rows, jax.random.key(1), jnp.asarray(0)
        )[0]

    states = jax.jit(jax.vmap(train))(jnp.array(EXPECTILES))
    return {
        expectile: jax.tree.map(lambda leaf, i=i: leaf[i], states) for i, expectile in enumerate(EXPECTILES)
    }


@pytest.mark.parametrize("expectile", EXPECTILES)
def test_iql_s_values_are_the_expectiles_of_the_log(
    expectile: float, implicit_states: dict[float, Any]
) -> None:
    """At 0.5 they are the values of the log's own policy, towards 1 the best the log supports. Fails with
    a symmetric loss."""
    state, second = implicit_states[expectile], fork_value(expectile)
    if expectile == 0.5:
        assert second == SHARE  # what the log's policy earns
    if expectile == 0.99:
        assert second > 0.97  # what the best action of the log earns is 1
    assert state.value(PLACES)[:, 0].tolist() == pytest.approx([0.8 * second, second], abs=0.05)
    q = state.critics(jnp.repeat(PLACES, 2, axis=0), jnp.array([[-GOOD], [GOOD]] * 2)).min(axis=0)
    assert q.tolist() == pytest.approx([0.8 * second, 0.8 * second, 0, 1], abs=0.08)


def test_iql_s_policy_takes_the_better_action_where_cloning_takes_the_frequent_one(
    implicit_states: dict[float, Any],
) -> None:
    """Rows weigh exp(scale * advantage), so the mean action is known. Fails where all rows weigh the same."""
    second = fork_value(0.9)
    better, worse = SHARE * np.exp(3 * (1 - second)), (1 - SHARE) * np.exp(-3 * second)
    preferred = GOOD * (better - worse) / (better + worse)
    assert preferred > 0.3
    assert float(act(implicit(), implicit_states[0.9], PLACES)[1, 0]) == pytest.approx(preferred, abs=0.08)
    cloned, clone = learn(BC(**FIELDS), fork(), 1000)
    assert float(act(cloned.algorithm, clone, PLACES)[1, 0]) == pytest.approx(
        GOOD * (2 * SHARE - 1), abs=0.05
    )


def test_iql_does_not_overestimate_in_the_gap_where_sac_does(wishful_sac: float) -> None:
    iql, state = learn(implicit(discount=0.99, expectile=0.9, advantage_scale=10.0), bandit(), 2000)
    actions = act(iql.algorithm, state, PROBE)
    assert -0.2 < float(actions.mean()) < EDGE
    assert wishful_sac > 1
    assert abs(overestimate(actions, state.critics(PROBE, actions).min(axis=0))) < 0.1


def test_the_expectile_loss_and_the_advantage_weight_are_the_paper_s() -> None:
    u = np.array([-2.0, -0.5, 0.0, 1.0, 3.0])
    assert float(expectile_loss(jnp.asarray(u), 0.7)) == pytest.approx(
        np.mean(np.abs(0.7 - (u < 0)) * u**2), rel=1e-6
    )
    assert advantage_weight(jnp.array([-1.0, 0.0, 9.0]), 3.0, 100.0).tolist() == pytest.approx(
        [np.exp(-3), 1, 100], rel=1e-6
    )


def test_iql_scales_rewards_as_its_authors_do(make_log: MakeLog) -> None:
    data = make_log(scale=4.0)
    gym = make_algorithm("iql", "hopper-medium-v2").prepare(data)
    returns = data.episode_returns
    np.testing.assert_allclose(
        gym.rows.reward, data.reward * 1000 / (returns.max() - returns.min()), rtol=1e-5
    )
    assert "times" in gym.notes["reward"]
    ant = make_algorithm("iql", "antmaze-umaze-v2").prepare(data)
    np.testing.assert_allclose(ant.rows.reward, data.reward - 1, rtol=1e-6)
    plain = make_algorithm("iql", "maze2d-umaze-v1").prepare(data)
    assert plain.rows.reward is data.reward
    assert not plain.notes
    level = replace(data, reward=np.zeros_like(data.reward))
    assert np.array_equal(make_algorithm("iql", "hopper-medium-v2").prepare(level).rows.reward, level.reward)


def test_iql_s_policy_stops_at_the_end_of_its_schedule_and_its_values_go_on(make_log: MakeLog) -> None:
    prepared = implicit(schedule_updates=5, dropout=0.1).prepare(make_log())
    batch = jax.tree.map(jnp.asarray, prepared.rows)
    update = jax.jit(prepared.algorithm.update)
    states = [prepared.algorithm.init(jax.random.key(0), prepared.rows)]
    for step in range(7):
        states.append(update(states[-1], batch, jax.random.key(step))[0])
    moved = [
        bool((new.policy.trunk.weights[0] != old.policy.trunk.weights[0]).any())
        for old, new in pairwise(states)
    ]
    assert moved == [True] * 5 + [False] * 2
    assert not np.array_equal(states[-1].critics.members.weights[0], states[-2].critics.members.weights[0])


def test_dropout_acts_on_iql_s_training_and_not_on_its_actions(make_log: MakeLog) -> None:
    prepared = implicit(schedule_updates=5, dropout=0.1).prepare(
        make_log()
    )  # the program of the test before, from the cache
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


# --- UWAC ---

LEAN: dict[str, Any] = FIELDS | {
    "critic_rate": 1e-3,
    "behaviour_rate": 1e-3,
    "behaviour_hidden": (32, 32),
    "passes": 5,
    "next_actions": 4,
}


@pytest.fixture(scope="module")
def uwac() -> tuple[UWAC, Any]:
    """UWAC after learning from the bandit."""
    prepared, state = learn(
        UWAC(**LEAN, spectral_norm=False, warmup_updates=300, multiplier_rate=1e-2), bandit(), 1500
    )
    return prepared.algorithm, state


def test_uwac_stays_with_the_data_and_does_not_overestimate_where_sac_does(
    uwac: tuple[UWAC, Any], wishful_sac: float
) -> None:
    """Fails without the bound on the discrepancy: the policy then runs into the gap like SAC's."""
    algorithm, state = uwac
    actions = act(algorithm, state, PROBE)
    assert wishful_sac > 1
    assert -0.6 < float(actions.mean()) < EDGE
    assert abs(overestimate(actions, state.critics(PROBE, actions).min(axis=0))) < 0.2


def test_uwac_s_variance_is_larger_off_the_data_than_on_it_and_its_weight_smaller(
    uwac: tuple[UWAC, Any],
) -> None:
    algorithm, state = uwac
    still = jnp.zeros((50, 1))
    many = replace(algorithm, passes=200)
    known, unknown = (
        many._guess(state.critics, still, jnp.linspace(*ends, 50)[:, None], jax.random.key(5))[1].sum(axis=0)
        for ends in ((-1.0, EDGE), (0.6, 1.0))
    )
    assert float(unknown.min()) > float(known.max())
    assert float(unknown.mean()) > 5 * float(known.mean())
    weigh = replace(algorithm, weight_scale=0.01)._weight
    assert float(weigh(known).mean()) > 2 * float(weigh(unknown).mean())


def test_the_discrepancy_is_0_for_equal_samples_and_grows_with_their_distance() -> None:
    samples = jax.random.normal(jax.random.key(0), (4, 8, 2))
    for kernel, width in (("gaussian", 20.0), ("laplacian", 10.0)):
        grown = [
            float(mean_discrepancy(samples, samples + shift, width, kernel).mean())
            for shift in (0.0, 0.5, 1.0, 2.0)
        ]
        assert grown[0] == pytest.approx(0, abs=2e-3)
        assert grown == sorted(grown)
        assert grown[1] > 0.02
    x, y = np.asarray(samples), np.asarray(samples + 1.0)
    pairs = [(a, b) for a in range(4) for b in range(4)]
    xx, yy, xy = (
        np.mean([np.exp(-((p[a] - q[b]) ** 2).sum(axis=-1) / 40) for a, b in pairs], axis=0)
        for p, q in ((x, x), (y, y), (x, y))
    )
    expected = np.sqrt(xx + yy - 2 * xy + 1e-6)
    np.testing.assert_allclose(
        mean_discrepancy(samples, samples + 1.0, 20.0, "gaussian"), expected, rtol=1e-4
    )


def test_the_weight_is_beta_over_the_variance_up_to_its_limit() -> None:
    variance = jnp.array([1e-9, 0.5, 5.0])
    assert uncertainty_weight(variance, 0.5, 1.5, "inverse").tolist() == pytest.approx(
        [1.5, 1.0, 0.1], rel=1e-5
    )
    assert uncertainty_weight(variance, 0.5, 1.0, "exponential").tolist() == pytest.approx(
        np.exp([0, -0.25, -2.5]), rel=1e-5
    )


def test_uwac_s_losses_are_weighted_bellman_and_weighted_value_within_the_bound(make_log: MakeLog) -> None:
    """Written again in NumPy from the values of the passes. Fails without either weight, the blend, the
    best action or the bound."""
    fields = {
        "spectral_norm": False,
        "warmup_updates": 0,
        "weight_scale": 1e-6,
        "dropout": 0.3,
        "batch_size": 32,
    }
    algorithm = UWAC(**(LEAN | fields))
    rows = algorithm.prepare(make_log()).rows
    batch = jax.tree.map(lambda column: jnp.asarray(column[:32]), rows)
    state, key = algorithm.init(jax.random.key(0), rows), jax.random.key(1)
    after, metrics = jax.jit(algorithm.update)(state, batch, key)

    _, latent_key, next_key, target_key, critic_key, action_key, policy_key = jax.random.split(key, 7)

    @jax.jit
    def values(observation: Any, action: Any, key: Any) -> Any:
        def one(key: Any) -> Any:
            return state.critics.with_members(drop_units(state.critics.members, 0.3, key))(
                observation, action
            )

        return jax.lax.map(one, jax.random.split(key, 5))

    def moments(observation: Any, action: Any, key: Any) -> tuple[Any, Any]:
        q = np.asarray(values(observation, action, key), np.float64)
        return q.mean(axis=0), ((q - q.mean(axis=0)) ** 2).sum(axis=0) / 4

    next_action = jnp.tanh(state.policy.raw(batch.next_observation, next_key, 4))
    guesses = [moments(batch.next_observation, next_action[i], target_key) for i in range(4)]
    value = np.max([0.75 * mean.min(axis=0) + 0.25 * mean.max(axis=0) for mean, _ in guesses], axis=0)
    weight = np.minimum(1e-6 / np.max([variance.sum(axis=0) for _, variance in guesses], axis=0), 1.5)
    assert 0 < weight.mean() < 1.5
    target = np.asarray(batch.reward) + 0.99 * (1 - np.asarray(batch.terminated)) * value
    q = np.asarray(state.critics(batch.observation, batch.action, dropout=0.3, key=critic_key))
    assert float(metrics["critic_loss"]) == pytest.approx(
        (weight * (q - target) ** 2).mean(axis=1).sum(), rel=1e-3
    )

    raw = state.policy.raw(batch.observation, action_key, 4)
    mean, variance = moments(batch.observation, jnp.tanh(raw[0]), policy_key)
    gain = mean.min(axis=0) * np.minimum(1e-6 / variance.sum(axis=0), 1.5)
    latent = jnp.clip(jax.random.normal(latent_key, (4, 32, 4)), -0.5, 0.5)
    samples = jnp.stack([after.behaviour.decode_raw(batch.observation, each) for each in latent])
    discrepancy = np.asarray(mean_discrepancy(samples, raw, 20.0, "gaussian"))
    assert float(metrics["policy_loss"]) == pytest.approx(
        (discrepancy - 0.07 - gain).mean(), rel=1e-3, abs=1e-6
    )
    assert np.sign(float(after.log_multiplier)) == np.sign(discrepancy.mean() - 0.07)


def test_spectral_norm_finds_each_layer_s_largest_stretch() -> None:
    critics = Critics(2, 3, 2, (16, 16), jax.random.key(0))
    directions = first_directions(critics.members, jax.random.key(1))
    step = jax.jit(spectral_norm)
    for _ in range(200):
        smooth, directions = step(critics.members, directions)
    for weight in smooth.weights:
        assert np.linalg.norm(np.asarray(weight), ord=2, axis=(1, 2)).tolist() == pytest.approx(
            [1, 1], rel=1e-3
        )


def test_a_thinned_network_leaves_units_out_and_keeps_its_mean() -> None:
    network = MLP((3, 64, 64, 1), jax.random.key(0), last_scale=0.5)
    x = jax.random.normal(jax.random.key(1), (20, 3))
    thinned = drop_units(network, 0.25, jax.random.key(2))
    left_out = [float((weight == 0).all(axis=1).mean()) for weight in thinned.weights]
    assert left_out[0] == 0
    assert left_out[1:] == pytest.approx([0.25, 0.25], abs=0.15)
    assert np.array_equal(drop_units(network, 0.0, jax.random.key(2))(x), network(x))
    # For a row alone, all rows sharing the units is the same as each row having its own.
    shared = jax.lax.map(
        lambda key: drop_units(network, 0.25, key)(x)[:, 0], jax.random.split(jax.random.key(3), 1000)
    )
    own = jax.lax.map(
        lambda key: network(x, dropout=0.25, key=key)[:, 0], jax.random.split(jax.random.key(4), 1000)
    )
    np.testing.assert_allclose(shared.mean(axis=0), own.mean(axis=0), atol=0.15)
    np.testing.assert_allclose(shared.std(axis=0), own.std(axis=0), rtol=0.15)


def test_train_says_where_the_schedule_is_not_the_run_s(
    maze_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "train",
        str(maze_file),
        "--algo",
        "iql",
        "--hidden",
        "8",
        "--batch-size",
        "16",
        "--updates",
        "20",
        "--no-plot",
    ]
    assert main([*words, "--run", str(tmp_path / "one")]) == 0
    assert (
        "schedule_updates is 300,000, and the run makes 20 updates (--schedule-updates 20"
        in capsys.readouterr().out
    )
    assert main([*words, "--schedule-updates", "20", "--run", str(tmp_path / "two")]) == 0
    assert "schedule_updates is" not in capsys.readouterr().out
