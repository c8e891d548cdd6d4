"""Measure the promises on data: one million 17-d transitions checked in under 5 s within 1.5 times their
memory, loaded in under 1 s, and imported from any format in memory that does not grow with the log.

Run with `python benchmarks/data_room.py`; it writes about 3 GB below a temporary folder, removes it, and
prints a table.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROWS, OBSERVATION_DIM, ACTION_DIM, EPISODE = 1_000_000, 17, 6, 1000

# Each measurement runs in a process of its own, so that its peak of memory is its own too.
MEASURE = """
import time
import pyarrow.parquet
from gridcount.cli import main
from gridcount.data.quality.check import check
from gridcount.data.quality.describe import describe
from gridcount.data.load import load
from gridcount.data.formats.log import log_of
def peak():  # of this program alone (Linux); getrusage would count the parent's too
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
base = peak()
started = time.perf_counter()
{code}
seconds = time.perf_counter() - started
print(seconds, (peak() - base) / 1024)
"""

CASES = {
    "load, local layout": "load('bench')",
    "load, local layout, memory-mapped": "load('bench', memory_map=True)",
    "load, HDF5": "load('{folder}/bench.hdf5')",
    "load, Parquet": "load('{folder}/bench.parquet')",
    "load, .npz": "load('{folder}/bench.npz')",
    "load, CSV": "load('{folder}/bench.csv')",
    "load, Minari (HDF5)": "load('{folder}/minari')",
    "check, local layout (reading included)": "check('bench')",
    "check, memory-mapped": "check(log_of(load('bench', memory_map=True)))",
    "check, HDF5 (reading included)": "check('{folder}/bench.hdf5')",
    "describe, local layout": "describe(load('bench'))",
} | {  # checking included, as in `gridcount data import`
    f"import, {kind}": f"assert main(['data', 'import', '{{folder}}/{file}', '--name', 'again', '--replace']) == 0"
    for kind, file in {
        "HDF5": "bench.hdf5",
        "HDF5 without next observations": "derived.hdf5",
        "Parquet": "bench.parquet",
        ".npz": "bench.npz",
        ".npz, compressed": "packed.npz",
        "CSV": "bench.csv",
        "Minari (HDF5)": "minari",
    }.items()
}


def smooth_log(rows: int) -> dict[str, np.ndarray]:
    """A log that looks like a robot's: smooth inside episodes, bounded actions."""
    rng = np.random.default_rng(0)
    walk = rng.normal(size=(rows, OBSERVATION_DIM)).astype(np.float32).reshape(-1, EPISODE, OBSERVATION_DIM)
    observation = np.cumsum(walk, axis=1, dtype=np.float32).reshape(rows, OBSERVATION_DIM) / 30
    following = np.concatenate([observation[1:], observation[-1:]])
    timeouts = np.zeros(rows, dtype=bool)
    timeouts[EPISODE - 1 :: EPISODE] = True
    return {
        "observations": observation,
        "actions": rng.uniform(-1, 1, size=(rows, ACTION_DIM)).astype(np.float32),
        "rewards": rng.normal(size=rows).astype(np.float32),
        "next_observations": following,
        "terminals": np.zeros(rows, dtype=bool),
        "timeouts": timeouts,
    }


def write_minari(folder: Path, columns: dict[str, np.ndarray]) -> None:
    """Minari's HDF5 layout."""
    import h5py

    folder.mkdir()
    with h5py.File(folder / "main_data.hdf5", "w") as file:
        for i in range(ROWS // EPISODE):
            rows = slice(i * EPISODE, (i + 1) * EPISODE)
            episode = file.create_group(f"episode_{i}")
            episode["observations"] = np.concatenate(
                [columns["observations"][rows], columns["next_observations"][rows][-1:]]
            )
            for key, name in (
                ("actions", "actions"),
                ("rewards", "rewards"),
                ("terminals", "terminations"),
                ("timeouts", "truncations"),
            ):
                episode[name] = columns[key][rows]


def write_files(folder: Path) -> float:
    """Write the log in every format; returns the size of its columns in MiB."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet
    from pyarrow import csv

    from gridcount.data.formats.d4rl import write_hdf5
    from gridcount.data.load import import_log
    from gridcount.data.store.local import COLUMNS

    columns = smooth_log(ROWS)
    write_hdf5(folder / "bench.hdf5", columns, {})
    write_hdf5(
        folder / "derived.hdf5",
        {key: column for key, column in columns.items() if key != "next_observations"},
        {},
    )
    np.savez(folder / "bench.npz", **columns)  # type: ignore[arg-type]
    np.savez_compressed(folder / "packed.npz", **columns)  # type: ignore[arg-type]
    write_minari(folder / "minari", columns)
    data = import_log(folder / "bench.hdf5", "bench")
    flat = {
        f"{name}_{i}": columns[key][:, i]
        for key, name in (("observations", "obs"), ("actions", "action"), ("next_observations", "next_obs"))
        for i in range(columns[key].shape[1])
    }
    flat |= {
        "reward": columns["rewards"],
        "terminated": columns["terminals"],
        "truncated": columns["timeouts"],
    }
    parquet.write_table(arrow.table(flat), folder / "bench.parquet")
    csv.write_csv(arrow.table(flat), folder / "bench.csv", csv.WriteOptions(quoting_style="none"))
    return float(sum(getattr(data, column).nbytes for column in COLUMNS)) / 2**20


def main() -> None:
    """Write, measure, print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["GRIDCOUNT_HOME"] = str(folder / "home")
        own = write_files(folder)
        print(
            f"{ROWS:,} transitions of {OBSERVATION_DIM} + {ACTION_DIM} dimensions: {own:.0f} MiB of columns"
        )
        for case, code in CASES.items():
            program = MEASURE.format(code=code.replace("{folder}", str(folder)))
            output = subprocess.run(
                [sys.executable, "-c", program], check=True, capture_output=True, text=True
            ).stdout.split()
            seconds, peak = float(output[-2]), float(output[-1])
            print(
                f"{case:42} {seconds:7.2f} s  {peak:7.0f} MiB more at the peak, {peak / own:.2f} times the"
                " data"
            )


if __name__ == "__main__":
    main()
