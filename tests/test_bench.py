"""The benchmark of updates notices when the machine is busy with other work."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
SPIN = """
import time
while time.process_time() < 1:
    pass
print("done", flush=True)
"""


@pytest.fixture(autouse=True)
def _beside_the_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="only Linux tells what other processes use")
def test_the_work_of_another_process_is_measured() -> None:
    from busy import Busy

    started, busy = time.perf_counter(), Busy()
    subprocess.run([sys.executable, "-c", SPIN], check=True, capture_output=True)
    others, waiting = busy.cores()
    seconds = time.perf_counter() - started
    assert others is not None
    assert others * seconds > 0.9  # the other process computed for a second
    assert waiting * seconds > 0.5  # meanwhile this one did nothing


def test_figures_are_kept_only_from_a_quiet_machine() -> None:
    from busy import reason_not_to_keep

    assert reason_not_to_keep(0.02, 0.01) == ""
    assert reason_not_to_keep(None, 0.01) == ""
    assert "other processes used 1.25 cores" in reason_not_to_keep(1.25, 0.01)
    assert "no core for 30% of the time" in reason_not_to_keep(None, 0.3)
