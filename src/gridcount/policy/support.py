"""The support report of a policy: where the log has its actions, against the log's own actions and random
ones."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gridcount.counts.adaptive import LEAF, AdaptiveCells
from gridcount.policy.counts import LogCounts
from gridcount.policy.guard import Decision
from gridcount.policy.projection import Map, draw_map
from gridcount.transitions import Transitions

if TYPE_CHECKING:
    from gridcount.policy.policy import Policy

ROWS = 50_000  # of the data that are looked at, in whole episodes
ALONE = 20  # states listed
EPISODES = 3  # listed
STEPS = 1_000  # of a listed episode, at most
DEPTH = 3  # cuts that make a region


@dataclass(frozen=True)
class Share:
    """How well the log supports some actions."""

    in_log: float  # share of the actions that a guard lets pass
    count: float  # median over states: how often the log has the action
    uncertainty: float  # mean over states


@dataclass(frozen=True)
class Region:
    """A part of the state space, cut where the log's actions differ most."""

    where: str  # conditions on columns
    rows: int
    policy: float  # share of actions that the log has
    log: float
    random: float


@dataclass(frozen=True)
class ActionRange:
    """Where an action dimension of the policy lies, in the log's units."""

    name: str
    log: tuple[float, float]  # smallest and largest value
    policy: tuple[float, float]
    outside: float  # share of the policy's values beyond the log's range
    new: float  # share that the log does not have in the state's cell: the dimension that leaves the log


@dataclass(frozen=True)
class ColumnRange:
    """Where a column of the observations lies."""

    name: str
    log: tuple[float, float]  # the range in which states were seen
    outside: float  # share of the data's values beyond it


@dataclass(frozen=True)
class State:
    """A state in which the policy is alone."""

    row: int  # of the data
    episode: int
    step: int
    observation: dict[str, float]
    action: dict[str, float]  # the policy's
    logged_action: dict[str, float]  # of this row
    nearest_action: dict[str, float]
    count: int
    uncertainty: float
    resolution: int


@dataclass(frozen=True)
class Episode:
    """Support along an episode."""

    episode: int
    held: float  # share of its steps where the guard would act
    count: list[int]  # by step
    uncertainty: list[float]


@dataclass(frozen=True)
class SupportReport:
    """Where the log supports a policy."""

    policy: str
    dataset: str  # whose states were looked at
    rows: int
    episodes: int
    resolution: int  # at which states must have been seen
    min_count: int  # of an action
    held_back: (
        float | None
    )  # share of the log's own held-out decisions that such a guard holds back; None: not measured
    seen: float  # share of the data's states that the log has seen
    shares: dict[str, Share]  # of the policy, the log and random actions
    regions: list[Region]
    actions: list[ActionRange]
    columns: list[ColumnRange]
    alone: list[State]  # where the policy is most alone, at most one of each episode
    worst: list[Episode]
    map: Map

    def as_json(self) -> dict[str, Any]:
        """The report as JSON data."""
        return asdict(self)

    def verdict(self) -> str:
        """The result in words."""
        own, log, random = (self.shares[name].in_log for name in ("policy", "log", "random"))
        told = f"the log has {own:.0%} of the policy's actions, {log:.0%} of its own"
        told += f" and {random:.0%} of random ones"
        if log - random < 0.1:
            return f"Support says little here: {told}. The log holds almost every action in every state."
        if own >= log - 0.05:
            return f"The policy stays within the log: {told}."
        if own >= (log + random) / 2:
            return f"The policy leaves the log in places: {told}. Use a guard, and look at the regions below."
        return f"The policy leaves the log: {told}. Do not use it without a guard."

    def __repr__(self) -> str:
        return f"<SupportReport of {self.policy}: {self.verdict()}>"


def measure(
    policy: "Policy", counts: LogCounts, data: Transitions, columns: Sequence[str] | None, seed: int
) -> SupportReport:
    """Look at the policy in whole episodes of the data, at random."""
    guard = counts.guard
    assert guard is not None  # the caller has validated it
    rows, episode, step = _whole_episodes(data, seed)
    observation, logged = np.asarray(data.observation[rows]), np.asarray(data.action[rows])
    decision = policy.decide(observation)
    anything = np.random.default_rng(seed).uniform(-1, 1, logged.shape).astype(np.float32)
    found = {
        "policy": decision.count,
        "log": counts(observation, logged),
        "random": counts(observation, anything),
    }
    has = {name: count >= guard.min_count for name, count in found.items()}
    wanted, _ = policy.wanted(observation)
    per_dimension = counts.actions.each(counts.cells.rank(observation), wanted)
    return SupportReport(
        policy=f"{policy.algorithm} on {policy.facts.dataset}, seed {policy.seed}, {policy.updates:,} updates",
        dataset=Path(data.name).name,
        rows=len(rows),
        episodes=len(np.unique(episode)),
        resolution=guard.resolution,
        min_count=guard.min_count,
        held_back=None if np.isnan(guard.held_back) else guard.held_back,
        seen=float(np.mean(decision.resolution >= guard.resolution)),
        shares={name: _share(count, has[name]) for name, count in found.items()},
        regions=_regions(counts.cells, observation, has, policy.observation_names),
        actions=_action_ranges(policy, data, decision, per_dimension < guard.min_count),
        columns=[
            ColumnRange(name, (float(low), float(high)), float(np.mean((values < low) | (values > high))))
            for name, low, high, values in zip(
                policy.observation_names, guard.seen.low, guard.seen.high, observation.T, strict=True
            )
        ],
        alone=_alone(policy, data, decision, rows, episode, step),
        worst=_worst(decision, episode),
        map=draw_map(observation, has["policy"], policy.observation_names, columns),
    )


