"""How much other processes used the machine while something was measured."""

import os
import time
from pathlib import Path

STAT = Path("/proc/stat")
IDLE = (3, 4)  # columns of its first line: idle, and waiting for a disk
GUESTS = 8  # from this column on, virtual machines, whose time is in the columns before, too
MOST_OTHERS = 0.1  # cores that others may use, on average, for figures to be kept
MOST_WAITING = 0.05  # share of the time in which a busy process may have no core


class Busy:
    """Measures from its making on: the cores that other processes use, and how long this one waits for its
    own."""

    def __init__(self) -> None:
        self._wall, self._own, self._all = _clocks()

    def cores(self) -> tuple[float | None, float]:
        """Cores used by others on average (None: the system does not tell), and the share of time without
        a core."""
        wall, own, everyone = _clocks()
        seconds, used = wall - self._wall, own - self._own
        others = None if everyone is None or self._all is None else everyone - self._all - used
        return None if others is None else max(0.0, others / seconds), max(0.0, 1 - used / seconds)


def reason_not_to_keep(others: float | None, waiting: float) -> str:
    """Why figures measured on a machine this busy are not worth keeping; empty if they are."""
    if others is not None and others > MOST_OTHERS:
        return f"other processes used {others:.2f} cores while it measured, and {MOST_OTHERS:g} is the most for a quiet run"
    if waiting > MOST_WAITING:
        return f"it had no core for {waiting:.0%} of the time, and {MOST_WAITING:.0%} is the most for a quiet run"
    return ""


def _clocks() -> tuple[float, float, float | None]:
    """Seconds on the wall, of this process, and of all processes together."""
    if not STAT.exists():
        return time.perf_counter(), time.process_time(), None
    columns = STAT.read_text().split("\n", 1)[0].split()[1:]
    ticks = sum(int(each) for column, each in enumerate(columns[:GUESTS]) if column not in IDLE)
    return time.perf_counter(), time.process_time(), ticks / os.sysconf("SC_CLK_TCK")
