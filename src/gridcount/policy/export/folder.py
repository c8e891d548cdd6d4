"""The folder of an export: the policy as an ONNX graph, the log's counts, a contract, and a reader that needs no gridcount.

Each file stands alone; the folder appears under its name when all of them are complete.
"""

import json
import platform
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from gridcount.files import open_plain, read_record, whole_folder
from gridcount.files.records import AtLeastOne, Count
from gridcount.policy.actor import Actor
from gridcount.policy.counts import LogCounts
from gridcount.policy.guard import Guard
from gridcount.policy.store import AGAIN, COUNTS, MOST_BYTES, Facts, read_counts

if TYPE_CHECKING:
    import onnx

    from gridcount.policy.policy import Policy

CONTRACT, NETWORK, CLONE, READER = "contract.json", "policy.onnx", "clone.onnx", "decide.py"
FORMAT = 1
TOLERANCE = 1e-5  # that the graph's actions may differ from the policy's
CHECKED = 256  # observations on which an export is compared with its policy
INSTALL = "pip install 'gridcount[export]'"
Act = Callable[[NDArray[np.float32]], NDArray[Any]]


@dataclass(frozen=True)
class ObservationColumn:
    """A number of the observation."""

    name: str  # the log's column
    low: float  # the log's values lie within these
    high: float


@dataclass(frozen=True)
class ActionColumn:
    """A number of the action."""

    name: str
    low: float  # what -1 of the network means in the log's units
    high: float  # what 1 means


@dataclass(frozen=True)
class GuardDefaults:
    """How the reader guards, unless it is told otherwise."""

    min_count: AtLeastOne
    resolution: Count
    fallback: Literal["nearest", "clone", "abstain"] | tuple[float, ...]


@dataclass(frozen=True)
class Contract:
    """Everything about an export that is not a network or a count. All numbers are in the log's units."""

    algorithm: str
    dataset: str  # what it was trained on, as messages call it
    fingerprint: str  # of that data
    seed: Count
    updates: Count
    observation: tuple[ObservationColumn, ...]  # in the order of the network's input
    action: tuple[ActionColumn, ...]
    guard: GuardDefaults
    versions: dict[str, str]
    format: AtLeastOne = FORMAT

    def facts(self) -> Facts:
        """The description of its policy."""
        return Facts(
            algorithm=self.algorithm,
            fields={},
            dataset=self.dataset,
            fingerprint=self.fingerprint,
            seeds=(self.seed,),
            observation_names=tuple(column.name for column in self.observation),
            action_names=tuple(column.name for column in self.action),
            action_low=tuple(column.low for column in self.action),
            action_high=tuple(column.high for column in self.action),
            version=self.versions.get("gridcount", ""),
        )


def write_export(policy: "Policy", folder: Path, guard: Guard, replace: bool = False) -> Path:
    """Write a policy that acts by an Actor's arrays; nothing is written if the graph does not act like it."""
    if not isinstance(policy.actor, Actor):
        raise ValueError("this policy was read from an export; export the run that it was trained in")
    if folder.exists() and not (replace and (folder / CONTRACT).is_file()):
        advice = "--replace overwrites it" if (folder / CONTRACT).is_file() else "it is not an export"
        raise FileExistsError(f"{folder}: exists already ({advice}); name another folder with --out")
    contract, counts = make_contract(policy, guard)
    models = {NETWORK: policy.actor} | ({} if policy.clone is None else {CLONE: policy.clone})
    graphs = {name: _checked_graph(actor, contract) for name, actor in models.items()}
    with whole_folder(folder) as partial:
        for name, graph in graphs.items():
            (partial / name).write_bytes(graph)
        np.savez(partial / COUNTS, allow_pickle=False, **counts.arrays())
        text = json.dumps(asdict(contract), indent=2, ensure_ascii=False) + "\n"
        (partial / CONTRACT).write_text(text, encoding="utf-8")
        shutil.copyfile(Path(__file__).parent / "reader.py", partial / READER)
    return folder


