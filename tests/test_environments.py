"""Environments for evaluation: what a name stands for, episodes with known returns, D4RL's rules, and
doing without."""

import re
from pathlib import Path
from typing import Any

import corridor
import h5py
import numpy as np
import pytest
from corridor import corridor_log
from numpy.typing import NDArray
from rich.console import Console

from gridcount.algorithms.presets import preset_fields
from gridcount.catalogue import FAMILIES, NAMES, family_of
from gridcount.data.load import import_log, load
from gridcount.envs.episodes import GymnasiumEpisodes, make_environment
from gridcount.evaluation.environments import (
    ENVIRONMENTS,
    dimensions,
    find,
    has_environment,
    trust,
    validate_dimensions,
    why_no_environment,
)
from gridcount.evaluation.rollouts import Act, evaluate
from gridcount.report.headline import headline_table, scores_table

Float32 = NDArray[np.float32]
DATA = Path(__file__).parent / "data"
CORRIDOR = "corridor:known/Corridor-v0"
TINY = ["--hidden", "8", "--batch-size", "16", "--bins", "4", "--updates", "40", "--evaluate-every", "20"]


def setting(value: float, dims: int = 1) -> Act:
    return lambda observation: np.full((len(observation), dims), value, np.float32)


def random_policy(dims: int) -> Act:
    rng = np.random.default_rng(0)
    return lambda observation: rng.uniform(-1, 1, (len(observation), dims)).astype(np.float32)


# --- names ---


@pytest.mark.parametrize(
    ("name", "gymnasium_id", "limit", "family"),
    [
        ("hopper-medium-v2", "Hopper-v4", 1000, "hopper"),
        ("halfcheetah-medium-expert-v2", "HalfCheetah-v4", 1000, "halfcheetah"),
        ("walker2d-medium-replay-v2", "Walker2d-v4", 1000, "walker2d"),
        ("ant-random-v2", "Ant-v4", 1000, "ant"),
        ("pen-human-v1", "gridcount/pen-v1", 100, "pen"),
        ("hammer-cloned-v1", "gridcount/hammer-v1", 200, "hammer"),
        ("door-expert-v1", "gridcount/door-v1", 200, "door"),
        ("relocate-human-v1", "gridcount/relocate-v1", 200, "relocate"),
        ("maze2d-large-dense-v1", "gridcount/maze2d-large-dense-v1", 800, "maze2d-large-dense"),
        ("Hopper-v4", "Hopper-v4", None, "hopper"),
        ("Hopper-v5", "Hopper-v5", None, "hopper"),
        ("HalfCheetah-v5", "HalfCheetah-v5", None, "halfcheetah"),
        ("Pendulum-v1", "Pendulum-v1", None, None),
        ("door-v0", "door-v0", None, None),  # a user's id that only looks like a family of D4RL's
        (CORRIDOR, CORRIDOR, None, None),
    ],
)
def test_a_name_stands_for_its_environment_limit_and_reference(
    name: str, gymnasium_id: str, limit: int | None, family: str | None
) -> None:
    found = find(name)
    assert (found.name, found.id, found.limit, found.family) == (name, gymnasium_id, limit, family)


def test_every_dataset_has_an_environment_or_a_reason_why_not() -> None:
    without = [name for name in NAMES if not has_environment(name)]
    assert {name.split("-")[0] for name in without} == {"antmaze", "kitchen"}
    assert set(ENVIRONMENTS) == set(NAMES) - set(without)
    for name in without:
        assert "known for" not in why_no_environment(name)
        with pytest.raises(
            ValueError, match=f"{name} has no environment: {re.escape(why_no_environment(name))}"
        ):
            find(name)
    assert (
        why_no_environment("reactor.csv")
        == why_no_environment("antmaze-of-mine.csv")
        == "no environment is known for this dataset"
    )


