"""What is said of a policy that no environment scored: counted from the log alone, true at the default,
and with a way out."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import MakeLog
from log_files import write_csv
from numpy.typing import NDArray

from gridcount.algorithms import ALGORITHMS, make_algorithm
from gridcount.algorithms.contract import Prepared
from gridcount.cli import main
from gridcount.counts.support import LogSupport
from gridcount.data.load import import_log, load
from gridcount.training.divergence import why_diverged
from gridcount.training.judging import LogJudge, Worth
from gridcount.training.logs import read_rows
from gridcount.transitions import Transitions

Columns = dict[str, NDArray[Any]]
TINY = ["--hidden", "8", "--batch-size", "16", "--updates", "20", "--evaluate-every", "10", "--no-plot"]


def thermostat(rows: int = 3000) -> Transitions:
    """A log whose controller answers each of ten temperatures with a heat of its own, give or take 0.02."""
    rng = np.random.default_rng(0)
    place = rng.integers(0, 10, rows)
    heat = 1.6 * place / 9 - 0.8 + rng.uniform(-0.02, 0.02, rows)
    observation, done = place[:, None].astype(np.float32), np.zeros(rows, np.bool_)
    action = heat[:, None].astype(np.float32)
    return Transitions(
        observation, action, np.ones(rows, np.float32), np.roll(observation, -1, axis=0), done, done
    )


# --- what the log has of a policy's actions ---


def test_the_logs_own_actions_are_in_the_log_and_opposite_ones_are_not() -> None:
    data = thermostat()
    support = LogSupport.fit(data, bins=30)
    own = support.measure(data.action[support.rows])
    assert own == (1.0, 0.0)
    assert support.itself.in_log > 0.95
    assert support.itself.action_distance < 0.01
    opposite = support.measure(-data.action[support.rows])
    assert opposite.in_log < 0.05
    assert opposite.action_distance > 0.3


def test_the_share_and_the_distance_are_those_of_a_count_by_hand(make_log: MakeLog) -> None:
    data = make_log(rows=300, observation_dim=1)
    data.next_observation[:] = data.observation
    support = LogSupport.fit(data, bins=4)
    policy = np.random.default_rng(1).uniform(-1, 1, (300, 2)).astype(np.float32)

    def cells(x: NDArray[Any], like: NDArray[Any]) -> Any:
        low, high = like.min(axis=0), like.max(axis=0)
        return np.floor(4 * (x - low) / (high - low + np.float32(1e-6)) + np.float32(0.5))

    state, logged, chosen = (
        cells(x, like) for x, like in ((data.observation,) * 2, (data.action,) * 2, (policy, data.action))
    )
    width = np.ptp(data.action, axis=0)
    known, distance = [], []
    for row in support.rows:
        same = (state == state[row]).all(axis=1)
        known.append((logged[same] == chosen[row]).all(axis=1).any())
        distance.append((np.abs(data.action[same] - policy[row]) / width).max(axis=1).min())
    found = support.measure(policy[support.rows])
    assert found.in_log == pytest.approx(np.mean(known))
    assert found.action_distance == pytest.approx(np.mean(distance), rel=1e-5)


def test_a_log_on_disk_is_measured_as_one_in_memory(
    make_log: MakeLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path))
    data = make_log(rows=4000)
    table: Columns = {
        "obs": data.observation[:, 0],
        "action": data.action[:, 0],
        "reward": data.reward,
        "truncated": data.episode_end,
    }
    import_log(write_csv(tmp_path / "log.csv", table), "log")
    here, there = (load("log", memory_map=mapped) for mapped in (False, True))
    measured = [LogSupport.fit(each, bins=5) for each in (here, there)]
    action = np.zeros((len(measured[0].rows), 1), np.float32)
    assert measured[0].measure(action) == measured[1].measure(action)
    assert measured[0].itself == measured[1].itself


# --- what a run logs and says ---


@pytest.fixture(scope="module")
def log_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = thermostat(600)
    table: Columns = {
        "obs": data.observation[:, 0],
        "action": data.action[:, 0],
        "reward": data.reward,
        "episode": np.arange(600) // 100,
    }
    return write_csv(tmp_path_factory.mktemp("thermostat") / "log.csv", table)


@pytest.mark.parametrize("algorithm", ["gpc-sac", "bc", "td3"])
def test_every_algorithm_tells_how_much_of_its_policy_the_log_has(
    algorithm: str, log_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main(["train", str(log_file), "--algo", algorithm, *TINY, "--run", str(run)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    rows = read_rows(run)
    assert all(
        0 <= row["in_log"] <= 1 and row["action_distance"] >= 0 and row["in_log_expected"] > 0.9
        for row in rows
    )
    assert out.count("in log ") == 2, "one per line of progress"
    assert f"{rows[-1]['in_log']:.0%} of its actions lie in a cell that the log visits there" in out
    assert "say how far the policy strays" not in out
    assert ("first_visits" in out) == (algorithm == "gpc-sac"), "figures that this algorithm does not have"
    assert ("(Q)" in out) == (algorithm != "bc")


def test_an_untrained_policy_strays_and_is_told_the_flag(
    log_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table that GPC counts in by default holds the policy's own actions, so it cannot tell."""
    run = tmp_path / "run"
    words = [
        "--algo",
        "gpc-sac",
        "--hidden",
        "8",
        "--batch-size",
        "256",
        "--updates",
        "100",
        "--evaluate-every",
        "100",
        "--no-plot",
    ]
    assert main(["train", str(log_file), *words, "--run", str(run)]) == 0
    row = read_rows(run)[-1]
    assert row["first_visits"] < 0.1
    assert row["in_log"] < 0.4
    assert row["action_distance"] > 0.1
    assert "The policy often does what the log never tried: try a larger --pessimism" in " ".join(
        capsys.readouterr().out.split()
    )


