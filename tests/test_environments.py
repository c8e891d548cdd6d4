"""Environments for evaluation: what a name stands for, episodes with known returns, D4RL's rules, and doing without."""

import csv
import json
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import corridor
import h5py
import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from gridcount.algorithms.presets import preset_fields
from gridcount.cli import main
from gridcount.data.catalogue import FAMILIES, NAMES, family_of
from gridcount.data.load import import_log, load
from gridcount.envs.episodes import GymnasiumEpisodes, make_environment
from gridcount.evaluation import environments
from gridcount.evaluation.environments import ENVIRONMENTS, dimensions, find, has_environment, refuse_misfit, why_none
from gridcount.evaluation.rollouts import Act, evaluate
from gridcount.report.headline import headline_table, scores_table
from gridcount.training.logs import read_rows
from gridcount.training.run import read_plan

Float32 = NDArray[np.float32]
DATA = Path(__file__).parent / "data"
CORRIDOR = "corridor:known/Corridor-v0"
TINY = ["--hidden", "8", "--batch-size", "16", "--bins", "4", "--updates", "40", "--evaluate-every", "20"]
needs_robotics = pytest.mark.skipif(find_spec("gymnasium_robotics") is None, reason="Gymnasium-Robotics is not installed")


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
def test_a_name_stands_for_its_environment_limit_and_reference(name: str, gymnasium_id: str, limit: int | None, family: str | None) -> None:
    found = find(name)
    assert (found.name, found.id, found.limit, found.family) == (name, gymnasium_id, limit, family)


def test_every_dataset_has_an_environment_or_a_reason_why_not() -> None:
    without = [name for name in NAMES if not has_environment(name)]
    assert {name.split("-")[0] for name in without} == {"antmaze", "kitchen"}
    assert set(ENVIRONMENTS) == set(NAMES) - set(without)
    for name in without:
        assert "known for" not in why_none(name)
        with pytest.raises(ValueError, match=f"{name} has no environment: {re.escape(why_none(name))}"):
            find(name)
    assert why_none("reactor.csv") == why_none("antmaze-of-mine.csv") == "no environment is known for this dataset"


def test_dimensions_are_read_from_the_environment() -> None:
    assert dimensions("maze2d-umaze-v1") == ((4,), 2)
    assert dimensions("hopper-medium-v2") == dimensions("Hopper-v5") == ((11,), 3)
    assert dimensions("ant-medium-v2") == ((111,), 8)
    assert dimensions(CORRIDOR) == ((2,), 1)
    refuse_misfit("walker2d-medium-v2", 17, 6)
    with pytest.raises(ValueError, match=r"calls for an environment of 17 observation and 3 .* of 11 observation and 3 action"):
        refuse_misfit("hopper-medium-v2", 17, 3)


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
        ("Hopper-v2", "Hopper-v2: the environment cannot be made"),
    ],
)
def test_what_cannot_be_rolled_out_is_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        dimensions(name)


def test_a_module_that_is_not_there_is_named() -> None:
    with pytest.raises(ImportError, match=r"no_such_module:X-v0: .* must be installed, or on PYTHONPATH"):
        dimensions("no_such_module:X-v0")


# --- episodes with known returns ---


def lengths(seed: int, episodes: int) -> NDArray[np.float32]:
    return GymnasiumEpisodes("known/Endless-v0", episodes, seed).reset()[:, 0]


def test_a_finished_episode_stays_finished_and_adds_no_reward() -> None:
    result = evaluate(setting(7.0), CORRIDOR, episodes=30, seed=1)  # the corridor itself refuses a step after its end
    length = lengths(1, 30)
    assert length.min() < corridor.LIMIT < length.max()
    np.testing.assert_array_equal(result.returns, 7.0 * np.minimum(length, corridor.LIMIT))
    np.testing.assert_array_equal(result.success, length <= corridor.LIMIT)
    assert result.scores is None
    assert result.summary() == {"return": result.returns.mean(), "success": (length <= corridor.LIMIT).mean()}
    assert result.observations.shape == (corridor.LIMIT + 1, 30, 2)
    short = length == 2
    np.testing.assert_array_equal(result.observations[2:, short], np.tile([0, 2], (corridor.LIMIT - 1, short.sum(), 1)))


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
    full, rare = (evaluate(setting(1.0), f"known/{name}-v0", episodes=6, seed=0) for name in ("Corridor", "Rare"))
    assert full.success is not None
    assert rare.success is not None
    assert 0 < full.success.mean() < 1
    np.testing.assert_array_equal(rare.success, full.success)


def test_silence_about_success_is_none_where_the_environment_spoke_of_it_before() -> None:
    rows = [{"seed": 0, "return": 1.0}, {"seed": 0, "return": 1.0, "success": 1.0}, {"seed": 1, "return": 2.0}, {"seed": 1, "return": 2.0}]
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
    np.testing.assert_array_equal(evaluate(setting(-0.5), CORRIDOR, episodes=4, seed=0).returns, 0.0)  # unscaled: clipped to 0
    np.testing.assert_array_equal(evaluate(setting(500.0), CORRIDOR, episodes=4, seed=0).returns, 100.0 * length)


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


