"""Floor heating of small houses, each run by a PI controller: makes the tutorial's log, and knows the truth.

A step is half an hour. Houses are simulated side by side: every quantity is an array with a number for each
house.

    slab'   = slab   + (heat - 2.0 * (slab - indoor)) / 6 / 2
    indoor' = indoor + (2.0 * (slab - indoor) - 0.35 * (indoor - outdoor) + sun + people) / 8 / 2

Heat, sun and people are in kW. The slab stores 6 kWh per kelvin, the room 8. An open valve gives 20 kW, half
an hour later.
"""

import csv
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

DAY, WEEK = 48, 336  # steps; people are at home from 7 to 22 o'clock
MILD, FROST = (4.0, 12.0), (-14.0, -6.0)  # bounds of the daily mean outdoors; the log has mild days only
LIMIT = 20.0  # degrees Celsius that the owner promises while people are at home
OBSERVED = ("hour", "indoor_C", "slab_C", "outdoor_C", "sun_kW", "valve_before_pct")
Readings = dict[str, Any]
Control = Callable[[Readings], Any]  # readings -> the valve's opening in percent


class Houses:
    """The physics, and the weather."""

    def __init__(self, number: int, weather: tuple[float, float], seed: int) -> None:
        self.rng, self.weather, self.step = np.random.default_rng(seed), weather, 0
        self.mean, self.noise = self.rng.uniform(*weather, number), np.zeros(number)
        self.clear, self.indoor = self.rng.uniform(0, 1, number), self.rng.uniform(20, 22, number)
        self.slab, self.valve = self.indoor + 2, np.full(number, 30.0)

    def readings(self) -> Readings:
        """What is measured now, by column."""
        hour = np.full(len(self.mean), self.step % DAY / 2)
        outdoor = self.mean + 3 * np.sin(2 * np.pi * (hour - 9) / 24) + self.noise
        sun = 4 * self.clear * np.maximum(0, np.sin(np.pi * (hour - 7) / 10)) * (hour < 17)
        return dict(zip(OBSERVED, (hour, self.indoor, self.slab, outdoor, sun, self.valve), strict=True))

    def advance(self, valve: Any) -> Any:
        """Move half an hour on; returns the reward in euros.

        It is minus the price of heat, and minus 1 for each kelvin and hour of cold.
        """
        now, valve = self.readings(), np.clip(valve, 0.0, 100.0)
        at_home = (now["hour"] >= 7) & (now["hour"] < 22)
        heat, upwards = 20 * self.valve / 100, 2.0 * (self.slab - self.indoor)
        lost = 0.35 * (self.indoor - now["outdoor_C"])
        self.slab = self.slab + (heat - upwards) / 6 / 2
        self.indoor = self.indoor + (upwards - lost + now["sun_kW"] + 0.8 * at_home) / 8 / 2
        self.valve, self.step = valve, self.step + 1
        self.noise = 0.9 * self.noise + self.rng.normal(0, 0.3, len(valve))
        if self.step % DAY == 0:
            self.mean = np.clip(self.mean + self.rng.normal(0, 2, len(valve)), *self.weather)
            self.clear = self.rng.uniform(0, 1, len(valve))
        cold = at_home * np.maximum(0, LIMIT + 0.5 - self.indoor)  # half a kelvin of margin
        return -(0.12 * 20 * valve / 100 + 1.0 * cold) / 2


class Pi:
    """The controller: a setpoint by day and one by night.

    Its day begins at 4 o'clock, early enough for any winter.
    """

    def __init__(self, day: Any = 21.5, night: Any = 20.5) -> None:
        self.day, self.night, self.error = day, night, 0.0

    def __call__(self, seen: Readings) -> Any:
        """The valve's opening: the last one, changed by the error and by its change."""
        setpoint = np.where((seen["hour"] >= 4) & (seen["hour"] < 21), self.day, self.night)
        change, self.error = setpoint - seen["indoor_C"] - self.error, setpoint - seen["indoor_C"]
        return np.clip(seen["valve_before_pct"] + 25 * change + 2.0 * self.error, 0, 100)


class People(Pi):
    """Who made the log: the controller, and people.

    They choose its setpoints every midnight, and turn the valve by hand now and then.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self.rng = rng

    def __call__(self, seen: Readings) -> Any:
        """The valve's opening."""
        rng, houses = self.rng, len(seen["hour"])
        if seen["hour"][0] == 0:
            self.day, self.night = rng.uniform(20.3, 22.3, houses), rng.uniform(18.5, 20.5, houses)
        by_hand = np.where(rng.random(houses) < 0.1, rng.uniform(-30, 30, houses), rng.normal(0, 3, houses))
        return np.clip(super().__call__(seen) + by_hand, 0, 100)


def write_log(path: str, houses: int = 40, weeks: int = 4, seed: int = 0) -> None:
    """A CSV file of an October in some houses."""
    plant, people = Houses(houses, MILD, seed), People(np.random.default_rng([seed, 1]))
    rows: list[list[str]] = []
    for step in range(weeks * WEEK):
        seen = plant.readings()
        valve = people(seen)
        reward = plant.advance(valve)
        when = f"{datetime(2025, 10, 6) + step * timedelta(minutes=30):%Y-%m-%d %H:%M}"
        for house in range(houses):
            numbers = [*(seen[name][house] for name in OBSERVED), valve[house], reward[house]]
            week = f"house-{house:02d} week-{step // WEEK}"
            rows.append([week, when, *(f"{number:.3f}" for number in numbers)])
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["house_week", "time", *OBSERVED, "valve_pct", "reward_eur"])
        writer.writerows(sorted(rows))


class Truth(NamedTuple):
    """What really happens, [steps, houses]."""

    reward: Any  # euros
    cold: Any  # whether people at home are colder than the limit


def simulate(
    control: Control, weather: tuple[float, float], houses: int = 100, weeks: int = 1, seed: int = 1000
) -> Truth:
    """Let a controller act in houses that were run as in the log for two days before."""
    plant, before = Houses(houses, weather, seed), People(np.random.default_rng([seed, 1]))
    for _ in range(2 * DAY):
        plant.advance(before(plant.readings()))
    reward, cold = [], []
    for _ in range(weeks * WEEK):
        now = plant.readings()
        reward.append(plant.advance(control(now)))
        cold.append((now["hour"] >= 7) & (now["hour"] < 22) & (plant.indoor < LIMIT))
    return Truth(np.array(reward), np.array(cold))


def as_rows(seen: Readings) -> Any:
    """Readings as observations, [houses, columns]."""
    return np.stack([seen[name] for name in OBSERVED], axis=1)


if __name__ == "__main__":
    write_log(sys.argv[1])
