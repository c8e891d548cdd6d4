"""Estimate policies from a log: fit values, and combine them with the log's own returns."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcount.algorithms.contract import Report, ignore_report
from gridcount.counts.units import discounted_sums
from gridcount.data.split import take_episodes
from gridcount.estimation.behaviour import Behaviour
from gridcount.estimation.fitted_q import Fitted, FittedQ, fit
from gridcount.estimation.imagined import Visits, imagine
from gridcount.estimation.intervals import Interval, bootstrap, of_members
from gridcount.estimation.logged import by_importance, fit_log_policy
from gridcount.estimation.model import Dynamics
from gridcount.estimation.problem import LOG, NEVER, Problem, Rule
from gridcount.estimation.result import Estimate, Estimates, Gains, verdict
from gridcount.estimation.runs import Evaluated
from gridcount.policy.counts import LogCounts
from gridcount.transitions import Transitions

# share of a return that may lie beyond the end of the logged episodes before they are called cut off
CUT_OFF = 0.05
# fitted values of the log that miss its returns by this share of their spread do not reproduce them
FAR = 0.25
FOLDS = 2  # of cross-fitting where no episodes are held out


@dataclass(frozen=True)
class Settings:
    """How estimates are made; docs/estimate.md says what was tried."""

    discount: float = 0.99  # 1: undiscounted returns within the longest episode
    updates: int = 6_000  # of fitted Q evaluation
    members: int = 4  # networks, each on a bootstrap of the episodes
    hidden: tuple[int, ...] = (128, 128)
    # what acting where the log never did may cost, in deviations of the log's returns (chosen on Maze2D)
    support_cost: float = 2.0
    most_rows: int = 300_000  # of a larger log, as many rows of random episodes are used
    seed: int = 0

    def check(self) -> None:
        """Raise ValueError for values that no estimate can have."""
        if not 0 <= self.discount <= 1:
            raise ValueError(f"--discount is {self.discount:g}; it must be from 0 to 1")
        if self.updates < 1 or self.members < 2 * FOLDS:
            raise ValueError(
                f"--updates is {self.updates} and --members is {self.members}; they must be at least 1 and"
                f" {2 * FOLDS}"
            )
        if self.most_rows < 1:
            raise ValueError(f"--most-rows is {self.most_rows}; it must be at least 1")
        if self.support_cost < 0 or self.seed < 0:
            raise ValueError(
                f"--support-cost is {self.support_cost:g} and --seed is {self.seed}; they must be at least 0"
            )


def estimate(
    policies: Mapping[str, Rule],
    found: Evaluated,
    settings: Settings | None = None,
    behaviour_log_prob: NDArray[Any] | None = None,
    report: Report = ignore_report,
) -> Estimates:
    """Estimates of policies from a log, beside the log's own policy.

    With held-out episodes values are fitted to the other episodes and estimated on those. Without it, values
    are cross-fitted: two halves of the members learn from two halves of the episodes, and each estimates the
    half it never saw.
    """
    settings = settings or Settings()
    if behaviour_log_prob is not None:
        behaviour_log_prob = _used_rows(behaviour_log_prob, found, settings) + _log_scale(found.data)
    fitted, notes = fit_policies(policies, found, settings, report=report)
    model = Behaviour(hidden=settings.hidden, updates=max(1, settings.updates // 2))
    clones = fit_log_policy(fitted.problem, model, settings.seed, report)
    visits = imagine(fitted, clones, _dynamics(fitted.problem, settings), settings.seed, report)
    result = _estimates(fitted, settings, visits)
    weighted, note = by_importance(fitted, behaviour_log_prob, clones)
    whole = tuple(replace(each, others=weighted[each.name]) for each in result)
    return replace(result, policies=whole, notes=(*notes, _corrected(result[LOG]), note))


def fit_policies(
    policies: Mapping[str, Rule],
    found: Evaluated,
    settings: Settings,
    counted: Transitions | None = None,
    report: Report = ignore_report,
) -> tuple[Fitted, tuple[str, ...]]:
    """Fitted values of policies and of the log's own, and notes; `counted`: other episodes to count in."""
    data, held_out, notes = found
    settings.check()
    if LOG in policies:
        raise ValueError(f"a policy cannot be called '{LOG}', which is the log's own; choose another name")
    if counted is None:
        counted = data if held_out is None else take_episodes(data, ~held_out)
    counts = LogCounts.fit(counted)
    kept = _within(data, held_out, settings)
    if not kept.all():
        held_out = None if held_out is None else held_out[kept]
        data = take_episodes(data, kept)
        notes = (
            *notes,
            f"a random {kept.mean():.0%} of the episodes was used, {len(data):,} rows (--most-rows)",
        )
    fold = _folds(data, held_out, settings.seed)
    problem = Problem.of(data, fold, {**policies, LOG: None}, settings.discount, counts)
    return fit(problem, _learner(problem, settings), settings.seed, report), notes


