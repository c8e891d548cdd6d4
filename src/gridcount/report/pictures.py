"""Pictures of runs: learning curves with their spread over seeds, and for a maze its trajectories, visit
counts and uncertainty."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from gridcount.algorithms.contract import Prepared
from gridcount.catalogue import MAZE_NAMES
from gridcount.counts.support import Support
from gridcount.evaluation.rollouts import evaluate
from gridcount.files import whole_file
from gridcount.files.archive import numbered
from gridcount.report.experiments import in_words
from gridcount.report.labels import dataset_in_words, run_labels
from gridcount.training.history import evaluations_of
from gridcount.training.logs import Row
from gridcount.training.plan import Plan, read_plan
from gridcount.training.restoring import restore_policies
from gridcount.transitions import Transitions

try:
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle
except ImportError as error:
    raise ImportError(
        f"pictures need Matplotlib ({error}). Install it with: pip install 'gridcount[plots]'"
    ) from error

COLOURS = ("#1f64c8", "#d1495b", "#2e8b57", "#edae49", "#6a4c93", "#00798c")
EPISODES = 20  # trajectories drawn
CELL = 0.1  # side of a heat map's cell, in maze units
SCORED = ("score", "return")
UNSCORED = (
    "in_log",
    "action_distance",
    "q_data",
    "critic_loss",
    "policy_loss",
)  # drawn of a run without an environment
MOST_PANELS = 3  # side by side
SAMPLE = 200_000  # dataset rows the uncertainty map looks at


def draw_curves(runs: list[Path], path: Path) -> Path:
    """The curves of runs in one picture."""
    return save_figure(curves_figure(runs), path)


def curves_figure(runs: list[Path]) -> Figure:
    """Scores (or returns, where a run has no score) over updates: the mean over seeds, shaded from lowest to
    highest.

    Where a run was not scored: a panel each of how much of its policy the log has, and of its values.
    """
    plans = [read_plan(run) for run in runs]
    found = [evaluations_of(run, plan) for run, plan in zip(runs, plans, strict=True)]
    metrics = _drawn_metrics(runs, found, plans)
    figure = Figure(figsize=(7 if len(metrics) == 1 else 4.6 * len(metrics), 4.2), layout="constrained")
    panels = figure.subplots(1, len(metrics), squeeze=False)[0]
    labels = run_labels(runs, plans)
    for axes, metric in zip(panels, metrics, strict=True):
        for rows, plan, label, colour in zip(found, plans, labels, _cycle(len(runs)), strict=True):
            updates, scores = curve(rows, plan.seeds, metric)
            if not updates:
                continue
            axes.fill_between(
                updates, scores.min(axis=1), scores.max(axis=1), color=colour, alpha=0.18, linewidth=0
            )
            axes.plot(
                updates,
                scores.mean(axis=1),
                color=colour,
                label=label,
                marker="o" if len(updates) == 1 else None,
            )
        if metric == "score":
            axes.axhline(100, color="#888", linewidth=0.8, linestyle=":")
        if metric in Support._fields:
            axes.set_ylim(-0.02, 1.02)  # shares of all actions, and of the actions' range
        axes.set(xlabel="updates", ylabel=in_words(metric))
        axes.spines[["top", "right"]].set_visible(False)
    data, episodes = {dataset_in_words(plan) for plan in plans}, {plan.episodes for plan in plans}
    title = [*data][:1] if len(data) == 1 else []
    if metrics[0] in SCORED:
        title += [f"{' or '.join(map(str, sorted(episodes)))} episodes per evaluation"]
    panels[0].set(title=", ".join(title))
    panels[0].legend(frameon=False)
    return figure


def _drawn_metrics(runs: list[Path], found: list[list[Row]], plans: list[Plan]) -> list[str]:
    """What to draw: the score or the return where all runs have it, else besides it what runs without an
    environment have."""
    evaluated = [row for rows in found for row in rows]
    score = "score" if all("score" in row for row in evaluated if "return" in row) else "return"
    has = [
        {name for name in (score, *UNSCORED) if curve(rows, plan.seeds, name)[0]}
        for rows, plan in zip(found, plans, strict=True)
    ]
    for run, own in zip(runs, has, strict=True):
        if not own:
            raise ValueError(f"{run}: no evaluation has been written yet, so there is no curve to draw")
    if all(score in own for own in has):
        return [score]
    return [name for name in (score, *UNSCORED) if any(name in own for own in has)][:MOST_PANELS]


def curve(rows: list[Row], seeds: tuple[int, ...], metric: str) -> tuple[list[int], NDArray[np.float64]]:
    """A metric at the updates after which every seed has it, [evaluations, seeds]: a live run may be
    between two seeds."""
    found = {(row["updates"], row["seed"]): row[metric] for row in rows if row.get(metric) is not None}
    updates = [
        each for each in sorted({each for each, _ in found}) if all((each, seed) in found for seed in seeds)
    ]
    return updates, np.array([[found[each, seed] for seed in seeds] for each in updates])


def draw_maze(run: Path, prepared: Prepared, data: Transitions, path: Path) -> Path:
    """The map with the first seed's trajectories, the data's visit counts, and the learnt uncertainty at
    the policy's actions."""
    from gridcount.envs.maze2d import WALL_OFFSET, task

    plan = read_plan(run)
    states, policies, done = restore_policies(run, prepared)
    name = plan.environment or plan.dataset
    result = evaluate(policies[0], name, EPISODES, seed=0, in_units=data.in_units)
    maze = task(name)
    counted = hasattr(prepared.algorithm, "uncertainty")
    figure = Figure(figsize=(5 * (3 if counted else 2), 4.6), layout="constrained")
    axes = figure.subplots(1, 3 if counted else 2)
    title = f"{EPISODES} episodes after {done:,} updates: score {result.summary()['score']:.0f}"
    _draw_map(axes[0], maze, title)
    for episode in range(EPISODES):
        x, y = (result.observations[:, episode, i] + WALL_OFFSET for i in (0, 1))
        axes[0].plot(y, x, linewidth=1, alpha=0.7, color=COLOURS[0])
        axes[0].plot(y[0], x[0], "o", markersize=3, color=COLOURS[1])
    _draw_map(axes[1], maze, "visits in the data")
    _draw_heat(axes[1], _heat_map(data.observation, None, *maze.walls.shape), "log")
    if counted:
        sample = np.random.default_rng(0).choice(len(data), min(SAMPLE, len(data)), replace=False)
        uncertainty = _uncertainty(prepared, states[0], policies[0], sample)
        _draw_map(axes[2], maze, "uncertainty u(s, π(s)) learnt")
        heat = _heat_map(data.observation[sample], uncertainty, *maze.walls.shape)
        _draw_heat(axes[2], heat, "linear")
    return save_figure(figure, path)


