"""A trained policy: observations in, actions out, both in the log's own units. It needs only NumPy."""

from collections.abc import Mapping, Sequence
from dataclasses import replace as replace_field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridcount.categories import encoded
from gridcount.files.archive import numbered
from gridcount.policy.counts import LogCounts
from gridcount.policy.export import folder as exports
from gridcount.policy.few_values import FewValues
from gridcount.policy.guard import OR_ABSTAIN, Decision, Fallback, Guard
from gridcount.policy.log_guard import LogGuard
from gridcount.policy.store import (
    CLONE,
    COUNTS,
    FACTS,
    FOLDER,
    Facts,
    read_actor,
    read_clone,
    read_counts,
    read_facts,
)
from gridcount.policy.support import SupportReport, measure
from gridcount.transitions import Transitions, in_units

DEFAULT_GUARD = Guard()
NO_GUARD = "Resume its run, which adds them, or use policy(observation), which has no guard"
NO_CLONE = "A finished run of at least 1,000 updates has one; resume the run, or use the fallback 'nearest'"


class Policy:
    """A trained policy of one seed.

    >>> policy = gridcount.load_policy("runs/x")
    >>> policy([20.5, 1.2, 0.3])         # one observation -> its action
    >>> policy(observations)             # [rows, observation_dim] -> [rows, action_dim]

    Nothing is compiled and nothing is shared between calls, so threads may call it together.
    """

    def __init__(
        self,
        actor: exports.Act,
        facts: Facts,
        *,
        seed: int,
        updates: int,
        counts: LogCounts | None = None,
        clone: exports.Act | None = None,
        fallback: Fallback | None = None,  # of a guard that names none
    ):
        self._actor, self._facts, self._counts, self._clone = actor, facts, counts, clone
        automatic: Fallback = "nearest-or-abstain" if clone is None else "clone-or-abstain"
        self._default_fallback = automatic if fallback is None else fallback
        self.seed, self.updates = seed, updates
        self._low, self._high = np.asarray(facts.action_low), np.asarray(facts.action_high)
        self._few = FewValues.of(facts.action_values, self._low, self._high)

    @property
    def algorithm(self) -> str:
        """The name of its algorithm."""
        return self._facts.algorithm

    @property
    def observation_names(self) -> tuple[str, ...]:
        """The log's columns that an observation holds, in order."""
        return self._facts.observation_names

    @property
    def action_names(self) -> tuple[str, ...]:
        """The log's columns that an action holds, in order."""
        return self._facts.action_names

    @property
    def facts(self) -> Facts:
        """All other recorded facts."""
        return self._facts

    def __call__(self, observation: ArrayLike) -> NDArray[Any]:
        """The action at one observation, or at each of many, in the log's units."""
        observations, single = self._observations(observation)
        actions = self.in_units(self._actor(observations))
        return actions[0] if single else actions

    def rounded(self, observation: ArrayLike) -> NDArray[Any]:
        """The same, with actions that took few values in the log, such as a switch, at the nearest of these,
        as `decide` gives them."""
        return self.at_values(self(observation))

    def encode(self, row: Mapping[str, Any]) -> NDArray[np.float32]:
        """The observation of a row of the log, given as column -> value, with categories as in training.

        >>> policy(policy.encode({"temperature": 20.5, "mode": "auto"}))
        """
        return np.asarray(encoded(row, self.observation_names), np.float32)

    def scaled(self, observation: ArrayLike) -> NDArray[np.float32]:
        """The same with each action dimension in [-1, 1], as in training."""
        observations, single = self._observations(observation)
        actions: NDArray[np.float32] = self._actor(observations)
        return actions[0] if single else actions

    def count(self, observation: ArrayLike) -> Any:
        """How often the log has the policy's action, as `decide` gives it, at one observation or at each of
        many.

        The observation's cell holds 128 rows of the log or more. In it each action dimension is counted by
        itself, in 20 parts of its range, and the smallest count is given: 0 where the log never has such a
        value of some dimension there, or has not seen the state. Logs of many action dimensions count
        neighbouring parts with each (`window` in counts.npz).
        """
        observations, single = self._observations(observation)
        counts = self._log_counts()(observations, self.wanted(observations)[0])
        return int(counts[0]) if single else counts

    def decide(self, observation: ArrayLike, guard: Guard = DEFAULT_GUARD) -> Decision:
        """The guarded action at one observation, or at each of many, and its support in the log."""
        observations, single = self._observations(observation)
        counts, log, fallback = self._validated(guard)
        least = log.resolution if guard.resolution is None else guard.resolution
        wanted, policy_action = self.wanted(observations)
        cell, resolution = counts.cells.rank(observations), log.seen.resolution(observations)
        known = (resolution >= least) & np.isfinite(wanted).all(axis=1)  # a network can overflow
        count = np.where(known, counts.actions(cell, wanted), 0).astype(np.int64)
        held = count < (log.min_count if guard.min_count is None else guard.min_count)
        nearest_action = self.at_values(self.in_units(log.nearest(cell, wanted)))
        action = policy_action.copy()
        if held.any():
            action[held] = self._fallback(
                fallback, observations[held], nearest_action[held], resolution[held]
            )
        uncertainty = 1 / np.sqrt(count + 1.0)
        decision = Decision(action, held, count, uncertainty, resolution, policy_action, nearest_action)
        return decision.one() if single else decision

    def wanted(self, observations: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[Any]]:
        """[rows, action_dim] the policy's actions in [-1, 1] and in the log's units, at the log's values where these are few."""
        own = self._actor(observations)
        action = self.in_units(own)
        if self._few is None:
            return own, action
        return self._few.round(action, self._few.scaled, own), self.at_values(action)

    def at_values(self, action: NDArray[Any]) -> NDArray[Any]:
        """Actions in the log's units, at the log's values where these are few."""
        return action if self._few is None else self._few.round(action, self._few.values, action)

    def support(
        self, data: Transitions, *, columns: Sequence[str] | None = None, seed: int = 0
    ) -> SupportReport:
        """Where the log has the policy's actions: in some episodes of the data, against the log's own actions
        and random ones.

        `columns` names the two columns of its map; by default the map shows principal components.
        """
        counts, _, _ = self._validated(DEFAULT_GUARD)
        for role in ("observation_names", "action_names"):
            if len(getattr(data, role)) != len(getattr(self, role)):
                raise ValueError(
                    f"{data.name} has {_listed(getattr(data, role))}; the policy takes"
                    f" {_listed(getattr(self, role))}"
                )
        return measure(self, counts, data, columns, seed)

    @property
    def default_guard(self) -> Guard:
        """The guard that `decide` uses by default, with its numbers: the strictest that rarely holds back
        the log's own decisions."""
        _, log, fallback = self._validated(DEFAULT_GUARD)
        return Guard(log.min_count, log.resolution, fallback)

    def _validated(self, guard: Guard) -> tuple[LogCounts, LogGuard, Fallback]:
        """The log's counts and the fallback; raises ValueError if this policy cannot be guarded so, whatever
        the observation."""
        counts = self._log_counts()
        if counts.guard is None:
            raise ValueError(f"an older version saved this policy, without the states of its log. {NO_GUARD}")
        if (guard.resolution or 0) > counts.guard.seen.bins:
            raise ValueError(
                f"the guard's resolution is {guard.resolution}; the finest grid of this policy's log has "
                f"{counts.guard.seen.bins} bins per column"
            )
        fallback = self._default_fallback if guard.fallback is None else guard.fallback
        if isinstance(fallback, str) and fallback.startswith("clone") and self._clone is None:
            raise ValueError(f"this policy has no clone of its log's behaviour. {NO_CLONE}")
        if not isinstance(fallback, str) and len(fallback) != len(self.action_names):
            raise ValueError(
                f"the guard's fixed action has {len(fallback)} numbers; an action has "
                f"{len(self.action_names)}: {_listed(self.action_names)}"
            )
        return counts, counts.guard, fallback

    def _fallback(
        self,
        fallback: str | Sequence[float],
        observations: NDArray[np.float32],
        nearest: NDArray[Any],
        resolution: NDArray[np.int64],
    ) -> NDArray[Any] | float:
        """The actions of a guard's fallback, in the log's units."""
        if isinstance(fallback, str) and fallback.endswith(OR_ABSTAIN):
            inside = self._fallback(fallback.removesuffix(OR_ABSTAIN), observations, nearest, resolution)
            return np.where(resolution[:, None] > 0, inside, np.nan)
        if fallback == "nearest":
            return nearest
        if fallback == "abstain":
            return np.nan
        if fallback == "clone":
            assert self._clone is not None
            return self.at_values(self.in_units(self._clone(observations)))
        return np.asarray(fallback)

    def _log_counts(self) -> LogCounts:
        if self._counts is None:
            raise ValueError(
                "this policy has no counts of its log; load it from a folder that holds counts.npz"
            )
        return self._counts

    def in_units(self, action: NDArray[Any]) -> NDArray[Any]:
        """Actions in [-1, 1] in the log's units."""
        return in_units(action, self._low, self._high)

    def export(self, folder: str | Path, guard: Guard = DEFAULT_GUARD, *, replace: bool = False) -> Path:
        """Write the guarded policy for programs without gridcount: an ONNX graph, the log's counts, a
        contract and a reader."""
        counts, _, fallback = self._validated(guard)
        parts = exports.Parts(self._actor, self._clone, counts)
        named = replace_field(guard, fallback=fallback)
        contract = exports.make_contract(self._facts, self.seed, self.updates, counts, named)
        return exports.write_export(parts, contract, Path(folder), replace)

    @property
    def log(self) -> LogCounts:
        """What is saved of the log: its cells, counts and seen states."""
        return self._log_counts()

    def __repr__(self) -> str:
        observations, actions = len(self.observation_names), len(self.action_names)
        shape = f"{observations} observation and {actions} action dimensions"
        return f"<Policy of {self.algorithm} on {self._facts.dataset}, seed {self.seed}, {self.updates:,} updates: {shape}>"

    def _observations(self, observation: ArrayLike) -> tuple[NDArray[np.float32], bool]:
        """[rows, observation_dim], and whether it was a single one."""
        values = np.asarray(observation, np.float32)
        names = self.observation_names
        if values.ndim not in (1, 2) or values.shape[-1] != len(names):
            raise ValueError(
                f"an observation of shape {values.shape}; the policy takes {len(names)} numbers each:"
                f" {_listed(names)}"
            )
        rows = np.atleast_2d(values)
        if not np.isfinite(rows).all():
            row, column = np.argwhere(~np.isfinite(rows))[0]
            raise ValueError(
                f"observation {row} holds {rows[row, column]} in '{names[column]}'; a policy needs finite"
                " numbers"
            )
        return rows, values.ndim == 1


