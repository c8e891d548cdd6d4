"""What each command does with its flags. A dataclass is a command's flags; its comments are their help."""

import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, make_dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from gridcount.algorithms import make_algorithm
from gridcount.algorithms.presets import Preset, preset_fields
from gridcount.algorithms.ranges import refuse_out_of_range
from gridcount.data import check as checks
from gridcount.data.catalogue import NAMES
from gridcount.data.columns import Columns
from gridcount.data.cut import ActionUnits
from gridcount.data.load import Source, known_names, load, recorded_environment, settled_source
from gridcount.data.log import Log
from gridcount.data.transitions import Transitions
from gridcount.evaluation.environments import ENVIRONMENTS, dimensions, find, has_environment, refuse_misfit, trust, why_none
from gridcount.evaluation.rollouts import evaluate as roll_out
from gridcount.files import on_full_disk
from gridcount.interrupts import STOPPED
from gridcount.report.headline import headline_table, how_to_judge, scores_table
from gridcount.terminal import make_console, refuse_unknown_flags, with_bar
from gridcount.training import run as runs
from gridcount.training.compiled import keep_compiled
from gridcount.training.directories import claim, find_unfinished
from gridcount.training.judging import LogJudge
from gridcount.training.progress import ConsoleDisplay

EVALUATE_EVERY = 5000  # updates, where nobody says otherwise
SOURCES = {"d4rl": " (D4RL's file)", "generated": " (generated here)", "": ""}

keep_compiled()


@dataclass(frozen=True)
class Train:
    """Train a policy from logged data, evaluating it as it learns."""

    dataset: tyro.conf.Positional[str]  # a dataset name such as maze2d-umaze-v1, an imported name, or a file (.hdf5, .npz, .parquet, .csv)
    columns: Annotated[Columns, tyro.conf.arg(name="")] = field(default_factory=Columns)  # of a table: which columns are what
    algo: str = ""  # the algorithm; by default gpc-anchor for a log of your own, and gpc-sac for a published dataset
    env: str | None = None  # where to score the policy: a dataset's name or a Gymnasium id; by default the dataset's own, if it has one
    preset: Preset = "fast"  # "paper": the paper's hyper-parameters; "fast": small networks for an ordinary machine
    seeds: int = 1  # how many seeds to train together
    seed: int = 0  # the first seed
    source: Source = "auto"  # for Maze2D names: D4RL's file or data generated here; "auto": D4RL's where it was downloaded before
    updates: int | None = None  # gradient updates; by default the preset's, or on --resume the run's own
    evaluate_every: int | None = None  # updates between evaluations, and there is one at the end; by default 5000, or the run's own
    episodes: int = 20  # episodes per evaluation and seed
    run: Path | None = None  # run directory; by default a new one under runs/
    resume: bool = False  # go on with the run in --run, or the newest unfinished one of this dataset and algorithm
    keep: int = 2  # checkpoints kept
    checkpoint_seconds: float = 60.0  # least time between checkpoints; the last update always makes one
    plot: bool = True  # draw the pictures at the end
    actions: Annotated[ActionUnits, tyro.conf.arg(name="")] = field(
        default_factory=ActionUnits
    )  # of a file: how they come to lie in [-1, 1]
    memory_map: bool = False  # leave an imported or named dataset on disk and read batches ahead; done by itself where memory is short


