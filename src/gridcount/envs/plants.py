"""Three simulated industrial processes, each with the controller and the operators that run it.

`tank` has two actions, and its controller can clearly be improved on. `fan` is run at full speed in 99 % of
the steps, and most other speeds overheat it. `dosing` is slow: observations are histories, and most actions
lie near 0. Actions are in engineering units. `plant_logs` makes logs of them.
"""

import math
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

Float32 = NDArray[np.float32]
Info = dict[str, Any]
Seen = Mapping[str, float]  # an observation by column name
Control = Callable[[Seen], tuple[float, ...]]  # what a controller sets, in engineering units
Operate = Callable[[tuple[float, ...], np.random.Generator], tuple[float, ...]]  # how operators change that


class Column(NamedTuple):
    """A measured or set quantity: its name in a log and its range."""

    name: str
    low: float
    high: float


def lags(name: str, count: int, low: float, high: float) -> tuple[Column, ...]:
    """The columns of the last `count` values of a quantity, the newest first: name_1, name_2, ..."""
    return tuple(Column(f"{name}_{i}", low, high) for i in range(1, count + 1))


def names_of(columns: tuple[Column, ...]) -> tuple[str, ...]:
    """The columns' names."""
    return tuple(column.name for column in columns)


def history(value: float, count: int) -> deque[float]:
    """The last `count` values of a quantity, the newest first, all the same at the start."""
    return deque([value] * count, maxlen=count)


def between(low: float, value: float, high: float) -> float:
    """The value, or the bound that it exceeds."""
    return low if value < low else min(value, high)


class Plant(gymnasium.Env[Float32, Float32]):
    """A simulated process; readings and actions outside their range are clipped to it."""

    sensors: ClassVar[tuple[Column, ...]]  # columns of an observation
    actuators: ClassVar[tuple[Column, ...]]  # columns of an action
    limit: ClassVar[int]  # steps per episode

    def __init__(self) -> None:
        self.observation_space, self.action_space = (
            gymnasium.spaces.Box(
                np.array([column.low for column in columns], np.float32),
                np.array([column.high for column in columns], np.float32),
            )
            for columns in (self.sensors, self.actuators)
        )
        self._low, self._high = self.observation_space.low, self.observation_space.high

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Float32, Info]:
        """A random start."""
        super().reset(seed=seed)
        self._start(self.np_random)
        return self._observation(), {}

    def step(self, action: ArrayLike) -> tuple[Float32, float, bool, bool, Info]:
        """One step of the process; the reward is that of the state it leads to."""
        values = np.asarray(action, np.float64)
        if values.shape != (len(self.actuators),) or not np.isfinite(values).all():
            names = ", ".join(names_of(self.actuators))
            raise ValueError(f"{type(self).__name__}: needs a finite value of each of {names}; got {values}")
        pairs = zip(values.tolist(), self.actuators, strict=True)
        settings = [between(actuator.low, value, actuator.high) for value, actuator in pairs]
        reward, terminated = self._advance(settings, self.np_random)
        return self._observation(), reward, terminated, False, {}

    def _observation(self) -> Float32:
        readings = np.array(self._readings(), np.float32)
        return np.minimum(np.maximum(readings, self._low), self._high)

    @abstractmethod
    def _start(self, rng: np.random.Generator) -> None:
        """Draw the state of a new episode."""

    @abstractmethod
    def _advance(self, settings: list[float], rng: np.random.Generator) -> tuple[float, bool]:
        """Move the state one step on; the reward, and whether the episode terminated."""

    @abstractmethod
    def _readings(self) -> list[float]:
        """The values of the sensors' columns."""