def test_measuring_changes_no_bit_of_training(
    log_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["train", str(log_file), *TINY, "--run", str(tmp_path / "with")]) == 0
    monkeypatch.setattr(LogJudge, "measure", lambda judge, act: {})
    assert main(["train", str(log_file), *TINY, "--run", str(tmp_path / "without")]) == 0
    with (
        np.load(tmp_path / "with/checkpoints/0000000020.npz") as first,
        np.load(tmp_path / "without/checkpoints/0000000020.npz") as second,
    ):
        assert all(np.array_equal(first[name], second[name]) for name in first.files if name != "run")


# --- what values can be ---


def judge_of(data: Transitions, name: str = "gpc-sac", **changes: object) -> LogJudge:
    return LogJudge.fit(data, make_algorithm(name, "", "fast", **changes).prepare(data))


def test_an_episode_that_was_cut_off_is_carried_on_at_the_mean_reward() -> None:
    reward, terminated = np.array([1, 3, 2, 2], np.float32), np.array([0, 1, 0, 0])
    worth = Worth.fit(reward, terminated, np.array([False, True, False, True]), np.arange(4), 0.9)
    finished = [1 + 0.9 * 3, 3]
    cut_off = [2 + 0.9 * 2 + 0.9**2 * 2 / 0.1, 2 + 0.9 * 2 / 0.1]
    assert (worth.worst, worth.best) == pytest.approx((min(finished), max(cut_off)))
    assert worth.mean == pytest.approx(np.mean([*finished, *cut_off]))
    assert (worth.low, worth.high) == pytest.approx((1, 30))  # an episode may end at once, or never


@pytest.mark.parametrize(
    ("q", "said", "flag"),
    [
        (150.0, "far above 100, the largest possible sum of the log's rewards", "a larger --pessimism"),
        (-40.0, "far below 100, the smallest possible sum of the log's rewards", "a smaller --pessimism"),
        (50.0, None, None),  # on its way from 0
        (100.0, None, None),
    ],
)
def test_values_that_rewards_do_not_allow_are_told_once_with_the_flag(
    q: float, said: str | None, flag: str | None
) -> None:
    judge = judge_of(thermostat(400))
    warning = judge.warning({"seed": 3, "updates": 10, "q_data": q})
    if said is None or flag is None:
        assert warning is None
    else:
        assert warning is not None
        assert said in warning
        assert flag in warning
        assert "seed 3" in warning
        assert judge.warning({"seed": 3, "updates": 20, "q_data": q}) is None


def test_values_below_all_that_the_log_was_worth_are_told_where_rewards_would_allow_them() -> None:
    data = thermostat(400)
    reward = np.where(np.arange(400) == 7, -5, 9).astype(np.float32)
    judge = judge_of(
        Transitions(
            data.observation, data.action, reward, data.next_observation, data.terminated, data.episode_end
        )
    )
    warning = judge.warning({"seed": 0, "updates": 10, "q_data": -219.0})
    assert warning is not None
    assert "the smallest return in the log" in warning
    assert "--q-floor" in warning


def test_values_in_an_algorithms_own_units_are_held_against_rewards_in_them() -> None:
    assert (
        judge_of(thermostat(400), "rebrac", reward_scale=10.0).warning(
            {"seed": 0, "updates": 1, "q_data": 900.0}
        )
        is None
    )


