"""GraphBuilder: write an ONNX graph node by node, with unique names and random weights."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from dplace.errors import InputError

__all__ = ["Dim", "GraphBuilder"]

OPSET = 17
IR_VERSION = 8
MAX_WEIGHT_BYTES = 2**31 - 2**22
"""What one protobuf file holds (2 GiB), less a margin for the nodes."""

Dim = int | str
"""A fixed dimension, or the name of one that is known only at run time."""

Attribute = int | float | str | Sequence[int]


class GraphBuilder:
    """Collects the inputs, nodes, weights and outputs of one graph, in topological order.

    Names are unique and say where a node stands: ``query/block2/Conv_1``. The same calls with
    a generator in the same state give the same bytes.
    """

    def __init__(self, name: str, rng: np.random.Generator) -> None:
        """Start an empty graph called ``name`` whose weights are drawn from ``rng``."""
        self.rng = rng
        self._name = name
        self._scopes: list[str] = []
        self._counts: Counter[str] = Counter()
        self._weight_bytes = 0
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Put ``name/`` before every name made inside the ``with`` block."""
        self._scopes.append(name)
        try:
            yield
        finally:
            self._scopes.pop()

    def input(self, name: str, shape: Sequence[Dim], *, dtype: int = TensorProto.FLOAT) -> str:
        """Declare a graph input and return its name."""
        self._inputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))
        return name

    def output(
        self, name: str, value: str, shape: Sequence[Dim], *, dtype: int = TensorProto.FLOAT
    ) -> None:
        """Declare the graph output ``name`` as a copy of ``value``."""
        self._nodes.append(
            helper.make_node("Identity", [value], [name], name=self._unique("Identity"))
        )
        self._outputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))

    def add(self, op_type: str, *inputs: str, **attributes: Attribute) -> str:
        """Add an op with one output and return that output's name."""
        return self.add_many(op_type, *inputs, num_outputs=1, **attributes)[0]

    def add_many(
        self, op_type: str, *inputs: str, num_outputs: int, **attributes: Attribute
    ) -> tuple[str, ...]:
        """Add an op with several outputs and return their names."""
        name = self._unique(op_type)
        outputs = tuple(f"{name}_output_{i}" for i in range(num_outputs))
        node = helper.make_node(op_type, list(inputs), list(outputs), name=name)
        node.attribute.extend(helper.make_attribute(*item) for item in sorted(attributes.items()))
        self._nodes.append(node)
        return outputs

    def weight(self, shape: Sequence[int], *, fan_in: int, gain: float = 1.0) -> str:
        """Add a random weight and return its name.

        Args:
            shape: shape of the weight.
            fan_in: number of inputs summed into one output.
            gain: ``sqrt(2)`` before a Relu (He et al., 2015), else 1; either keeps the size
                of the activations from layer to layer.

        Raises:
            InputError: when the weights no longer fit into one ONNX file.
        """
        self._reserve(4 * math.prod(shape))
        drawn = self.rng.standard_normal(tuple(shape), dtype=np.float32)
        return self._initializer("weight", drawn * np.float32(gain / math.sqrt(fan_in)))

    def bias(self, *shape: int) -> str:
        """Add random numbers near 0 and return their name."""
        return self._near(0.0, "bias", shape)

    def scale(self, *shape: int) -> str:
        """Add random numbers near 1 and return their name."""
        return self._near(1.0, "scale", shape)

    def integers(self, *elements: int) -> str:
        """Add a one-dimensional int64 constant and return its name."""
        return self._initializer("integers", np.array(elements, dtype=np.int64))

    def integer(self, value: int) -> str:
        """Add an int64 scalar and return its name."""
        return self._initializer("integer", np.array(value, dtype=np.int64))

    def number(self, value: float) -> str:
        """Add a float32 scalar and return its name."""
        return self._initializer("number", np.array(value, dtype=np.float32))

    def model(self, description: str) -> onnx.ModelProto:
        """Return the finished model, with ``description`` as its doc string."""
        graph = helper.make_graph(
            self._nodes, self._name, self._inputs, self._outputs, self._initializers
        )
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="dplace",
            doc_string=description,
        )

    def _near(self, mean: float, hint: str, shape: tuple[int, ...]) -> str:
        self._reserve(4 * math.prod(shape))
        drawn = self.rng.uniform(mean - 0.05, mean + 0.05, shape)
        return self._initializer(hint, drawn.astype(np.float32))

    def _initializer(self, hint: str, array: NDArray[np.float32] | NDArray[np.int64]) -> str:
        name = self._unique(hint)
        self._initializers.append(numpy_helper.from_array(array, name))
        return name

    def _unique(self, hint: str) -> str:
        path = "/".join([*self._scopes, hint])
        number = self._counts[path]
        self._counts[path] += 1
        return f"{path}_{number}"

    def _reserve(self, num_bytes: int) -> None:
        self._weight_bytes += num_bytes
        if self._weight_bytes > MAX_WEIGHT_BYTES:
            raise InputError(
                f"{self._name}: the weights pass the 2 GiB that one ONNX file holds; "
                "use a smaller size"
            )
