"""The policy that decides now, and its promotion: another one takes over between two requests."""

import threading
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridcount.files import validate_no_link, validate_no_links
from gridcount.policy.guard import Decision, Guard
from gridcount.policy.policy import Policy, load_policy


class NotThere(ValueError):
    """There is no such run below the folder."""


class DoesNotFit(ValueError):
    """A policy that cannot take over here."""


class Deciding(NamedTuple):
    """A policy and what answers call it."""

    policy: Policy
    name: str
    guard: Guard

    def __call__(self, observation: NDArray[np.float32]) -> Decision:
        """Guarded decisions at observations [rows, observation_dim]."""
        return self.policy.decide(observation, self.guard)


class Serving:
    """The current policy. A request takes it once, so that its answer comes from one policy."""

    def __init__(self, policy: Policy, guard: Guard, folder: Path | None) -> None:
        self._guard, self._folder, self._promoting = guard, folder, threading.Lock()
        self.current = self._checked(policy)

    def promote(self, run: str) -> tuple[Deciding, Deciding]:
        """Let a run or an export below the folder take over; returns the new one and the one before."""
        with self._promoting:
            before = self.current
            policy = self._load(self._find(run))
            facts, ours = policy.facts, before.policy.facts
            for what in ("observation_names", "action_names"):
                if getattr(facts, what) != getattr(ours, what):
                    listed = ", ".join(getattr(facts, what))
                    raise DoesNotFit(
                        f"'{run}' has other {what.replace('_', ' ')} ({listed}), so the requests of clients"
                        " would not"
                        " fit it; start another service for it"
                    )
            self.current = self._checked(policy)
            return self.current, before

    def _find(self, run: str) -> Path:
        """The path of a run below the folder; nothing leads out of it."""
        assert self._folder is not None
        parts = PurePosixPath(run).parts
        if run.startswith("/") or ".." in parts or "\0" in run or not parts:
            raise NotThere(f"'{run[:80]}' is not a path below the folder of --promote-from")
        path = self._folder
        for part in parts:
            path = path / part
            try:
                validate_no_link(path)
                exists = path.is_dir()
            except (OSError, ValueError) as error:
                raise NotThere(f"'{run[:80]}': links are not followed, and names must be short") from error
            if not exists:
                raise NotThere(f"'{run[:80]}' is not a folder below that of --promote-from")
        return path

    def _load(self, path: Path) -> Policy:
        try:
            validate_no_links(path)
            return load_policy(path)
        except Exception as error:  # a damaged export, or a package that is not installed
            raise DoesNotFit(str(error)) from error

    def _checked(self, policy: Policy) -> Deciding:
        """A policy that has made a decision before the first request."""
        facts = policy.facts
        name = f"{facts.algorithm}-{facts.fingerprint[:8]}-{policy.updates}-{policy.seed}"
        deciding = Deciding(policy, name, self._guard)
        try:
            deciding(np.zeros((1, len(facts.observation_names)), np.float32))
        except Exception as error:  # a network can fail in many ways
            raise DoesNotFit(str(error)) from error
        return deciding