def test_the_warning_comes_while_the_run_trains(
    log_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "--hidden",
        "8",
        "--batch-size",
        "16",
        "--updates",
        "400",
        "--evaluate-every",
        "100",
        "--no-plot",
    ]
    words += [
        "--pessimism",
        "1000",
        "--critic-rate",
        "0.02",
        "--q-floor",
        "-9000",
        "--algo",
        "gpc-sac",
        "--run",
        str(tmp_path / "run"),
    ]
    assert main(["train", str(log_file), *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    warnings = [
        place for place, line in enumerate(lines) if line.startswith("warning: seed 0 estimates a mean value")
    ]
    assert len(warnings) == 1
    assert warnings[0] < max(place for place, line in enumerate(lines) if line.startswith("update "))
    assert "a smaller --pessimism (it is 1000)" in lines[warnings[0]]


def test_the_log_is_looked_through_once(
    log_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits: list[int] = []
    fit = LogJudge.fit

    def counted(data: Transitions, prepared: Prepared) -> LogJudge:
        fits.append(len(data))
        return fit(data, prepared)

    monkeypatch.setattr(LogJudge, "fit", counted)
    assert main(["train", str(log_file), *TINY, "--run", str(tmp_path / "run")]) == 0
    assert len(fits) == 1


# --- why values exploded ---


def advice(data: Transitions, name: str = "gpc-sac", q: float | None = None, **changes: object) -> str:
    return why_diverged(make_algorithm(name, "", "fast", **changes).prepare(data), data, q)


def test_advice_on_divergence_names_the_cause(make_log: MakeLog) -> None:
    data = make_log()
    spoilt = make_log()
    spoilt.observation[17, 1] = 3e38
    assert "3e+38 in column 'observation[1]' at transition 17" in advice(spoilt, "td3")
    assert "critic-rate" not in advice(spoilt, "td3")
    assert "divide the rewards by 1e+06" in advice(make_log(scale=1e6))
    assert "--reward-scale 1e-06" in advice(make_log(scale=1e6), "rebrac")
    assert advice(data, "sac") == "Try a smaller --critic-rate, or --layer-norm."
    assert "--layer-norm" not in advice(data, "sac", layer_norm=True)
    assert "a larger --pessimism" in advice(data, q=1e6)
    assert "a smaller --pessimism" in advice(data, q=-1e6)
    assert advice(data, "bc") == "Try a smaller --policy-rate."


def test_a_large_column_is_blamed_only_where_the_networks_see_it_large(make_log: MakeLog) -> None:
    data = make_log()
    for column in (data.observation, data.next_observation):
        column[:, 1] = 1.7e9 + 1e5 * column[:, 1]  # times of a clock
    assert "1.7e+09 in column 'observation[1]' at transition 0" in advice(data, "td3")
    assert "column" not in advice(data, "td3-bc")
    assert "1.7e+09 in column" in advice(data, "td3-bc", normalise=False)
    data.next_observation[5, 1] = 3e38  # which the mean and deviation of the observations do not know
    assert "3e+38 in column 'next observation[1]' at transition 5" in advice(data, "td3-bc")
    rich = make_log()
    rich.reward[7] = 1e10
    assert "1e+10 in column 'reward' at transition 7" in advice(rich, "rebrac")
    assert "in column" not in advice(rich, "rebrac", reward_scale=1e-6)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_flags_in_advice_are_flags_of_the_algorithm(name: str, make_log: MakeLog) -> None:
    algorithm = make_algorithm(name, "", "fast")
    for q in (1e6, -1e6):
        for word in advice(make_log(), name, q=q).replace(",", " ").replace(".", " ").split():
            if word.startswith("--"):
                assert hasattr(algorithm, word[2:].replace("-", "_")), word


def test_a_run_that_explodes_for_its_data_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = thermostat(200)
    pressure = np.full(200, 1.0) + np.random.default_rng(0).uniform(size=200)
    pressure[50] = 3e38
    table: Columns = {
        "obs_temp": data.observation[:, 0],
        "obs_pressure": pressure,
        "action": data.action[:, 0],
        "reward": data.reward,
    }
    path = write_csv(tmp_path / "log.csv", table)
    assert main(["train", str(path), "--algo", "td3", *TINY, "--run", str(tmp_path / "run")]) == 2
    message = capsys.readouterr().err
    assert "3e+38 in column 'obs_pressure'" in message
    assert "--layer-norm" not in message
    assert json.loads((tmp_path / "run/config.json").read_text())["algorithm"] == "td3"
