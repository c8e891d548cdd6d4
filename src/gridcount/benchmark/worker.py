"""A worker process: one cell, on its own cores, one thread each. Started by `local`, never by people."""

import os
import signal
import sys
import threading
import time
from pathlib import Path


def main(cell_file: str, directory: str, results: str, cores: str) -> int:
    """Run a cell; 0 when it is finished and stored, 130 when it was stopped and can go on."""
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})  # before anything counts cores
    threading.Thread(target=_stop_with_parent, args=(os.getppid(),), daemon=True).start()
    from gridcount.benchmark.cells import Cell, run_cell
    from gridcount.benchmark.store import write_rows
    from gridcount.training.compiled import keep_compiled
    from gridcount.training.run import Interrupted

    keep_compiled()
    try:
        rows = run_cell(Cell.from_json(Path(cell_file).read_text()), Path(directory))
    except Interrupted:
        return 130
    except (ValueError, OSError, ImportError, RuntimeError, MemoryError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    write_rows(Path(results), rows)
    return 0


def _stop_with_parent(parent: int) -> None:
    """Save and end when whoever started this process is gone."""
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