@pytest.mark.parametrize("name", ["door-sensors", "hopper-line3", "ant", "maze2d-umaze", "maze2d-umaze-v1-copy", "hopper-medium-v3"])
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
        keys = ("actions", "rewards", "infos/qpos", "infos/qvel", "infos/desired_orien", "infos/door_body_pos")
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


@needs_robotics
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


@needs_robotics
@pytest.mark.parametrize(("name", "dims"), [("door-human-v1", 28), ("hammer-human-v1", 26), ("relocate-human-v1", 30)])
def test_a_random_hand_gets_the_reference_score_of_a_random_hand(name: str, dims: int) -> None:
    result = evaluate(random_policy(dims), name, episodes=8, seed=0)
    assert len(result.observations) == 201
    assert result.success is not None
    assert not result.success.any()
    assert result.returns.mean() == pytest.approx(FAMILIES[name.split("-")[0]].low, abs=5)  # D4RL's 0 is what a random hand gets


@needs_robotics
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


@needs_robotics
def test_a_goal_environment_gives_the_observation_that_the_data_has() -> None:
    assert dimensions("PointMaze_UMaze-v3") == ((4, 6), 2)
    small = GymnasiumEpisodes("PointMaze_UMaze-v3", 2, seed=0, observation_dim=4).reset()
    large = GymnasiumEpisodes("PointMaze_UMaze-v3", 2, seed=0, observation_dim=6).reset()
    np.testing.assert_array_equal(large[:, 2:], small)
    np.testing.assert_array_equal(large[:, :2], small[:, :2])  # the achieved goal is the position


# --- from the command line ---


def corridor_log(path: Path, rows: int = 400) -> Path:
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["observation_0", "observation_1", "action", "reward", "terminated"])
        for t in range(rows):
            step, valve = t % 5, rng.uniform(0, 100)
            writer.writerow([5 - step, step, valve, valve, int(step == 4)])
    return path


@pytest.fixture
def valve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An imported log with actions from 0 to 100."""
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    import_log(corridor_log(tmp_path / "log.csv"), "valve", scale_actions=True)
    return "valve"


def test_a_users_own_environment_is_trained_for_and_evaluated_by_plain_return(
    valve: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main(["train", valve, *TINY, "--env", CORRIDOR, "--episodes", "3", "--run", str(run)]) == 0
    out = capsys.readouterr().out
    rows = read_rows(run)
    assert all("score" not in row and 0 <= row["return"] <= 600 and 0 <= row["success"] <= 1 for row in rows)
    for row in rows:
        assert re.search(rf"update +{row['updates']}  seed 0  return +{row['return']:.1f}  success +\d+%  critic loss", out)
    assert "score" not in out
    assert (run / "curve.png").exists()
    assert main(["evaluate", str(run), "--episodes", "4"]) == 0
    table = capsys.readouterr().out
    assert "return" in table
    assert "score" not in table
    assert main(["evaluate", str(run), "--episodes", "4", "--env", "Hopper-v4"]) == 2
    assert "calls for an environment of 2 observation and 1 action dimensions" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["hopper-medium-v2", "Hopper-v4"])
def test_hopper_is_named_by_its_dataset_or_its_id_and_scored_without_success(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    words = ["train", str(DATA / "hopper_medium-v2.hdf5"), *TINY, "--env", name, "--episodes", "2", "--no-plot", "--run", str(run)]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert re.search(r"seed 0  score +-?[\d.]+  critic loss", out)
    assert "success" not in out
    assert all({"score", "return"} <= row.keys() and "success" not in row for row in read_rows(run))
    assert main(["evaluate", str(run), "--episodes", "2"]) == 0
    table = capsys.readouterr().out
    assert "score" in table
    assert "success" not in table


# --- doing without ---


def test_a_log_without_an_environment_trains_and_says_how_to_judge(valve: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", valve, *TINY, "--no-plot", "--run", str(tmp_path / "run")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "no environment is known for this dataset: the policy is trained but not scored" in out
    assert "How to judge the policy without an environment" in out
    data = load(valve)
    starts = np.cumsum(data.episode_lengths) - data.episode_lengths
    best = max(
        sum(0.99**t * float(reward) for t, reward in enumerate(data.reward[start : start + length]))
        for start, length in zip(starts, data.episode_lengths, strict=True)
    )
    assert f"{best:.4g} at best" in out


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Forget what was imported for environments, then block some of it."""
    for module in [
        name for name in sys.modules if name.split(".")[0] in ("gymnasium", "gymnasium_robotics") or name.startswith("gridcount.envs")
    ]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.delattr("gridcount.envs", raising=False)
    dimensions.cache_clear()
    yield monkeypatch
    dimensions.cache_clear()


def test_a_missing_simulator_is_named_with_its_extra(without: pytest.MonkeyPatch) -> None:
    without.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ImportError, match=r"pip install 'gridcount\[envs\]'"):
        dimensions("hopper-medium-v2")


