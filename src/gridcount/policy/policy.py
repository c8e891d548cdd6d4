"""A trained policy: observations in, actions out, both in the log's own units. It needs only NumPy."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridcount.categories import encoded
from gridcount.files.archive import numbered
from gridcount.policy.actor import Actor
from gridcount.policy.counts import LogCounts
from gridcount.policy.store import COUNTS, FACTS, FOLDER, Facts, read_actor, read_counts, read_facts
from gridcount.transitions import in_units


class Policy:
    """A trained policy of one seed.

    >>> policy = gridcount.load_policy("runs/x")
    >>> policy([20.5, 1.2, 0.3])         # one observation -> its action
    >>> policy(observations)             # [rows, observation_dim] -> [rows, action_dim]

    Nothing is compiled and nothing is shared between calls, so threads may call it together.
    """

    def __init__(
        self, actor: Actor, facts: Facts, *, seed: int, updates: int, counts: LogCounts | None = None
    ):
        self._actor, self._facts, self._counts = actor, facts, counts
        self.seed, self.updates = seed, updates
        self._low, self._high = np.asarray(facts.action_low), np.asarray(facts.action_high)

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
        actions = in_units(self._actor(observations), self._low, self._high)
        return actions[0] if single else actions

    def rounded(self, observation: ArrayLike) -> NDArray[Any]:
        """The same, with actions that took few values in the log, such as a switch, at the nearest of these."""
        actions: NDArray[Any] = np.array(self(observation))
        for d, values in enumerate(self._facts.action_values):
            if values:
                logged = np.sort(np.asarray(values))
                actions[..., d] = logged[np.searchsorted((logged[1:] + logged[:-1]) / 2, actions[..., d])]
        return actions

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
        """How often the log has the policy's action at one observation, or at each of many.

        The observation's cell holds 128 rows of the log or more. In it each action dimension is counted by itself, in 20 parts of its
        range, and the smallest count is given: 0 where the log never has such a value of some dimension there.
        """
        if self._counts is None:
            raise ValueError(
                "this policy has no counts of its log; load it from a folder that holds counts.npz"
            )
        observations, single = self._observations(observation)
        counts = self._counts(observations, self._actor(observations))
        return int(counts[0]) if single else counts

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
                f"an observation of shape {values.shape}; the policy takes {len(names)} numbers each: {_listed(names)}"
            )
        rows = np.atleast_2d(values)
        if not np.isfinite(rows).all():
            row, column = np.argwhere(~np.isfinite(rows))[0]
            raise ValueError(
                f"observation {row} holds {rows[row, column]} in '{names[column]}'; a policy needs finite numbers"
            )
        return rows, values.ndim == 1


def load_policy(path: str | Path, *, seed: int | None = None, at: int | None = None) -> Policy:
    """The policy of a run directory or of its folder `policy/`, wherever it was copied to. The log is not needed.

    `seed` chooses one of the run's seeds (by default its first), `at` one of the kept numbers of updates (by default the last).
    """
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
            f"{folder}: there is no policy after {updates:,} updates; it holds those after {', '.join(f'{each:,}' for each in kept)}"
        )
    counts = read_counts(folder, facts) if (folder / COUNTS).exists() else None
    return Policy(
        read_actor(kept[updates], chosen, facts), facts, seed=chosen, updates=updates, counts=counts
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
            "`gridcount evaluate` and gridcount.Run(...).policy() read one from its checkpoint, and need its training data"
        )
    raise FileNotFoundError(
        f"{path}: not a policy; name a run directory or its folder policy/, which holds {FACTS}"
    )


def _listed(names: tuple[str, ...], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