def _draw_map(axis: Any, maze: Any, title: str) -> None:
    """The walls and the goal of a maze."""
    from gridcount.envs.maze2d import GOAL_RADIUS, WALL_OFFSET

    walls = np.where(maze.walls, 0.28, 1.0)
    axis.imshow(walls, cmap="gray", vmin=0, vmax=1, extent=_extent(*walls.shape))
    goal = (maze.goal[1] + WALL_OFFSET, maze.goal[0] + WALL_OFFSET)
    axis.add_patch(Circle(goal, GOAL_RADIUS, fill=False, color=COLOURS[2], linewidth=2))
    axis.set(title=title, xticks=[], yticks=[])


def _draw_heat(axis: Any, heat: NDArray[np.float64], norm: str) -> None:
    """A value per square of the map, with its scale."""
    drawn = axis.imshow(heat, cmap="viridis", extent=_extent(*heat.shape), norm=norm, interpolation="nearest")
    axis.figure.colorbar(drawn, ax=axis, shrink=0.8)


def _extent(rows: int, columns: int) -> tuple[float, float, float, float]:
    """Where a map lies in its picture, so that the centre of a square has its numbers as coordinates."""
    return -0.5, columns - 0.5, rows - 0.5, -0.5


def draw_run(run: Path, prepared: Prepared, data: Transitions) -> list[Path]:
    """All pictures of a run, in its directory."""
    plan = read_plan(run)
    rows = evaluations_of(run, plan)
    if not any(curve(rows, plan.seeds, name)[0] for name in ("return", *UNSCORED)):
        return []
    pictures = [draw_curves([run], run / "curve.png")]
    if plan.environment in MAZE_NAMES and numbered(run / "checkpoints"):
        pictures.append(draw_maze(run, prepared, data, run / "maze.png"))
    return pictures


def _uncertainty(
    prepared: Prepared, state: Any, policy: Any, sample: NDArray[np.int64]
) -> NDArray[np.float32]:
    """u(s, pi(s)) as the algorithm has it at the end of training."""
    observation = np.asarray(prepared.rows.observation)[sample]
    cell = jnp.asarray(np.asarray(prepared.rows.state_cell)[sample])
    return np.asarray(prepared.algorithm.uncertainty(state, cell, jnp.asarray(policy(observation))))


def _heat_map(
    observation: NDArray[np.float32], value: NDArray[np.float32] | None, rows: int, columns: int
) -> NDArray[np.float64]:
    """Visits per cell of the map, or the mean of a value over them; NaN where the data has no visit."""
    from gridcount.envs.maze2d import WALL_OFFSET

    edges = [np.linspace(-0.5, size - 0.5, round(size / CELL) + 1) for size in (rows, columns)]
    x, y = (observation[:, i] + WALL_OFFSET for i in (0, 1))
    visits = np.histogram2d(x, y, bins=edges)[0]
    total = visits if value is None else np.histogram2d(x, y, bins=edges, weights=value)[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(visits > 0, total if value is None else total / visits, np.nan)


def _cycle(count: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(count)]


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a picture completely or not at all."""
    with whole_file(path, durable=False) as file:
        figure.savefig(file, dpi=130, format=path.suffix.removeprefix(".") or "png")
    return path
