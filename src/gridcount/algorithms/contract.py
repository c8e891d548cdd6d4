"""What every algorithm is: its hyper-parameters, one look at the data, and three pure functions."""

from collections.abc import Callable
from dataclasses import field
from typing import Any, NamedTuple, Protocol, TypeVar

from jax import Array

from gridcount.data.transitions import Batch, Transitions

State = TypeVar("State")
Metrics = dict[str, Array]
Report = Callable[[str, int, int], None]  # told what is being learnt first, how many updates of it are done, and of how many


def silent(what: str, done: int, updates: int) -> None:
    """A report nobody reads."""


def later(default: Any) -> Any:
    """A field added to an algorithm that has results: at its default nothing changes, and a run's record leaves it out.

    So what was run before the field existed is still the same experiment, and is neither run again nor refused.
    """
    return field(default=default, metadata={"later": True})


class Prepared(NamedTuple):
    """What an algorithm makes of a dataset before training: run once, on the host, with NumPy."""

    algorithm: Any  # the same algorithm with every "auto" replaced by a number
    rows: Batch  # the columns its batches are drawn from
    notes: dict[str, str]  # where each automatic value came from, for people to read


class Algorithm(Protocol[State]):
    """A frozen dataclass: its fields are the config, its functions the algorithm.

    `prepare` sees the dataset once and is the place for what depends on data but not on a seed: automatic
    hyper-parameters, extra columns. `init` makes a seed's state, `update` is compiled, `act` is the deterministic policy.
    """

    batch_size: int

    def prepare(self, data: Transitions) -> Prepared:
        """Settle automatic values and the columns of a batch."""

    def init(self, key: Array, rows: Batch, report: Report = silent) -> State:
        """A fresh state for one seed; an algorithm that learns something beforehand does it here and reports on it."""

    def update(self, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        """One gradient step on a batch."""

    def act(self, state: State, observation: Array) -> Array:
        """The action a trained policy takes for each observation."""