def test_dimensions_are_read_from_the_environment() -> None:
    assert dimensions("maze2d-umaze-v1") == ((4,), 2)
    assert dimensions("hopper-medium-v2") == dimensions("Hopper-v5") == ((11,), 3)
    assert dimensions("ant-medium-v2") == ((111,), 8)
    assert dimensions(CORRIDOR) == ((2,), 1)
    validate_dimensions("walker2d-medium-v2", 17, 6)
    with pytest.raises(
        ValueError, match=r"needs an environment of 17 observation and 3 .* of 11 observation and 3 action"
    ):
        validate_dimensions("hopper-medium-v2", 17, 3)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Hoper-v4", "Did you mean 'Hopper-v4'"),
        ("hopper-medum-v2", "Did you mean 'hopper-medium-v2'"),
        ("Hopper-v99", "every id registered with Gymnasium"),
        ("not an id", "every id registered with Gymnasium"),
        ("corridor:known/Nothing-v0", "every id registered with Gymnasium"),
        ("CartPole-v1", "its actions are Discrete"),
        ("Blackjack-v1", "its observations are Tuple"),
        ("Hopper-v2", "Hopper-v2: the environment cannot be created"),
    ],
)
def test_what_cannot_be_rolled_out_is_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        dimensions(name)


def test_a_module_that_is_not_there_is_named() -> None:
    trust("no_such_module:X-v0")
    with pytest.raises(ImportError, match=r"no_such_module:X-v0: .* must be installed, or on PYTHONPATH"):
        dimensions("no_such_module:X-v0")


# --- episodes with known returns ---


def lengths(seed: int, episodes: int) -> NDArray[np.float32]:
    return GymnasiumEpisodes("known/Endless-v0", episodes, seed).reset()[:, 0]


def test_a_finished_episode_stays_finished_and_adds_no_reward() -> None:
    # the corridor itself refuses a step after its end
    result = evaluate(setting(7.0), CORRIDOR, episodes=30, seed=1)
    length = lengths(1, 30)
    assert length.min() < corridor.LIMIT < length.max()
    np.testing.assert_array_equal(result.returns, 7.0 * np.minimum(length, corridor.LIMIT))
    np.testing.assert_array_equal(result.success, length <= corridor.LIMIT)
    assert result.scores is None
    assert result.summary() == {"return": result.returns.mean(), "success": (length <= corridor.LIMIT).mean()}
    assert result.observations.shape == (corridor.LIMIT + 1, 30, 2)
    short = length == 2
    np.testing.assert_array_equal(
        result.observations[2:, short], np.tile([0, 2], (corridor.LIMIT - 1, short.sum(), 1))
    )


def test_a_reward_that_is_not_a_number_is_refused_with_its_environment() -> None:
    with pytest.raises(
        ValueError,
        match="corridor:known/Broken-v0: the environment returned a reward of nan in step 2 of an episode",
    ):
        evaluate(setting(7.0), "corridor:known/Broken-v0", episodes=3, seed=1)


def test_a_limit_cuts_an_episode_and_can_exceed_the_environments_own() -> None:
    for limit in (3, 8):
        episodes = GymnasiumEpisodes("known/Corridor-v0", 30, seed=1, limit=limit)
        episodes.reset()
        for step in range(1, limit + 1):
            _, _, terminated, truncated = episodes.step(np.ones((30, 1), np.float32))
            np.testing.assert_array_equal(terminated, lengths(1, 30) == step)
            assert truncated.any() == (step == limit)
        with pytest.raises(RuntimeError, match="the episodes are over"):
            episodes.step(np.ones((30, 1), np.float32))


def test_an_environment_without_any_limit_gets_one() -> None:
    assert GymnasiumEpisodes("known/Endless-v0", 1).limit == 1000


def test_an_environment_that_never_tells_of_success_has_none() -> None:
    result = evaluate(setting(1.0), "known/Silent-v0", episodes=3, seed=0)
    assert result.success is None
    assert result.summary().keys() == {"return"}


def test_an_environment_that_tells_success_only_when_it_happens_is_taken_at_its_word() -> None:
    full, rare = (
        evaluate(setting(1.0), f"known/{name}-v0", episodes=6, seed=0) for name in ("Corridor", "Rare")
    )
    assert full.success is not None
    assert rare.success is not None
    assert 0 < full.success.mean() < 1
    np.testing.assert_array_equal(rare.success, full.success)


