"""What a run ran on: machine, versions, and the commit of this code where it is a checkout of its own."""

import os
import platform
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax

from gridcount.training.loop import available_cores

PACKAGES = ("gridcount", "jax", "jaxlib", "equinox", "optax", "numpy", "mujoco", "gymnasium", "gymnasium-robotics")


def describe_machine() -> dict[str, Any]:
    """An entry of a run's `environment.json`."""
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit_of(Path(__file__)),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "cores_used": len(available_cores()) if jax.default_backend() == "cpu" else None,
        "devices": [str(device) for device in jax.devices()],
        "versions": {package: _version(package) for package in PACKAGES},
        "command": sys.argv[1:],
    }


def peak_gigabytes() -> float | None:
    """The most memory this process ever held, or its accelerators where it has them; None where the system does not say."""
    used = [(device.memory_stats() or {}).get("peak_bytes_in_use", 0) for device in jax.local_devices() if device.platform != "cpu"]
    if used:
        return float(sum(used)) / 1e9
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9


def commit_of(file: Path) -> str:
    """The commit of the repository that tracks a file; a package installed inside somebody's repository is not part of it."""
    try:
        _git(file, "ls-files", "--error-unmatch", file.name)
        return _git(file, "describe", "--always", "--dirty")
    except (OSError, subprocess.CalledProcessError):  # no git, no repository, or another's
        return "unknown"


def _git(file: Path, *words: str) -> str:
    return subprocess.run(["git", *words], capture_output=True, text=True, cwd=file.parent, check=True).stdout.strip()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
