"""The time of a guarded decision from an export, on one core: python benchmarks/export.py RUN [--keep].

The export's own reader decides, in a process that has NumPy and onnxruntime but neither gridcount nor
JAX. The observations are those of the log's range at random, one at a time.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from gridcount.policy.policy import load_policy

SCRIPT = """
import json, os, resource, sys, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
sys.path.insert(0, sys.argv[1])
import numpy as np
from decide import Decider
start = time.perf_counter()
decider = Decider(sys.argv[1])
loaded = time.perf_counter() - start
ends = [[column[end] for column in decider.contract["observation"]] for end in ("low", "high")]
observations = np.random.default_rng(0).uniform(*ends, (COUNT, len(ends[0]))).astype(np.float32)
for observation in observations[:200]:
    decider.decide(observation)
wall, cpu, alone = [], [], []  # alone: by the clock, where no other process got the core meanwhile
for observation in observations:
    switches = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
    start, used = time.perf_counter(), time.thread_time()
    decider.decide(observation)
    cpu.append(time.thread_time() - used)
    wall.append(time.perf_counter() - start)
    if resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw == switches:
        alone.append(wall[-1])
assert "gridcount" not in sys.modules and "jax" not in sys.modules
print(json.dumps({"load": loaded} | {
    f"{clock}_{name}": sorted(times)[int(len(times) * share)]
    for clock, times in (("wall", wall), ("cpu", cpu), ("alone", alone)) for name, share in (("median", 0.5), ("p99", 0.99))
}))
""".replace("COUNT", "5000")
CLOCKS = (("wall", "by the clock"), ("alone", "by the clock, if uninterrupted"), ("cpu", "of CPU time"))
PROCESSES = 5  # the median over them
KEPT = Path(__file__).parent.parent / "results" / "export.json"


def main(words: list[str]) -> None:
    """Print the figures of a run's export."""
    policy = load_policy(words[0])
    with tempfile.TemporaryDirectory() as folder:
        out = policy.export(Path(folder) / "export")
        command = [sys.executable, "-c", SCRIPT, str(out)]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        runs = [
            json.loads(subprocess.run(command, capture_output=True, check=True, env=environment).stdout)
            for _ in range(PROCESSES)
        ]
        size = sum(path.stat().st_size for path in out.iterdir())
    found = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    kept = {
        "policy": repr(policy),
        "megabytes": size / 1e6,
        "load_seconds": found.pop("load"),
        "microseconds": {name: 1e6 * seconds for name, seconds in found.items()},
        "others": os.getloadavg()[0],  # processes that wanted the machine's cores, in the last minute
        "cores": os.cpu_count(),
    }
    print(f"{policy!r}: {size / 1e6:.2f} MB, read in {kept['load_seconds']:.3f} s")
    for clock, words_of in CLOCKS:
        median, p99 = (1e6 * found[f"{clock}_{name}"] for name in ("median", "p99"))
        print(f"a guarded decision takes {median:.0f} us in the median and {p99:.0f} us at p99, {words_of}")
    print(f"load of the machine: {kept['others']:.1f} processes on {kept['cores']} cores")
    if "--keep" in words:
        KEPT.write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