def train(words: list[str]) -> int:
    """Train, or go on training."""
    options, algorithm = _train_flags(words)
    if options.env is not None:
        trust(options.env)
    console = make_console()
    resumed = find_unfinished(options.run, _resolved(options.dataset), options.algo) if options.resume else None
    plan = _plan(options, runs.read_plan(resumed) if resumed else None)
    environment, unscored = _environment(options)
    plan = replace(plan, environment=environment)
    plan.check()  # before a dataset is made or read for nothing
    data = _load_good(plan, plan.source or options.source, options.memory_map, console)
    if environment is not None and options.env is None:
        try:
            refuse_misfit(environment, data.observation_dim, data.action_dim)
        except ValueError as error:  # what was not asked for must not stop the training
            environment, unscored = None, str(error).split(";")[0]
            plan = replace(plan, environment=None)
    if getattr(algorithm, "schedule_updates", None) == "auto":  # what falls over a run falls over this one
        before = runs.read_plan(resumed).fields if resumed else {}
        algorithm = replace(algorithm, schedule_updates=before.get("schedule_updates", plan.updates))
    prepared = algorithm.prepare(data)
    plan = replace(plan, fields=runs.settings(prepared.algorithm), fingerprint=runs.fingerprint(data))
    runs.refuse_unfit(plan, prepared, options.keep)
    if resumed:
        runs.refuse_other_plan(resumed, plan)
    directory = resumed or claim(options.run, f"{Path(options.dataset).stem}-{options.algo}")
    message = f"{len(data):,} transitions of {options.dataset}{SOURCES[plan.source]}"
    message += f"; {options.algo}, preset {options.preset}, seeds {list(plan.seeds)}"
    console.print(message, soft_wrap=True)
    for name, note in prepared.notes.items():
        console.print(f"  {name}: {note}", soft_wrap=True)
    if (schedule := getattr(prepared.algorithm, "schedule_updates", plan.updates)) != plan.updates:
        message = f"the policy's rate falls over {schedule:,} updates, and the run makes {plan.updates:,}"
        console.print(f"  {message} (--schedule-updates {plan.updates} for one with the other)", soft_wrap=True)
    if environment not in (None, options.env, options.dataset):
        console.print(f"  scored in {environment}, where the log was collected", soft_wrap=True)
    if environment is None:
        console.print(f"  {unscored}: the policy is trained but not scored (name one with --env)", soft_wrap=True)
    console.print(f"  run directory: {directory}", soft_wrap=True)
    again = "gridcount train " + shlex.join([*_without_resume(words), "--run", str(directory), "--resume"])
    judge = LogJudge.fit(data, prepared)
    try:
        with on_full_disk(directory, f"Checkpoints and metrics written before are kept: make room, then go on with: {again}"):
            rows = runs.train(
                plan,
                prepared,
                directory,
                ConsoleDisplay(console),
                keep=options.keep,
                save_every=options.checkpoint_seconds,
                data=data,
                judge=judge,
            )
    except runs.Interrupted as stopped:
        console.print(f"{stopped}\nGo on with: {again}", soft_wrap=True)
        return STOPPED
    if environment is None:
        console.print(how_to_judge(rows, judge, directory), soft_wrap=True)
    else:
        console.print(headline_table(rows))
    if options.plot:
        try:
            return _draw(directory, prepared, data, console)
        except ImportError as error:  # Matplotlib is an extra; a run that trained well has not failed for want of it
            console.print(f"no pictures: {error}", soft_wrap=True)
    return 0


@dataclass(frozen=True)
class Evaluate:
    """Roll out the newest checkpoint of a run with the deterministic policy."""

    run: tyro.conf.Positional[Path]  # a run directory
    episodes: int = 100  # episodes per seed
    seed: int = 0  # draws the start states
    env: str | None = None  # a dataset's name or a Gymnasium id; by default the run's own


def evaluate(words: list[str]) -> int:
    """Score a trained policy."""
    refuse_unknown_flags(words, Evaluate)
    options = tyro.cli(Evaluate, args=words, prog="gridcount evaluate")
    console = make_console()
    if options.seed < 0 or options.episodes < 1:
        raise ValueError(f"seed is {options.seed} and episodes {options.episodes}; they must be at least 0 and 1")
    plan = runs.read_plan(options.run)
    environment = options.env or plan.environment
    if environment is None:
        raise ValueError(
            f"{options.run}: the run was trained without an environment; name one with --env: a Gymnasium id, or {', '.join(ENVIRONMENTS)}"
        )
    if options.env is not None:
        trust(options.env)
    try:
        find(environment)
    except ValueError as error:
        raise ValueError(f"{options.run / 'config.json'}: 'environment': {error}") from error
    dimensions(environment)  # before the data is read for nothing
    prepared, data = _prepare_again(options.run)
    refuse_misfit(environment, data.observation_dim, data.action_dim)
    _, policies, done = runs.restore_policies(options.run, prepared)
    results = [
        roll_out(act, environment, options.episodes, options.seed, in_units=data.in_units, observation_dim=data.observation_dim).summary()
        for act in policies
    ]
    title = f"{plan.algorithm} on {Path(plan.dataset).name} after {done:,} updates, {options.episodes} episodes per seed"
    console.print(scores_table(title, dict(zip(plan.seeds, results, strict=True))))
    return 0


