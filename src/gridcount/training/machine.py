"""The machine and versions of a run, and the commit of this code if it is a git checkout."""

import os
import platform
import resource
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax
import msgspec

from gridcount.files import convert_record, read_record
from gridcount.training.loop import available_cores

PACKAGES = (
    "gridcount",
    "jax",
    "jaxlib",
    "equinox",
    "optax",
    "numpy",
    "mujoco",
    "gymnasium",
    "gymnasium-robotics",
)


THREADS = "PJRT_NPROC"  # the variable from which JAX reads how many threads share one multiplication


class Start(msgspec.Struct, frozen=True):
    """The fields of an `environment.json` entry that other modules read; old runs may lack some."""

    started: str | None = None
    commit: str | None = None
    platform: str | None = None
    cores: int | None = None
    cores_used: int | None = None
    threads: int | None = None
    devices: tuple[str, ...] = ()
    versions: dict[str, str] = {}

    @property
    def machine(self) -> str | None:
        """In words."""
        return (
            None
            if self.platform is None
            else f"{self.platform}, {self.cores} cores, {', '.join(self.devices)}"
        )


def read_starts(directory: Path) -> list[dict[str, Any]]:
    """All validated entries of a run's `environment.json`; empty if there is no such file."""
    return _read(directory)[0]


def describe_starts(directory: Path) -> list[Start]:
    """The starts of a run, at least one."""
    return _read(directory)[1] or [Start()]


def _read(directory: Path) -> tuple[list[dict[str, Any]], list[Start]]:
    """The entries as dictionaries, and as typed records."""
    path = directory / "environment.json"
    way_out = "restore the file as the run wrote it, or delete it: it only records machines and versions"
    if not path.exists():
        return [], []
    entries = read_record(path, list[dict[str, Any]], way_out)
    return entries, convert_record(entries, list[Start], str(path), way_out)


def describe_machine() -> dict[str, Any]:
    """An entry of a run's `environment.json`."""
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit_of(Path(__file__)),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "cores_used": len(available_cores()) if jax.default_backend() == "cpu" else None,
        "threads": _threads(),
        "devices": [str(device) for device in jax.devices()],
        "versions": {package: _version(package) for package in PACKAGES},
        "command": sys.argv[1:],
    }


def limit_threads(directory: Path | None = None) -> None:
    """Compute each seed on one thread, unless the user set PJRT_NPROC; call it before JAX starts.

    A seed's matrices are too small to gain from a second core. The number of threads also changes the order
    of additions and so the last bits: the run in `directory`, if there is one, keeps the number it began
    with.
    """
    start = describe_starts(directory)[0] if directory is not None else Start()
    # otherwise all seeds would share one thread of JAX
    jax.config.update("jax_cpu_enable_async_dispatch", False)  # type: ignore[no-untyped-call]
    recorded = start.threads or start.cores_used or 1
    os.environ.setdefault(THREADS, str(max(1, min(recorded, len(available_cores())))))


def _threads() -> int | None:
    """The threads that share one multiplication; None on an accelerator."""
    if jax.default_backend() != "cpu":
        return None
    given = os.environ.get(THREADS, "")
    return int(given) if given.isdecimal() else len(available_cores())


def peak_gigabytes() -> float | None:
    """Peak memory of this process, or of its accelerators; None if the system does not report it."""
    used = [
        (device.memory_stats() or {}).get("peak_bytes_in_use", 0)
        for device in jax.local_devices()
        if device.platform != "cpu"
    ]
    if used:
        return float(sum(used)) / 1e9
    return (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9
    )


def commit_of(file: Path) -> str:
    """The commit of the repository that tracks a file; a package installed inside another repository has
    none."""
    try:
        _git(file, "ls-files", "--error-unmatch", file.name)
        return _git(file, "describe", "--always", "--dirty")
    except (OSError, subprocess.CalledProcessError):  # no git, no repository, or another's
        return "unknown"


def _git(file: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words], capture_output=True, text=True, cwd=file.parent, check=True
    ).stdout.strip()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