def _whole_episodes(
    data: Transitions, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Rows of some episodes, the episode of each, and its step."""
    lengths = data.episode_lengths
    order = np.random.default_rng(seed).permutation(len(lengths))
    some = max(1, int(np.searchsorted(np.cumsum(lengths[order]), ROWS, side="right")))
    chosen = np.sort(order[:some])
    starts = (np.cumsum(lengths) - lengths)[chosen]
    sizes = np.minimum(lengths[chosen], ROWS)
    step = np.concatenate([np.arange(size) for size in sizes])
    return np.repeat(starts, sizes) + step, np.repeat(chosen, sizes), step


def _share(count: NDArray[np.int64], has: NDArray[np.bool_]) -> Share:
    return Share(float(has.mean()), float(np.median(count)), float(np.mean(1 / np.sqrt(count + 1.0))))


def _regions(
    cells: AdaptiveCells,
    observation: NDArray[np.float32],
    has: dict[str, NDArray[np.bool_]],
    names: Sequence[str],
) -> list[Region]:
    """The parts that the first cuts of the log's tree make, the least supported first."""
    found: list[Region] = []
    waiting = [(0, np.ones(len(observation), np.bool_), dict[int, tuple[float, float]](), 0)]
    while waiting:
        node, inside, limits, depth = waiting.pop()
        column = int(cells.column[node])
        if column == LEAF or depth == DEPTH:
            if inside.any():
                shares = {name: float(each[inside].mean()) for name, each in has.items()}
                found.append(Region(_in_words(limits, names), int(inside.sum()), **shares))
            continue
        cut = float(cells.threshold[node])
        low, high = limits.get(column, (-np.inf, np.inf))
        below = observation[:, column] <= cells.threshold[node]
        waiting.append((int(cells.below[node]), inside & below, limits | {column: (low, cut)}, depth + 1))
        waiting.append((int(cells.above[node]), inside & ~below, limits | {column: (cut, high)}, depth + 1))
    return sorted(found, key=lambda region: region.policy)


def _in_words(limits: dict[int, tuple[float, float]], names: Sequence[str]) -> str:
    said = []
    for column, (low, high) in limits.items():
        above, below = (
            (f"{low:.4g} < " if np.isfinite(low) else ""),
            (f" ≤ {high:.4g}" if np.isfinite(high) else ""),
        )
        said.append(f"{above}{names[column]}{below}")
    return ", ".join(said) or "everywhere"


def _action_ranges(
    policy: "Policy", data: Transitions, decision: Decision, new: NDArray[np.bool_]
) -> list[ActionRange]:
    """Each action dimension, in the log's units."""
    low, high = (
        policy.at_values(policy.in_units(np.asarray(edge)))
        for edge in (data.action.min(axis=0), data.action.max(axis=0))
    )
    actions = decision.policy_action
    return [
        ActionRange(
            name,
            (float(low[d]), float(high[d])),
            (float(actions[:, d].min()), float(actions[:, d].max())),
            float(np.mean((actions[:, d] < low[d]) | (actions[:, d] > high[d]))),
            float(new[:, d].mean()),
        )
        for d, name in enumerate(policy.action_names)
    ]


def _alone(
    policy: "Policy",
    data: Transitions,
    decision: Decision,
    rows: NDArray[np.int64],
    episode: NDArray[np.int64],
    step: NDArray[np.int64],
) -> list[State]:
    """The states with the least support: counts, then resolutions, then the distance to the nearest logged
    action."""
    span = np.maximum(np.abs(policy.in_units(np.ones(1)) - policy.in_units(-np.ones(1))), 1e-12)
    distance = (np.abs(decision.policy_action - decision.nearest_action) / span).max(axis=1)
    order = np.lexsort((-distance, decision.resolution, decision.count))
    _, first = np.unique(episode[order], return_index=True)  # one of each episode: neighbours are alike
    rest = np.setdiff1d(np.arange(len(order)), first)
    chosen = order[np.append(np.sort(first), rest)[:ALONE]]

    def named(names: Sequence[str], values: NDArray[Any]) -> dict[str, float]:
        return {name: float(value) for name, value in zip(names, values, strict=True)}

    return [
        State(
            int(rows[i]),
            int(episode[i]),
            int(step[i]),
            named(policy.observation_names, data.observation[rows[i]]),
            named(policy.action_names, decision.policy_action[i]),
            named(policy.action_names, policy.at_values(policy.in_units(np.asarray(data.action[rows[i]])))),
            named(policy.action_names, decision.nearest_action[i]),
            int(decision.count[i]),
            float(decision.uncertainty[i]),
            int(decision.resolution[i]),
        )
        for i in chosen
    ]


def _worst(decision: Decision, episode: NDArray[np.int64]) -> list[Episode]:
    """The episodes in whose states the guard would act most often."""
    found = []
    for number in np.unique(episode):
        own = episode == number
        found.append((float(decision.held[own].mean()), int(number), own))
    found.sort(key=lambda each: (-each[0], -decision.uncertainty[each[2]].mean()))
    return [
        Episode(
            number, held, decision.count[own][:STEPS].tolist(), decision.uncertainty[own][:STEPS].tolist()
        )
        for held, number, own in found[:EPISODES]
    ]