def _within(data: Transitions, held_out: NDArray[np.bool_] | None, settings: Settings) -> NDArray[np.bool_]:
    """[episodes] which are used: all, or as many at random as `most_rows` allows; of those held out, at
    most half of that."""
    kept = np.ones(len(data.episode_lengths), np.bool_)
    order = np.random.default_rng([settings.seed, 2]).permutation(len(kept))
    groups = [order] if held_out is None else [order[held_out[order]], order[~held_out[order]]]
    left = settings.most_rows
    for number, group in enumerate(groups, 1):
        share = left * number // len(groups)  # the second group also has what the first left over
        within = np.cumsum(data.episode_lengths[group]) <= share
        within[:FOLDS] = True
        kept[group[~within]] = False
        left -= int(data.episode_lengths[group[within]].sum())
    return kept


def _used_rows(log_prob: NDArray[Any], found: Evaluated, settings: Settings) -> NDArray[Any]:
    """The log-densities of the episodes that are used."""
    data, held_out, _ = found
    if np.shape(log_prob) != (len(data),):
        raise ValueError(
            f"behaviour_log_prob has shape {np.shape(log_prob)}; expected one number for each of"
            f" {len(data):,} rows"
        )
    return np.asarray(log_prob)[np.repeat(_within(data, held_out, settings), data.episode_lengths)]


def _log_scale(data: Transitions) -> float:
    """What makes log-densities of actions in the log's units those of actions in [-1, 1]: a density is per
    unit, and [-1, 1] holds (high - low) / 2 units in each."""
    half = (np.asarray(data.action_high, np.float64) - np.asarray(data.action_low, np.float64)) / 2
    return float(np.log(half[half > 0]).sum())


def _folds(data: Transitions, held_out: NDArray[np.bool_] | None, seed: int) -> NDArray[np.int64]:
    episodes = len(data.episode_lengths)
    if held_out is not None:
        return np.where(held_out, 0, NEVER)
    if episodes < FOLDS:
        raise ValueError(
            f"{data.name}: has {episodes} episode, and an estimate needs at least {FOLDS}; name the column"
            " that tells"
            " episodes apart with --episode"
        )
    folds: NDArray[np.int64] = np.random.default_rng(seed).permutation(episodes) % FOLDS
    return folds


def _learner(problem: Problem, settings: Settings) -> FittedQ:
    units, discount = problem.units, settings.discount
    start = (float(log_returns(problem)[problem.evaluated].mean()) - units.level * units.steps) / units.spread
    return FittedQ(
        discount=discount,
        per_step=1 / units.steps,
        low=units.low,
        high=units.high,
        start=float(np.clip(start, units.low, units.high)),
        members=settings.members,
        hidden=settings.hidden,
        updates=settings.updates,
    )


def _corrected(log: Estimate) -> str:
    """What the roll-outs were corrected by, in words."""
    return (
        f"roll-outs of a clone of the log's policy return {log.rolled_out.value:.4g}, and its fitted value is"
        f" {log.fitted_q.value:.4g}: roll-outs of policies are corrected by the difference"
    )


def _dynamics(problem: Problem, settings: Settings) -> Dynamics:
    return Dynamics(
        ends=bool(np.any(problem.data.terminated)),
        members=settings.members,
        hidden=settings.hidden,
        updates=settings.updates,
    )


