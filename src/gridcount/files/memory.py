"""The memory limit of this process: the machine's, or that of a container, a job scheduler or `ulimit`."""

import os
import sys
from pathlib import Path, PurePosixPath

VERSION_1, VERSION_2 = "memory.limit_in_bytes", "memory.max"  # files that hold the limit of a control group


def memory_limit(root: Path = Path("/")) -> int:
    """Bytes: the machine's memory, or the lowest limit of ulimit and of the control groups (v1 and v2)."""
    physical = (
        os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else sys.maxsize
    )
    return min([physical, *_own_limits(), *_group_limits(root)])


def _own_limits() -> list[int]:
    """What `ulimit` leaves to this process, besides what it has taken already."""
    try:
        import resource

        taken = [
            int(pages) * os.sysconf("SC_PAGE_SIZE") for pages in Path("/proc/self/statm").read_text().split()
        ]
    except (ImportError, OSError):  # not Linux
        return []
    kinds = ((resource.RLIMIT_DATA, taken[5]), (resource.RLIMIT_AS, taken[0]))
    found = [(resource.getrlimit(kind)[0], size) for kind, size in kinds]
    return [max(limit - size, 1) for limit, size in found if limit != resource.RLIM_INFINITY]


def _group_limits(root: Path) -> list[int]:
    """The limits of the process's control groups and their parents; inside a container only the top one
    may exist."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux
        return []
    limits = []
    for line in lines:
        _, controllers, group = line.split(
            ":", 2
        )  # as in "5:memory:/jobs/17", and "0::/jobs/17" in version 2
        if controllers and "memory" not in controllers.split(","):
            continue
        top, file = (
            (root / "sys/fs/cgroup/memory", VERSION_1) if controllers else (root / "sys/fs/cgroup", VERSION_2)
        )
        path = PurePosixPath(group.lstrip("/"))
        for folder in (path, *path.parents):
            try:
                limits.append(int((top / folder / file).read_text()))
            except (OSError, ValueError):  # not there, or "max"
                continue
    return [limit for limit in limits if limit > 0]
