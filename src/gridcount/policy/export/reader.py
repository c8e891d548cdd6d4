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
        with np.load(folder / "counts.npz", allow_pickle=False) as file:
            self.log = {name: file[name] for name in file.files}
        self.tree = [self.log[name].tolist() for name in ("column", "threshold", "below", "above")]
        self.low, self.high = (np.array([a[end] for a in self.contract["action"]]) for end in ("low", "high"))
        self.dims, self.groups = np.arange(len(self.low)), np.arange(len(self.log["seen_groups"]))
        self.bins = int(self.log["seen_bins"])
        self.strides = self.bins ** np.arange(self.log["seen_groups"].shape[1] - 1, -1, -1)
        self.policy = session(folder / "policy.onnx")
        self.clone: Any = session(folder / "clone.onnx") if (folder / "clone.onnx").exists() else None

    def decide(self, observation: Any, **guard: Any) -> dict[str, Any]:
        """Decide at one observation or many; `guard` changes min_count, resolution or fallback."""
        guard = self.contract["guard"] | guard
        x = np.atleast_2d(np.asarray(observation, np.float32))
        names = [column["name"] for column in self.contract["observation"]]
        if x.shape[1:] != (len(names),) or not np.isfinite(x).all():
            raise ValueError(f"an observation has {len(names)} finite numbers: {', '.join(names)}")
        wanted, scaled = self.policy.run(["action", "scaled_action"], {"observation": x})
        cell, resolution = np.array([self.cell(row) for row in x.tolist()]), self.resolution(x)
        bin = (scaled[..., None] >= self.log["edges"]).sum(axis=-1)
        count = self.log["counts"][cell[:, None], self.dims, bin].min(axis=1).astype(np.int64)
        count[(resolution < guard["resolution"]) | ~np.isfinite(scaled).all(axis=1)] = 0
        held = count < guard["min_count"]
        logged = self.log["logged"][cell]
        best = np.abs(logged - scaled[:, None]).max(axis=2).argmin(axis=1)
        nearest = self.in_units(logged[np.arange(len(x)), best])
        action = wanted.copy()
        if held.any():
            action[held] = self.fallback(guard["fallback"], x[held], nearest[held])
        told = {"action": action, "held": held, "count": count, "uncertainty": 1 / np.sqrt(count + 1.0)}
        told |= {"resolution": resolution, "policy_action": wanted, "nearest_action": nearest}
        return {name: value[0] for name, value in told.items()} if np.ndim(observation) == 1 else told

    def cell(self, row: list[float]) -> int:
        """The cell of a state: a tree of cuts leads to it."""
        column, threshold, below, above = self.tree
        node = 0
        while column[node] >= 0:
            node = below[node] if row[column[node]] <= threshold[node] else above[node]
        return int(below[node])

    def resolution(self, x: Any) -> Any:
        """Bins per column of the finest grid on which the log has seen a state; 0 outside of its range."""
        log = self.log
        inside = ((x >= log["seen_low"]) & (x <= log["seen_high"])).all(axis=1)
        with np.errstate(over="ignore"):
            place = np.floor(
                (np.clip(x, log["seen_low"], log["seen_high"]) - log["seen_origin"]) * log["seen_scale"]
            )
        digit = np.clip(place, 0, self.bins - 1).astype(np.int64)
        code = digit[:, log["seen_groups"]] @ self.strides
        level = log["seen_finest"][self.groups, code].min(axis=1, initial=self.bins.bit_length() - 1)
        return np.where(inside, 1 << level.astype(np.int64), 0)

    def fallback(self, kind: Any, x: Any, nearest: Any) -> Any:
        """The actions where the guard holds: fixed, nearest logged, a clone's, or NaN (abstain)."""
        if kind == "clone":
            return self.clone.run(["action"], {"observation": x})[0]
        return nearest if kind == "nearest" else np.nan if kind == "abstain" else np.asarray(kind)

    def in_units(self, action: Any) -> Any:
        """From [-1, 1] to the units of the log."""
        unscaled = (self.low == -1).all() and (self.high == 1).all()
        return action if unscaled else self.low + (action + 1) / 2 * (self.high - self.low)


def session(path: Path) -> Any:
    """A network on one core."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":  # python decide.py 61.5 58.0
    print(Decider(Path(__file__).parent).decide([float(word) for word in sys.argv[1:]]))
