"""Waiting for what other processes do, and looking at them."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HANG = 600  # seconds after which something must have gone wrong, however busy the machine is
# XLA's default, for programs of different shapes that agree bit for bit; with the tests' emitter they round
# differently
DEFAULT_EMITTER = "--xla_cpu_use_fusion_emitters=true"


def train_exactly(*words: str) -> None:
    """`gridcount train` in a process of its own, with XLA's default emitter."""
    flags = os.environ["XLA_FLAGS"]
    if "fusion_emitters" in flags:  # XLA aborts on a flag that it does not know
        flags += f" {DEFAULT_EMITTER}"
    command = [sys.executable, "-m", "gridcount", "train", *words]
    done = subprocess.run(command, env=os.environ | {"XLA_FLAGS": flags}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(0.01)


def commands_with(word: str) -> list[int]:
    """Processes that run a cell and have a word in their command."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            command = path.read_bytes()
            if b"gridcount.benchmark.worker" in command and word.encode() in command:
                found.append(int(path.parent.name))
    return found


def ancestors(process: int) -> list[int]:
    """A process's parents and theirs."""
    found = []
    while process > 1:
        try:
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            break
        found.append(process)
    return found
