"""Simulated plants: what their logs hold, and that policies can be better or worse than what is logged."""

import csv
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray

from gridcount.cli import main
from gridcount.data.formats.columns import Columns
from gridcount.data.load import load
from gridcount.envs.plant_logs import PlantLog, log_of, policy_of, write_log
from gridcount.envs.plants import PLANTS, Control, Seen
from gridcount.evaluation.rollouts import Act, evaluate
from gridcount.transitions import Transitions

EPISODES = 20
ROWS = {"tank": 4_000, "fan": 20_000, "dosing": 4_800}
ACTIONS = {"tank": "valve,heater", "fan": "fan", "dosing": "dose"}
HIGHEST = {"tank": 100.0, "fan": 100.0, "dosing": 10.0}
plants = pytest.mark.parametrize("name", PLANTS)


def returns(act: Act, name: str) -> NDArray[np.float64]:
    """Returns of a policy in engineering units; every policy meets the same disturbances."""
    return evaluate(act, f"gridcount/{name}-v0", EPISODES, seed=0).returns


def logged_returns(log: PlantLog) -> NDArray[np.float64]:
    complete = int(log.episode[-1])  # the last episode may be cut off
    return np.bincount(log.episode, log.reward)[:complete].astype(np.float64)


def constant(value: float, dims: int = 1) -> Act:
    return lambda observation: np.full((len(observation), dims), value, np.float32)


def read(name: str, folder: Path) -> Transitions:
    """A written log, as the project reads it."""
    path = write_log(name, folder / "log.csv", 1_000, seed=0)
    columns = Columns(observation="*", action=ACTIONS[name])
    return load(path, columns, action_bounds=(0.0, HIGHEST[name]))