def log_returns(problem: Problem, discount: float | None = None) -> NDArray[np.float64]:
    """[episodes] the discounted sum of the rewards that were logged."""
    gamma = problem.discount if discount is None else discount
    reward = np.asarray(problem.data.reward, np.float64)
    if gamma == 1:
        return problem.data.episode_returns
    starts, lengths = problem.starts, problem.data.episode_lengths
    whole = np.append(discounted_sums(reward, gamma), 0.0)
    found: NDArray[np.float64] = whole[starts] - gamma**lengths * whole[starts + lengths]
    return found


def _estimates(fitted: Fitted, settings: Settings, visits: Mapping[str, Visits]) -> Estimates:
    problem = fitted.problem
    chosen = problem.evaluated
    unseen = fitted.unseen[chosen].T
    worth, _ = first_state_values(fitted)
    returns = bootstrap(log_returns(problem)[chosen])
    own = of_members(worth[LOG], unseen)
    reproduces = _reproduces(problem, own, returns)
    missed = visits[LOG].worth.value - own.value  # what roll-outs of the log's policy give too much
    found = []
    for name, rule in problem.policies.items():
        cost = (
            settings.support_cost * problem.units.spread * max(0.0, visits[name].unsure - visits[LOG].unsure)
        )
        plain = of_members(worth[name], unseen).widened(cost)
        model = visits[name].worth if rule is None else visits[name].worth.shifted(-missed)
        followed = plain.value if rule is None else model.value
        each = Estimate(
            name=name,
            fitted_q=plain.reaching(followed),
            cautious=min(plain.value, followed) - cost,
            rolled_out=model,
            gain=None,
            uncertainty=visits[name].unsure,
            unseen=unseen_share(problem, rule),
        )
        if rule is not None:
            gains = Gains.of(of_members(worth[name] - worth[LOG], unseen), cost, model.value - own.value)
            better, words = verdict(gains, each.unseen, int(chosen.sum()), reproduces)
            each = replace(each, gain=gains.whole, better=better, verdict=words)
        found.append(each)
    return Estimates(
        policies=tuple(found),
        returns=returns,
        undiscounted=bootstrap(log_returns(problem, 1.0)[chosen]),
        discount=problem.discount,
        horizon=problem.horizon,
        episodes=int(chosen.sum()),
        reproduces=reproduces,
    )


def first_state_values(
    fitted: Fitted,
) -> tuple[dict[str, NDArray[np.float64]], dict[str, NDArray[np.float64]]]:
    """[members, episodes] of every policy at the episodes' first states: returns, and mean uncertainty."""
    problem = fitted.problem
    first = problem.starts[problem.evaluated]
    observation = np.asarray(problem.data.observation[first])
    worth, unsure = {}, {}
    for name, rule in problem.policies.items():
        action = problem.actions(rule, problem.data.observation, first)
        worth[name], later = fitted.values(name, observation, np.zeros_like(first), action)
        unsure[name] = later + problem.uncertainty(observation, action) / problem.units.steps
    return worth, unsure


def _reproduces(problem: Problem, own: Interval, returns: Interval) -> bool | None:
    """Whether fitted values of the log's policy agree with its returns; None if these were cut off."""
    last = problem.starts + problem.data.episode_lengths - 1
    left = np.where(problem.ended()[last] > 0, 0.0, problem.discount**problem.data.episode_lengths)
    if left[problem.evaluated].mean() > CUT_OFF:
        return None
    apart = max(own.low - returns.high, returns.low - own.high, 0.0)
    return apart <= FAR * problem.units.spread


def unseen_share(problem: Problem, rule: Rule | None) -> float:
    """Share of a policy's actions at the evaluated states that the log never has in the state's cell."""
    rows = np.flatnonzero(np.repeat(problem.evaluated, problem.data.episode_lengths))
    rows = np.random.default_rng(0).permutation(rows)[:20_000]
    action = problem.actions(rule, problem.data.observation, rows)
    return float((problem.uncertainty(problem.data.observation[rows], action) == 1).mean())
