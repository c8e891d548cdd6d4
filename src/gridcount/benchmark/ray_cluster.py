"""Cells on a Ray cluster: one task each, retried if a node fails; progress and results are sent back during
the run.

Nodes need gridcount and nothing else: no shared folder. A dataset file is sent through Ray's object store.
"""

import logging
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from gridcount.benchmark.cells import Cell, Progress
from gridcount.benchmark.executor import POLL, Ended, run_cells
from gridcount.benchmark.store import read_results, write_rows
from gridcount.children import module_command, module_environment
from gridcount.training.logs import Row

try:
    import ray
except ImportError as error:
    raise ImportError(
        f"running on a cluster needs Ray ({error}). Install it with: pip install 'gridcount[ray]'"
    ) from error

ANSWER = 10  # seconds a cluster has to answer
RETRIES = 5  # of a cell whose node or process died


@dataclass(frozen=True)
class Resources:
    """The resources that a cell's task needs."""

    cores: int = 1
    accelerators: float = 0.0


class Board:
    """The progress of all tasks; tasks write it and the driver reads it."""

    def __init__(self) -> None:
        self._progress: dict[str, dict[str, Any]] = {}

    def write(self, name: str, progress: dict[str, Any]) -> None:
        """Store a cell's newest progress."""
        self._progress[name] = progress

    def read(self) -> dict[str, dict[str, Any]]:
        """Every cell's newest progress."""
        return self._progress


class Tasks:
    """The executor of a cluster: a task per cell, and an actor that holds their progress."""

    stopping = "stopping: running cells are cancelled; press Ctrl-C again to stop without waiting"
    stopped_at_once = (
        "stopped immediately; finished cells are kept: run the same command again for the others"
    )
    resumption = "finished cells are kept, the others start again"

    def __init__(
        self, out: Path, console: Console, address: str | None, wanted: Resources, trusted: Sequence[str] = ()
    ):
        self._out, self._console, self._address = out, console, address
        self._wanted, self._trusted = wanted, tuple(trusted)
        self._board: Any = None
        self._cells: dict[Any, Cell] = {}  # by the reference of their task
        self._progress: dict[str, Progress] = {}  # by the cell's name

    def start(self, cells: Sequence[Cell]) -> None:
        """Join the cluster and submit all tasks; Ray starts each when a node has room."""
        if not ray.is_initialized():
            _connect(self._address)
        _report_missing_resources(self._wanted, self._console)
        self._board = _board_here()
        task = ray.remote(
            num_cpus=self._wanted.cores, num_gpus=self._wanted.accelerators, max_retries=RETRIES
        )(_run)
        files = _dataset_files(cells)
        # Ray adds the working directory to the module search path of its tasks
        hidden = tuple({os.getcwd()} - set(sys.path))
        given = (self._wanted.cores, self._board, self._trusted, hidden)
        for cell in cells:
            reference = task.remote(cell.to_json(), cell.name, files.get(cell.plan.dataset), *given)
            self._cells[reference] = cell

    def wait(self) -> list[Ended]:
        """Read the progress of all tasks, and store the rows of those that have ended."""
        ended, _ = ray.wait(list(self._cells), num_returns=1, timeout=POLL)
        self._progress |= {name: Progress(**fields) for name, fields in _read(self._board).items()}
        return [self._collected(reference) for reference in ended]

    def running(self) -> set[str]:
        """The names of the cells whose task has reported its progress."""
        return {cell.name for cell in self._cells.values() if cell.name in self._progress}

    def progress(self, cell: Cell) -> Progress:
        """The progress that a cell's task reported last."""
        return self._progress.get(cell.name, Progress(of=cell.updates))

    def stop(self) -> None:
        """Cancel all tasks; each ends its worker process."""
        for reference in self._cells:
            ray.cancel(reference)
        ray.wait(list(self._cells), num_returns=len(self._cells), timeout=ANSWER)

    def _collected(self, reference: Any) -> Ended:
        cell = self._cells.pop(reference)
        problem = _collect(reference, cell, self._out)
        return Ended(cell, 2 if problem else 0, problem)


def from_flags(flags: Mapping[str, Any], out: Path, console: Console) -> Tasks:
    """The executor that the flags of `gridcount benchmark` ask for."""
    wanted = Resources(flags["cell_cores"], flags["cell_accelerators"])
    return Tasks(out, console, flags["ray"], wanted, flags["env"])


def run_on_ray(
    cells: Sequence[Cell],
    out: Path,
    console: Console,
    address: str | None = None,
    resources: Resources | None = None,
    trusted: Sequence[str] = (),  # environments whose modules were typed
) -> dict[str, str]:
    """Run cells on a cluster until all are stored here; returns the errors by cell."""
    return run_cells(Tasks(out, console, address, resources or Resources(), trusted), cells, console)


