"""The interface of every algorithm: its hyper-parameters, `prepare` on the data, and three pure functions."""

from collections.abc import Callable
from dataclasses import field, fields
from typing import Any, NamedTuple, Protocol, TypeVar

from jax import Array

from gridcount.policy.actor import Actor
from gridcount.transitions import Batch, Transitions

State = TypeVar("State")
# updates: the unit of T in the paper, of its training lengths, and of what is compiled as one program
EPOCH = 1000
Metrics = dict[str, Array]
Report = Callable[
    [str, int, int], None
]  # receives what is pre-trained, its updates done, and its total updates


def ignore_report(what: str, done: int, updates: int) -> None:
    """A report callback that does nothing."""


def added_later(default: Any) -> Any:
    """A field added to an algorithm that has results: at its default nothing changes, and a run's record
    leaves it out.

    So results from before the field existed still belong to the same experiment, and are not run again.
    """
    return field(default=default, metadata={"added_later": True})


def renamed(default: Any, **names: str) -> Any:
    """A field of which a value was renamed, as in `renamed("even", published="leading")`.

    Records with the old name are read as the new one, and are the same experiment. An old name is never
    reused.
    """
    return field(default=default, metadata={"renamed": names})


def run_length(default: Any) -> Any:
    """A field that should be the run's number of updates, such as the length of a schedule."""
    return field(default=default, metadata={"run_length": True})


def run_length_fields(algorithm: Any) -> list[str]:
    """The fields of an algorithm that should be the run's number of updates."""
    return [each.name for each in fields(algorithm) if each.metadata.get("run_length")]


def pretraining(default: int, what: str) -> Any:
    """A field that counts updates before training, in which `what` is learnt: no part of an update's time."""
    return field(default=default, metadata={"pretraining": what})


def pretraining_fields(algorithm: Any) -> dict[str, str]:
    """The fields of an algorithm that count updates before training, and what is learnt in them."""
    marked = {each.name: each.metadata.get("pretraining") for each in fields(algorithm)}
    return {name: what for name, what in marked.items() if what}


def with_new_names(algorithm: type[Any], recorded: dict[str, Any]) -> dict[str, Any]:
    """Recorded fields of an algorithm, with present names."""
    return _translated(algorithm, recorded, lambda names: names)


def with_old_names(algorithm: type[Any], values: dict[str, Any]) -> dict[str, Any]:
    """An algorithm's fields with their first names, which identify experiments even after a renaming."""
    return _translated(algorithm, values, lambda names: {new: old for old, new in names.items()})


def _translated(
    algorithm: type[Any], values: dict[str, Any], direction: Callable[[dict[str, str]], dict[str, str]]
) -> dict[str, Any]:
    names = {
        each.name: direction(each.metadata["renamed"])
        for each in fields(algorithm)
        if "renamed" in each.metadata
    }
    return {
        name: names[name].get(value, value) if name in names and isinstance(value, str) else value
        for name, value in values.items()
    }


class About(NamedTuple):
    """The family and paper of an algorithm, and what counting would add to it: for the list of algorithms."""

    family: str
    paper: str
    count_adds: str


class Prepared(NamedTuple):
    """The result of `prepare`, which runs once before training, on the host with NumPy."""

    algorithm: Any  # the same algorithm with every "auto" replaced by a number
    rows: Batch  # the columns its batches are drawn from
    notes: dict[str, str]  # the origin of each automatic value, as text


class Algorithm(Protocol[State]):
    """A frozen dataclass: its fields are the config, its functions the algorithm.

    `prepare` reads the dataset once and computes what does not depend on a seed: automatic
    hyper-parameters, extra columns. `init` makes a seed's state, `update` is compiled, `actor` is the
    deterministic policy. A function `remark(row)` is optional: it says in words what a row of metrics means
    to a user without an environment.
    """

    @property
    def batch_size(self) -> int:
        """Rows per update."""

    def prepare(self, data: Transitions) -> Prepared:
        """Set automatic values and the columns of a batch."""

    def init(self, key: Array, rows: Batch, report: Report = ignore_report) -> State:
        """A fresh state for one seed; pre-training happens here, with progress reports."""

    def update(self, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        """One gradient step on a batch."""

    def actor(self, state: State) -> Actor:
        """The deterministic policy of a state, as arrays that act without the learner."""


def act(algorithm: Algorithm[State], state: State, observation: Array) -> Array:
    """The actions of a state's policy at some observations, both on the device."""
    actions: Array = algorithm.actor(state)(observation)
    return actions
