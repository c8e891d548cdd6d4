"""Checks of a policy against its log: whether the log has its actions, and which values the rewards allow."""

import math
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridcount.algorithms import make_algorithm
from gridcount.algorithms.contract import Prepared
from gridcount.counts.auto import auto_bins
from gridcount.counts.support import EXPECTED, LogSupport
from gridcount.evaluation.rollouts import Act
from gridcount.training.logs import Row
from gridcount.transitions import Transitions

FAR = 0.05  # share of the possible range beyond which values cause a warning
NEGLIGIBLE = 1e-4  # discount factors below this are not summed one by one
CAUTION = {  # fields that keep a policy close to the log -> whether a larger value does
    "pessimism": True,
    "support_cost": True,
    "conservatism": True,
    "ood_end": True,
    "policy_penalty": True,
    "critic_penalty": True,
    "target_penalty": True,
    "ambition": False,
    "discrepancy_limit": False,
    "expectile": False,
    "n_critics": True,
}


class Worth(NamedTuple):
    """Bounds on values: the smallest and largest possible sum of discounted rewards, and the log's own
    returns."""

    low: float  # no sum of the log's rewards is smaller
    high: float  # or larger
    worst: float  # the smallest return from a sampled row to the end of its episode
    mean: float
    best: float

    @classmethod
    def fit(
        cls,
        reward: NDArray[Any],
        terminated: NDArray[Any],
        episode_end: NDArray[np.bool_],
        rows: NDArray[np.int64],
        discount: float,
    ) -> "Worth":
        """Compute from all rewards and the returns of some rows; truncated episodes continue at the log's
        mean reward."""
        smallest, largest, mean = (
            float(reward.min()),
            float(reward.max()),
            float(reward.mean(dtype=np.float64)),
        )
        horizon = 1 / max(1 - discount, 1e-6)
        ends_early = bool(np.any(terminated))  # a return may then be a single reward
        low = min(smallest * horizon, smallest) if ends_early else smallest * horizon
        high = max(largest * horizon, largest) if ends_early else largest * horizon
        ends = np.append(np.flatnonzero(episode_end), len(reward) - 1)
        reach = int(min(math.log(NEGLIGIBLE) / math.log(min(max(discount, 1e-9), 1 - 1e-6)), len(reward))) + 1
        last = np.minimum(ends[np.searchsorted(ends, rows)], rows + reach)
        powers = discount ** np.arange(reach + 1)
        seen = zip(rows, last + 1, strict=True)
        returns = np.array([np.dot(reward[row:end], powers[: end - row]) for row, end in seen])
        beyond = discount ** (last + 1 - rows) * mean * horizon
        returns = np.where(np.asarray(terminated[last]) > 0, returns, returns + beyond)
        return cls(low, high, float(returns.min()), float(returns.mean()), float(returns.max()))

    def problem(self, q: float, ended: bool = False) -> str | None:
        """The problem of a mean value of the log's actions; None if there is none.

        Values start near 0, so during training only values beyond the far bound are a problem.
        """
        slack = FAR * max(self.high - self.low, abs(self.high), abs(self.low), 1e-6)
        low, worst, high = (
            (self.low, self.worst, self.high)
            if ended
            else (min(self.low, 0), min(self.worst, 0), max(self.high, 0))
        )
        if q > high + slack:
            return f"far above {self.high:.4g}, the largest possible sum of the log's rewards"
        if q < low - slack:
            return f"far below {self.low:.4g}, the smallest possible sum of the log's rewards"
        if q < worst - slack:
            return f"far below {self.worst:.4g}, the smallest return in the log ({self.mean:.4g} on average)"
        return None


class LogJudge:
    """Support and value bounds for one log and one algorithm."""

    def __init__(self, support: LogSupport, worth: Worth | None, algorithm: Any):
        self.support, self.worth, self.algorithm = support, worth, algorithm
        self._warned: set[str] = set()

    @classmethod
    def fit(cls, data: Transitions, prepared: Prepared) -> "LogJudge":
        """Read the log once; the grid is always that of GPC-SAC's fast preset, so that results are
        comparable."""
        grid = make_algorithm("gpc-sac", data.name, "fast")
        bins = auto_bins(data.action_dim)[0] if grid.bins == "auto" else int(grid.bins)
        support = LogSupport.fit(
            data,
            bins=bins,
            state_bins=grid.state_bins,
            state_resolution=grid.state_resolution,
        )
        discount = getattr(prepared.algorithm, "discount", None)
        rewards = getattr(prepared.algorithm, "reward_scale", 1.0) * np.asarray(prepared.rows.reward)
        worth = None
        if discount is not None and len(rewards) == len(
            data
        ):  # rewards on the scale of the algorithm's values
            worth = Worth.fit(
                rewards, np.asarray(prepared.rows.terminated), data.episode_end, support.rows, discount
            )
        return cls(support, worth, prepared.algorithm)

    def measure(self, act: Act) -> Row:
        """The metrics of a policy's actions, and the same metrics of the log's own actions."""
        found = self.support.measure(act(self.support.observation))
        itself = {EXPECTED.format(name): value for name, value in self.support.itself._asdict().items()}
        return {name: value for name, value in (found._asdict() | itself).items() if math.isfinite(value)}

    def warning(self, row: Row) -> str | None:
        """A warning about a row's values during training; each problem is reported once."""
        problem = None if self.worth is None or "q_data" not in row else self.worth.problem(row["q_data"])
        if problem is None or (kind := problem.split()[1]) in self._warned:
            return None
        self._warned.add(kind)
        q = f"{row['q_data']:.4g}"
        return f"warning: seed {row['seed']} estimates a mean value (Q) of {q} for the log's actions, {problem}: {self.way_out(problem)}"

    def way_out(self, problem: str) -> str:
        """The flags that may solve a problem of values."""
        low = "below" in problem
        floor = ""
        if low and self.worth is not None and getattr(self.algorithm, "q_floor", math.inf) < self.worth.worst:
            floor = f", or --q-floor {self.worth.worst:.4g}"
        return f"try {caution_flag(self.algorithm, more=not low)}{floor}"


def caution_flag(algorithm: Any, more: bool) -> str:
    """The flag that makes an algorithm more or less cautious, as text."""
    own = {field.name for field in fields(algorithm)}
    for name, grows in CAUTION.items():
        if name in own:
            return f"a {'larger' if grows == more else 'smaller'} --{name.replace('_', '-')} (it is {getattr(algorithm, name):g})"
    return "an algorithm that stays close to the log, such as gpc-sac, cql or bc" if more else "more updates"
