"""The size of a kept policy, the time to load it in a new process, and the time of a decision: python
benchmarks/policy.py RUN."""

import json
import statistics
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import json, sys, time
import gridcount
start = time.perf_counter()
policy = gridcount.load_policy(sys.argv[1])
loaded = time.perf_counter() - start
observation = [0.0] * len(policy.observation_names)
start = time.perf_counter()
policy(observation)
first = time.perf_counter() - start
times = []
for _ in range(2000):
    start = time.perf_counter()
    policy(observation)
    times.append(time.perf_counter() - start)
times.sort()
print(json.dumps({"load": loaded, "first": first, "median": times[1000], "p99": times[1980], "jax": "jax" in sys.modules}))
"""
PROCESSES = 5  # the median over them


def main(run: str) -> None:
    """Print the figures of a run's policy."""
    folder = Path(run) / "policy" if (Path(run) / "policy").is_dir() else Path(run)
    found = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", SCRIPT, str(folder)], capture_output=True, text=True, check=True
            ).stdout
        )
        for _ in range(PROCESSES)
    ]
    size = sum(path.stat().st_size for path in folder.iterdir())
    load, first, median, p99 = (
        statistics.median(each[name] for each in found) for name in ("load", "first", "median", "p99")
    )
    print(f"{folder}: {size / 1e6:.2f} MB; JAX imported: {any(each['jax'] for each in found)}")
    print(f"loaded in {load:.3f} s after `import gridcount`")
    print(
        f"first decision {1e6 * first:.0f} us, then {1e6 * median:.0f} us in the median and {1e6 * p99:.0f}"
        " us at p99"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
