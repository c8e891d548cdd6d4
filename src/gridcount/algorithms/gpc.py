"""GPC: grid-mapping pseudo-counts (Shen and Huang 2024), which can be added to any actor-critic (the host).

A host draws its policy's actions at the batch's states; this module counts them on a grid and adds to the
critics' loss what pulls them down by u = pessimism * sqrt(ln T / n) where the count is low. A host calls, in
this order, `prepare_counts` in its `prepare`, `init_counts` in its `init`, and `count` and `counted_loss` in
its `update`. The equations cited are the paper's.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from gridcount.algorithms.contract import EPOCH, Metrics, Prepared, added_later, renamed
from gridcount.algorithms.ranges import AtLeastOne, Count, Number, Weight, Whole
from gridcount.counts.auto import auto_bins, auto_pessimism, auto_q_floor
from gridcount.counts.grid import CODES, DEFAULT_RESOLUTION, Grid, StateResolution, fit_states
from gridcount.counts.tables import Table, empty_table, visit_rows
from gridcount.losses import bellman_loss, count_penalty_loss, count_uncertainty
from gridcount.networks import Critics, Normaliser
from gridcount.transitions import Batch, Transitions


@dataclass(frozen=True)
class CountFields:
    """Hyper-parameters of counting, whatever the host: fields only, written once."""

    # partitions per dimension (alpha in Eq. 2; column m of the paper's table)
    bins: Whole | Literal["auto"] = "auto"
    pessimism: Weight | Literal["auto"] = "auto"  # scale of the uncertainty (alpha of u)
    q_floor: Number | Literal["auto"] = "auto"  # penalised values stay above this; 0 in the paper
    beta: Weight = 1.0  # share of u that is subtracted from Q(s, a~pi)
    # share of u that is subtracted from Q(s', a'~pi), where ood_next_weight is above 0
    beta_next: Weight = 0.1
    # weight of the Bellman error at the log's actions; 0 only in the paper's ablation of the terms
    in_weight: Weight = 1.0
    # weight of the (s, a~pi) term; the text says 1, the published results used the mean of both: 0.5
    ood_weight: Weight = 0.5
    # weight of the (s', a'~pi) term; the text says 1, the published results let no gradient through it: 0
    ood_next_weight: Weight = 0.0
    # initial counts: none, the log's actions, or only ever these
    prior: Literal["none", "dataset", "dataset-only"] = "none"
    # subtract only the part of u above u of the log's own action at s; not in the paper
    relative: bool = False
    margin: AtLeastOne = 3.0  # width of the grid relative to the data's range (m in Eq. 2)
    state_bins: Whole | None = None  # partitions per state dimension; None: as bins
    # which columns distinguish states, and how finely
    state_resolution: StateResolution = renamed(DEFAULT_RESOLUTION, published="leading")
    # counts are capped at this, so that u stops decreasing; 0: no cap, as in the paper
    most_visits: Count = added_later(0)
    # networks see observations normalised by the log's mean and standard deviation; not in the paper
    normalise: bool = added_later(False)
    table_megabytes: Whole = 512  # memory of a seed's visit table: exact where it fits, bounded otherwise


class Updated(Protocol):
    """The part of a host's state that counting uses."""

    @property
    def updates(self) -> Array:
        """How many updates made it."""


Learner = TypeVar("Learner", bound=Updated)


class GPCState(NamedTuple, Generic[Learner]):
    """The host's state, the action grid, the visit table, and how the networks see observations (None: as
    they are)."""

    learner: Learner
    grid: Grid
    table: Table
    normaliser: Normaliser | None

    def seen(self, observation: Array) -> Array:
        """Observations as the networks see them."""
        return observation if self.normaliser is None else self.normaliser(observation)

    def seen_batch(self, batch: Batch) -> Batch:
        """A batch as the networks see it; cells are those of the log's own units."""
        return batch._replace(
            observation=self.seen(batch.observation), next_observation=self.seen(batch.next_observation)
        )


class Actions(Protocol):
    """The policy's actions at the batch's states, drawn once per update by the host."""

    @property
    def action(self) -> Array:
        """At each observation."""

    @property
    def next_action(self) -> Array:
        """At each next observation."""


class Uncertainty(NamedTuple):
    """The uncertainty of the policy's actions from the counts."""

    here: Array  # [rows] u(s, a~pi)
    there: Array  # [rows] u(s', a'~pi)
    visits: Array  # [2 * rows] counts of both, this visit included

    def metrics(self) -> Metrics:
        """The mean uncertainty at the batch's states, and how many pairs were never seen before."""
        return {"uncertainty": self.here.mean(), "first_visits": (self.visits == 1).mean()}


def prepare_counts(config: Any, data: Transitions) -> Prepared:
    """Set automatic values and rank every row's state cells."""
    settled, notes = settle(config, data)
    cells, (here, there) = fit_states(
        data.observation,
        data.next_observation,
        int(number(settled.bins)),
        settled.state_bins,
        settled.state_resolution,
    )
    notes["state cells"] = (
        f"{cells.n_cells:,} of {2 * len(data):,} states, {cells.in_words(data.observation_names)}"
    )
    if settled.state_bins is not None and cells.bins < settled.state_bins:
        notes["state_bins"] = (
            f"{cells.bins}, not {settled.state_bins}: --state-resolution even keeps the grid of states"
            f" within {CODES:,} cells;"
            f" --state-resolution exact uses all {settled.state_bins}"
        )
    return Prepared(settled, data.rows()._replace(state_cell=here, next_state_cell=there), notes)