def load_policy(path: str | Path, *, seed: int | None = None, at: int | None = None) -> Policy:
    """The policy of a run directory, of its folder `policy/` or of an export, wherever it was copied to. The
    log is not needed.

    `seed` chooses one of the run's seeds (by default its first), `at` one of the kept numbers of updates (by
    default the last).
    """
    if exports.is_export(Path(path)):
        return _exported(Path(path), seed, at)
    folder = policy_folder(Path(path))
    facts = read_facts(folder)
    chosen = facts.seeds[0] if seed is None else seed
    if chosen not in facts.seeds:
        raise ValueError(f"{folder}: there is no seed {chosen}; it holds {', '.join(map(str, facts.seeds))}")
    kept = {int(file.stem): file for file in numbered(folder)}
    if not kept:
        raise FileNotFoundError(f"{folder}: holds no policy yet; wait for the run's first checkpoint")
    updates = max(kept) if at is None else at
    if updates not in kept:
        raise ValueError(
            f"{folder}: there is no policy after {updates:,} updates; it holds those after"
            f" {', '.join(f'{each:,}' for each in kept)}"
        )
    counts = read_counts(folder, facts) if (folder / COUNTS).exists() else None
    clone = read_clone(folder, facts) if (folder / CLONE).exists() else None
    actor = read_actor(kept[updates], chosen, facts)
    return Policy(actor, facts, seed=chosen, updates=updates, counts=counts, clone=clone)


