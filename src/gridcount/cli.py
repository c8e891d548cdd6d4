"""The command line. Heavy modules are imported only when a command needs them."""

import sys
from importlib import import_module

from gridcount.help_cache import asks_for_help, print_help
from gridcount.interrupts import STOPPED, handle_interrupts

USAGE = """\
gridcount: offline reinforcement learning with count-based pessimism

  gridcount train DATASET       train a policy from logged data and evaluate it during training
  gridcount algorithms          list the algorithms and their cost
  gridcount evaluate RUN        roll out a trained policy and print its score
  gridcount estimate RUN        estimate what a policy is worth from logged data alone
  gridcount export RUN          write a policy as ONNX for programs without gridcount
  gridcount serve RUN           answer requests for guarded decisions over HTTP
  gridcount tune DATASET        choose an algorithm and its settings from logged data alone
  gridcount plot RUN            draw learning curves, trajectories, visit counts and uncertainty
  gridcount benchmark SUITE     run the experiments of a table or a figure
  gridcount support RUN         show where the log has a policy's actions; --out makes a page for the plant's owner
  gridcount report RESULTS      write one page of results: tables, curves, statistics, provenance
  gridcount data make DATASET   generate a Maze2D dataset
  gridcount data import FILE    import your own dataset under a name
  gridcount data check DATASET  list all problems of a dataset or a file
  gridcount data info DATASET   describe a dataset and suggest hyper-parameters
  gridcount data list           list the imported datasets; data remove NAME removes one
  gridcount theory              check the paper's theorems on problems with known solutions

Add --help to a command to see its flags. To begin:

  gridcount train maze2d-umaze-v1 --seeds 2
"""
COMMANDS = (
    "train",
    "algorithms",
    "evaluate",
    "estimate",
    "export",
    "serve",
    "tune",
    "plot",
    "benchmark",
    "support",
    "report",
    "data",
    "theory",
)  # each a module of gridcount.commands


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
            from gridcount.catalogue import unknown

            raise unknown("command", words[0], COMMANDS)
        if asks_for_help(words):
            return print_help(words, lambda: _run(words), ends=arguments is None)
        return _run(words)
    except (ValueError, OSError, ImportError, RuntimeError, MemoryError) as error:
        from gridcount.plain_text import printable

        print(f"error: {printable(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stopped:
        print(str(stopped) or "stopped", file=sys.stderr)
        return STOPPED


def _run(words: list[str]) -> int:
    """Carry out a command."""
    return int(getattr(import_module(f"gridcount.commands.{words[0]}"), words[0])(words[1:]))
