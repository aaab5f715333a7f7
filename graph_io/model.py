"""A model in memory: the ONNX graph, where it came from, and its weights by reference."""

from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir as ir

__all__ = ["Model", "tensor_size_bytes", "weight_bytes"]

_STRING_BYTES = 16
"""Assumed for one string."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """An ONNX model whose external data is mapped, never loaded whole.

    ``ir`` and ``proto`` describe the same graph and share the bytes of inline weights; whoever
    changes one of them makes a new Model.
    """

    name: str
    path: Path | None
    """The file it was read from; None for standard input or a model made in memory."""
    digest: str
    """``sha256:`` and the digest of the model file."""
    proto: onnx.ModelProto
    ir: ir.Model
    """Nodes stand in a topological order; sparse initializers are dense."""
    overridable: tuple[str, ...] = ()
    """Initializers that are also inputs (IR 4 and newer): the caller may feed another value."""


def weight_bytes(model: ir.Model) -> int:
    """Return the bytes of all initializers of the main graph.

    >>> weight_bytes(ir.Model(ir.Graph([], [], nodes=[]), ir_version=10))
    0
    """
    return sum(
        tensor_size_bytes(value.const_value)
        for value in model.graph.initializers.values()
        if value.const_value is not None
    )


def tensor_size_bytes(tensor: ir.TensorProtocol) -> int:
    """Return the bytes that a tensor takes."""
    if tensor.dtype == ir.DataType.STRING:
        return tensor.size * _STRING_BYTES
    return tensor.nbytes