def _exported(folder: Path, seed: int | None, at: int | None) -> Policy:
    """The policy of an export; its guard's defaults are those of the contract."""
    contract = exports.read_contract(folder)
    for name, wanted, found in (("seed", seed, contract.seed), ("at", at, contract.updates)):
        if wanted not in (None, found):
            raise ValueError(
                f"{folder}: an export holds one policy, {name} {found}; there is no {name} {wanted}"
            )
    parts = exports.read_parts(folder, contract)
    return Policy(
        parts.actor,
        contract.facts(),
        seed=contract.seed,
        updates=contract.updates,
        counts=parts.counts,
        clone=parts.clone,
        fallback=contract.guard.fallback,
    )


def has_policy(path: Path) -> bool:
    """Whether a run directory or a folder holds a policy."""
    return (path / FOLDER / FACTS).is_file() or (path / FACTS).is_file()


def policy_folder(path: Path) -> Path:
    """The folder itself, or that of a run directory."""
    if has_policy(path):
        return path if (path / FACTS).is_file() else path / FOLDER
    if (path / "config.json").is_file():
        raise FileNotFoundError(
            f"{path}: the run holds no policy: it has no checkpoint yet, or an older version trained it. "
            "`gridcount evaluate` and gridcount.Run(...).policy() read one from its checkpoint, and need its"
            " training data"
        )
    raise FileNotFoundError(
        f"{path}: not a policy; name a run directory or its folder policy/, which holds {FACTS}"
    )


def _listed(names: tuple[str, ...], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
