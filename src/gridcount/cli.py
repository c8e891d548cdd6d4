"""The command line: flags in, one call, a table or a picture out. Heavy imports wait until a command needs them."""

import sys
from importlib import import_module

from gridcount.interrupts import STOPPED, handle_interrupts

USAGE = """\
gridcount: offline reinforcement learning that counts

  gridcount train DATASET       train a policy from logged data, evaluate it as it learns
  gridcount algorithms          list what can be trained, and what each costs
  gridcount evaluate RUN        roll out a trained policy and print its score
  gridcount plot RUN            draw learning curves, trajectories, visit counts and uncertainty
  gridcount benchmark SUITE     run a table's or a figure's worth of experiments
  gridcount report RESULTS      make one page of results: tables, curves, statistics, provenance
  gridcount data make DATASET   generate a Maze2D dataset
  gridcount data import FILE    store a log of your own under a name
  gridcount data check DATASET  find everything wrong with a dataset or a file
  gridcount data info DATASET   tell what is in it and what it suggests
  gridcount theory              check the paper's theorems on problems whose truth is known

Each command explains its flags with --help. To begin:

  gridcount train maze2d-umaze-v1 --seeds 2
"""
COMMANDS = ("train", "algorithms", "evaluate", "plot", "benchmark", "report", "data", "theory")  # each a module of gridcount.commands


def main(arguments: list[str] | None = None) -> int:
    """Run a command; errors a user can act on are printed without a traceback."""
    if arguments is None:
        handle_interrupts()
    words = sys.argv[1:] if arguments is None else arguments
    if not words or words[0] in ("-h", "--help", "help"):
        print(USAGE)
        return 0
    if words[0] == "--version":
        from gridcount import __version__

        print(__version__)
        return 0
    try:
        if words[0] not in COMMANDS:
            from gridcount.data.catalogue import unknown

            raise unknown("command", words[0], COMMANDS)
        return int(getattr(import_module(f"gridcount.commands.{words[0]}"), words[0])(words[1:]))
    except (ValueError, OSError, ImportError, RuntimeError, MemoryError) as error:
        from gridcount.data.plain_text import printable

        print(f"error: {printable(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stopped:
        print(str(stopped) or "stopped", file=sys.stderr)
        return STOPPED
