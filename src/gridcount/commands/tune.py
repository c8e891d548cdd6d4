"""`gridcount tune`: choose an algorithm and its settings from logged data alone."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from gridcount.algorithms.presets import Preset
from gridcount.data.formats.columns import Columns
from gridcount.data.formats.cut import ActionUnits
from gridcount.estimation.estimate import Settings
from gridcount.estimation.measured import SEARCH_COST
from gridcount.files import on_full_disk, write_whole
from gridcount.interrupts import STOPPED
from gridcount.terminal import make_console, validate_flags
from gridcount.training.compiled import keep_compiled
from gridcount.tuning.search import AT_ONCE, here, on_cluster, run_search
from gridcount.tuning.space import SEARCHED
from gridcount.tuning.start import make_search, out_folder, reading_of

SHARED = (
    "trials",
    "updates",
    "preset",
    "seeds",
    "seed",
    "checks",
    "hold_out",
    "hold_out_seed",
    "most_unseen",
)


@dataclass(frozen=True)
class Tune:
    """Choose an algorithm and its settings from logged data alone; the same command resumes a search."""

    dataset: tyro.conf.Positional[str]  # a dataset name, an imported name, or a file
    columns: Annotated[Columns, tyro.conf.arg(name="")] = field(
        default_factory=Columns
    )  # of a table: which columns are what
    actions: Annotated[ActionUnits, tyro.conf.arg(name="")] = field(
        default_factory=ActionUnits
    )  # of a file: how actions are scaled to [-1, 1]
    algorithms: tuple[str, ...] = SEARCHED  # algorithms to search; gpc-anchor's own values are always trial 0
    space: tuple[
        str, ...
    ] = ()  # values of fields, as in pessimism=0.1:2:log, gpc-sac.bins=5,10,20 or hidden=128x128
    trials: int = 16  # settings to try, the algorithms' own values among them
    updates: int | None = None  # gradient updates of a trial; by default a quarter of the preset's
    preset: Preset = "fast"  # which other values the algorithms have
    seeds: int = 1  # seeds per trial; its estimate is their mean
    seed: int = 0  # of the search, and the first of a trial's seeds
    checks: int = 2  # estimates before the last one, after which a bad trial is stopped
    hold_out: float = (
        0.2  # share of the episodes that no trial is trained on: one half ranks, the other confirms
    )
    hold_out_seed: int = 0  # which ones
    most_unseen: float = 0.5  # refuse policies of whose actions the log never has more than this share
    discount: float = Settings.discount  # of the estimates; 1: undiscounted returns
    # what acting where the log never did may cost, in deviations of the log's returns
    support_cost: float = SEARCH_COST
    estimate_updates: int = Settings.updates  # of each fitted Q evaluation
    members: int = Settings.members  # networks of each fitted Q evaluation
    out: Path | None = None  # where trials and results go; by default runs/DATASET-tune
    workers: int | None = None  # trials at once; by default one per core, and on a cluster 8
    ray: str | None = (
        None  # run on a Ray cluster: its address (HOST:PORT), or "auto" for the cluster of this machine
    )
    json: Path | None = None  # also write the ranking to this file


def tune(words: list[str]) -> int:
    """Search, and print the ranking."""
    keep_compiled()
    validate_flags(words, Tune)
    unprefixed: Any = tyro.conf.OmitArgPrefixes
    options: Tune = tyro.cli(unprefixed[Tune], args=words, prog="gridcount tune")
    if options.workers is not None and options.workers < 1:
        raise ValueError(f"--workers is {options.workers}; it must be at least 1")
    search = make_search(
        options.dataset,
        reading=reading_of(options.columns, options.actions),
        algorithms=options.algorithms,
        space=_changes(options.space),
        settings=Settings(
            discount=options.discount,
            updates=options.estimate_updates,
            members=options.members,
            support_cost=options.support_cost,
        ),
        **{name: getattr(options, name) for name in SHARED},
    )
    out = options.out or out_folder(options.dataset)
    console = make_console()
    console.print(
        f"{search.trials} trials of {search.updates:,} updates; everything goes to {out}", soft_wrap=True
    )
    if options.ray is None:
        carry_out, at_once = here(out, console, options.workers)
    else:
        carry_out, at_once = on_cluster(out, console, options.ray, options.workers or AT_ONCE)
    try:
        with on_full_disk(out, "Finished trials are kept: free disk space and run the same command again"):
            found = run_search(search, out, console, carry_out, at_once)
    except KeyboardInterrupt:
        console.print(
            "stopped; run the same command again: finished trials are not run again", soft_wrap=True
        )
        return STOPPED
    found.render(console)
    if options.json is not None:
        write_whole(options.json, json.dumps(found.to_dict(), indent=2) + "\n")
    return 0


def _changes(space: tuple[str, ...]) -> dict[str, str]:
    """--space as a mapping."""
    found = {}
    for entry in space:
        name, given, value = entry.partition("=")
        if not given or not name or not value:
            raise ValueError(
                f"--space {entry}: write FIELD=VALUES, as in pessimism=0.1:2:log or bins=5,10,20"
            )
        found[name] = value
    return found