def ends(name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The lowest and the highest action."""
    space = PLANTS[name].plant().action_space
    assert isinstance(space, gymnasium.spaces.Box)
    return space.low, space.high


def random_policy(name: str) -> Act:
    rng, (low, high) = np.random.default_rng(0), ends(name)
    return lambda observation: rng.uniform(low, high, (len(observation), len(low))).astype(np.float32)


def tuned_tank(seen: Seen) -> tuple[float, ...]:
    """Feeds what flows out, heats it, and damps the temperature's loop."""
    missing, rise = seen["temp_setpoint"] - seen["temp"], seen["temp"] - seen["temp_before"]
    forward = seen["outflow"] * (seen["temp_setpoint"] - 15) / 43
    heater = forward + 3 * missing - 6 * rise + 0.05 * seen["temp_integral"]
    return seen["outflow"] + 2 * (50 - seen["level"]), heater


def gentle_fan(seen: Seen) -> tuple[float, ...]:
    """Slows down a little where the machine is cool and stays so."""
    coming = max(seen["temp_1"] - seen["temp_3"], 20 * (seen["load_1"] - seen["load_3"]), 0.0)
    return (min(max(100 + 3 * (seen["temp_1"] + 2 * coming - 88), 50.0), 100.0),)


def dosing_by_turbidity(seen: Seen) -> tuple[float, ...]:
    return (0.5 + 0.2 * seen["turbidity_1"],)


@plants
@pytest.mark.filterwarnings("ignore:.*we recommend using a symmetric and normalized space")  # on purpose
def test_every_plant_is_made_by_gymnasium_and_passes_its_checker(name: str) -> None:
    plant = gymnasium.make(f"gridcount/{name}-v0")
    assert plant.spec is not None
    assert plant.spec.max_episode_steps == {"tank": 200, "fan": 200, "dosing": 240}[name]
    check_env(plant.unwrapped)


@plants
def test_no_action_leads_out_of_the_observation_space(name: str) -> None:
    plant = PLANTS[name].plant()
    for action in ends(name):
        observation, _ = plant.reset(seed=1)
        for _ in range(plant.limit):
            assert plant.observation_space.contains(observation)
            observation, reward, terminated, _, _ = plant.step(action)
            assert np.isfinite(reward)
            if terminated:
                break


@plants
def test_actions_beyond_an_actuators_range_act_like_its_end(name: str) -> None:
    plant = PLANTS[name].plant()
    steps = []
    for action in (ends(name)[1], ends(name)[1] + 50):
        plant.reset(seed=1)
        steps.append([plant.step(action)[:2] for _ in range(10)])
    for (first, reward), (second, other) in zip(*steps, strict=True):
        np.testing.assert_array_equal(first, second)
        assert reward == other


def test_an_action_that_is_no_action_is_refused_with_the_actuators_names() -> None:
    plant = PLANTS["tank"].plant()
    plant.reset(seed=0)
    for action in ([50.0], [50.0, np.nan]):
        with pytest.raises(ValueError, match="finite value of each of valve, heater"):
            plant.step(action)


@plants
def test_the_same_seed_gives_the_same_log_to_the_bit_and_another_seed_another(name: str) -> None:
    first, again, other = (log_of(name, 1_000, seed).table() for seed in (3, 3, 4))
    for column, values in first.items():
        np.testing.assert_array_equal(values, again[column])
    assert not np.array_equal(first["reward"], other["reward"])


@plants
def test_every_row_follows_from_the_one_before(name: str) -> None:
    log, plant = log_of(name, 500, seed=2), PLANTS[name].plant()
    observation, _ = plant.reset(seed=2)
    for row in range(500):
        np.testing.assert_array_equal(log.observation[row], observation)
        observation, reward, terminated, _, _ = plant.step(log.action[row])
        assert (reward, terminated) == (log.reward[row], log.terminated[row])
        if row < 499 and log.episode[row] != log.episode[row + 1]:
            observation, _ = plant.reset()


@plants
def test_episodes_are_as_long_as_the_limit_unless_terminated(name: str) -> None:
    log, limit = log_of(name, ROWS[name], seed=0), PLANTS[name].plant.limit
    length = np.bincount(log.episode)[:-1]
    ended = np.bincount(log.episode, log.terminated)[:-1] > 0
    assert (length[~ended] == limit).all()
    assert log.terminated.any() == (name == "fan")


def test_the_fan_runs_at_full_speed_in_nearly_every_row_and_trips_now_and_then() -> None:
    log = log_of("fan", ROWS["fan"], seed=0)
    assert log.observation.shape[1] == 30
    assert 0.97 <= (log.action == 100).mean() < 1
    assert (log.action == 0).any()
    assert (log.reward[log.terminated] == -100).all()
    assert 0.01 < log.terminated.sum() / log.episode[-1] < 0.15
    assert log.reward.mean() > 0


def test_doses_are_whole_one_sided_and_mostly_small() -> None:
    log = log_of("dosing", 20_000, seed=0)
    assert log.observation.shape[1] >= 36
    np.testing.assert_array_equal(log.action, np.rint(log.action))
    assert log.action.min() == 0
    assert log.action.max() == 10
    assert (log.action <= 1).mean() > 0.8


def test_the_tanks_heater_acts_three_steps_late() -> None:
    def temperatures(heater: float) -> list[float]:
        plant = PLANTS["tank"].plant()
        plant.reset(seed=0)
        return [float(plant.step([30.0, heater])[0][1]) for _ in range(4)]

    cold, hot = temperatures(0), temperatures(100)
    assert cold[:3] == hot[:3]
    assert hot[3] > cold[3] + 5


@plants
def test_the_controller_clearly_beats_a_random_policy(name: str) -> None:
    logged, chance = logged_returns(log_of(name, ROWS[name], seed=0)), returns(random_policy(name), name)
    assert logged.mean() > chance.mean() + 2 * chance.std()
    own = returns(policy_of(name), name)
    assert own.mean() > chance.mean() + 2 * chance.std()


@pytest.mark.parametrize(
    ("name", "control", "gain"),
    [("tank", tuned_tank, 0.4), ("fan", gentle_fan, 0.03), ("dosing", dosing_by_turbidity, 0.2)],
)
def test_a_better_controller_beats_the_logged_one(name: str, control: Control, gain: float) -> None:
    own, better = returns(policy_of(name), name), returns(policy_of(name, control), name)
    difference = better - own  # in the same episodes
    assert difference.mean() > gain * abs(own.mean())
    assert difference.mean() > 3 * difference.std() / np.sqrt(EPISODES)


def test_half_speed_of_the_fan_trips_the_machine_soon() -> None:
    half = evaluate(constant(50), "gridcount/fan-v0", EPISODES, seed=0)
    assert half.returns.mean() < -50
    assert logged_returns(log_of("fan", ROWS["fan"], seed=0)).mean() > 50


def test_a_constant_speed_below_the_logged_one_does_not_pay() -> None:
    full, less = (returns(constant(speed), "fan").mean() for speed in (100, 80))
    assert less < full - 20


@plants
def test_a_policy_in_scaled_actions_is_rolled_out_in_the_logs_units(name: str, tmp_path: Path) -> None:
    data = read(name, tmp_path)
    dims, middle = data.action.shape[1], HIGHEST[name] / 2
    scaled = evaluate(constant(0.0, dims), f"gridcount/{name}-v0", 3, seed=0, in_units=data.in_units)
    plain = evaluate(constant(middle, dims), f"gridcount/{name}-v0", 3, seed=0)
    np.testing.assert_array_equal(scaled.returns, plain.returns)


@plants
def test_a_written_log_is_read_as_it_was_made(name: str, tmp_path: Path) -> None:
    data, log = read(name, tmp_path), log_of(name, 1_000, seed=0)
    last = np.append(np.diff(log.episode) != 0, True)
    kept = ~last | log.terminated  # an episode that was cut off has no observation after its last row
    assert data.observation_names == log.observation_names
    np.testing.assert_array_equal(data.observation, log.observation[kept])
    np.testing.assert_array_equal(data.reward, log.reward[kept].astype(np.float32))
    np.testing.assert_array_equal(data.terminated, log.terminated[kept])
    np.testing.assert_allclose(data.in_units(data.action), log.action[kept], atol=1e-4)


@plants
def test_the_data_check_finds_no_error_in_a_written_log(name: str, tmp_path: Path) -> None:
    path = write_log(name, tmp_path / "log.csv", 2_000, seed=0)
    with path.open(newline="") as file:
        names = next(csv.reader(file))
    observation = ",".join(names[: len(PLANTS[name].plant.sensors)])
    roles = ["--observation", observation, "--action", ACTIONS[name], "--reward", "reward"]
    flags = ["--episode", "episode", "--terminated", "terminated", "--scale-actions"]
    assert main(["data", "check", str(path), *roles, *flags]) <= 1  # warnings at most


def test_an_unknown_plant_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="Did you mean 'tank'"):
        log_of("tnak", 10, seed=0)
