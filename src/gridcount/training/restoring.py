"""What a checkpoint holds: the states to resume from, and the policies of a run without the folder
`policy/`."""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gridcount.algorithms.contract import Prepared, act
from gridcount.evaluation.rollouts import Act
from gridcount.files.archive import numbered
from gridcount.policy import store
from gridcount.policy.actor import Actor
from gridcount.training import checkpoints
from gridcount.training.checkpoints import Record
from gridcount.training.plan import Plan, read_plan


def newest(directory: Path, plan: Plan, prepared: Prepared) -> tuple[list[Any] | None, Record]:
    """The states and the record of a run's newest checkpoint; without a checkpoint, None and an empty
    record."""
    saved = numbered(directory / "checkpoints")
    if not saved:
        return None, Record(updates=0, pending=[], sizes={})
    states, record = _restore(saved[-1], [_template(prepared)] * len(plan.seeds), plan)
    checkpoints.validate_rows_kept(directory, saved, record)
    store.forget_after(directory / store.FOLDER, record.updates)
    return states, record


def restore_policies(directory: Path, prepared: Prepared) -> tuple[list[Any], list[Act], int]:
    """The states and deterministic policies in a run's newest checkpoint, one per seed, and their number
    of updates."""
    plan = read_plan(directory)
    saved = numbered(directory / "checkpoints")
    if not saved:
        raise FileNotFoundError(f"{directory}: the run has no checkpoint yet; wait until it has written one")
    states, record = _restore(saved[-1], [_template(prepared)] * len(plan.seeds), plan)
    acting = jax.jit(partial(act, prepared.algorithm))
    return states, [policy_of(acting, state) for state in states], record.updates


def host_actor(prepared: Prepared, state: Any) -> Actor:
    """A state's policy as NumPy arrays."""
    made = prepared.algorithm.actor(state)
    actor: Actor = jax.tree.map(
        lambda leaf: np.asarray(leaf) if hasattr(leaf, "shape") else leaf, made
    )  # flags stay as they are
    return actor


def policy_of(act: Any, state: Any) -> Act:
    """A state's policy as a function of NumPy arrays."""
    return lambda observation: np.asarray(act(state, observation))


def _template(prepared: Prepared) -> Any:
    """The shapes and types of a state, without making one."""
    return jax.eval_shape(lambda key: prepared.algorithm.init(key, prepared.rows), jax.random.key(0))


def _restore(path: Path, templates: list[Any], plan: Plan) -> tuple[list[Any], Record]:
    expected = {
        f"seed{seed}{name}": leaf
        for seed, template in zip(plan.seeds, templates, strict=True)
        for name, leaf in checkpoints.named(template).items()
    }
    arrays = checkpoints.load(path, expected)
    record = checkpoints.read_record(path, arrays)
    checkpoints.validate_record(path, record, len(plan.seeds), plan.updates, plan.evaluate_every)
    states = []
    for seed, template in zip(plan.seeds, templates, strict=True):
        prefix = f"seed{seed}"
        own = {
            name.removeprefix(prefix): array
            for name, array in arrays.items()
            if name.startswith((f"{prefix}.", f"{prefix}["))
        }
        states.append(checkpoints.unflatten(template, own, path))
    return states, record