class Tank(Plant):
    """Hold level and temperature of a stirred tank by an inlet valve and a heater; a step is a minute.

    inflow = 1.0 * valve and outflow = demand * sqrt(level / 50), in litres per minute
    volume' = volume + inflow - outflow, where a percent of level is 10 litres
    temp' = temp + (inflow * (feed_temp - temp) + 43 * heater(three minutes ago)) / volume
    reward = -|temp - setpoint| / 5 - |level - 50| / 10 - 0.3 * heater / 100

    The heater acts with a dead time of three minutes and has 300 kW. Demand and feed temperature
    drift. Demand also jumps, and the temperature's setpoint changes now and then.
    """

    sensors = (
        Column("level", 0, 100),
        Column("temp", 0, 120),
        Column("temp_before", 0, 120),
        Column("temp_setpoint", 40, 65),
        Column("level_integral", -500, 500),  # of the error, in percent times minutes
        Column("temp_integral", -500, 500),  # of the error, in kelvin times minutes
        Column("outflow", 0, 100),
        *lags("heater", 3, 0, 100),
    )
    actuators = (Column("valve", 0, 100), Column("heater", 0, 100))
    limit = 200

    def _start(self, rng: np.random.Generator) -> None:
        self._level = rng.uniform(35, 65)
        self._temp = self._temp_before = rng.uniform(40, 60)
        self._setpoint = rng.uniform(45, 60)
        self._demand, self._feed_temp = rng.uniform(20, 40), rng.uniform(10, 20)
        self._level_integral = self._temp_integral = 0.0
        self._heater = history(30.0, 3)
        self._outflow = self._demand * math.sqrt(self._level / 50)

    def _advance(self, settings: list[float], rng: np.random.Generator) -> tuple[float, bool]:
        valve, heater = settings
        chance = rng.random()
        if chance < 0.02:
            self._demand = rng.uniform(18, 42)
        elif chance < 0.03:
            self._setpoint = rng.uniform(45, 60)
        self._demand = between(15, self._demand + 0.5 * rng.normal(), 45)
        self._feed_temp = between(8, self._feed_temp + 0.2 * rng.normal(), 22)

        volume, inflow = 10 * self._level, 1.0 * valve
        self._outflow = self._demand * math.sqrt(self._level / 50)
        heat = inflow * (self._feed_temp - self._temp) + 43 * self._heater[-1]
        self._temp_before, self._temp = self._temp, between(5, self._temp + heat / volume, 115)
        self._level = between(10, (volume + inflow - self._outflow) / 10, 100)  # it overflows at 100
        self._heater.appendleft(heater)

        level_error, temp_error = 50 - self._level, self._setpoint - self._temp
        self._level_integral = between(-500, self._level_integral + level_error, 500)
        self._temp_integral = between(-500, self._temp_integral + temp_error, 500)
        return -abs(temp_error) / 5 - abs(level_error) / 10 - 0.3 * heater / 100, False

    def _readings(self) -> list[float]:
        measured = [self._level, self._temp, self._temp_before, self._setpoint]
        return [*measured, self._level_integral, self._temp_integral, self._outflow, *self._heater]


def tank_controller(seen: Seen) -> tuple[float, ...]:
    """Two PI loops that ignore each other; the heater's gains are too high for its dead time."""
    level_error, temp_error = 50 - seen["level"], seen["temp_setpoint"] - seen["temp"]
    valve = 30 + 1.0 * level_error + 0.05 * seen["level_integral"]
    heater = 28 + 2.0 * temp_error + 0.25 * seen["temp_integral"]
    return between(0, valve, 100), between(0, heater, 100)


def tank_operators(settings: tuple[float, ...], rng: np.random.Generator) -> tuple[float, ...]:
    """Operators trim both settings a little all the time, and in 5 % of the steps by up to 25."""
    spread = [rng.uniform(-25, 25) if rng.random() < 0.05 else rng.normal(0, 4) for _ in settings]
    return tuple(between(0, value + trim, 100) for value, trim in zip(settings, spread, strict=True))


class Fan(Plant):
    """Cool a machine by a fan; a step is a minute.

    core' = core + (12 * load - 0.5 * (core - casing)) / 3
    casing' = casing + (0.5 * (core - casing) - airflow * (casing - ambient)) / 2
    airflow = 0.01 + 0.23 * speed * (1 - filter), where speed is the action divided by 100
    reward = load - 0.2 * speed^3 - 0.1 * max(0, core - 90)

    Load and ambient temperature drift. The load surges or drops for a while, and the filter clogs. At a core
    of 105 degrees Celsius the machine trips: the reward is -100 and the episode is terminated.
    """

    sensors = (
        *lags("temp", 8, 0, 120),  # of the core
        *lags("casing", 4, 0, 120),
        *lags("ambient", 4, -10, 50),
        *lags("load", 8, 0, 1.5),
        *lags("fan", 5, 0, 100),
        Column("filter", 0, 0.5),
    )
    actuators = (Column("fan", 0, 100),)
    limit = 200

    def _start(self, rng: np.random.Generator) -> None:
        ambient, load = rng.uniform(15, 30), rng.uniform(0.7, 0.95)
        casing = ambient + 12 * load / 0.23
        self._temp, self._casing = history(casing + 24 * load, 8), history(casing, 4)
        self._ambient, self._load = history(ambient, 4), history(load, 8)
        self._fan, self._filter = history(100.0, 5), rng.uniform(0, 0.1)
        self._usual_load, self._event_load, self._event_left = load, 0.0, 0

    def _advance(self, settings: list[float], rng: np.random.Generator) -> tuple[float, bool]:
        speed = settings[0] / 100
        if self._event_left:
            self._event_left -= 1
        elif (chance := rng.random()) < 0.014:
            self._event_left = int(rng.integers(8, 25))
            self._event_load = rng.uniform(1.0, 1.15) if chance < 0.007 else rng.uniform(0.2, 0.6)
        self._usual_load = between(0.65, self._usual_load + 0.02 * rng.normal(), 0.95)
        wanted = self._event_load if self._event_left else self._usual_load
        load = self._load[0] + 0.4 * (wanted - self._load[0])
        ambient = between(10, self._ambient[0] + 0.3 * rng.normal(), 36)
        self._filter = min(self._filter + 0.0005 * rng.random(), 0.5)

        core, casing = self._temp[0], self._casing[0]
        passed, airflow = 0.5 * (core - casing), 0.01 + 0.23 * speed * (1 - self._filter)
        core += (12 * load - passed) / 3
        casing += (passed - airflow * (casing - ambient)) / 2
        self._temp.appendleft(core)
        self._casing.appendleft(casing)
        self._ambient.appendleft(ambient)
        self._load.appendleft(load)
        self._fan.appendleft(settings[0])
        if core >= 105:
            return -100.0, True
        return load - 0.2 * speed**3 - 0.1 * max(0.0, core - 90), False

    def _readings(self) -> list[float]:
        return [*self._temp, *self._casing, *self._ambient, *self._load, *self._fan, self._filter]


