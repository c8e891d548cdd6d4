"""Python processes that this one starts: they import what it can import, and nothing else from the working directory.

Python puts the working directory of `python -m` before its own modules, so a `random.py` that lies there would run.
"""

import os
import sys
from collections.abc import Collection


def module_command(module: str, *words: str) -> list[str]:
    """The command that runs a module with this interpreter."""
    return [sys.executable, "-P", "-m", module, *words]


def module_environment(without: Collection[str] = (), **variables: str) -> dict[str, str]:
    """The environment that `module_command` needs: the module search path of this process, less the folders in `without`."""
    paths = [path for path in sys.path if path and path not in without]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | variables