def init_counts(config: CountFields, learner: Learner, rows: Batch) -> GPCState[Learner]:
    """The host's state with the grid over the log's actions, the table with its prior and the log's mean
    and deviation."""
    grid = Grid.fit(np.asarray(rows.action), int(number(config.bins)), config.margin, limit=1.0)
    state_cells = 1 + int(max(rows.state_cell.max(), rows.next_state_cell.max()))
    table = empty_table(state_cells, grid.sizes, config.table_megabytes)
    if config.prior != "none":
        table = visit_rows(table, grid, rows.state_cell, np.asarray(rows.action))
    return GPCState(learner, grid, table, Normaliser.fit(rows.observation) if config.normalise else None)


def count(
    config: CountFields, state: GPCState[Any], batch: Batch, drawn: Actions
) -> tuple[Table, Uncertainty]:
    """Count the policy's actions at both states, then read them: a pair in use has been seen at least once.

    If the table holds only the log's counts, visits are not stored: n is the log's count plus 1.
    """
    state_cell = jnp.concatenate([batch.state_cell, batch.next_state_cell])
    action_cell = state.grid.offset(jnp.concatenate([drawn.action, drawn.next_action]))
    if config.prior == "dataset-only":
        table, visits = state.table, state.table.read(state_cell, action_cell) + 1
    else:
        table, visits = state.table.visit(state_cell, action_cell)
    here, there = jnp.split(visits_uncertainty(config, state, visits), 2)
    if config.relative:
        logged = table.read(batch.state_cell, state.grid.offset(batch.action)) + (
            config.prior == "dataset-only"
        )
        here = jnp.maximum(here - visits_uncertainty(config, state, jnp.maximum(logged, 1)), 0.0)
    return table, Uncertainty(here, there, visits)


def visits_uncertainty(config: CountFields, state: GPCState[Any], visits: Array) -> Array:
    """u of Eq. 3 for a number of visits, at this moment of training."""
    read = jnp.minimum(visits, config.most_visits) if config.most_visits else visits
    return count_uncertainty(read, state.learner.updates // EPOCH + 1, number(config.pessimism))


def read_uncertainty(config: CountFields, state: GPCState[Any], state_cell: Array, action: Array) -> Array:
    """u of actions in some state cells, as an update would see it: a pair in use has been seen at least
    once."""
    return visits_uncertainty(config, state, state.table.read(state_cell, state.grid.offset(action)) + 1)


def counted_loss(
    config: CountFields, batch: Batch, target: Array, drawn: Actions, uncertainty: Uncertainty
) -> Callable[[Critics], tuple[Array, Metrics]]:
    """The critics' loss: the host's Bellman error at the log's actions, and the penalty at the policy's
    own (Eq. 9)."""
    floor = number(config.q_floor)

    def loss(critics: Critics) -> tuple[Array, Metrics]:
        # One pass through the networks for all terms, with fewer and larger matrices.
        terms = [(batch.observation, batch.action), (batch.observation, drawn.action)]
        if config.ood_next_weight:
            terms.append((batch.next_observation, drawn.next_action))
        observation, action = (jnp.concatenate(parts) for parts in zip(*terms, strict=True))
        q_data, q_policy, *q_next = jnp.split(critics(observation, action), len(terms), axis=1)
        loss_in = config.in_weight * bellman_loss(q_data, target)  # Eq. 5
        loss_ood = config.ood_weight * count_penalty_loss(
            q_policy, config.beta * uncertainty.here, floor
        )  # Eq. 6
        if q_next:
            loss_ood += config.ood_next_weight * count_penalty_loss(
                q_next[0], config.beta_next * uncertainty.there, floor
            )  # Eq. 7
        return loss_in + loss_ood, {"loss_in": loss_in, "loss_ood": loss_ood, "q_data": q_data.mean()}

    return loss


def number(value: float | Literal["auto"]) -> float:
    """A hyper-parameter as a number; raises ValueError if it is still "auto"."""
    if value == "auto":
        raise ValueError('this algorithm still has an "auto" value; use the one that prepare(data) returns')
    return value


def settle(config: Any, data: Transitions) -> tuple[Any, dict[str, str]]:
    """Replace every "auto" of a host with CountFields and a discount by the paper's rule, and describe the
    rules."""
    notes: dict[str, str] = {}
    low, high, mean = float(data.reward.min()), float(data.reward.max()), float(data.reward.mean())
    if config.bins == "auto":
        bins, notes["bins"] = auto_bins(data.action_dim)
        config = replace(config, bins=bins)
    if config.pessimism == "auto":
        pessimism, notes["pessimism"] = auto_pessimism(low, high, mean)
        config = replace(config, pessimism=pessimism)
    if config.q_floor == "auto":
        floor, notes["q_floor"] = auto_q_floor(low, config.discount)
        config = replace(config, q_floor=floor)
    return config, notes
