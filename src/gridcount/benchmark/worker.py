"""A worker process: one cell, on its own cores, one thread each. `local` starts it, not the user."""

import os
import random
import signal
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

CLAIMS: list[IO[bytes]] = []  # locks on cores


def main(cell_file: str, directory: str, results: str, cores: str, parent: str, *trusted: str) -> int:
    """Run a cell; 0 when it is finished and stored, 130 when it was stopped and can go on.

    `parent` is the process that started this one. This process ends when `parent` ends, which may have
    happened already. `trusted` are environments whose modules the user named on the command line.
    """
    if hasattr(os, "sched_setaffinity"):  # before any library counts cores
        os.sched_setaffinity(
            0,
            _claim(int(cores.removeprefix("any ")))
            if cores.startswith("any")
            else set(map(int, cores.split(","))),
        )
    threading.Thread(target=_stop_with_parent, args=(int(parent),), daemon=True).start()
    from gridcount.benchmark.cells import Cell, run_cell
    from gridcount.benchmark.estimated import run_estimated
    from gridcount.benchmark.store import write_rows
    from gridcount.evaluation.environments import trust
    from gridcount.plain_text import printable
    from gridcount.training.compiled import keep_compiled
    from gridcount.training.machine import limit_threads
    from gridcount.training.run import Interrupted

    keep_compiled()
    limit_threads(Path(directory))
    for name in trusted:
        trust(name)
    try:
        cell = Cell.from_json(Path(cell_file).read_text())
        run = run_cell if cell.estimated is None else run_estimated
        write_rows(Path(results), run(cell, Path(directory)))
    except Interrupted:
        return 130
    except (ValueError, OSError, ImportError, RuntimeError, MemoryError) as error:
        print(f"error: {printable(str(error))}", file=sys.stderr)
        return 2
    return 0


def _claim(count: int) -> set[int]:
    """Some cores of this machine that no other worker has claimed; random ones if too few are free."""
    import fcntl

    from gridcount.files import open_plain

    cores = sorted(os.sched_getaffinity(0))
    claimed: set[int] = set()
    for core in cores:
        with suppress(OSError, ValueError), ExitStack() as unless_locked:
            path = Path(tempfile.gettempdir()) / f"gridcount-{os.getuid()}-core-{core}.lock"
            lock = unless_locked.enter_context(open_plain(path, "ab"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unless_locked.pop_all()  # held until this process ends
            CLAIMS.append(lock)
            claimed.add(core)
        if len(claimed) == count:
            break
    return claimed or set(
        random.sample(cores, min(count, len(cores)))
    )  # random, so that workers use different cores


def _stop_with_parent(parent: int) -> None:
    """Save and exit when the parent process is gone."""
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
