"""`gridcount train`: a dataclass defines the command's flags, and its comments are their help texts."""

import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, make_dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro
from rich.console import Console

from gridcount.algorithms import ALGORITHMS, make_algorithm
from gridcount.algorithms.contract import run_length_fields
from gridcount.algorithms.presets import Preset, default_algorithm, planned_updates
from gridcount.algorithms.ranges import validate_ranges
from gridcount.catalogue import NAMES
from gridcount.data.formats.columns import Columns
from gridcount.data.formats.cut import ActionUnits
from gridcount.data.load import Source, resolve_source, resolved_name
from gridcount.data.quality import check as checks
from gridcount.evaluation.environments import trust
from gridcount.files import on_full_disk
from gridcount.interrupts import STOPPED
from gridcount.report.headline import headline_table, how_to_judge
from gridcount.terminal import make_console, positional, validate_flags, with_bar
from gridcount.training import run as runs
from gridcount.training.compiled import keep_compiled
from gridcount.training.directories import claim, find_unfinished
from gridcount.training.experiment import (
    Experiment,
    drop_unfit_environment,
    find_environment,
    load_checked,
)
from gridcount.training.machine import limit_threads
from gridcount.training.plan import EPISODES, EVALUATE_EVERY, Plan, read_plan
from gridcount.training.progress import ConsoleDisplay
from gridcount.transitions import Transitions

Number = TypeVar("Number", int, float)

SOURCES = {"d4rl": " (D4RL's file)", "generated": " (generated here)", "": ""}


@dataclass(frozen=True)
class Train:
    """Train a policy from logged data and evaluate it during training."""

    # a dataset name such as maze2d-umaze-v1, an imported name, or a file (.hdf5, .npz, .parquet, .csv)
    dataset: tyro.conf.Positional[str]
    columns: Annotated[Columns, tyro.conf.arg(name="")] = field(
        default_factory=Columns
    )  # of a table: which columns are what
    # the algorithm; by default gpc-anchor for your own dataset, and gpc-sac for a published dataset
    algo: str = ""
    # where to score the policy: a dataset's name or a Gymnasium id; by default the dataset's own, if any
    env: str | None = None
    # "paper": the paper's hyper-parameters; "fast": small networks for an ordinary machine
    preset: Preset = "fast"
    seeds: int = 1  # how many seeds to train together
    seed: int = 0  # the first seed
    # for Maze2D names: D4RL's file or data generated here; "auto": D4RL's where it was downloaded before
    source: Source = "auto"
    updates: int | None = None  # gradient updates; by default the preset's, or on --resume the run's own
    # updates between evaluations, and there is one at the end; by default 5000, or the run's own
    evaluate_every: int | None = None
    episodes: int = EPISODES  # episodes per evaluation and seed
    # share of the episodes that training never sees, for `gridcount estimate`; by default none, or the run's
    # own
    hold_out: float | None = None
    hold_out_seed: int | None = None  # which episodes are held out; by default 0, or the run's own
    run: Path | None = None  # run directory; by default a new one under runs/
    # resume the run in --run, or the newest unfinished run of this dataset (and of --algo, if given)
    resume: bool = False
    keep: int = 2  # checkpoints kept
    keep_policies: int | None = None  # policies kept, one per checkpoint; by default as many as checkpoints
    checkpoint_seconds: float = 60.0  # least time between checkpoints; the last update always makes one
    plot: bool = True  # draw the pictures at the end
    actions: Annotated[ActionUnits, tyro.conf.arg(name="")] = field(
        default_factory=ActionUnits
    )  # of a file: how actions are scaled to [-1, 1]
    # keep an imported or named dataset on disk and read batches from there; automatic if memory is short
    memory_map: bool = False


