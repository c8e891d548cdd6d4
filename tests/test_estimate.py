"""Estimates of policies whose worth is known, from logs alone."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_policy import plant_log, write_run

import gridcount as gc
from gridcount.estimation.importance import IMPORTANCE, ROBUST, WEIGHTED, as_table, estimates
from gridcount.estimation.problem import LOG, Problem
from gridcount.estimation.result import Estimates
from gridcount.policy.counts import LogCounts

STEPS = 5  # per episode, all of which terminate
QUICK: dict[str, Any] = {"updates": 500, "hidden": (32, 32), "progress": False}


def make_log(
    low: float = -1.0, high: float = 1.0, episodes: int = 200, terminates: bool = True
) -> gc.Transitions:
    """Every step pays its action, which is uniform: a constant action c is worth c * sum of discounts."""
    rng = np.random.default_rng(0)
    rows = episodes * STEPS
    step = np.tile(np.arange(STEPS), episodes)
    action = rng.uniform(low, high, rows)
    observation = np.column_stack([step, rng.normal(size=rows)])
    last = step == STEPS - 1
    ends = (
        {"terminated": last}
        if terminates
        else {"truncated": last, "next_observation": observation + np.array([1.0, 0.0])}
    )
    return gc.Transitions.from_arrays(observation, action, action, name="known", **ends)


def always(action: float) -> Any:
    return lambda observation: np.full((len(observation), 1), action)


def worth(action: float, discount: float = 0.5) -> float:
    return action * sum(discount**step for step in range(STEPS))


@pytest.fixture(scope="module")
def found() -> Estimates:
    rules = {"good": always(0.7), "bad": always(-0.7)}
    return gc.estimate(rules, make_log(), discount=0.5, **QUICK)


def test_fitted_values_are_those_of_the_problem(found: Estimates) -> None:
    spread = found.returns.high - found.returns.low
    for name, action in {"good": 0.7, "bad": -0.7, LOG: 0.0}.items():
        interval = found[name].fitted_q
        assert interval.value == pytest.approx(worth(action), abs=0.25), name
        assert interval.low - 0.1 <= worth(action) <= interval.high + 0.1, name
        assert interval.high - interval.low > 0
    assert spread > 0
    assert [each.name for each in found.ranked()] == ["good", LOG, "bad"]


def test_the_verdict_says_yes_no_or_cannot_say(found: Estimates) -> None:
    assert (found["good"].better, found["bad"].better, found[LOG].better) == (True, False, None)
    assert "yes" in found["good"].verdict
    assert "no, it is worse" in found["bad"].verdict
    few = gc.estimate(always(0.7), make_log(episodes=6), discount=0.5, **QUICK | {"updates": 50})
    assert few[0].better is None
    assert "only 6 episodes" in few[0].verdict


def test_the_log_reproduces_its_own_returns(found: Estimates) -> None:
    assert found.reproduces is True
    for name in (IMPORTANCE, WEIGHTED, ROBUST):  # weights of 1: all are the mean of the log's returns
        weighted = found[LOG].others[name]
        assert weighted.interval.value == pytest.approx(found.returns.value, abs=1e-6)
        assert weighted.effective == pytest.approx(found.episodes)


def test_undiscounted_returns_are_named_and_right() -> None:
    found = gc.estimate(always(0.5), make_log(terminates=False), discount=1, **QUICK)
    assert found[0].fitted_q.value == pytest.approx(0.5 * STEPS, abs=0.6)
    assert f"undiscounted returns within {STEPS} steps" in repr(found)


def test_leaving_the_log_costs_and_is_not_called_better() -> None:
    data = make_log(low=-1.0, high=0.0)
    found = gc.estimate({"outside": always(0.9), "inside": always(-0.1)}, data, discount=0.5, **QUICK)
    outside, inside = found["outside"], found["inside"]
    assert (outside.unseen, inside.unseen) == (1.0, 0.0)
    costs = [min(each.fitted_q.value, each.rolled_out.value) - each.cautious for each in (outside, inside)]
    assert costs[0] > 5 * costs[1]
    assert outside.gain is not None
    assert inside.gain is not None
    assert outside.gain.high - outside.gain.low > 1.3 * (inside.gain.high - inside.gain.low)


def test_logged_probabilities_replace_the_model_and_weights_tell_when_they_fail() -> None:
    data = make_log(episodes=400)
    density = np.full(len(data), math.log(0.5))  # uniform on [-1, 1]
    rules = {"near": always(0.0), "far": always(0.95)}
    found = gc.estimate(rules, data, discount=0.5, behaviour_log_prob=density, **QUICK | {"updates": 50})
    assert found["near"].others[WEIGHTED].interval.value == pytest.approx(0.0, abs=0.4)
    assert found["far"].others[WEIGHTED].effective < 0.7 * found["near"].others[WEIGHTED].effective
    units = replace(data, action_low=np.array([0.0]), action_high=np.array([100.0]))
    scaled = {name: lambda states, rule=rule: 50 * (rule(states) + 1) for name, rule in rules.items()}
    per_unit = np.full(len(data), math.log(0.01))  # uniform on [0, 100]
    same = gc.estimate(scaled, units, discount=0.5, behaviour_log_prob=per_unit, **QUICK | {"updates": 50})
    for name in rules:
        mine, theirs = (each[name].others[IMPORTANCE] for each in (same, found))
        assert mine.interval.value == pytest.approx(theirs.interval.value, rel=1e-3)
    assert any("are the logged ones" in note for note in found.notes)
    json.dumps(found.to_dict(), allow_nan=False)  # products of weights may overflow, and JSON has no infinity
    part = gc.estimate(rules, data, behaviour_log_prob=density, most_rows=1000, **QUICK | {"updates": 10})
    assert part.episodes == 200  # the densities of the other episodes are left out, too
    with pytest.raises(ValueError, match="one number for each of 2,000 rows"):
        gc.estimate(rules, data, behaviour_log_prob=density[:-1], **QUICK | {"updates": 10})


def test_weights_of_few_episodes_give_no_number(found: Estimates) -> None:
    """Some log-ratios of long episodes: one episode outweighs all others, and the mean is astronomical."""
    lengths, rng = np.full(40, 200), np.random.default_rng(0)
    columns = {name: np.ones(lengths.sum()) for name in ("reward", "q", "v")}
    columns["log_ratio"] = rng.normal(0.1, 1.5, lengths.sum())
    wild = estimates(as_table(lengths, columns, np.zeros(40)), 0.99, seed=0)[IMPORTANCE]
    assert wild.effective < 10
    assert wild.interval is None
    assert "fewer than 10 effective episodes" in wild.why
    assert wild.meaningless is not None
    assert abs(wild.meaningless.value) > 1e6
    policies = (replace(found["good"], others={IMPORTANCE: wild}), found[LOG])
    shown = replace(found, policies=policies)
    assert "cannot say" in repr(shown)
    assert f"{wild.meaningless.value:.4g}" not in repr(shown)
    written = shown.to_dict()["policies"][0]["others"][IMPORTANCE]
    assert written["interval"] is None
    assert written["meaningless"]["value"] == wild.meaningless.value
    assert "cannot say" not in repr(replace(found, policies=(found[LOG],)))


def test_first_steps_do_not_hide_that_few_episodes_carry_the_others() -> None:
    lengths, rng = np.full(1000, 200), np.random.default_rng(0)
    columns = {name: np.ones(lengths.sum()) for name in ("reward", "q", "v")}
    for deviation, known in ((1.0, False), (0.02, True)):
        columns["log_ratio"] = rng.normal(-(deviation**2) / 2, deviation, lengths.sum())
        plain = estimates(as_table(lengths, columns, np.zeros(1000)), 0.99, seed=0)[IMPORTANCE]
        assert (plain.interval is not None) is known


def test_a_policy_acts_in_the_units_of_the_data_it_is_estimated_on(tmp_path: Path) -> None:
    policy = gc.load_policy(write_run(tmp_path / "run"))  # its valve moves from 0 to 100
    data = replace(plant_log(), action_high=np.array([200.0]))
    problem = Problem.of(data, np.zeros(100, np.int64), {}, 0.5, LogCounts.fit(data))
    rows = np.arange(50)
    meant = data.in_units(problem.actions(policy, data.observation, rows))
    np.testing.assert_allclose(meant, policy(data.observation[rows]), rtol=1e-4)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda observation: np.zeros((len(observation), 2)), r"shape .* expected \(\d+, 1\)"),
        (lambda observation: np.full((len(observation), 1), np.nan), "actions must be finite"),
    ],
)
def test_a_rule_that_gives_no_actions_is_an_error(rule: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gc.estimate(rule, make_log(episodes=4), **QUICK)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"discount": 2.0}, "--discount is 2"),
        ({"updates": 0}, "--updates is 0"),
        ({"members": 2}, "--members is 2"),
    ],
)
def test_settings_are_validated_before_work_starts(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gc.estimate(always(0), make_log(episodes=4), progress=False, **settings)
