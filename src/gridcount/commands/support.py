"""`gridcount support`: where the log supports a policy, in the terminal, as JSON and as a page."""

import json as json_format
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from numpy.typing import NDArray

from gridcount.catalogue import MAZE_NAMES
from gridcount.files import write_whole
from gridcount.policy.policy import Policy, load_policy, policy_folder
from gridcount.terminal import make_console, validate_flags
from gridcount.training.experiment import load_again
from gridcount.training.plan import read_plan


@dataclass(frozen=True)
class Support:
    """Show where the log has a policy's actions, against the log's own actions and random ones."""

    run: tyro.conf.Positional[Path]  # a run directory
    seed: int | None = None  # the policy of this seed; by default the run's first
    at: int | None = None  # the policy after this many updates; by default the last
    # two columns of the map, as in --columns temp,flow; by default principal components
    columns: str | None = None
    json: bool = False  # print the report as JSON
    out: Path | None = None  # also write a page for the owner of the plant, as in --out page.html
    estimate: Path | None = None  # of `gridcount estimate RUN --json FILE`, to show on the page


def support(words: list[str]) -> int:
    """Measure, print and write."""
    validate_flags(words, Support)
    options = tyro.cli(Support, args=words, prog="gridcount support")
    if options.estimate is not None and options.out is None:
        raise ValueError("--estimate is shown on the page; name the page with --out page.html")
    estimates = _estimates(options)
    policy_folder(options.run)  # raises an error if it is not a policy
    policy = load_policy(options.run, seed=options.seed, at=options.at)
    columns = tuple(options.columns.split(",")) if options.columns else _maze_columns(options.run, policy)
    _, data = load_again(options.run)
    report = policy.support(data, columns=columns)
    console = make_console()
    if options.json:
        print(json_format.dumps(report.as_json(), indent=2, allow_nan=False))
    else:
        from gridcount.report.support_text import render

        console.print(render(report))
    if options.out is not None:
        from gridcount.data.quality.describe import describe
        from gridcount.report.owner_page import owner_page

        walls = None if options.columns else _walls(options.run)
        text = owner_page(report, describe(data), str(options.run), estimates, walls)
        path = write_whole(options.out, text, durable=False)
        make_console(stderr=options.json).print(f"page: {path}", soft_wrap=True)
    return 0


def _estimates(options: Support) -> Any:
    if options.estimate is None:
        return None
    from gridcount.report.owner_page import read_estimates

    return read_estimates(options.estimate)


def _maze(run: Path) -> str | None:
    """The maze that a run was scored in."""
    plan = read_plan(run) if (run / "config.json").is_file() else None
    return plan.environment if plan is not None and plan.environment in MAZE_NAMES else None


def _maze_columns(run: Path, policy: Policy) -> tuple[str, ...] | None:
    """The position of a maze's particle is its map."""
    return policy.observation_names[:2] if _maze(run) else None


def _walls(run: Path) -> NDArray[np.float64] | None:
    """[walls, 4] the boxes (x, y, width, height) of a maze, in the units of its observations."""
    name = _maze(run)
    if name is None:
        return None
    from gridcount.envs.maze2d import WALL_OFFSET, task

    corner = np.argwhere(task(name).walls) - 0.5 - WALL_OFFSET
    return np.concatenate([corner, np.ones_like(corner)], axis=1)