def make_contract(policy: "Policy", guard: Guard) -> tuple[Contract, LogCounts]:
    """The contract of a guarded policy, and the counts that belong to it."""
    from gridcount import __version__

    counts, log = policy.validated(guard)
    facts = policy.facts
    seen = zip(facts.observation_names, log.seen.low.tolist(), log.seen.high.tolist(), strict=True)
    given = zip(facts.action_names, facts.action_low, facts.action_high, strict=True)
    contract = Contract(
        facts.algorithm,
        facts.dataset,
        facts.fingerprint,
        policy.seed,
        policy.updates,
        tuple(ObservationColumn(*each) for each in seen),
        tuple(ActionColumn(*each) for each in given),
        GuardDefaults(
            log.min_count if guard.min_count is None else guard.min_count,
            log.resolution if guard.resolution is None else guard.resolution,
            guard.fallback if isinstance(guard.fallback, str) else tuple(guard.fallback),
        ),
        {"gridcount": __version__, "python": platform.python_version(), "numpy": np.__version__}
        | _onnx_versions(),
    )
    return contract, counts


def _onnx_versions() -> dict[str, str]:
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise ImportError(f"exports need the packages onnx and onnxruntime ({error}): {INSTALL}") from error
    return {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__}


def _checked_graph(actor: Actor, contract: Contract) -> bytes:
    """The ONNX file of an actor, which acts as the actor does on observations around the log's range."""
    from gridcount.policy.export.graph import actor_model

    low, high = ([getattr(column, end) for column in contract.action] for end in ("low", "high"))
    about = f"{contract.algorithm} on {contract.dataset}"
    model: onnx.ModelProto = actor_model(actor, len(contract.observation), low, high, about)
    content: bytes = model.SerializeToString()
    ends = [np.array([getattr(column, end) for column in contract.observation]) for end in ("low", "high")]
    rng = np.random.default_rng(0)
    observation = rng.uniform(*ends, (CHECKED, len(contract.observation))).astype(np.float32)
    with np.errstate(all="ignore"):
        difference = np.abs(OnnxActor(content)(observation) - actor(observation)).max()
    if not difference <= TOLERANCE:
        raise RuntimeError(
            f"the ONNX graph's actions differ by {difference:.2g} from the policy's; nothing was exported. Report this"
        )
    return content


class OnnxActor:
    """A network of an export: observations [rows, observation_dim] -> actions in [-1, 1]. Threads may share it."""

    def __init__(self, content: bytes) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors, which are raised as well
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def shapes(self) -> tuple[Any, Any]:
        """Numbers of its observation and of its action, as the file declares them."""
        (observation,), outputs = self._session.get_inputs(), self._session.get_outputs()
        action = next(each for each in outputs if each.name == "scaled_action")
        return observation.shape[-1], action.shape[-1]

    def __call__(self, observation: NDArray[np.float32]) -> NDArray[np.float32]:
        """The action at each observation."""
        found: NDArray[np.float32] = self._session.run(["scaled_action"], {"observation": observation})[0]
        return found


def is_export(path: Path) -> bool:
    """Whether a folder is an export."""
    return (path / CONTRACT).is_file()


def read_contract(folder: Path) -> Contract:
    """The contract of an export."""
    path = folder / CONTRACT
    contract = read_record(path, Contract, AGAIN)
    if contract.format > FORMAT:
        raise ValueError(f"{path}: its format {contract.format} is newer than this gridcount; update gridcount")
    if not contract.observation or not contract.action:
        raise ValueError(f"{path}: 'observation' or 'action' is empty. {AGAIN}")
    return contract


def read_parts(folder: Path, contract: Contract) -> tuple[OnnxActor, OnnxActor | None, LogCounts]:
    """The policy, its clone and the counts of an export."""
    shape = (len(contract.observation), len(contract.action))
    clone = _read_network(folder / CLONE, shape) if (folder / CLONE).exists() else None
    return _read_network(folder / NETWORK, shape), clone, read_counts(folder, contract.facts())


def _read_network(path: Path, shape: Sequence[int]) -> OnnxActor:
    """A network from a file; it is read as bytes, so that it cannot name other files."""
    with open_plain(path, "rb") as file:
        content = file.read(MOST_BYTES + 1)
    try:
        if len(content) > MOST_BYTES:
            raise ValueError("it is larger than a policy can be")
        actor = OnnxActor(content)
        if actor.shapes() != tuple(shape):
            raise ValueError(f"it maps {actor.shapes()[0]} numbers to {actor.shapes()[1]}, not {shape[0]} to {shape[1]}")
    except ImportError as error:
        raise ImportError(f"{path}: reading an export needs onnxruntime ({error}): {INSTALL}") from error
    except Exception as error:  # a damaged file can raise many kinds of errors
        raise ValueError(f"{path}: the network cannot be used ({error}). {AGAIN}") from error
    return actor
