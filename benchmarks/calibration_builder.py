"""Models of many independent ops, for benchmarks/calibration_models.py."""

from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int, ...]

FLOAT = TensorProto.FLOAT


class Builder:
    """Builds a model out of ops that read warm inputs and write where others wrote before.

    That is how ops run within a model. Inputs of one shape are shared, so that they stay in the
    cache; and an op's output is no output of the graph, which onnxruntime would allocate anew in
    every run, but ends in a slice of one element.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._rng = np.random.default_rng(0)
        self._nodes: list[onnx.NodeProto] = []
        self._inputs: dict[tuple[Shape, int, int], onnx.ValueInfoProto] = {}
        self._outputs: list[onnx.ValueInfoProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._first = [self.constant(np.array([value])) for value in (-1, 0, 1)]

    def input(self, shape: Shape, dtype: int = FLOAT, number: int = 0) -> str:
        name = f"x{len(self._inputs)}"
        key = (shape, dtype, number)
        if key not in self._inputs:
            self._inputs[key] = helper.make_tensor_value_info(name, dtype, shape)
        return self._inputs[key].name

    def weight(self, shape: Shape, dtype: type = np.float32) -> str:
        if np.issubdtype(dtype, np.integer):
            return self.constant(self._rng.integers(0, 100, shape).astype(dtype))
        return self.constant((self._rng.standard_normal(shape) * 0.05).astype(dtype))

    def constant(self, values: ArrayLike) -> str:
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def op(
        self, op_type: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any
    ) -> str:
        """Add a node and what ends its first output; return that output."""
        names = [f"y{len(self._nodes)}_{index}" for index in range(outputs)]
        self._nodes.append(
            helper.make_node(op_type, list(inputs), names, domain=domain, **attributes)
        )
        if op_type not in ("Reshape", "Unsqueeze"):
            flat, end = f"{names[0]}_flat", f"{names[0]}_end"
            minus_one, zero, one = self._first
            self._nodes.append(helper.make_node("Reshape", [names[0], minus_one], [flat]))
            self._nodes.append(helper.make_node("Slice", [flat, zero, one], [end]))
            self._outputs.append(onnx.ValueInfoProto(name=end))
        return names[0]

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(
            self._nodes, self.name, list(self._inputs.values()), self._outputs, self._weights
        )
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)
