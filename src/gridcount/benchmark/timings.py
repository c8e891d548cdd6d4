"""Stored timings of updates on this machine, so that a dry run measures each kind of update once."""

import json
import math
import platform
from importlib.metadata import version
from pathlib import Path

import jax

from gridcount.files import locked, read_record, write_whole
from gridcount.files.cache import cache_directory

PACKAGES = ("gridcount", "jax", "jaxlib")  # what an update's time depends on, besides the machine


def timings_file() -> Path:
    """The file of timings."""
    return cache_directory() / "timings.json"


def read_timings() -> dict[str, float]:
    """Seconds per update by kind, of this machine and these versions; unreadable timings are measured
    again."""
    try:
        found = read_record(timings_file(), dict[str, dict[str, float]], "delete it").get(_machine(), {})
    except (OSError, ValueError):
        return {}
    return {kind: seconds for kind, seconds in found.items() if math.isfinite(seconds) and seconds > 0}


def keep_timing(kind: str, seconds: float) -> None:
    """Add a timing to those of this machine; parallel processes lose nothing. Without a writable cache
    nothing is stored."""
    path = timings_file()
    try:
        with locked(path):
            try:
                everything = read_record(path, dict[str, dict[str, float]], "delete it")
            except (OSError, ValueError):
                everything = {}
            everything.setdefault(_machine(), {})[kind] = seconds
            write_whole(path, json.dumps(everything, indent=1, sort_keys=True))
    except OSError:
        return


def _machine() -> str:
    """An identifier of this machine, its devices and the versions."""
    devices = sorted({device.device_kind for device in jax.devices()})
    versions = [f"{package} {version(package)}" for package in PACKAGES]
    return ", ".join([platform.node(), platform.machine(), _processor(), *devices, *versions])


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.processor(),
    )
