"""Seeds on several devices, which a processor can pretend to be."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import HANG


def test_seeds_sharded_over_four_devices_match_the_unsharded_run() -> None:
    program = Path(__file__).with_name("sharded.py")
    results = []
    for devices in (1, 4):
        words = [os.environ["XLA_FLAGS"], f"--xla_force_host_platform_device_count={devices}"]
        words.append(f"--xla_cpu_collective_call_terminate_timeout_seconds={HANG}")  # on a busy machine
        environment = os.environ | {"XLA_FLAGS": " ".join(words)}
        answer = subprocess.run(
            [sys.executable, str(program)], env=environment, capture_output=True, text=True, check=True
        )
        results.append(json.loads(answer.stdout))
    alone, sharded = results
    for seeds, devices in (
        ("4", 4),
        ("5", 3),
    ):  # five seeds: two on each of three devices, one of which nobody looks at
        one, other = alone[seeds], sharded[seeds]
        assert (one["devices"], other["devices"], other["placed"]) == (1, 4, devices)
        assert len({tuple(weights) for weights in other["weights"]}) == int(seeds)
        for before, after in zip(one["weights"], other["weights"], strict=True):
            assert before == pytest.approx(after, rel=1e-4, abs=1e-6)
