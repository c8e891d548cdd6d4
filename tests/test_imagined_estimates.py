"""Policies that are followed in a model of the log: what they earn there, and that they leave the log's states."""

from typing import Any

import numpy as np
import pytest

import gridcount as gc
from gridcount.estimation.imagined import Visits
from gridcount.estimation.intervals import Interval
from gridcount.estimation.model import LONGEST, rolled_steps
from gridcount.estimation.problem import LOG
from gridcount.estimation.result import Estimates

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


def test_intervals_reach_the_estimate_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    visits = {"hold": Visits(Interval(50.0, 40.0, 60.0), 0.5), LOG: Visits(Interval(0.0, -1.0, 1.0), 0.5)}
    monkeypatch.setattr("gridcount.estimation.estimate.imagine", lambda *_: visits)
    found = gc.estimate({"hold": hold}, walk(terminates=False), **QUICK | {"updates": 20})
    mine, own = found["hold"], found[LOG]
    assert mine.fitted_q.low < mine.fitted_q.value < mine.fitted_q.high == 50
    assert mine.gain is not None
    assert mine.gain.high == pytest.approx(50 - own.fitted_q.value)
    assert mine.cautious == mine.fitted_q.value  # the smaller of both, and no cost
    assert own.fitted_q.high < 50


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
