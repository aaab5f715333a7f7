"""The graph that placement sees: ops, the values between them, and the weights they read."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["OpGraph"]

Index = NDArray[np.int32]
"""Ids of ops, values or weights."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpGraph:
    """A directed acyclic graph of ops as a struct of arrays.

    An *op* is what placement does not cut: one node of the model, or several nodes that run as
    one. Ops stand in a topological order. Lists per op or per value are in compressed form: row
    ``i`` of ``(offsets, items)`` is ``items[offsets[i]:offsets[i + 1]]``.
    """

    name: str
    op_names: tuple[str, ...]
    """The op's first output in the model: its identity, for node names may be empty or equal."""
    op_types: tuple[str, ...]
    """Operator type, with ``domain:`` before it unless it is ONNX's own."""
    op_flop: NDArray[np.float64]
    """Floating-point (or integer) operations of one execution."""
    op_bytes: NDArray[np.float64]
    """Bytes that one execution reads and writes, weights included."""
    op_classes: tuple[str, ...]
    """The kind of kernel, for its efficiency: see ``dplace.graph_io.work``."""
    op_dtypes: tuple[str, ...]
    """Type that the op computes in: ``float32``, ``float16``, ``int8``, ..."""
    op_launches: NDArray[np.int32]
    """Kernels launched by one execution: 1, more for units of nodes and loops, 0 for none."""

    value_names: tuple[str, ...]
    value_producer: Index
    """The op that writes each value; -1 for a graph input."""
    value_bytes: NDArray[np.int64]
    """Size of each value in bytes; shape ``(num_values,)``."""
    value_movable: NDArray[np.bool_]
    """Whether the value can cross to another device (an optional value cannot)."""
    input_offsets: Index
    input_values: Index
    """Values that each op reads, each named once; compressed by op."""
    output_offsets: Index
    output_values: Index
    """Values that each op writes; compressed by op."""
    consumer_offsets: Index
    consumer_ops: Index
    """Ops that read each value, in order; compressed by value."""
    graph_inputs: Index
    """Values that the caller feeds."""
    graph_outputs: Index
    """Values that the caller gets, each named once."""

    weight_names: tuple[str, ...]
    weight_bytes: NDArray[np.int64]
    weight_offsets: Index
    op_weights: Index
    """Weights that each op reads; compressed by op. A weight read on two devices exists twice."""

    colocation: Index
    """Shape ``(num_ops,)``: ops with an equal id that is not -1 must share a device."""

    @property
    def num_ops(self) -> int:
        """Return the number of ops."""
        return len(self.op_names)

    @property
    def num_values(self) -> int:
        """Return the number of values."""
        return len(self.value_names)

    def inputs_of(self, op: int) -> Index:
        """Return the values that ``op`` reads."""
        return self.input_values[self.input_offsets[op] : self.input_offsets[op + 1]]

    def outputs_of(self, op: int) -> Index:
        """Return the values that ``op`` writes."""
        return self.output_values[self.output_offsets[op] : self.output_offsets[op + 1]]

    def consumers_of(self, value: int) -> Index:
        """Return the ops that read ``value``."""
        return self.consumer_ops[self.consumer_offsets[value] : self.consumer_offsets[value + 1]]

    def weights_of(self, op: int) -> Index:
        """Return the weights that ``op`` reads."""
        return self.op_weights[self.weight_offsets[op] : self.weight_offsets[op + 1]]
