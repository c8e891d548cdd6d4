"""An actor as an ONNX graph: column selection, normalisation, network and units.

The graph is built node by node with the package `onnx`. A perceptron is a dozen nodes, so a converter
between JAX and ONNX would be more code to depend on than this file. Inputs and outputs:

    observation    float32 [rows, observation_dim]   in the log's units
    scaled_action  float32 [rows, action_dim]        in [-1, 1], as in training and as the counts see it
    action         float64 [rows, action_dim]        in the log's units

Dimensions of few values have one of the log's in both. Then there is a third output:

    network_action float32 [rows, action_dim]        in [-1, 1], before that
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike

from gridcount.policy.actor import EPSILON, Actor, Candidates, Perceptron
from gridcount.policy.few_values import FewValues

OPSET = 17  # the first with LayerNormalization; runtimes since 2022 read it
IR_VERSION = 8  # of the same release
INPUT, SCALED, ACTION, OWN = "observation", "scaled_action", "action", "network_action"


class Graph:
    """Nodes and arrays of a graph; each method adds a node and returns the name of its output."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.arrays: dict[str, onnx.TensorProto] = {}

    def array(self, name: str, values: ArrayLike, kind: Any = np.float32) -> str:
        """An array of the file."""
        self.arrays[name] = onnx.numpy_helper.from_array(np.asarray(values, kind), name)
        return name

    def node(self, kind: str, *inputs: str, outputs: Sequence[str] = (), **attributes: Any) -> str:
        """A node; its outputs are named after its place, unless they have names."""
        named = list(outputs) or [f"{kind.lower()}_{len(self.nodes)}"]
        self.nodes.append(onnx.helper.make_node(kind, list(inputs), named, **attributes))
        return named[0]

    def perceptron(self, name: str, network: Perceptron, x: str) -> str:
        """[..., in] -> [..., out]."""
        last = len(network.weights) - 1
        for layer, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
            product = self.node("MatMul", x, self.array(f"{name}.weights.{layer}", weight))
            x = self.node("Add", product, self.array(f"{name}.biases.{layer}", bias))
            if layer < last:
                x = self.node("Relu", x) if network.norm_after else x
                x = self._normalised(name, network, layer, x) if network.gains else x
                x = x if network.norm_after else self.node("Relu", x)
        return x

    def _normalised(self, name: str, network: Perceptron, layer: int, x: str) -> str:
        gain = self.array(f"{name}.gains.{layer}", network.gains[layer])
        shift = self.array(f"{name}.shifts.{layer}", network.shifts[layer])
        return self.node("LayerNormalization", x, gain, shift, axis=-1, epsilon=EPSILON)

    def best(self, chosen: Candidates, seen: str, output: str, name: str) -> str:
        """Of a Gaussian's candidates, squashed, the one that the critic values most (UWAC)."""
        count, action_dim = np.shape(chosen.noise)
        self.node("Split", output, outputs=("mean", "log_std"), axis=-1)
        low, high = (self.array(n, getattr(chosen, n)) for n in ("log_std_low", "log_std_high"))
        spread = self.node("Exp", self.node("Clip", "log_std", low, high))
        noise = self.array("noise", np.asarray(chosen.noise)[:, None, :])
        actions = self.node("Tanh", self.node("Add", "mean", self.node("Mul", spread, noise)))
        repeated = self.node("Expand", seen, self.array("per_candidate", [count, 1, 1], np.int64))
        pairs = self.node("Concat", repeated, actions, axis=-1)  # [candidates, rows, seen + action_dim]
        values = self.perceptron("critic", chosen.critic, pairs)
        index = self.node("ArgMax", values, axis=0, keepdims=1)  # [1, rows, 1]
        each = self.node("Expand", index, self.array("per_action", [1, 1, action_dim], np.int64))
        taken = self.node("GatherElements", actions, each, axis=0)
        return self.node("Squeeze", taken, self.array("first", [0], np.int64), outputs=(name,))

    def units(self, scaled: str, low: ArrayLike, high: ArrayLike, name: str) -> str:
        """From [-1, 1] to the log's units, with the same roundings as `transitions.in_units`."""
        if np.array_equal(low, np.full_like(low, -1)) and np.array_equal(high, np.ones_like(high)):
            return self.node("Cast", scaled, outputs=(name,), to=onnx.TensorProto.DOUBLE)
        one, two = self.array("one", 1), self.array("two", 2)
        share = self.node("Div", self.node("Add", scaled, one), two)
        exact = self.node("Cast", share, to=onnx.TensorProto.DOUBLE)
        wide = self.array("action_range", np.asarray(high, np.float64) - np.asarray(low), np.float64)
        above = self.node("Mul", exact, wide)
        return self.node("Add", self.array("action_low", low, np.float64), above, outputs=(name,))

    def rounded(self, few: FewValues, action: str) -> None:
        """Both outputs at the log's values, with the same comparisons as `FewValues.round`."""
        dims, most = few.values.shape
        each = self.node("Unsqueeze", action, self.array("last", [-1], np.int64))
        above = self.node("Greater", each, self.array("cuts", few.cuts, np.float64))
        counted = self.node("Cast", above, to=onnx.TensorProto.INT64)
        place = self.node("ReduceSum", counted, "last", keepdims=0)
        index = self.node("Add", place, self.array("first_value", most * np.arange(dims), np.int64))
        known = self.node("Not", self.node("IsNaN", action))
        chosen = self.node("And", known, self.array("few", few.few, np.bool_))
        for name, table, own in ((ACTION, few.values, action), (SCALED, few.scaled, OWN)):
            values = self.array(f"{name}_values", table.reshape(-1), table.dtype)
            self.node("Where", chosen, self.node("Gather", values, index), own, outputs=(name,))


