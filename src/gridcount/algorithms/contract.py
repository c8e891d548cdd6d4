"""What every algorithm is: its hyper-parameters, one look at the data, and three pure functions."""

from collections.abc import Callable
from dataclasses import field, fields, replace
from typing import Any, NamedTuple, Protocol, TypeVar

from jax import Array

from gridcount.data.transitions import Batch, Transitions
from gridcount.policy.actor import Actor

State = TypeVar("State")
Metrics = dict[str, Array]
Report = Callable[[str, int, int], None]  # told what is being learnt first, how many updates of it are done, and of how many


def ignore_report(what: str, done: int, updates: int) -> None:
    """A report nobody reads."""


def added_later(default: Any) -> Any:
    """A field added to an algorithm that has results: at its default nothing changes, and a run's record leaves it out.

    So what was run before the field existed is still the same experiment, and is neither run again nor refused.
    """
    return field(default=default, metadata={"added_later": True})


def renamed(default: Any, **names: str) -> Any:
    """A field of which a value had another name once, as in `renamed("even", published="leading")`.

    What was recorded under the old name is read as the new one, and is still the same experiment. An old name is never used again.
    """
    return field(default=default, metadata={"renamed": names})


def run_length(default: Any) -> Any:
    """A field that should be the run's own number of updates: what falls over a run falls over this one. "auto" is replaced by it."""
    return field(default=default, metadata={"run_length": True})


def run_length_fields(algorithm: Any) -> list[str]:
    """The fields of an algorithm that should be the run's number of updates."""
    return [each.name for each in fields(algorithm) if each.metadata.get("run_length")]


def with_run_length(algorithm: Any, updates: int, before: dict[str, Any]) -> Any:
    """The algorithm with each such field that is "auto" set to a run's updates, or to what the run had before it was resumed."""
    open_fields = [name for name in run_length_fields(algorithm) if getattr(algorithm, name) == "auto"]
    return replace(algorithm, **{name: before.get(name, updates) for name in open_fields})


def with_new_names(algorithm: type[Any], recorded: dict[str, Any]) -> dict[str, Any]:
    """What a record says of an algorithm's fields, in today's names."""
    return _translated(algorithm, recorded, lambda names: names)


def with_old_names(algorithm: type[Any], values: dict[str, Any]) -> dict[str, Any]:
    """An algorithm's fields as they were first called: what tells experiments apart, whatever names came later."""
    return _translated(algorithm, values, lambda names: {new: old for old, new in names.items()})


def _translated(algorithm: type[Any], values: dict[str, Any], direction: Callable[[dict[str, str]], dict[str, str]]) -> dict[str, Any]:
    names = {each.name: direction(each.metadata["renamed"]) for each in fields(algorithm) if "renamed" in each.metadata}
    return {name: names[name].get(value, value) if name in names and isinstance(value, str) else value for name, value in values.items()}


class Prepared(NamedTuple):
    """What an algorithm makes of a dataset before training: run once, on the host, with NumPy."""

    algorithm: Any  # the same algorithm with every "auto" replaced by a number
    rows: Batch  # the columns its batches are drawn from
    notes: dict[str, str]  # where each automatic value came from, for people to read


class Algorithm(Protocol[State]):
    """A frozen dataclass: its fields are the config, its functions the algorithm.

    `prepare` sees the dataset once and is the place for what depends on data but not on a seed: automatic
    hyper-parameters, extra columns. `init` makes a seed's state, `update` is compiled, `actor` is the deterministic policy.
    """

    @property
    def batch_size(self) -> int:
        """Rows per update."""

    def prepare(self, data: Transitions) -> Prepared:
        """Settle automatic values and the columns of a batch."""

    def init(self, key: Array, rows: Batch, report: Report = ignore_report) -> State:
        """A fresh state for one seed; an algorithm that learns something beforehand does it here and reports on it."""

    def update(self, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        """One gradient step on a batch."""

    def actor(self, state: State) -> Actor:
        """The deterministic policy of a state, as arrays that act without the learner."""


def act(algorithm: Algorithm[State], state: State, observation: Array) -> Array:
    """The actions of a state's policy at some observations, both on the device."""
    actions: Array = algorithm.actor(state)(observation)
    return actions
