"""The folder of an export: an ONNX graph, the log's counts, a contract, and a reader without gridcount.

Each file stands alone; the folder appears under its name when all of them are complete.
"""

import json
import platform
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gridcount.files import read_record, whole_folder
from gridcount.files.records import AtLeastOne, Count
from gridcount.policy.actor import Actor
from gridcount.policy.counts import LogCounts
from gridcount.policy.export.network import INSTALL, OnnxActor, read_network
from gridcount.policy.few_values import FewValues
from gridcount.policy.guard import Guard, Named
from gridcount.policy.store import AGAIN, COUNTS, Facts, read_counts
from gridcount.transitions import in_units

if TYPE_CHECKING:
    import onnx

CONTRACT, NETWORK, CLONE, READER = "contract.json", "policy.onnx", "clone.onnx", "decide.py"
FORMAT = 1
TOLERANCE = 1e-5  # that the graph's actions may differ from the policy's
CHECKED = 256  # observations on which an export is compared with its policy
Act = Actor | OnnxActor


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
    values: tuple[float, ...] = ()  # the log's values if it has few, such as those of a switch


@dataclass(frozen=True)
class GuardDefaults:
    """How the reader guards, unless it is told otherwise."""

    min_count: AtLeastOne
    resolution: Count
    fallback: Named | tuple[float, ...]


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
            action_values=tuple(column.values for column in self.action),
            version=self.versions.get("gridcount", ""),
        )


class Parts(NamedTuple):
    """What an export is made of, besides its contract."""

    actor: Act  # an Actor, or an OnnxActor that was read from an export
    clone: Act | None
    counts: LogCounts


def write_export(parts: Parts, contract: Contract, folder: Path, replace: bool = False) -> Path:
    """Write an export; nothing is written if the graphs do not act like the policy."""
    if folder.exists() and not (replace and is_export(folder)):
        advice = "--replace overwrites it" if is_export(folder) else "it is not an export"
        raise FileExistsError(f"{folder}: exists already ({advice}); name another folder with --out")
    networks = {NETWORK: parts.actor} | ({} if parts.clone is None else {CLONE: parts.clone})
    graphs = {name: _checked_graph(actor, contract) for name, actor in networks.items()}
    with whole_folder(folder) as partial:
        for name, graph in graphs.items():
            (partial / name).write_bytes(graph)
        np.savez(partial / COUNTS, allow_pickle=False, **parts.counts.arrays())
        text = json.dumps(asdict(contract), indent=2, ensure_ascii=False) + "\n"
        (partial / CONTRACT).write_text(text, encoding="utf-8")
        shutil.copyfile(Path(__file__).parent / "reader.py", partial / READER)
    return folder


def make_contract(facts: Facts, seed: int, updates: int, counts: LogCounts, guard: Guard) -> Contract:
    """The contract of a guarded policy."""
    from gridcount import __version__

    log = counts.guard
    assert log is not None
    assert guard.fallback is not None
    seen = zip(facts.observation_names, log.seen.low.tolist(), log.seen.high.tolist(), strict=True)
    values = facts.action_values or ((),) * len(facts.action_names)
    given = zip(facts.action_names, facts.action_low, facts.action_high, values, strict=True)
    return Contract(
        facts.algorithm,
        facts.dataset,
        facts.fingerprint,
        seed,
        updates,
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


def _onnx_versions() -> dict[str, str]:
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise ImportError(f"exports need the packages onnx and onnxruntime ({error}): {INSTALL}") from error
    return {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__}


def _checked_graph(actor: Act, contract: Contract) -> bytes:
    """The ONNX file of an actor, which acts as the actor does on observations in the log's range."""
    if not isinstance(actor, Actor):
        raise ValueError("this policy was read from an export; export the run that it was trained in")
    from gridcount.policy.export.graph import actor_model

    low, high = ([getattr(column, end) for column in contract.action] for end in ("low", "high"))
    about = f"{contract.algorithm} on {contract.dataset}"
    few = FewValues.of([column.values for column in contract.action], low, high)
    model: onnx.ModelProto = actor_model(actor, len(contract.observation), low, high, about, few)
    content: bytes = model.SerializeToString()
    lows, highs = ([getattr(column, end) for column in contract.observation] for end in ("low", "high"))
    shape = (CHECKED, len(contract.observation))
    observation = np.random.default_rng(0).uniform(lows, highs, shape).astype(np.float32)
    network = OnnxActor(content)
    with np.errstate(all="ignore"):
        difference = np.abs(network(observation) - actor(observation)).max()
        if few is not None:
            own = in_units(network(observation), np.asarray(low), np.asarray(high))
            expected = few.round(own, few.values, own), few.round(own, few.scaled, network(observation))
            pairs = zip(network.outputs(observation), expected, strict=True)
            difference = max(difference, *(np.abs(found - right).max() for found, right in pairs))
    if not difference <= TOLERANCE:
        raise RuntimeError(
            f"the ONNX graph's actions differ by {difference:.2g} from the policy's; nothing was exported."
            " Report this"
        )
    return content


def is_export(path: Path) -> bool:
    """Whether a folder is an export."""
    return (path / CONTRACT).is_file()


def read_contract(folder: Path) -> Contract:
    """The contract of an export."""
    path = folder / CONTRACT
    contract = read_record(path, Contract, AGAIN)
    if contract.format > FORMAT:
        raise ValueError(
            f"{path}: its format {contract.format} is newer than this gridcount; update gridcount"
        )
    if not contract.observation or not contract.action:
        raise ValueError(f"{path}: 'observation' or 'action' is empty. {AGAIN}")
    return contract


def read_parts(folder: Path, contract: Contract) -> Parts:
    """The networks and counts of an export, with the contract's guard as the counts' default."""
    shape = (len(contract.observation), len(contract.action))
    clone = read_network(folder / CLONE, shape) if (folder / CLONE).exists() else None
    counts, guard = read_counts(folder, contract.facts()), contract.guard
    if counts.guard is None:
        raise ValueError(f"{folder / COUNTS}: the states of the log are missing. {AGAIN}")
    given = counts.guard._replace(resolution=guard.resolution, min_count=guard.min_count)
    return Parts(read_network(folder / NETWORK, shape), clone, counts._replace(guard=given))
