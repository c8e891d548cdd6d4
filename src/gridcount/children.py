"""Child Python processes: they use the module search path of this process, without the working directory.

Python puts the working directory of `python -m` before its own modules, so a file `random.py` there would be
executed.
"""

import os
import sys
from collections.abc import Collection


def module_command(module: str, *words: str) -> list[str]:
    """The command that runs a module with this interpreter."""
    return [sys.executable, "-P", "-m", module, *words]


def module_environment(without: Collection[str] = (), **variables: str) -> dict[str, str]:
    """The environment that `module_command` needs: the module search path of this process, less the
    folders in `without`."""
    paths = [path for path in sys.path if path and path not in without]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | variables