def train(words: list[str]) -> int:
    """Train or resume a run."""
    keep_compiled()
    options, algorithm = _train_flags(words)
    if options.env is not None:
        trust(options.env)
    console = make_console()
    resumed = (
        find_unfinished(options.run, resolved_name(options.dataset), options.algo) if options.resume else None
    )
    limit_threads(resumed)
    experiment, unscored = _prepare(options, algorithm, resumed, console)
    directory = resumed or claim(options.run, f"{Path(options.dataset).stem}-{options.algo}")
    if resumed and options.run is None:
        console.print(f"resuming the newest unfinished run of this dataset: {resumed}", soft_wrap=True)
    for line in _introduction(options, experiment, unscored, directory):
        console.print(line, soft_wrap=True)
    again = "gridcount train " + shlex.join([*_without_resume(words), "--run", str(directory), "--resume"])
    try:
        with on_full_disk(
            directory,
            f"Existing checkpoints and metrics are kept: free disk space, then resume with: {again}",
        ):
            rows = experiment.train(
                directory,
                ConsoleDisplay(console),
                keep=options.keep,
                keep_policies=options.keep_policies,
                save_every=options.checkpoint_seconds,
            )
    except runs.Interrupted as stopped:
        console.print(f"{stopped}\nResume with: {again}", soft_wrap=True)
        return STOPPED
    return _conclude(options, experiment, rows, directory, console)


def _prepare(
    options: Train, algorithm: Any, resumed: Path | None, console: Console
) -> tuple[Experiment, str]:
    """The experiment that the flags ask for, and why it has no environment, where it has none."""
    environment, unscored = find_environment(options.dataset, options.env)
    plan = replace(
        _plan(options, algorithm, read_plan(resumed) if resumed else None), environment=environment
    )
    plan.check()  # before a dataset is generated or read
    data = _load(plan, options.memory_map, console)
    if options.env is None:  # a default environment must not stop the training
        plan, misfit = drop_unfit_environment(plan, data)
        unscored = misfit or unscored
    runs.Kept.checked(
        options.keep, options.keep_policies, options.checkpoint_seconds
    )  # before a directory is made
    return Experiment.prepare(plan, data, resumed=resumed), unscored


def _conclude(
    options: Train, experiment: Experiment, rows: list[Any], directory: Path, console: Console
) -> int:
    """Print what a finished run reached and draw its pictures; the exit code."""
    if experiment.plan.environment is None:
        console.print(how_to_judge(rows, experiment.judge, directory), soft_wrap=True)
    else:
        console.print(headline_table(rows))
    if options.plot:
        try:
            return draw(directory, experiment.prepared, experiment.data, console)
        except ImportError as error:  # Matplotlib is optional; the training itself succeeded
            console.print(f"no pictures: {error}", soft_wrap=True)
    return 0


def _load(plan: Plan, memory_map: bool, console: Console) -> Transitions:
    """Load the data of a plan, with a progress bar for generated mazes and a table of problems."""

    def show(name: str, findings: list[checks.Finding]) -> None:
        console.print(checks.render(name, findings))

    return with_bar(
        plan.dataset, lambda progress: load_checked(plan, memory_map=memory_map, show=show, progress=progress)
    )


def _introduction(options: Train, experiment: Experiment, unscored: str, directory: Path) -> Iterator[str]:
    """Describe the training: the data, the automatic values and the run directory."""
    plan, prepared = experiment.plan, experiment.prepared
    yield (
        f"{len(experiment.data):,} transitions of {options.dataset}{SOURCES[plan.source]}"
        f"; {options.algo}, preset {options.preset}, seeds {list(plan.seeds)}"
    )
    yield from (f"  note: {note}" for note in experiment.data.notes)
    yield from (f"  {name}: {note}" for name, note in prepared.notes.items())
    for name in run_length_fields(prepared.algorithm):
        if (length := getattr(prepared.algorithm, name)) != plan.updates:
            flag = f"--{name.replace('_', '-')} {plan.updates}"
            yield f"  {name} is {length:,}, and the run makes {plan.updates:,} updates ({flag} makes them equal)"
    if plan.hold_out:
        yield f"  held out: {plan.hold_out:.0%} of the episodes (seed {plan.hold_out_seed}); gridcount estimate {directory} uses them"
    if plan.environment not in (None, options.env, options.dataset):
        yield f"  scored in {plan.environment}, where the log was collected"
    if plan.environment is None:
        yield f"  {unscored}: the policy is trained but not scored (name one with --env)"
    yield f"  run directory: {directory}"


