"""What each command does with its flags. A dataclass is a command's flags; its comments are their help."""

import os
import shlex
import sys
from dataclasses import dataclass, field, make_dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from gridcount.algorithms import make_algorithm
from gridcount.algorithms.presets import Preset, preset_fields
from gridcount.data import check as checks
from gridcount.data.catalogue import NAMES
from gridcount.data.load import load, stored_bytes
from gridcount.data.transitions import Transitions
from gridcount.evaluation.environments import ENVIRONMENTS, dimensions, has_environment, refuse_misfit, why_none
from gridcount.evaluation.rollouts import evaluate as roll_out
from gridcount.report.scores import LAST
from gridcount.terminal import make_console, refuse_unknown_flags, with_bar
from gridcount.training import run as runs
from gridcount.training.checkpoints import numbered
from gridcount.training.compiled import keep_compiled
from gridcount.training.logs import Row
from gridcount.training.progress import ConsoleDisplay

keep_compiled()


@dataclass(frozen=True)
class Train:
    """Train a policy from logged data, evaluating it as it learns."""

    dataset: tyro.conf.Positional[str]  # a dataset name such as maze2d-umaze-v1, an imported name, or a file (.hdf5, .npz, .parquet, .csv)
    algo: str = "gpc-sac"  # the algorithm
    env: str | None = None  # where to score the policy: a dataset's name or a Gymnasium id; by default the dataset's own, if it has one
    preset: Preset = "fast"  # "paper": the paper's hyper-parameters; "fast": small networks for an ordinary machine
    seeds: int = 1  # how many seeds to train together
    seed: int = 0  # the first seed
    updates: int | None = None  # gradient updates; by default the preset's
    evaluate_every: int = 5000  # updates between evaluations
    episodes: int = 20  # episodes per evaluation and seed
    run: Path | None = None  # run directory; by default a new one under runs/
    resume: bool = False  # go on with the run in --run, or the newest unfinished one of this dataset and algorithm
    keep: int = 2  # checkpoints kept
    checkpoint_seconds: float = 60.0  # least time between checkpoints; the last update always makes one
    plot: bool = True  # draw the pictures at the end
    memory_map: bool = False  # leave an imported or named dataset on disk and read batches ahead; done by itself where memory is short


def train(words: list[str]) -> int:
    """Train, or go on training."""
    options, algorithm = _train_flags(words)
    console = make_console()
    planned = 1000 * preset_fields(options.algo, _preset_name(words), options.preset)["epochs"]
    updates = planned if options.updates is None else options.updates
    seeds = tuple(range(options.seed, options.seed + options.seeds))
    environment, unscored = _environment(options)
    plan = runs.Plan(
        dataset=options.dataset,
        environment=environment,
        algorithm=options.algo,
        fields={},
        seeds=seeds,
        updates=updates,
        evaluate_every=min(options.evaluate_every, updates),
        episodes=options.episodes,
        fingerprint="",
    )
    plan.check()  # before a dataset is made or read for nothing
    data = _load(options.dataset, console, options.memory_map)
    _refuse_bad_data(data, console)
    prepared = algorithm.prepare(data)
    plan = replace(plan, fields=runs.settings(prepared.algorithm), fingerprint=runs.fingerprint(data))
    directory = _run_directory(options, plan)
    told = f"{len(data):,} transitions of {options.dataset}; {options.algo}, preset {options.preset}, seeds {list(seeds)}"
    console.print(told, soft_wrap=True)
    for name, note in prepared.notes.items():
        console.print(f"  {name}: {note}", soft_wrap=True)
    if environment is None:
        console.print(f"  {unscored}: the policy is trained but not scored (name one with --env)", soft_wrap=True)
    console.print(f"  run directory: {directory}", soft_wrap=True)
    try:
        rows = runs.train(
            plan,
            prepared,
            directory,
            ConsoleDisplay(console),
            keep=options.keep,
            save_every=options.checkpoint_seconds,
            in_units=data.in_units,
        )
    except runs.Interrupted as stopped:
        again = shlex.join([*_without_resume(words), "--run", str(directory), "--resume"])
        console.print(f"{stopped}\nGo on with: gridcount train {again}", soft_wrap=True)
        return 130
    if environment is None:
        _print_how_to_judge(rows, data, prepared.algorithm.discount, directory, console)
    else:
        _print_headline(rows, console)
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
    plan = runs.read_plan(options.run)
    environment = options.env or plan.environment
    if environment is None:
        raise ValueError(
            f"{options.run}: the run was trained without an environment; name one with --env: a Gymnasium id, or {', '.join(ENVIRONMENTS)}"
        )
    dimensions(environment)  # before the data is read for nothing
    prepared, data = _prepare_again(plan, console)
    refuse_misfit(environment, data.observation_dim, data.action_dim)
    _, policies, done = runs.restore_policies(options.run, prepared)
    table = Table(title=f"{plan.algorithm} on {Path(plan.dataset).name} after {done:,} updates, {options.episodes} episodes per seed")
    results = [
        roll_out(act, environment, options.episodes, options.seed, in_units=data.in_units, observation_dim=data.observation_dim).summary()
        for act in policies
    ]
    _fill(table, dict(zip(plan.seeds, results, strict=True)), [name for name in ("score", "return", "success") if name in results[0]])
    console.print(table)
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
    prepared, data = _prepare_again(runs.read_plan(options.run[0]), console)
    return _draw(options.run[0], prepared, data, console)