@dataclass(frozen=True)
class Plot:
    """Draw a run: its learning curve and, for a maze, where its policy goes and what it knows."""

    run: tyro.conf.Positional[tuple[Path, ...]]  # a run directory, or several to compare their curves in one picture
    out: Path = Path("curves.png")  # where the comparison of several runs goes


def plot(words: list[str]) -> int:
    """Draw the pictures of a run, or compare the curves of several."""
    refuse_unknown_flags(words, Plot)
    options = tyro.cli(Plot, args=words, prog="gridcount plot")
    console = make_console()
    if len(options.run) > 1:
        from gridcount.report.pictures import draw_curves

        console.print(f"picture: {draw_curves(list(options.run), options.out)}", soft_wrap=True)
        return 0
    if not options.run:
        raise ValueError("name a run directory to draw; `gridcount train` prints where it put its run")
    prepared, data = _prepare_again(options.run[0])
    return _draw(options.run[0], prepared, data, console)


def _train_flags(words: list[str]) -> tuple[Train, Any]:
    """The flags of `train`, which depend on the algorithm and its preset for the dataset: those are looked up first."""
    algo, preset = _value(words, "--algo") or _default_algorithm(words), _value(words, "--preset") or Train.preset
    kind = type(make_algorithm(algo, "", preset))  # which refuses unknown ones in its own words
    refuse_unknown_flags(words, Train, kind)
    unprefixed: Any = tyro.conf.OmitArgPrefixes
    options, algorithm = unprefixed[Train], unprefixed[kind]
    # First without the preset, to learn of what dataset it is to be; whoever asks for help need not name one.
    flags: Any = make_dataclass("Flags", [("options", options), ("algorithm", algorithm)], frozen=True)
    plain = [word for word in words if word not in ("-h", "--help")]
    first: Any = tyro.cli(flags, args=plain, prog="gridcount train", default=flags(Train(""), kind()))
    default = make_algorithm(algo, _preset_name(first.options), preset)
    flags = make_dataclass("Flags", [("options", options), ("algorithm", algorithm, field(default=default))], frozen=True)
    parsed: Any = tyro.cli(flags, args=words, prog="gridcount train", description=Train.__doc__)
    refuse_out_of_range(parsed.algorithm)
    return replace(parsed.options, algo=algo), parsed.algorithm


def _default_algorithm(words: list[str]) -> str:
    """What is trained where --algo is not given: what the resumed --run trained, or the algorithm that suits the data.

    GPC-Anchor needs no settings for a dataset. Published datasets and the paper's preset keep the paper's GPC-SAC.
    """
    run = _value(words, "--run")
    if "--resume" in words and run and (Path(run) / "config.json").is_file():
        return runs.read_plan(Path(run)).algorithm
    named = [word for before, word in pairwise(["", *words]) if before != "--run"] + [_value(words, "--env")]
    published = any(name in NAMES for name in named) or _value(words, "--preset") == "paper"
    return "gpc-sac" if published else "gpc-anchor"


def _value(words: list[str], flag: str) -> str | None:
    """What a flag is given, as in `--flag value` or `--flag=value`; the last one counts."""
    found = None
    for word, after in pairwise([*words, None]):
        if word is not None and word.split("=")[0] == flag:
            found = word.partition("=")[2] if "=" in word else after
    return found


def _preset_name(options: Train) -> str:
    """The dataset whose presets apply: the one named, or for a file the one whose environment is named."""
    return next((name for name in (options.dataset, options.env) if name in NAMES), "") or ""


def _plan(options: Train, before: runs.Plan | None) -> runs.Plan:
    """What the flags ask for; a run that is resumed keeps what they leave open. The data's share of it is filled in later."""
    planned = 1000 * preset_fields(options.algo, _preset_name(options), options.preset)["epochs"]
    recorded: Any = before.source if before and options.source == "auto" and before.source else options.source
    columns, units = options.columns.given(), options.actions
    if before is not None:  # the run's own, where the flags say nothing
        columns = columns or before.columns
        units = units if units != ActionUnits() else _action_units(before)
    return runs.Plan(
        dataset=_resolved(options.dataset),
        environment=None,
        algorithm=options.algo,
        fields={},
        seeds=tuple(range(options.seed, options.seed + options.seeds)),
        updates=options.updates if options.updates is not None else before.updates if before else planned,
        evaluate_every=(
            options.evaluate_every if options.evaluate_every is not None else before.evaluate_every if before else EVALUATE_EVERY
        ),
        episodes=options.episodes,
        fingerprint="",
        source=settled_source(options.dataset, recorded),
        columns=columns,
        **asdict(units),
    )


