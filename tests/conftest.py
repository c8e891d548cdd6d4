import os
import signal
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

# Tests press Ctrl-C, which processes ignore if a script started them in the background.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests compile the same few programs again and again, in this process and in others: keep them for the
# session, in one place for all workers.
if "PYTEST_XDIST_WORKER" not in os.environ:
    _COMPILED = tempfile.TemporaryDirectory(prefix="gridcount-compiled-")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _COMPILED.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["PJRT_NPROC"] = "1"  # as gridcount trains; it must be set before JAX starts
    # And they compile much and run little: without optimisations, and with the simpler of XLA's two emitters,
    # the compiler needs a quarter of the time. XLA aborts on a flag that it does not know.
    flags = [os.environ.get("XLA_FLAGS", ""), "--xla_backend_optimization_level=0"]
    if version("jaxlib").startswith("0.10."):
        flags.append("--xla_cpu_use_fusion_emitters=false")
    os.environ["XLA_FLAGS"] = " ".join(flags)

import numpy as np
import pytest
from results_maker import HOSTILE, make_results

from gridcount.benchmark import timings
from gridcount.benchmark.store import write_rows
from gridcount.cli import main
from gridcount.data.store.mazes import make
from gridcount.transitions import Transitions

LONGEST = (
    "benchmark",
    "soft_baselines",
    "resume",
    "training",
    "gpc_anchor",
    "examples",
    "algorithms",
    "counts",
    "implicit_baselines",
    "python_api",
    "td3_baselines",
    "tune",
    "tutorial",
    "policy",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files that take longest begin first, so that no worker is left with one of them at the end."""
    ranks = {f"test_{name}": rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path.stem, len(ranks)))


@pytest.fixture(autouse=True)
def no_timings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which no dry run was made before, and none is remembered."""
    monkeypatch.setattr(timings, "timings_file", lambda: tmp_path / "timings" / "timings.json")


@pytest.fixture(scope="session")
def maze_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small umaze log in D4RL's layout, made by the real generator."""
    return make("maze2d-umaze-v1", transitions=20_000, seed=0, directory=tmp_path_factory.mktemp("datasets"))


@pytest.fixture(scope="session")
def results_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results file as `benchmark` leaves it."""
    return write_rows(tmp_path_factory.mktemp("results") / "results.parquet", make_results(HOSTILE))


@pytest.fixture(scope="session")
def report_folder(results_file: Path) -> Path:
    """The report of it."""
    assert main(["report", str(results_file)]) == 0
    return results_file.parent / "report"


MakeLog = Callable[..., Transitions]


@pytest.fixture
def make_log() -> MakeLog:
    """A log of random decisions with any dimensions."""

    def make_log(
        rows: int = 500, observation_dim: int = 3, action_dim: int = 2, seed: int = 0, scale: float = 1.0
    ) -> Transitions:
        rng = np.random.default_rng(seed)
        end = np.zeros(rows, np.bool_)
        end[49::50] = True
        return Transitions(
            observation=rng.normal(size=(rows, observation_dim)).astype(np.float32),
            action=rng.uniform(-1, 1, (rows, action_dim)).astype(np.float32),
            reward=(scale * rng.uniform(size=rows)).astype(np.float32),
            next_observation=rng.normal(size=(rows, observation_dim)).astype(np.float32),
            terminated=end & (rng.uniform(size=rows) < 0.5),
            episode_end=end,
        )

    return make_log
