"""A run that kills itself (kill -9, no clean-up) at a certain update and moment, whatever else the machine
does.

Called with the number of updates, the moment, and the words of `gridcount`.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from gridcount.cli import main
from gridcount.files import archive
from gridcount.files.archive import Arrays
from gridcount.training.logs import MetricLog
from gridcount.training.progress import ConsoleDisplay

UPDATES, MOMENT, WORDS = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
save, write, begin, fsync = archive.save_arrays, MetricLog.write, ConsoleDisplay.begin, os.fsync
reached = 0


def die(when: str) -> None:
    if when == MOMENT and reached >= UPDATES:
        os.kill(os.getpid(), signal.SIGKILL)


def saving(path: Path, arrays: Arrays) -> None:
    global reached
    whole = path.parent.name == "checkpoints"  # and not a policy's
    reached = int(path.stem) if whole else reached
    die("before a checkpoint" if whole else "")
    save(path, arrays)
    die("after a checkpoint" if whole else "")


def syncing(file: int) -> None:
    fsync(file)
    if os.readlink(f"/proc/self/fd/{file}").endswith(".partial"):
        die("in a checkpoint")


def writing(self: MetricLog, row: dict[str, Any]) -> None:
    write(self, row)
    die("after a row")


def beginning(self: ConsoleDisplay, updates: int, done: int) -> None:
    begin(self, updates, done)
    die("at the start")


for owner, name, patched in (
    (archive, "save_arrays", saving),
    (os, "fsync", syncing),
    (MetricLog, "write", writing),
    (ConsoleDisplay, "begin", beginning),
):
    setattr(owner, name, patched)
main(WORDS)