def _resolved(dataset: str) -> str:
    """A name as it is, a file or folder by its whole path: a run must find its data again from any folder."""
    return str(Path(dataset).resolve()) if dataset not in known_names() and Path(dataset).exists() else dataset


def _without_resume(words: list[str]) -> list[str]:
    """The user's own words less --run DIR and --resume, to be repeated in advice."""
    kept = [word for i, word in enumerate(words) if word != "--resume" and word != "--run" and (i == 0 or words[i - 1] != "--run")]
    return [word for word in kept if not word.startswith("--run=")]


def _prepare_again(run: Path) -> tuple[Any, Transitions]:
    """The data and the prepared algorithm of a run, as they were when it started."""
    plan, algorithm = runs.read_plan(run), runs.algorithm_of(run)
    try:
        data = _load(plan, plan.source or "auto")
    except (ValueError, OSError) as error:
        raise ValueError(f"{run}: the run needs the data it was trained on, and looked for it at {plan.dataset}: {error}") from error
    if (found := runs.fingerprint(data)) != plan.fingerprint:
        raise ValueError(f"{plan.dataset} is not the data this run was trained on (fingerprint {found}, not {plan.fingerprint})")
    return algorithm.prepare(data), data


def _action_units(plan: runs.Plan) -> ActionUnits:
    """How a run's data came to have its actions in [-1, 1]."""
    return ActionUnits(plan.scale_actions, plan.action_low, plan.action_high)


def _load(plan: runs.Plan, source: Any, memory_map: bool = False, judge: Callable[[Log], None] | None = None) -> Transitions:
    """The data a run works on, left on disk where asked or where it would fill more than half of the memory."""
    name, actions = plan.dataset, _action_units(plan)
    reading: dict[str, Any] = {
        "columns": Columns.of(name, plan.columns),
        "scale_actions": actions.scale_actions,
        "action_bounds": actions.bounds,
        "judge": judge,
    }
    return with_bar(name, lambda progress: load(name, source=source, progress=progress, memory_map=memory_map or None, **reading))


def _load_good(plan: runs.Plan, source: Any, memory_map: bool, console: Console) -> Transitions:
    """Data to train on, saying all that is wrong with it before an hour is spent on it; errors stop the training."""
    name, actions = plan.dataset, _action_units(plan)
    findings: list[checks.Finding] | None = None

    def judge(log: Log) -> None:
        nonlocal findings
        findings = checks.check(log, None, actions.scale_actions, actions.bounds)

    def tell() -> None:
        loud = [finding for finding in findings or () if finding.severity != "note"]
        if loud:
            console.print(checks.render(name, loud))

    try:
        data = _load(plan, source, memory_map, judge)
    except ValueError:
        tell()
        raise
    if findings is None:  # imported or left on disk: the log itself was judged when it was imported
        findings = checks.check(data)
    tell()
    if checks.exit_code(findings) == 2:
        raise ValueError(f"{name}: repair the errors above before training; `gridcount data check` shows them again")
    return data


def _environment(options: Train) -> tuple[str | None, str]:
    """Where to score the policy, and if nowhere, why: training must not need the simulator of a dataset that comes with one."""
    if options.env is not None:
        return options.env, ""
    if has_environment(options.dataset):
        try:
            dimensions(options.dataset)
        except ImportError as error:
            return None, str(error)
        return options.dataset, ""
    collected = recorded_environment(options.dataset)
    if collected is None:
        return None, why_none(options.dataset)
    if collected.options:
        return None, f"the log was collected in {collected.id} with options of its own ({', '.join(collected.options)})"
    try:
        dimensions(collected.id)
    except (ImportError, ValueError) as error:
        message = f"{options.dataset}: the log was collected in {collected.id}"
        return None, f"{message}, which cannot be made here: {str(error).splitlines()[0]}"
    return collected.id, ""


def _draw(directory: Path, prepared: Any, data: Transitions, console: Console) -> int:
    from gridcount.report.pictures import draw_run

    pictures = draw_run(directory, prepared, data)
    for path in pictures:
        console.print(f"picture: {path}", soft_wrap=True)
    if not pictures:
        console.print(f"{directory}: no evaluation has been written yet, so there is nothing to draw", soft_wrap=True)
    return 0