def _train_flags(words: list[str]) -> tuple[Train, Any]:
    """The flags of `train`, which depend on the algorithm and its preset for the dataset: those are looked up first."""
    spaced = " ".join(words).replace("=", " ").split()
    value = dict(pairwise(spaced))  # each word -> the word after it
    default = make_algorithm(value.get("--algo", Train.algo), _preset_name(words), value.get("--preset", Train.preset))
    refuse_unknown_flags(words, Train, type(default))
    options: Any = tyro.conf.OmitArgPrefixes[Train]
    algorithm: Any = tyro.conf.OmitArgPrefixes[type(default)]  # type: ignore[misc]
    flags: Any = make_dataclass("Flags", [("options", options), ("algorithm", algorithm, field(default=default))], frozen=True)
    parsed: Any = tyro.cli(flags, args=words, prog="gridcount train", description=Train.__doc__)
    return parsed.options, parsed.algorithm


def _preset_name(words: list[str]) -> str:
    """The dataset whose presets apply: the one named, or for a file the one whose environment is named."""
    return next((word for word in words if word in NAMES), "")


def _run_directory(options: Train, plan: runs.Plan) -> Path:
    """A new directory for a new run, the right old one for a resumed run; never one that would be overwritten."""
    stem = f"{Path(options.dataset).stem}-{options.algo}"
    if options.resume:
        candidates = [options.run] if options.run else sorted(Path("runs").glob(f"{stem}*"), key=lambda path: -path.stat().st_mtime)
        for candidate in candidates:
            if (candidate / "config.json").exists() and (options.run or not _finished(candidate)):
                runs.refuse_other_plan(candidate, plan)
                return candidate
        raise FileNotFoundError(
            f"there is no unfinished run to resume under {options.run or f'runs/{stem}*'}; leave out --resume to start one"
        )
    if options.run:
        if (options.run / "config.json").exists():
            raise ValueError(f"{options.run} already holds a run; go on with it by --resume, or name another directory with --run")
        return options.run
    numbers = (Path("runs") / (stem if i == 1 else f"{stem}-{i}") for i in range(1, sys.maxsize))
    return next(path for path in numbers if not path.exists())


def _finished(directory: Path) -> bool:
    saved = numbered(directory / "checkpoints")
    return bool(saved) and int(saved[-1].stem) >= runs.read_plan(directory).updates


def _without_resume(words: list[str]) -> list[str]:
    """The user's own words less --run DIR and --resume, to be repeated in advice."""
    kept = [word for i, word in enumerate(words) if word != "--resume" and word != "--run" and (i == 0 or words[i - 1] != "--run")]
    return [word for word in kept if not word.startswith("--run=")]


