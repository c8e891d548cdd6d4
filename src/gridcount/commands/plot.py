"""`gridcount plot`: draw a run, or compare the curves of several."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from gridcount.commands.train import draw
from gridcount.terminal import make_console, validate_flags
from gridcount.training.experiment import load_again


@dataclass(frozen=True)
class Plot:
    """Draw a run: its learning curve and, for a maze, its trajectories, visit counts and uncertainty."""

    run: tyro.conf.Positional[
        tuple[Path, ...]
    ]  # a run directory, or several to compare their curves in one picture
    out: Path = Path("curves.png")  # where the comparison of several runs goes


def plot(words: list[str]) -> int:
    """Draw the pictures of a run, or compare the curves of several."""
    validate_flags(words, Plot)
    options = tyro.cli(Plot, args=words, prog="gridcount plot")
    console = make_console()
    if len(options.run) > 1:
        from gridcount.report.pictures import draw_curves

        console.print(f"picture: {draw_curves(list(options.run), options.out)}", soft_wrap=True)
        return 0
    if not options.run:
        raise ValueError("name a run directory to draw; `gridcount train` prints its directory")
    return draw(options.run[0], *load_again(options.run[0]), console)
