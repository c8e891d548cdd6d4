"""Requests and answers as types, made from the policy's columns: errors use the log's names."""

from collections.abc import Sequence
from math import isfinite
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType
from numpy.typing import NDArray

from gridcount.policy.guard import Decision
from gridcount.policy.store import Facts

LARGEST = 1e38  # what single precision can hold
Number = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
Episode = Annotated[str, Meta(max_length=128, description="the episode that the decision belongs to")]
DecisionId = Annotated[str, Meta(max_length=64)]


class Health(Struct):
    """The process answers."""

    status: str


class Ready(Struct):
    """Whether requests should be sent here, and why not."""

    ready: bool
    policy: str
    problem: str = ""


class Recorded(Struct):
    """The outcome is in the decision log."""

    decision: str


class Promote(Struct, forbid_unknown_fields=True):
    """A run or an export, by its path below the folder of --promote-from."""

    run: Annotated[str, Meta(min_length=1, max_length=256)]


class Promoted(Struct):
    """The policy that decides from now on, and the one before it."""

    policy: str
    before: str


class Problem(Struct):
    """Why a request was not answered."""

    error: str


def named_struct(title: str, names: Sequence[str], kind: Any, doc: str) -> type[Struct]:
    """A struct with these names in JSON, whatever characters they have."""
    fields = [(f"column_{place}", kind) for place in range(len(names))]
    rename = {field: name for (field, _), name in zip(fields, names, strict=True)}
    return msgspec.defstruct(
        title, fields, rename=rename, forbid_unknown_fields=True, namespace={"__doc__": doc}
    )


def _answer_type(action: type[Struct]) -> type[Struct]:
    return msgspec.defstruct(
        "Decision",
        [
            ("action", action | None),
            ("held", bool),
            ("count", int),
            ("uncertainty", float),
            ("resolution", int),
            ("policy_action", action | None),
            ("nearest_action", action | None),
            ("policy", str),
            ("decision", str | UnsetType, UNSET),
        ],
        namespace={"__doc__": ANSWER},
    )


class Messages:
    """The types of one policy's requests and answers."""

    def __init__(self, facts: Facts, most: int) -> None:
        observation = named_struct(
            "Observation", facts.observation_names, Number, "An observation, in the log's units."
        )
        self._action = named_struct("Action", facts.action_names, float, "An action, in the log's units.")
        given = named_struct("ActionDone", facts.action_names, Number, "An action, in the log's units.")
        self.request = msgspec.defstruct(
            "Request",
            [("observation", observation), ("episode", Episode | UnsetType, UNSET)],
            forbid_unknown_fields=True,
            namespace={"__doc__": "One observation."},
        )
        several = Annotated[list[self.request], Meta(min_length=1, max_length=most)]  # type: ignore[name-defined]
        self.batch = msgspec.defstruct(
            "Batch",
            [("requests", several)],
            forbid_unknown_fields=True,
            namespace={"__doc__": "Several observations; the answers have the same order."},
        )
        self.answer = _answer_type(self._action)
        self.outcome = msgspec.defstruct(
            "Outcome",
            [
                ("decision", DecisionId),
                ("reward", Number),
                ("terminated", bool, False),
                ("truncated", bool, False),
                ("action", given | UnsetType, UNSET),
            ],
            forbid_unknown_fields=True,
            namespace={"__doc__": OUTCOME},
        )
        answers: Any = list[self.answer]  # type: ignore[name-defined]
        self.answers = msgspec.defstruct("Decisions", [("decisions", answers)])
        self._one, self._many = msgspec.json.Decoder(self.request), msgspec.json.Decoder(self.batch)
        self.read_outcome = msgspec.json.Decoder(self.outcome).decode

    def read_one(self, body: bytes) -> list[Any]:
        """The request in a body, as a list of one."""
        return [self._one.decode(body)]

    def read_many(self, body: bytes) -> list[Any]:
        """The requests in the body of a batch."""
        found: Any = self._many.decode(body)
        return list(found.requests)

    @staticmethod
    def observations(requests: Sequence[Any]) -> NDArray[np.float32]:
        """[rows, observation_dim]."""
        return np.array([msgspec.structs.astuple(each.observation) for each in requests], np.float32)

    def decisions(self, made: Decision, policy: str, ids: Sequence[str | UnsetType]) -> list[Any]:
        """The answers, one for each row."""
        plain = [column.tolist() for column in made]
        rows = zip(*plain, ids, strict=True)
        return [self._answer(policy, *row) for row in rows]

    def _answer(
        self,
        policy: str,
        action: list[float],
        held: bool,
        count: int,
        uncertainty: float,
        resolution: int,
        policy_action: list[float],
        nearest: list[float],
        decision: str | UnsetType,
    ) -> Any:
        return self.answer(
            self._named(action),
            held,
            count,
            uncertainty,
            resolution,
            self._named(policy_action),
            self._named(nearest),
            policy,
            decision,
        )

    def _named(self, action: list[float]) -> Any:
        """An action under its names; None where it is not a number."""
        return self._action(*action) if all(map(isfinite, action)) else None


OUTCOME = "What followed from a decision; `action` is what was really done, if it was something else."
ANSWER = """What to do: the policy's action, or the fallback's where the guard held; null if it abstains.

`count`: how often the log has the policy's action in the state's cell. `uncertainty`: 1 / sqrt(count + 1). `resolution`: bins per
column of the finest grid on which the log has seen the state; 0 outside of its range. `nearest_action`: of the log's actions in that
cell, the nearest to the policy's. `decision`: the id by which to report the outcome, if a decision log is kept."""
