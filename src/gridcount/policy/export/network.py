"""A network of an export, run by onnxruntime."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcount.files import open_plain
from gridcount.policy.store import AGAIN, MOST_BYTES

INSTALL = "pip install 'gridcount[export]'"


class OnnxActor:
    """A network of an export: observations -> actions in [-1, 1]. Threads may share it."""

    def __init__(self, content: bytes) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors, which are raised as well
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        names = {output.name for output in self._session.get_outputs()}
        self._output = "network_action" if "network_action" in names else "scaled_action"

    def shapes(self) -> tuple[Any, Any]:
        """Numbers of its observation and of its action, as the file declares them."""
        (observation,), outputs = self._session.get_inputs(), self._session.get_outputs()
        action = next(each for each in outputs if each.name == "scaled_action")
        return observation.shape[-1], action.shape[-1]

    def outputs(self, observation: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        """The actions that a program reads: in the log's units, and in [-1, 1]."""
        action, scaled = self._session.run(["action", "scaled_action"], {"observation": observation})
        return action, scaled

    def __call__(self, observation: NDArray[np.float32]) -> NDArray[np.float32]:
        """The network's action at each observation, not rounded to the log's values."""
        found: NDArray[np.float32] = self._session.run([self._output], {"observation": observation})[0]
        return found


def read_network(path: Path, shape: Sequence[int]) -> OnnxActor:
    """A network from a file; it is read as bytes, so that it cannot name other files."""
    with open_plain(path, "rb") as file:
        content = file.read(MOST_BYTES + 1)
    try:
        if len(content) > MOST_BYTES:
            raise ValueError("it is larger than a policy can be")
        actor = OnnxActor(content)
        if actor.shapes() != tuple(shape):
            raise ValueError(
                f"it maps {actor.shapes()[0]} numbers to {actor.shapes()[1]}, not {shape[0]} to {shape[1]}"
            )
    except ImportError as error:
        raise ImportError(f"{path}: reading an export needs onnxruntime ({error}): {INSTALL}") from error
    except Exception as error:  # a damaged file can raise many kinds of errors
        raise ValueError(f"{path}: the network cannot be used ({error}). {AGAIN}") from error
    return actor
