"""`gridcount.tune`: the search of `gridcount tune` from Python."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gridcount.algorithms.presets import Preset
from gridcount.data.formats.columns import Columns
from gridcount.data.formats.cut import ActionUnits, Bounds
from gridcount.estimation.estimate import Settings
from gridcount.estimation.measured import SEARCH_COST
from gridcount.terminal import make_console
from gridcount.training.compiled import keep_compiled
from gridcount.transitions import Transitions
from gridcount.tuning.result import Tuning
from gridcount.tuning.search import AT_ONCE, here, on_cluster, run_search
from gridcount.tuning.space import SEARCHED
from gridcount.tuning.start import make_search, out_folder, reading_of, write_log


def tune(
    data: Transitions | str | Path,
    columns: Columns | None = None,
    *,
    algorithms: Sequence[str] = SEARCHED,
    space: Mapping[str, Any] | None = None,
    trials: int = 16,
    updates: int | None = None,
    preset: Preset = "fast",
    seeds: int = 1,
    seed: int = 0,
    checks: int = 2,
    hold_out: float = 0.2,
    hold_out_seed: int = 0,
    most_unseen: float = 0.5,
    out: str | Path | None = None,
    workers: int | None = None,
    ray: str | None = None,
    scale_actions: bool = False,
    action_bounds: Bounds | None = None,
    progress: bool = True,
    **settings: Any,
) -> Tuning:
    """Choose an algorithm and its settings by off-policy estimates; no environment is used.

    `gridcount.train(data, found.algorithm, **found.changes)` trains the winner in full. The same call resumes
    a search that was stopped: finished trials are not run again.

    Args:
        data: a dataset's name, a file, or transitions, which are copied to `out` for the trials' processes.
        columns: of a table: which columns are what.
        algorithms: what is searched; the own values of "gpc-anchor" are always trial 0.
        space: values of fields by "FIELD" or "ALGORITHM.FIELD": "0.1:2" or "0.1:2:log", a list of values, or
            a single value.
        trials: settings to try, the algorithms' own values among them.
        updates: gradient updates of a trial; by default a quarter of the preset's.
        preset: which other values the algorithms have.
        seeds: seeds per trial; its estimate is their mean.
        seed: of the search, and the first of a trial's seeds.
        checks: estimates before the last one, after which a bad trial is stopped.
        hold_out: share of the episodes that no trial is trained on: one half ranks, the other confirms.
        hold_out_seed: which ones.
        most_unseen: refuse policies of whose actions the log never has more than this share.
        out: where trials and results go; by default a folder under runs/ that is named after the data.
        workers: trials at once; by default one per core, and on a cluster 8.
        ray: address of a Ray cluster to run on, or "auto" for the cluster of this machine.
        scale_actions: of a file: scale actions from their range in the data to [-1, 1].
        action_bounds: of a file: the values of actions that are mapped to -1 and 1.
        progress: whether to print progress.
        settings: fields of `gridcount.estimation.estimate.Settings` such as `discount=0.95`.
    """
    keep_compiled()
    name = data.name if isinstance(data, Transitions) else str(data)
    folder = out_folder(name) if out is None else Path(out)
    dataset = str(write_log(data, folder)) if isinstance(data, Transitions) else name
    low, high = (tuple(np.atleast_1d(ends).tolist()) for ends in action_bounds or ((), ()))
    search = make_search(
        dataset,
        algorithms=algorithms,
        space=space or {},
        trials=trials,
        updates=updates,
        preset=preset,
        seeds=seeds,
        seed=seed,
        checks=checks,
        hold_out=hold_out,
        hold_out_seed=hold_out_seed,
        most_unseen=most_unseen,
        reading=reading_of(columns or Columns(), ActionUnits(scale_actions, low, high)),
        settings=Settings(**{"support_cost": SEARCH_COST, **settings}),
    )
    console = make_console(quiet=not progress, soft_wrap=True)
    if ray is None:
        return run_search(search, folder, console, *here(folder, console, workers))
    return run_search(search, folder, console, *on_cluster(folder, console, ray, workers or AT_ONCE))
