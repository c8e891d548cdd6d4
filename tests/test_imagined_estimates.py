"""Policies that are followed in a model of the log: what they earn there, and that they leave the log's states."""

from typing import Any

import numpy as np
import pytest

import gridcount as gc
from gridcount.estimation.imagined import Visits
from gridcount.estimation.intervals import Interval
from gridcount.estimation.model import LONGEST, rolled_steps
from gridcount.estimation.problem import LOG
from gridcount.estimation.result import Estimates, Gains, verdict

STEPS = 12
EDGE = 0.2  # an episode terminates beyond it
QUICK: dict[str, Any] = {"updates": 1_500, "hidden": (32, 32), "progress": False, "discount": 0.9}


def walk(terminates: bool, episodes: int = 300) -> gc.Transitions:
    """A point that a noisy controller holds near 0; each step moves it by a quarter of the action, which is
    also its reward."""
    rng = np.random.default_rng(0)
    columns: dict[str, list[Any]] = {
        name: []
        for name in ("observation", "action", "reward", "next_observation", "terminated", "truncated")
    }
    for _ in range(episodes):
        state = rng.normal(0, 0.1)
        for step in range(STEPS):
            action = float(np.clip(-2 * state + rng.normal(0, 0.4), -1, 1))
            later = state + 0.25 * action
            ended = terminates and later > EDGE
            row = ([state], action, action, [later], ended, step == STEPS - 1 and not ended)
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
            state = later
            if ended:
                break
    arrays: dict[str, Any] = {name: np.array(column) for name, column in columns.items()}
    return gc.Transitions.from_arrays(**arrays, name="walk")


def always(action: float) -> Any:
    return lambda observation: np.full((len(observation), 1), action)


def hold(observation: Any) -> Any:
    return -2 * observation


@pytest.fixture(scope="module")
def found() -> Estimates:
    return gc.estimate({"hold": hold, "away": always(0.3)}, walk(terminates=False), **QUICK)


def test_roll_outs_earn_what_the_policy_earns(found: Estimates) -> None:
    assert found["hold"].rolled_out.value == pytest.approx(0.0, abs=0.2)
    assert found["away"].rolled_out.value == pytest.approx(0.3 / (1 - 0.9), abs=0.5)
    assert found[LOG].rolled_out.value == pytest.approx(found.returns.value, abs=0.3)


def test_a_policy_that_leads_to_states_outside_the_log_is_unsure(found: Estimates) -> None:
    """Its actions are common where the log is, so counts at the log's states do not show it."""
    away, hold = found["away"], found["hold"]
    assert away.unseen < 0.1
    assert away.uncertainty > 2 * found[LOG].uncertainty
    assert hold.uncertainty < 1.5 * found[LOG].uncertainty
    best = min(away.fitted_q.value, away.rolled_out.value)
    assert best - away.cautious > 5 * max(
        min(hold.fitted_q.value, hold.rolled_out.value) - hold.cautious, 0.01
    )


def test_a_counter_among_the_columns_hides_nothing(found: Estimates) -> None:
    data = walk(terminates=False)
    step = np.arange(len(data), dtype=np.float32)[:, None] % STEPS
    counted = gc.Transitions.from_arrays(
        np.concatenate([data.observation, step], axis=1),
        data.action,
        data.reward,
        next_observation=np.concatenate([data.next_observation, step + 1], axis=1),
        terminated=data.terminated,
        truncated=data.episode_end,
        name="counted",
    )
    away = gc.estimate({"away": always(0.3)}, counted, **QUICK)["away"]
    assert away.rolled_out.value == pytest.approx(found["away"].rolled_out.value, abs=0.5)
    assert away.uncertainty > 0.7 * found["away"].uncertainty


