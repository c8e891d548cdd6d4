"""Measure the import of logs as they come: memory as they grow, within a limit, and DuckDB beside our own
readers.

Run with `python benchmarks/logs.py`; it writes about 2 GB below a temporary folder and removes it.
The results are kept in results/logs.json for the docs.
CPU seconds are those of the process, so other work on the machine changes them little.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
PART, EPISODE, OBSERVATION_DIM = 250_000, 1000, 8  # rows of a file, rows of an episode
GROWTH = {
    "in order": (500_000, 1_000_000, 2_000_000, 4_000_000),
    "shuffled": (500_000, 1_000_000, 2_000_000),
}
LIMITED_ROWS, LIMITED_PART, LIMITED_DIM = 1_400_000, 100_000, 80
LIMIT = 256  # MiB that the process may fill
CSV_ROWS, SORT_ROWS = 250_000, 3_000_000

# A process of its own for each, so that its peak of memory is its own too.
IMPORT = """
import sys, time
from gridcount.cli import main
import gridcount.commands.data
def peak():  # MiB of this program alone (Linux)
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024
base, started = peak(), time.process_time()
assert main(["data", "import", *sys.argv[1:], "--name", "log", "--replace"]) == 0
print(peak() - base, time.process_time() - started)
"""
CSV = {
    "ours": """
from gridcount.data.formats.csv_dialect import find_dialect
from gridcount.data.formats.csv_table import csv_pieces
dialect = find_dialect(path)
pieces = csv_pieces(path, dialect, dialect.names, {"episode": "id"}, print)
rows = sum(len(piece["reward"]) for piece in pieces)
""",
    "DuckDB": """
import duckdb
connection = duckdb.connect(config={"memory_limit": "256MB", "threads": 1})
names = [name.strip('"') for name in open(path).readline().strip().split(",")]
types = "{" + ", ".join(f"'{name}': 'VARCHAR'" for name in names) + "}"
# a value that is not a number must be known with its row, so the text is kept where the cast fails
number = 'try_cast("{0}" as double)'
cast = ", ".join((number + ' as "{0}", case when ' + number + ' is null then "{0}" end').format(name) for name in names)
query = f"select {cast} from read_csv('{path}', columns={types}, auto_detect=false, header=true, delim=',')"
rows = sum(batch.num_rows for batch in connection.sql(query).to_arrow_reader(65536))
""",
}
SORT = {
    "ours": """
from gridcount.data.formats.log import Log, Reading, spooled
from gridcount.data.formats.order import in_order
import numpy as np
def piece(start):
    time = rng.permutation(65536).astype(float)
    wide = rng.normal(size=(65536, 24)).astype(np.float32)
    flags = np.zeros(65536, bool)
    return Log("log", wide, wide[:, :2].astype(float), wide[:, 0], flags, flags, time=time, reading=reading)