def draw(directory: Path, prepared: Any, data: Transitions, console: Console) -> int:
    """Draw a run and print the paths of its pictures."""
    from gridcount.report.pictures import draw_run

    pictures = draw_run(directory, prepared, data)
    for path in pictures:
        console.print(f"picture: {path}", soft_wrap=True)
    if not pictures:
        console.print(
            f"{directory}: no evaluation has been written yet, so there is nothing to draw", soft_wrap=True
        )
    return 0


def _train_flags(words: list[str]) -> tuple[Train, Any]:
    """The flags of `train`, which depend on the algorithm and its preset for the dataset."""
    algo, preset = (
        _value(words, "--algo") or _default_algorithm(words),
        _value(words, "--preset") or Train.preset,
    )
    kind = type(make_algorithm(algo, "", preset))  # raises an error for an unknown one
    validate_flags(words, Train, kind)
    unprefixed: Any = tyro.conf.OmitArgPrefixes
    options, algorithm = unprefixed[Train], unprefixed[kind]
    default = make_algorithm(
        algo, _preset_name(positional(words, Train, kind), _value(words, "--env")), preset
    )
    flags: Any = make_dataclass(
        "Flags", [("options", options), ("algorithm", algorithm, field(default=default))], frozen=True
    )
    parsed: Any = tyro.cli(flags, args=words, prog="gridcount train", description=Train.__doc__)
    validate_ranges(parsed.algorithm)
    return replace(parsed.options, algo=algo), parsed.algorithm


def _default_algorithm(words: list[str]) -> str:
    """The default of --algo: that of the run to resume, or the default for the data.

    GPC-Anchor needs no settings for a dataset. Published datasets and the paper's preset keep the paper's
    GPC-SAC.
    """
    dataset = positional(words, Train, *ALGORITHMS.values())
    if "--resume" in words and dataset:
        run = _value(words, "--run")
        return read_plan(find_unfinished(Path(run) if run else None, resolved_name(dataset))).algorithm
    published = _preset_name(dataset, _value(words, "--env"))
    return default_algorithm(published, _value(words, "--preset") or Train.preset)


def _value(words: list[str], flag: str) -> str | None:
    """The value of a flag, as in `--flag value` or `--flag=value`; the last one is used."""
    found = None
    for word, after in pairwise([*words, None]):
        if word is not None and word.split("=")[0] == flag:
            found = word.partition("=")[2] if "=" in word else after
    return found


def _preset_name(dataset: str, environment: str | None) -> str:
    """The dataset whose presets apply: the one named, or for a file the one whose environment is named."""
    return next((name for name in (dataset, environment) if name in NAMES), "") or ""


def _plan(options: Train, algorithm: Any, before: Plan | None) -> Plan:
    """What the flags ask for; a run that is resumed keeps what they leave open. The data's share of it is
    filled in later."""
    planned = planned_updates(options.algo, _preset_name(options.dataset, options.env), options.preset)
    recorded: Any = before.source if before and options.source == "auto" and before.source else options.source
    columns, units = options.columns.given(), options.actions
    if before is not None:  # the run's own value if the flag is not given
        columns = columns or before.columns
        units = units if units != ActionUnits() else before.action_units()
    return Plan.of(
        options.algo,
        algorithm,
        dataset=resolved_name(options.dataset),
        environment=None,
        seeds=tuple(range(options.seed, options.seed + options.seeds)),
        updates=options.updates if options.updates is not None else before.updates if before else planned,
        evaluate_every=(
            options.evaluate_every
            if options.evaluate_every is not None
            else before.evaluate_every
            if before
            else EVALUATE_EVERY
        ),
        episodes=options.episodes,
        preset=options.preset,
        source=resolve_source(options.dataset, recorded),
        columns=columns,
        hold_out=_or_before(options.hold_out, before.hold_out if before else 0.0),
        hold_out_seed=_or_before(options.hold_out_seed, before.hold_out_seed if before else 0),
        **asdict(units),
    )


def _or_before(given: Number | None, before: Number) -> Number:
    """A flag's value, or where it is not given that of the run before."""
    return before if given is None else given


def _without_resume(words: list[str]) -> list[str]:
    """The user's arguments without --run DIR and --resume, for messages."""
    kept = [
        word
        for i, word in enumerate(words)
        if word != "--resume" and word != "--run" and (i == 0 or words[i - 1] != "--run")
    ]
    return [word for word in kept if not word.startswith("--run=")]