def test_silence_about_success_is_none_where_the_environment_spoke_of_it_before() -> None:
    rows = [
        {"seed": 0, "return": 1.0},
        {"seed": 0, "return": 1.0, "success": 1.0},
        {"seed": 1, "return": 2.0},
        {"seed": 1, "return": 2.0},
    ]
    console = Console(width=100)
    with console.capture() as capture:
        console.print(headline_table(rows))
        console.print(scores_table("evaluated", {0: {"return": 1.0}, 1: {"return": 3.0, "success": 0.5}}))
        console.print(headline_table(rows[:1]))
    text = capture.get()
    assert "mean of the last 2 evaluations" in text
    assert re.search(r"0 │ +1\.0 │ +50%", text)  # of two evaluations one
    assert re.search(r"1 │ +2\.0 │ +0%", text)
    assert re.search(r"0 │ +1\.0 │ +0%", text)
    assert "the only evaluation" in text


def test_the_same_seed_gives_the_same_episodes_however_many_there_are() -> None:
    np.testing.assert_array_equal(lengths(5, 8), lengths(5, 20)[:8])
    assert not np.array_equal(lengths(5, 20), lengths(6, 20))
    episodes = GymnasiumEpisodes("known/Endless-v0", 20, 5)
    assert not np.array_equal(episodes.reset(), episodes.reset())  # fresh ones
    first, again = (evaluate(setting(0.3, 3), "hopper-medium-v2", episodes=3, seed=9) for _ in range(2))
    np.testing.assert_array_equal(first.observations, again.observations)
    np.testing.assert_array_equal(first.returns, again.returns)


def test_actions_are_mapped_to_the_logs_units_and_clipped_to_the_environments_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path))
    valve = import_log(corridor_log(tmp_path / "log.csv"), "valve", scale_actions=True)
    low, high = float(valve.action_low[0]), float(valve.action_high[0])
    assert 0 <= low < 10 < 90 < high <= 100
    length = np.minimum(lengths(0, 4), corridor.LIMIT)
    for action, paid in {-1.0: low, 0.0: (low + high) / 2, 1.0: high}.items():
        result = evaluate(setting(action), CORRIDOR, episodes=4, seed=0, in_units=valve.in_units)
        np.testing.assert_allclose(result.returns, paid * length, rtol=1e-5)
    np.testing.assert_array_equal(
        evaluate(setting(-0.5), CORRIDOR, episodes=4, seed=0).returns, 0.0
    )  # unscaled: clipped to 0
    np.testing.assert_array_equal(
        evaluate(setting(500.0), CORRIDOR, episodes=4, seed=0).returns, 100.0 * length
    )


D4RL = {  # d4rl/infos.py: REF_MIN_SCORE, REF_MAX_SCORE
    "maze2d-umaze-v1": (23.85, 161.86),
    "maze2d-medium-v1": (13.13, 277.39),
    "maze2d-large-v1": (6.7, 273.99),
    "maze2d-umaze-dense-v1": (68.537689, 193.66285642381482),
    "maze2d-medium-dense-v1": (44.264742, 297.4552547777125),
    "maze2d-large-dense-v1": (30.569041, 303.4857382709002),
    "hopper": (-20.272305, 3234.3),
    "halfcheetah": (-280.178953, 12135.0),
    "walker2d": (1.629008, 4592.3),
    "ant": (-325.6, 3879.7),
    "pen": (96.262799, 3076.8331017826877),
    "hammer": (-274.856578, 12794.134825156867),
    "relocate": (-6.425911, 4233.877797728884),
    "door": (-56.512833, 2880.5693087298737),
    "antmaze": (0.0, 1.0),
    "kitchen": (0.0, 4.0),
}


@pytest.mark.parametrize("name", NAMES)
def test_reference_scores_are_those_of_d4rl(name: str) -> None:
    family = family_of(name)
    assert family is not None
    assert FAMILIES[family][:2] == D4RL[name if name in D4RL else name.split("-")[0]]


@pytest.mark.parametrize(
    "name",
    ["door-sensors", "hopper-line3", "ant", "maze2d-umaze", "maze2d-umaze-v1-copy", "hopper-medium-v3"],
)
def test_a_name_of_ones_own_is_no_family_whatever_it_starts_with(name: str) -> None:
    assert family_of(name) is None
    assert not has_environment(name)
    assert find(name).family is None
    assert preset_fields("gpc-sac", name, "fast") == preset_fields("gpc-sac", "mine", "fast")


def test_an_unscaled_logs_actions_reach_the_environment_to_the_bit() -> None:
    action = np.array([[1e-9, -0.3, 0.7]], np.float32)
    assert load(DATA / "hopper_medium-v2.hdf5").in_units(action) is action


def test_an_action_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="actions must be finite"):
        evaluate(setting(np.nan), CORRIDOR, episodes=2, seed=0)