rng, reading = np.random.default_rng(0), Reading()
reading.starts = [0.0]
with spooled("log", map(piece, range(ROWS // 65536)), folder) as log:
    rows = sum(map(len, in_order(log, folder)))
""",
    "DuckDB": """
import duckdb, numpy as np, pyarrow as arrow
connection = duckdb.connect(config={"memory_limit": "256MB", "threads": 1, "temp_directory": str(folder)})
rng = np.random.default_rng(0)
for start in range(ROWS // 65536):
    wide = rng.normal(size=(65536, 24)).astype(np.float32)
    columns = {f"c{d}": wide[:, d] for d in range(24)} | {f"a{d}": wide[:, d].astype(float) for d in range(2)}
    connection.register("piece", arrow.table(columns | {"time": rng.permutation(65536).astype(float)}))
    if not start:
        connection.execute("create table log as from piece limit 0")
    connection.execute("insert into log from piece")
rows = sum(batch.num_rows for batch in connection.sql("from log order by time").to_arrow_reader(16384))
""",
}
MEASURE = """
import time
from pathlib import Path
import pyarrow
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024
folder, ROWS = Path({folder!r}), {rows}
path = folder / "log.csv"
base, started = peak(), time.process_time()
{code}
assert rows >= ROWS - 65536
print(peak() - base, time.process_time() - started)
"""


def write_parts(folder: Path, rows: int, dims: int, shuffled: bool) -> None:
    """A log in Parquet files; shuffled, each file holds rows of all episodes."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    folder.mkdir()
    rng = np.random.default_rng(0)
    parts = rows // PART
    for part in range(parts):
        step = part + parts * rng.permutation(PART) if shuffled else np.arange(part * PART, (part + 1) * PART)
        wave = np.sin(step[:, None] / 500 + np.arange(dims), dtype=np.float32)
        table = {f"obs_{d}": wave[:, d] for d in range(dims)} | {"reward": rng.normal(size=PART)}
        table |= {"action_0": rng.uniform(-1, 1, PART), "episode": step // EPISODE, "step": step}
        parquet.write_table(arrow.table(table), folder / f"part-{part}.parquet")


def run(program: str, *words: str, home: Path) -> tuple[float, float]:
    """MiB more at the peak, and CPU seconds."""
    environment = os.environ | {"GRIDCOUNT_HOME": str(home), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, env=environment
    )
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    more, seconds = map(float, done.stdout.split()[-2:])
    return round(more, 1), round(seconds, 2)


def measure_growth(folder: Path) -> list[dict[str, Any]]:
    """Peaks of imports of growing logs."""
    found = []
    for order, sizes in GROWTH.items():
        for rows in sizes:
            parts = folder / f"{rows}-{order[:2]}"
            write_parts(parts, rows, OBSERVATION_DIM, order != "in order")
            words = [str(parts), "--time", "step"] if order != "in order" else [str(parts)]
            more, seconds = run(IMPORT, *words, home=folder / "home")
            stored = (
                sum(path.stat().st_size for path in (folder / "home" / "imported" / "log").iterdir()) / 2**20
            )
            found.append(
                {"order": order, "rows": rows, "stored": round(stored), "more": more, "cpu_seconds": seconds}
            )
            print(found[-1], flush=True)
            subprocess.run(["rm", "-r", str(parts)], check=True)
    return found


def measure_limit(folder: Path) -> dict[str, Any]:
    """A shuffled log of several times the memory that `ulimit -d` gives, imported and checked."""
    parts, count = folder / "limited", LIMITED_ROWS // LIMITED_PART
    parts.mkdir()
    rng = np.random.default_rng(0)
    for part in range(
        count
    ):  # Arrow itself needs a few megabytes per column of a Parquet file, so these are .npz files
        step = part + count * rng.permutation(LIMITED_PART)
        wave = np.sin(step[:, None] / 5000 + np.arange(LIMITED_DIM), dtype=np.float32)
        log = {
            "obs": wave,
            "action": rng.uniform(-1, 1, (LIMITED_PART, 1)),
            "reward": rng.normal(size=LIMITED_PART),
        }
        np.savez(parts / f"{part}.npz", episode=step // EPISODE, step=step, **log)  # type: ignore[arg-type]
    command = f"{sys.executable} -m gridcount data"
    script = f"ulimit -d {LIMIT * 1024}; {command} import {parts} --time step --name limited"
    script += f" && {command} check limited"
    environment = os.environ | {"GRIDCOUNT_HOME": str(folder / "home"), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True)
    if done.returncode > 1:
        raise RuntimeError(done.stdout + done.stderr)
    stored = sum(path.stat().st_size for path in (folder / "home" / "imported" / "limited").iterdir()) / 2**20
    return {"rows": LIMITED_ROWS, "limit": LIMIT, "stored": round(stored)}


def measure_engines(folder: Path) -> list[dict[str, Any]]:
    """Reading a CSV file and sorting a log, by DuckDB and by the project's own code."""
    from pyarrow import csv

    found = []
    write_parts(folder / "csv", PART, 23, False)
    import pyarrow.parquet as parquet

    table = parquet.read_table(folder / "csv" / "part-0.parquet").slice(0, CSV_ROWS)
    csv.write_csv(table, folder / "log.csv")
    for work, rows, programs in (("read CSV", CSV_ROWS, CSV), ("sort", SORT_ROWS, SORT)):
        for engine, code in programs.items():
            program = MEASURE.format(folder=str(folder), rows=rows, code=code)
            more, seconds = run(program, home=folder / "home")
            found.append({"work": work, "engine": engine, "rows": rows, "more": more, "cpu_seconds": seconds})
            print(found[-1], flush=True)
    return found


def main() -> None:
    """Measure all, or the parts that are named, and keep the results."""
    path = ROOT / "results" / "logs.json"
    parts = {"engines": measure_engines, "growth": measure_growth, "limited": measure_limit}
    results = json.loads(path.read_text()) if path.exists() else {}
    for name in sys.argv[1:] or parts:
        with tempfile.TemporaryDirectory() as folder:
            results[name] = parts[name](Path(folder))
        path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
