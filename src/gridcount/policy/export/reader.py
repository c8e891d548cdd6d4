"""Guarded decisions of an exported policy, with NumPy and onnxruntime alone. Copy and change it freely.

>>> decider = Decider("export")                  # the folder that `gridcount export` wrote
>>> decider.decide([61.5, 58.0])["action"]       # in the units of the log
>>> decider.decide(observations, min_count=20)   # [rows, columns]: each field has a row for each
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime


class Decider:
    """An exported policy; threads may share it."""

    def __init__(self, folder: str | Path) -> None:
        """Read the folder's contract, counts and networks."""
        folder = Path(folder)
        self.contract = json.loads((folder / "contract.json").read_text(encoding="utf-8"))
        self.log = dict(np.load(folder / "counts.npz", allow_pickle=False))
        self.names = [column["name"] for column in self.contract["observation"]]
        self.tree = [self.log[name].tolist() for name in ("column", "threshold", "below", "above")]
        self.low, self.high = (np.array([a[end] for a in self.contract["action"]]) for end in ("low", "high"))
        self.dims, self.unscaled = np.arange(len(self.low)), (self.low == -1).all() and (self.high == 1).all()
        self.few = [(d, np.unique(a["values"])) for d, a in enumerate(self.contract["action"]) if a["values"]]
        self.logged = self.log["logged"].transpose(0, 2, 1).copy()  # [cells, action dimensions, 32]
        self.bins, groups = int(self.log["seen_bins"]), self.log["seen_groups"]
        self.sizes = 1 << np.arange(self.bins.bit_length())  # bins of each level
        self.first = np.arange(len(groups)) * self.log["seen_finest"].shape[1]  # a table for each group
        self.strides = np.zeros((len(self.names), len(groups)), np.float32)  # of each column in each group
        self.strides[groups, np.arange(len(groups))[:, None]] = self.bins ** np.arange(groups.shape[1])[::-1]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        cpu, files = ["CPUExecutionProvider"], folder.glob("*.onnx")  # the policy, and a clone of the log
        self.networks = {file.stem: onnxruntime.InferenceSession(str(file), options, cpu) for file in files}

    def decide(self, observation: Any, **guard: Any) -> dict[str, Any]:
        """Decide at one observation or many; `guard` changes min_count, resolution or fallback."""
        guard = self.contract["guard"] | guard
        x = np.array(observation, np.float32, ndmin=2)
        if x.shape[1:] != (len(self.names),) or not np.isfinite(x).all():
            raise ValueError(f"an observation has {len(self.names)} finite numbers: {', '.join(self.names)}")
        wanted, scaled = self.networks["policy"].run(["action", "scaled_action"], {"observation": x})
        cell, resolution = np.array([self.cell(row) for row in x.tolist()]), self.resolution(x)
        bin = (scaled[..., None] >= self.log["edges"]).sum(axis=-1)
        count = self.log["counts"][cell[:, None], self.dims, bin].min(axis=1).astype(np.int64)
        count[(resolution < guard["resolution"]) | np.isnan(scaled.sum(axis=1))] = 0
        held, logged = count < guard["min_count"], self.logged[cell]
        best = np.abs(logged - scaled[..., None]).max(axis=1).argmin(axis=1)
        nearest = self.in_units(logged[np.arange(len(x)), :, best])
        action = wanted.copy()
        if held.any():
            action[held] = self.fallback(guard["fallback"], x[held], nearest[held], resolution[held])
        told = {"action": action, "held": held, "count": count, "uncertainty": 1 / np.sqrt(count + 1.0)}
        told |= {"resolution": resolution, "policy_action": wanted, "nearest_action": nearest}
        return {name: value[0] for name, value in told.items()} if np.ndim(observation) == 1 else told

    def cell(self, row: list[float]) -> int:
        """The cell of a state: a tree of cuts leads to it."""
        (column, threshold, below, above), node = self.tree, 0
        while column[node] >= 0:
            node = below[node] if row[column[node]] <= threshold[node] else above[node]
        return int(below[node])

    def resolution(self, x: Any) -> Any:
        """Bins per column of the finest grid on which the log has seen a state; 0 outside of its range."""
        within = x.clip(self.log["seen_low"], self.log["seen_high"])
        with np.errstate(over="ignore"):
            digit = np.floor((within - self.log["seen_origin"]) * self.log["seen_scale"])
        code = (digit.clip(0, self.bins - 1) @ self.strides).astype(np.int64) + self.first
        level = self.log["seen_finest"].take(code).min(axis=1, initial=len(self.sizes) - 1)
        return self.sizes[level] * (within == x).all(axis=1)

    def fallback(self, kind: Any, x: Any, nearest: Any, resolution: Any) -> Any:
        """The actions where the guard holds; with "-or-abstain", none outside of the log's range."""
        if isinstance(kind, str) and kind.endswith("-or-abstain"):
            inside = self.fallback(kind.removesuffix("-or-abstain"), x, nearest, resolution)
            return np.where(resolution[:, None] > 0, inside, np.nan)
        if kind == "clone":
            return self.networks["clone"].run(["action"], {"observation": x})[0]
        return nearest if kind == "nearest" else np.nan if kind == "abstain" else np.asarray(kind)

    def in_units(self, action: Any) -> Any:
        """From [-1, 1] to the units of the log, and to the log's values where these are few."""
        found = (
            action.astype(float) if self.unscaled else self.low + (action + 1) / 2 * (self.high - self.low)
        )
        for d, values in self.few:
            found[:, d] = values[np.searchsorted((values[1:] + values[:-1]) / 2, found[:, d])]
        return found


if __name__ == "__main__":  # python decide.py 61.5 58.0
    print(Decider(Path(__file__).parent).decide([float(word) for word in sys.argv[1:]]))