def test_missing_robotics_are_named_with_their_extra(without: pytest.MonkeyPatch) -> None:
    without.setitem(sys.modules, "gymnasium_robotics", None)
    with pytest.raises(ImportError, match=r"pip install 'gridcount\[robotics\]'"):
        dimensions("pen-human-v1")
    with pytest.raises(ValueError, match=r"one of Gymnasium-Robotics': .*pip install 'gridcount\[robotics\]'"):
        dimensions("AdroitHandPen-v1")


def test_training_does_without_the_simulator_its_dataset_comes_with_but_not_one_asked_for(
    without: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without.setattr(environments, "ENVIRONMENTS", (*ENVIRONMENTS, "mine"))
    without.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    import_log(DATA / "hopper_medium-v2.hdf5", "mine")
    without.setattr(environments, "family_of", lambda name: "hopper")
    without.setitem(sys.modules, "gymnasium", None)
    assert main(["train", "mine", *TINY, "--no-plot", "--run", str(tmp_path / "run")]) == 0
    out = capsys.readouterr().out
    assert "pip install 'gridcount[envs]': the policy is trained but not scored" in out
    assert "How to judge the policy without an environment" in out
    assert main(["train", "mine", *TINY, "--env", "Hopper-v4", "--run", str(tmp_path / "asked")]) == 2
    assert "pip install 'gridcount[envs]'" in capsys.readouterr().err
    assert not (tmp_path / "asked").exists()


# --- the environment that a Minari set names ---


def minari_set(folder: Path, env_spec: dict[str, Any] | str | None, excerpt: str = "hopper_medium-v2.hdf5") -> Path:
    """A folder in Minari's layout."""
    data = load(DATA / excerpt)
    folder.mkdir()
    with h5py.File(folder / "main_data.hdf5", "w") as file:
        for i, end in enumerate(np.flatnonzero(data.episode_end)):
            rows = slice(end - 20, end + 1)
            group = file.create_group(f"episode_{i}")
            group["observations"] = np.concatenate([data.observation[rows], data.next_observation[rows][-1:]])
            group["actions"], group["rewards"] = data.action[rows], data.reward[rows]
            group["terminations"], group["truncations"] = data.terminated[rows], (data.episode_end & ~data.terminated)[rows]
    spec = {} if env_spec is None else {"env_spec": json.dumps(env_spec)}
    (folder / "metadata.json").write_text(json.dumps(spec))
    return folder


@pytest.mark.parametrize("imported", [False, True])
def test_a_minari_set_is_scored_where_it_says_it_was_collected(
    imported: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    name = str(minari_set(tmp_path / "hops", {"id": "Hopper-v5", "kwargs": {"render_mode": None}}))
    if imported:
        assert main(["data", "import", name, "--name", "hops"]) == 0
        name = "hops"
    run = tmp_path / "run"
    assert main(["train", name, *TINY, "--episodes", "2", "--no-plot", "--run", str(run)]) == 0
    assert read_plan(run).environment == "Hopper-v5"
    assert all("return" in row for row in read_rows(run))
    assert "scored in Hopper-v5, where the log was collected" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("env_spec", "message"),
    [
        (None, "no environment is known for this dataset"),
        ({"id": "os:system-v0"}, "no environment is known for this dataset"),  # a file must not name a module to import
        ({"id": ["Hopper-v5"]}, "no environment is known for this dataset"),
        ("broken", "no environment is known for this dataset"),
        ({"id": "Hoppper-v9"}, "the log was collected in Hoppper-v9, which cannot be made here: unknown environment 'Hoppper-v9'"),
        ({"id": "Hopper-v5", "kwargs": {"healthy_reward": 2}}, "collected in Hopper-v5 with options of its own (healthy_reward)"),
        ({"id": "HalfCheetah-v5"}, "the data calls for an environment of 11 observation and 3 action dimensions, but HalfCheetah-v5 is"),
    ],
)
def test_a_minari_set_whose_environment_cannot_be_had_is_trained_and_says_so(
    env_spec: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    folder = minari_set(tmp_path / "hops", env_spec)
    assert main(["train", str(folder), *TINY, "--no-plot", "--run", str(tmp_path / "run")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert message in out
    assert "trained but not scored" in out
    assert read_plan(tmp_path / "run").environment is None


def test_a_file_is_trained_and_evaluated_with_the_bounds_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, run = corridor_log(tmp_path / "log.csv"), tmp_path / "run"
    words = ["train", str(log), *TINY, "--env", CORRIDOR, "--episodes", "2", "--no-plot", "--run", str(run)]
    assert main(words) == 2
    assert "outside [-1, 1]" in capsys.readouterr().err
    assert main([*words, "--action-low", "-100", "--action-high", "100"]) == 0
    plan = read_plan(run)
    assert (plan.scale_actions, plan.action_low, plan.action_high) == (False, (-100.0,), (100.0,))
    assert main(["evaluate", str(run), "--episodes", "2"]) == 0  # the data is loaded as it was