def _board_here() -> Any:
    """A board on the driver's node, so that it is not lost with another."""
    here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=True
    )
    return ray.remote(num_cpus=0)(Board).options(scheduling_strategy=here).remote()


def _dataset_files(cells: Sequence[Cell]) -> dict[str, Any]:
    """References to the content of the dataset files in the object store, by path."""
    paths = {cell.plan.dataset for cell in cells}
    return {path: ray.put(Path(path).read_bytes()) for path in paths if Path(path).is_file()}


def _connect(address: str | None) -> None:
    """Join the cluster; without this check Ray would try for 15 minutes."""
    try:
        if address and ":" in address:
            host, _, port = address.rpartition("/")[2].rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, ray.exceptions.AuthenticationError) as error:
        raise ConnectionError(
            f"--ray {address}: no cluster to join ({str(error).splitlines()[0]}). `ray status` shows whether"
            " it is running. "
            "If it needs a token, as newer versions of Ray do, set RAY_AUTH_MODE=token and put the token"
            " into "
            "~/.ray/auth_token, here and on every node"
        ) from error


def _report_missing_resources(wanted: Resources, console: Console) -> None:
    """Print a message if no node has the resources; Ray waits silently, and such a node may join later."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    if not any(
        node.get("CPU", 0) >= wanted.cores and node.get("GPU", 0) >= wanted.accelerators for node in nodes
    ):
        most = {kind: max(node.get(kind, 0) for node in nodes) for kind in ("CPU", "GPU")}
        asked = f"{wanted.cores} cores and {wanted.accelerators:g} accelerators"
        console.print(
            f"waiting: a cell needs {asked}, but no node of the cluster has them (at most {most['CPU']:g}"
            f" and {most['GPU']:g}). "
            "Add such a node, or stop with Ctrl-C and request less (--cell-cores, --cell-accelerators)",
            soft_wrap=True,
        )


def _read(board: Any) -> dict[str, dict[str, Any]]:
    try:
        progress: dict[str, dict[str, Any]] = ray.get(board.read.remote(), timeout=5)
    except (
        ray.exceptions.RayError
    ):  # the board's node failed: results still arrive, only the overview is missing
        return {}
    return progress


def _collect(reference: Any, cell: Cell, out: Path) -> str:
    """Store the rows of a task; returns its error, or an empty string."""
    try:
        rows, problem = ray.get(reference)
    except ray.exceptions.RayTaskError as error:  # the task itself failed: a retry would not help
        return f"{type(error.cause).__name__}: {error.cause}"
    except ray.exceptions.RayError as error:
        return f"lost after {RETRIES} retries ({str(error).splitlines()[0]})"
    if rows:
        write_rows(cell.results(out / "results"), rows)
    return str(problem)


def _run(
    cell_json: str,
    expected_name: str,
    file: bytes | None,
    cores: int,
    board: Any,
    trusted: Sequence[str] = (),
    hidden: Sequence[str] = (),
) -> tuple[list[Row], str]:
    """A cell's task on any node: the same worker as on one machine, in a temporary folder.

    `expected_name` is the cell's name on the driver: a different name on a node means different data.
    `hidden` are folders that Ray adds to the module search path and the driver does not have.
    """
    cell = Cell.from_json(cell_json)
    with tempfile.TemporaryDirectory(prefix="gridcount-cell-") as name:
        folder = Path(name)
        if file is not None:
            cell = cell.changed(dataset=str(folder / Path(cell.plan.dataset).name))
            Path(cell.plan.dataset).write_bytes(file)
        if cell.name != expected_name:
            kind = cell.origin().split()[0]
            return (
                [],
                f"for {cell.dataset} this node would use other data ({kind}) than the driver: put the same"
                " file on every node, or on none",
            )
        return _work(cell, folder, cores, board, trusted, hidden)


def _work(
    cell: Cell, folder: Path, cores: int, board: Any, trusted: Sequence[str], hidden: Sequence[str]
) -> tuple[list[Row], str]:
    """The rows of a cell's worker process, or its error; its progress goes to the board."""
    (folder / "cell.json").write_text(cell.to_json())
    files = (folder / "cell.json", folder / "run", folder / "results.parquet")
    words = [*map(str, files), f"any {cores}", str(os.getpid())]
    with (folder / "log.txt").open("wb") as log:
        command = module_command("gridcount.benchmark.worker", *words, *trusted)
        process = subprocess.Popen(command, stdout=log, stderr=log, env=module_environment(hidden))
    try:
        while process.poll() is None:
            board.write.remote(cell.name, asdict(Progress.read(folder / "run")))
            time.sleep(POLL)
    finally:
        process.kill()
    board.write.remote(cell.name, asdict(Progress.read(folder / "run")))
    if not process.returncode:
        return read_results(folder / "results.parquet"), ""
    lines = (folder / "log.txt").read_text(errors="replace").strip().splitlines()
    last = lines[-1] if lines else f"exited with code {process.returncode}"
    return [], Progress.read(folder / "run").note or last