def test_the_clone_of_the_log_knows_the_time_where_returns_are_not_discounted() -> None:
    """The log pushes to the right in the first half of its episodes, and to the left in the second."""
    rng = np.random.default_rng(0)
    step = np.arange(300 * STEPS) % STEPS
    action = np.where(step < STEPS / 2, 0.8, -0.8) + rng.normal(0, 0.05, len(step))
    data = gc.Transitions.from_arrays(
        rng.normal(size=(len(step), 1)), action, action, truncated=step == STEPS - 1, name="turn"
    )
    own = gc.estimate({"none": always(0.0)}, data, **QUICK | {"discount": 1})[LOG]
    assert abs(own.rolled_out.value) < 3  # always as in the first step: 0.8 * STEPS


def imagined(monkeypatch: pytest.MonkeyPatch, hold_earns: float, log_earns: float) -> Estimates:
    """Estimates with roll-outs that earn these returns."""
    visits = {
        name: Visits(Interval(value, value - 1, value + 1), 0.5)
        for name, value in (("hold", hold_earns), (LOG, log_earns))
    }
    monkeypatch.setattr("gridcount.estimation.estimate.imagine", lambda *_: visits)
    return gc.estimate({"hold": hold}, walk(terminates=False), **QUICK | {"updates": 20})


def test_intervals_reach_the_estimate_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    found = imagined(monkeypatch, hold_earns=50.0, log_earns=0.0)
    mine, own = found["hold"], found[LOG]
    assert mine.gain is not None
    assert mine.gain.high == pytest.approx(50)
    assert mine.fitted_q.high == pytest.approx(50 + own.fitted_q.value)
    assert mine.fitted_q.low < mine.fitted_q.value
    assert mine.cautious == mine.fitted_q.value  # the smaller of both, and no cost
    assert own.fitted_q.high < 49


def test_a_model_that_is_wrong_about_the_log_is_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    right = imagined(monkeypatch, hold_earns=3.0, log_earns=0.0)
    wrong = imagined(monkeypatch, hold_earns=-97.0, log_earns=-100.0)
    one, other = wrong["hold"], right["hold"]
    assert one.gain is not None
    assert other.gain is not None
    for found, expected in ((one.fitted_q, other.fitted_q), (one.gain, other.gain)):
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert any("a clone of the log's policy return -100" in note for note in wrong.notes)


def test_the_verdict_names_what_is_in_doubt() -> None:
    better = Interval(2.0, 1.0, 3.0)
    cases = {
        "roll-outs in a model of the log do not confirm it": Gains.of(better, cost=0.5, followed=-1.0),
        "its actions leave the log too far": Gains.of(better, cost=5.0, followed=2.0),
        "the log holds too few episodes": Gains.of(Interval(2.0, -1.0, 5.0), cost=0.0, followed=2.0),
    }
    for words, gains in cases.items():
        said, why = verdict(gains, 0.0, 100, reproduces=True)
        assert said is None
        assert words in why
    assert verdict(Gains.of(better, 0.5, 2.0), 0.0, 100, reproduces=True)[0]


def test_the_model_knows_where_episodes_end() -> None:
    """Pushing with 0.5 moves by 0.125 a step: the second step or so is the last."""
    data = walk(terminates=True, episodes=600)
    assert 0.01 < data.terminated.mean() < 0.1
    found = gc.estimate({"push": always(0.5)}, data, **QUICK)
    going_on = 0.5 / (1 - 0.9)
    assert found["push"].rolled_out.value < 0.7 * going_on


def test_limits_are_not_cut_at_the_largest_reward_of_the_log() -> None:
    rng = np.random.default_rng(0)
    action = rng.uniform(-1, 0, 1000)
    data = gc.Transitions.from_arrays(
        rng.normal(size=(1000, 1)), action, action, terminated=np.arange(1000) % 5 == 4, name="losses"
    )
    found = gc.estimate(always(0.9), data, **QUICK | {"updates": 300, "support_cost": 20.0})
    assert found[0].fitted_q.high > 0


def test_roll_outs_are_as_long_as_the_discount_makes_them_matter() -> None:
    assert rolled_steps(0.99, 50) == 459
    assert rolled_steps(1, 50) == 50
    assert rolled_steps(0, 50) == 1
    assert rolled_steps(0.9999, 50) == LONGEST
