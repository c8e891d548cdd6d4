"""Training computes each seed on one thread, and a resumed run on as many as it began with."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

LOG = 400  # rows


@pytest.fixture
def log(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path / "log.csv"
    rows = rng.normal(size=(LOG, 4))
    lines = [",".join(f"{number:.4f}" for number in row) + f",{i // 50}" for i, row in enumerate(rows)]
    path.write_text("x,y,a,reward,episode\n" + "\n".join(lines) + "\n")
    return path


def own_process(*words: str) -> str:
    """What a Python process prints that inherits no limit of threads."""
    environment = {name: value for name, value in os.environ.items() if name != "PJRT_NPROC"}
    done = subprocess.run(
        [sys.executable, *words], env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="there is one core"
)
def test_a_run_is_resumed_with_as_many_threads_as_it_began_with(log: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    columns = ["--observation", "x,y", "--action", "a", "--reward", "reward", "--episode", "episode"]
    brief = ["--scale-actions", "--algo", "bc", "--hidden", "8", "--updates", "2", "--no-plot"]
    own_process("-m", "gridcount", "train", str(log), *columns, *brief, "--run", str(run))
    record = run / "environment.json"
    starts = json.loads(record.read_text())
    assert starts[0]["threads"] == 1
    assert int(own_process("-c", RESUMED, str(run))) == 1
    del starts[0]["threads"]  # as earlier versions wrote it
    record.write_text(json.dumps(starts))
    assert int(own_process("-c", RESUMED, str(run))) == len(os.sched_getaffinity(0))


RESUMED = """
import os, sys
from pathlib import Path
from gridcount.training.machine import limit_threads
limit_threads(Path(sys.argv[1]))
print(os.environ["PJRT_NPROC"])
"""


COMPUTED = """
import threading, time
import jax
import jax.numpy as jnp
from gridcount.training.machine import limit_threads

limit_threads()
squares = jnp.eye(256)
program = jax.jit(lambda x: jax.lax.scan(lambda y, _: (jnp.tanh(y @ x), None), x, None, length=500)[0])
program = program.lower(squares).compile()

def run():
    before, before_all = time.thread_time(), time.process_time()
    program(squares).block_until_ready()
    print((time.thread_time() - before) / (time.process_time() - before_all))

thread = threading.Thread(target=run)
thread.start()
thread.join()
"""


def test_a_seed_computes_on_the_thread_that_calls_it() -> None:
    assert float(own_process("-c", COMPUTED)) > 0.8  # or seeds would wait for each other


def test_the_users_own_number_of_threads_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from gridcount.training.machine import describe_machine, limit_threads

    monkeypatch.setenv("PJRT_NPROC", "3")
    limit_threads()
    assert describe_machine()["threads"] == 3