# --- D4RL's tasks ---


def test_a_random_policy_scores_near_zero_in_hopper() -> None:
    result = evaluate(random_policy(3), "hopper-random-v2", episodes=10, seed=0)
    low, high, _ = FAMILIES["hopper"]
    assert result.success is None
    assert result.scores is not None
    np.testing.assert_allclose(result.scores, 100 * (result.returns - low) / (high - low))
    assert 0 < result.summary()["score"] < 5
    assert evaluate(random_policy(3), "Hopper-v4", episodes=10, seed=0).summary() == result.summary()


def test_a_still_cheetah_runs_to_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = evaluate(setting(0.0, 6), "halfcheetah-medium-v2", episodes=1, seed=0)
    assert len(result.observations) == 1 + FAMILIES["halfcheetah"].limit
    assert not list(tmp_path.iterdir())  # MuJoCo would leave a log of its warnings


def columns(name: str) -> dict[str, NDArray[np.float64]]:
    with h5py.File(DATA / name) as file:
        keys = (
            "actions",
            "rewards",
            "infos/qpos",
            "infos/qvel",
            "infos/desired_orien",
            "infos/door_body_pos",
        )
        return {key.split("/")[-1]: np.asarray(file[key], np.float64) for key in keys if key in file}


def test_hopper_pays_what_d4rls_log_says_it_paid() -> None:
    log, hopper = columns("hopper_medium-v2.hdf5"), make_environment("Hopper-v4")
    hopper.reset(seed=0)
    inside: Any = hopper.unwrapped
    paid: list[float] = []
    for t in range(100):
        inside.set_state(log["qpos"][t], log["qvel"][t])
        paid.append(float(hopper.step(log["actions"][t])[1]))
    np.testing.assert_allclose(paid, log["rewards"][:100], atol=0.03)


@pytest.mark.parametrize("task", ["pen", "door"])
def test_adroit_pays_what_d4rls_log_says_it_paid(task: str) -> None:
    log, hand = columns(f"{task}-human-v1.hdf5"), make_environment(f"gridcount/{task}-v1")
    hand.reset(seed=0)
    inside: Any = hand.unwrapped
    state = {"pen": ("qpos", "qvel", "desired_orien"), "door": ("qpos", "qvel", "door_body_pos")}[task]
    paid: list[float] = []
    for t in range(60):
        inside.set_env_state({key: log[key][t] for key in state})
        paid.append(float(hand.step(log["actions"][t].astype(np.float32))[1]))
    np.testing.assert_allclose(paid, log["rewards"][:60], atol=0.02)


@pytest.mark.parametrize(
    ("name", "dims"), [("door-human-v1", 28), ("hammer-human-v1", 26), ("relocate-human-v1", 30)]
)
def test_a_random_hand_gets_the_reference_score_of_a_random_hand(name: str, dims: int) -> None:
    result = evaluate(random_policy(dims), name, episodes=8, seed=0)
    assert len(result.observations) == 201
    assert result.success is not None
    assert not result.success.any()
    assert result.returns.mean() == pytest.approx(
        FAMILIES[name.split("-")[0]].low, abs=5
    )  # D4RL's 0 is what a random hand gets


def test_an_episode_of_pen_ends_where_the_pen_is_dropped() -> None:
    result = evaluate(random_policy(24), "pen-human-v1", episodes=10, seed=0)
    height = result.observations[:, :, 26]
    dropped = height[-1] < 0.075
    assert dropped.any()
    assert len(height) <= 101
    for i in np.flatnonzero(dropped):
        end = np.argmax(height[:, i] < 0.075)
        assert (result.observations[end:, i] == result.observations[end, i]).all()
    assert -10 < result.summary()["score"] < 30


def test_a_goal_environment_gives_the_observation_that_the_data_has() -> None:
    assert dimensions("PointMaze_UMaze-v3") == ((4, 6), 2)
    small = GymnasiumEpisodes("PointMaze_UMaze-v3", 2, seed=0, observation_dim=4).reset()
    large = GymnasiumEpisodes("PointMaze_UMaze-v3", 2, seed=0, observation_dim=6).reset()
    np.testing.assert_array_equal(large[:, 2:], small)
    np.testing.assert_array_equal(large[:, :2], small[:, :2])  # the achieved goal is the position