def fan_controller(seen: Seen) -> tuple[float, ...]:
    """On and off with hysteresis: off below 61 degrees, on again above 68."""
    running = seen["fan_1"] > 0
    return (100.0 if seen["temp_1"] > (61 if running else 68) else 0.0,)


def fan_operators(settings: tuple[float, ...], rng: np.random.Generator) -> tuple[float, ...]:
    """In 0.5 % of the steps an operator tries a lower speed."""
    return (rng.uniform(60, 100),) if settings[0] > 0 and rng.random() < 0.005 else settings


class Dosing(Plant):
    """Dose a coagulant into the basin of a waterworks; a step is an hour, and a dose works for about a day.

    coagulant' = coagulant + flow / 1500 * (dose - coagulant)
    dirt' = dirt + flow / 1500 * (turbidity - dirt)
    settled = dirt * exp(-2.5 * coagulant / (coagulant + 0.1 * dirt + 0.3))
    outlet' = outlet + 0.15 * (settled - outlet)
    reward = -outlet - 0.05 * dose * flow / 100 - max(0, coagulant - 0.5 - 0.2 * dirt)

    Coagulant and dirt are those in the basin, and filters smooth what has settled. The last term is coagulant
    that found nothing to bind. Flow follows the time of day; rain adds to flow and turbidity.
    """

    sensors = (
        *lags("turbidity", 12, 0, 150),
        *lags("flow", 6, 0, 400),
        *lags("dose", 12, 0, 10),
        *lags("outlet", 8, 0, 100),
        Column("hour", 0, 23),
        Column("day_cosine", -1, 1),  # of the hour
    )
    actuators = (Column("dose", 0, 10),)
    limit = 240

    def _start(self, rng: np.random.Generator) -> None:
        self._hour, self._rain = int(rng.integers(24)), 0.0
        turbidity = rng.uniform(2, 6)
        self._dirt, self._coagulant = turbidity, rng.uniform(0, 1)
        self._turbidity, self._flow = history(turbidity, 12), history(100.0, 6)
        self._dose, self._outlet = history(0.0, 12), history(rng.uniform(0.5, 1.5), 8)

    def _advance(self, settings: list[float], rng: np.random.Generator) -> tuple[float, bool]:
        dose = settings[0]
        self._hour = (self._hour + 1) % 24
        self._rain = 0.9 * self._rain + (rng.uniform(0.3, 1.0) if rng.random() < 0.012 else 0.0)
        turbidity = 0.93 * self._turbidity[0] + 0.07 * 3 + 3 * self._rain + 0.2 * rng.normal()
        self._turbidity.appendleft(max(turbidity, 0.5))
        flow = 100 - 30 * math.cos(2 * math.pi * self._hour / 24) + 80 * self._rain + 4 * rng.normal()

        exchange = flow / 1500
        self._coagulant += exchange * (dose - self._coagulant)
        self._dirt += exchange * (self._turbidity[0] - self._dirt)
        settled = self._dirt * math.exp(-2.5 * self._coagulant / (self._coagulant + 0.1 * self._dirt + 0.3))
        self._flow.appendleft(flow)
        self._dose.appendleft(dose)
        self._outlet.appendleft(self._outlet[0] + 0.15 * (settled - self._outlet[0]))
        residual = max(0.0, self._coagulant - 0.5 - 0.2 * self._dirt)
        return -self._outlet[0] - 0.05 * dose * flow / 100 - residual, False

    def _readings(self) -> list[float]:
        cosine = math.cos(2 * math.pi * self._hour / 24)
        return [*self._turbidity, *self._flow, *self._dose, *self._outlet, self._hour, cosine]


def dosing_controller(seen: Seen) -> tuple[float, ...]:
    """A schedule: nothing at night, 1 mg/l by day, more when the flow is high; it ignores the turbidity."""
    by_flow = 2.0 * max(0.0, (seen["flow_1"] - 130) // 20)
    return (min(by_flow + (1.0 if 7 <= seen["hour"] < 21 else 0.0), 10.0),)


def dosing_operators(settings: tuple[float, ...], rng: np.random.Generator) -> tuple[float, ...]:
    """In 10 % of the steps an operator changes the dose by up to 3 mg/l."""
    change = int(rng.integers(-3, 4)) if rng.random() < 0.1 else 0
    return (between(0, settings[0] + change, 10),)


class Process(NamedTuple):
    """A plant and who runs it."""

    plant: type[Plant]
    controller: Control
    operators: Operate


PLANTS = {
    "tank": Process(Tank, tank_controller, tank_operators),
    "fan": Process(Fan, fan_controller, fan_operators),
    "dosing": Process(Dosing, dosing_controller, dosing_operators),
}