def actor_model(
    actor: Actor,
    observation_dim: int,
    low: ArrayLike,
    high: ArrayLike,
    about: str,
    few: FewValues | None = None,
) -> onnx.ModelProto:
    """The ONNX model of an actor whose -1 and 1 mean `low` and `high`."""
    graph, seen, own = Graph(), INPUT, SCALED if few is None else OWN
    if actor.columns is not None:
        seen = graph.node("Gather", seen, graph.array("columns", actor.columns, np.int64), axis=1)
    if actor.mean is not None:
        centred = graph.node("Sub", seen, graph.array("mean", actor.mean))
        seen = graph.node("Div", centred, graph.array("deviation", actor.deviation))
    output = graph.perceptron("network", actor.network, seen)
    if actor.candidates is None:
        graph.node("Tanh", output, outputs=(own,))
    else:
        graph.best(actor.candidates, seen, output, own)
    action = graph.units(own, low, high, ACTION if few is None else "continuous_action")
    if few is not None:
        graph.rounded(few, action)
    return _model(graph, observation_dim, np.size(low), about, () if few is None else (OWN,))


def _model(
    graph: Graph, observation_dim: int, action_dim: int, about: str, more: Sequence[str]
) -> onnx.ModelProto:
    def value(name: str, kind: int, dims: int) -> onnx.ValueInfoProto:
        return onnx.helper.make_tensor_value_info(name, kind, ["rows", dims])

    made = onnx.helper.make_graph(
        graph.nodes,
        "policy",
        [value(INPUT, onnx.TensorProto.FLOAT, observation_dim)],
        [
            value(ACTION, onnx.TensorProto.DOUBLE, action_dim),
            *(value(name, onnx.TensorProto.FLOAT, action_dim) for name in (SCALED, *more)),
        ],
        list(graph.arrays.values()),
        doc_string=about,
    )
    opset = onnx.helper.make_opsetid("", OPSET)
    model = onnx.helper.make_model(made, producer_name="gridcount", opset_imports=[opset])
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model, full_check=True)
    return model
