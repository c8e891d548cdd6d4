"""What a policy and its guard are really worth: `python compare.py runs/heating` lets them run the houses.

A real plant has no such file. Here it shows how far the estimate was off, and what happens in weather that
the log never saw.
"""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from heating import FROST, MILD, WEEK, Control, People, Pi, Readings, as_rows, simulate

import gridcount as gc

WEATHERS = {"mild, as in the log": MILD, "frost, never in the log": FROST}
DISCOUNT = 0.99  # as in `gridcount estimate`
Guarded = Callable[[Any, Any], Control]  # a policy, and where to note the guard's decisions -> a controller


class Row(NamedTuple):
    """A controller in a weather: means over houses that it runs for a week."""

    weather: str
    controller: str
    reward: float  # euros per week
    discounted: float  # the sum that `gridcount estimate` estimates
    cold: float  # hours per week with people at home below the limit
    held: float  # share of the decisions that the guard held


def unguarded(policy: Any, held: list[Any]) -> Control:
    """The policy alone."""
    return lambda seen: policy(as_rows(seen))[:, 0]


def nearest(policy: Any, held: list[Any]) -> Control:
    """The log's nearest action where the guard holds."""
    return guarded(policy, held, gc.Guard(fallback="nearest"))


def guarded(policy: Any, held: list[Any], guard: gc.Guard) -> Control:
    """A guard whose fallback always acts."""

    def control(seen: Readings) -> Any:
        decision = policy.decide(as_rows(seen), guard)
        held.append(decision.held)
        return decision.action[:, 0]

    return control


def old_controller(policy: Any, held: list[Any]) -> Control:
    """The old controller where the guard holds: it runs beside the policy all the time."""
    pi, guard = Pi(), gc.Guard(fallback="abstain")

    def control(seen: Readings) -> Any:
        old, decision = pi(seen), policy.decide(as_rows(seen), guard)
        held.append(decision.held)
        return np.where(decision.held, old, decision.action[:, 0])

    return control


CONTROLLERS: dict[str, Guarded] = {
    "as in the log": lambda policy, held: People(np.random.default_rng(0)),
    "PI controller": lambda policy, held: Pi(),
    "policy, no guard": unguarded,
    "guard, nearest logged action": nearest,
    "guard, PI controller": old_controller,
}


def compare(policy: Any, houses: int = 100, seed: int = 1000) -> list[Row]:
    """Every controller in every weather, in the same houses."""
    rows = []
    for weather, bounds in WEATHERS.items():
        for name, make in CONTROLLERS.items():
            held: list[Any] = []
            truth = simulate(make(policy, held), bounds, houses, seed=seed)
            discounted = (DISCOUNT ** np.arange(WEEK) @ truth.reward).mean()
            total, cold = truth.reward.sum(axis=0).mean(), truth.cold.sum(axis=0).mean() / 2
            share = float(np.mean(held)) if held else 0.0
            rows.append(Row(weather, name, float(total), float(discounted), float(cold), share))
    return rows


def in_words(rows: list[Row]) -> str:
    """A table."""
    lines = [f"{'':30}{'euros/week':>12}{'discounted':>12}{'cold h/week':>13}{'guard held':>12}"]
    for place, row in enumerate(rows):
        if place % len(CONTROLLERS) == 0:
            lines.append(f"{row.weather}:")
        lines.append(
            f"  {row.controller:28}{row.reward:12.2f}{row.discounted:12.2f}{row.cold:13.2f}{row.held:12.0%}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(in_words(compare(gc.load_policy(sys.argv[1]))))