def _prepare_again(plan: runs.Plan, console: Console) -> tuple[Any, Transitions]:
    """The data and the prepared algorithm of a run, as they were when it started."""
    data = _load(plan.dataset, console)
    if (found := runs.fingerprint(data)) != plan.fingerprint:
        raise ValueError(f"{plan.dataset} is not the data this run was trained on (fingerprint {found}, not {plan.fingerprint})")
    return plan.make_algorithm().prepare(data), data


def _load(name: str, console: Console, memory_map: bool = False) -> Transitions:
    """The data a command works on, left on disk where asked or where it would fill more than half of the memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else sys.maxsize
    on_disk = memory_map or stored_bytes(name) > memory / 2
    return with_bar(console, name, lambda progress: load(name, progress=progress, memory_map=on_disk))


def _refuse_bad_data(data: Transitions, console: Console) -> None:
    """Show what is wrong with a dataset before an hour is spent on it; errors stop the training."""
    findings = [finding for finding in checks.check(data) if finding.severity != "note"]
    if findings:
        console.print(checks.render(data.name, findings))
    if checks.exit_code(findings) == 2:
        raise ValueError(f"{data.name}: repair the errors above before training; `gridcount data check` shows them again")


def _environment(options: Train) -> tuple[str | None, str]:
    """Where to score the policy, and if nowhere, why: training must not need the simulator of a dataset that comes with one."""
    if options.env is not None:
        return options.env, ""
    if not has_environment(options.dataset):
        return None, why_none(options.dataset)
    try:
        dimensions(options.dataset)
    except ImportError as error:
        return None, str(error)
    return options.dataset, ""


def _print_headline(rows: list[Row], console: Console) -> None:
    """The mean of the last evaluations, per seed and over seeds."""
    shown: list[str] = [name for name in ("score" if "score" in rows[-1] else "return", "success") if name in rows[-1]]
    means: dict[int, dict[str, float]] = {}
    for seed in sorted({row["seed"] for row in rows}):
        last = [row for row in rows if row["seed"] == seed][-LAST:]
        means[seed] = {name: float(np.mean([row[name] for row in last])) for name in shown}
    table = Table(title=f"mean of the last {LAST} evaluations")
    _fill(table, means, shown)
    console.print(table)


def _fill(table: Table, seeds: dict[int, dict[str, float]], shown: list[str]) -> None:
    """A line per seed, and the mean and spread over seeds of the first figure shown."""
    for heading in ("seed", *shown):
        table.add_column(heading, justify="right")
    for seed, figures in seeds.items():
        table.add_row(str(seed), *(f"{figures[name]:.0%}" if name == "success" else f"{figures[name]:.1f}" for name in shown))
    first = [figures[shown[0]] for figures in seeds.values()]
    table.add_section()
    table.add_row("mean ± std", f"{np.mean(first):.1f} ± {np.std(first):.1f}")


def _print_how_to_judge(rows: list[Row], data: Transitions, discount: float, directory: Path, console: Console) -> None:
    """What a log alone can say of a policy that no environment scored."""
    returns = data.discounted_returns(discount)
    valued = f" It values the log's decisions at {rows[-1]['q_data']:.4g} (Q)." if rows and "q_data" in rows[-1] else ""
    console.print(
        f"Not scored. How to judge the policy without an environment:{valued} The log's episodes return, discounted, "
        f"{returns.mean():.4g} on average and {returns.max():.4g} at best: values far above that are wishful. In "
        f"{directory / 'metrics.jsonl'}, uncertainty and first_visits (of algorithms that count) say how far the policy strays from the "
        "log. Neither proves that it acts well: only a trial does, or a simulator (gridcount evaluate RUN --env, with a Gymnasium id).",
        soft_wrap=True,
    )


def _draw(directory: Path, prepared: Any, data: Transitions, console: Console) -> int:
    from gridcount.report.pictures import draw_run

    pictures = draw_run(directory, prepared, data)
    for path in pictures:
        console.print(f"picture: {path}", soft_wrap=True)
    if not pictures:
        console.print(f"{directory}: the policy was not scored, so there is nothing to draw (train with --env)", soft_wrap=True)
    return 0
