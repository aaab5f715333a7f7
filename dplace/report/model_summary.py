"""What ``inspect`` tells about a model, and its JSON form."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dplace.plan.records import ValueType

__all__ = ["Capture", "ModelSummary", "OpTypeUse", "Uncut", "UncutReason"]

UncutReason = Literal["control-flow", "fused", "optional-value", "co-located"]
"""Why ops stay on one device: the bodies of If, Loop and Scan run inside their op; nodes would
still fuse when the part is loaded; a value between them cannot cross; the model asks for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpTypeUse:
    """All ops of one type."""

    op_type: str
    """Operator type, with ``domain:`` before it unless it is ONNX's own."""
    count: int
    flop: float
    """Work of all of them, in operations."""
    size_bytes: float
    """What all of them read and write, weights included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """A control-flow op and what its bodies read from outside of them."""

    op: str
    """The op's first output."""
    op_type: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncut:
    """Nodes that placement keeps together."""

    reason: UncutReason
    op: str
    """First output of the op that they form, or the value that cannot cross."""
    detail: str
    """What it is made of, in words: ``Conv + Relu``, ``2 bodies with 31 nodes``, ..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSummary:
    """What is in a model that matters when it is placed."""

    model: str
    """Its path as it was given; ``-`` for standard input."""
    ir_version: int
    producer: str
    """Name and version of what wrote the file; empty if it does not say."""
    opset_imports: Mapping[str, int]
    """Version by domain; ONNX's own domain is ``ai.onnx``."""
    functions: tuple[str, ...]
    """Model-local functions as ``domain:name``, with ``:overload`` after it if it has one."""
    optimize: Literal["native", "portable", "none"]
    """What was done to the model before it was counted."""
    num_nodes: int
    """Nodes of the main graph in the file."""
    num_ops: int
    """Ops that placement sees, after what is cloned and what is kept together."""
    num_weights: int
    weight_bytes: int
    inputs: tuple[ValueType, ...]
    outputs: tuple[ValueType, ...]
    dynamic_dims: Mapping[str, int]
    """Size that was taken for each dynamic dimension, by its name."""
    op_types: tuple[OpTypeUse, ...]
    captures: tuple[Capture, ...]
    uncut: tuple[Uncut, ...]
    warnings: tuple[str, ...] = ()
    """Sentences on what was assumed, one for each thing."""

    @property
    def flop(self) -> float:
        """Return the work of one run, in operations."""
        return sum(use.flop for use in self.op_types)

    def as_json(self) -> dict[str, object]:
        """Return the summary as one JSON object."""
        return {
            "model": self.model,
            "ir_version": self.ir_version,
            "producer": self.producer,
            "opset_imports": dict(self.opset_imports),
            "functions": list(self.functions),
            "optimize": self.optimize,
            "nodes": self.num_nodes,
            "ops": self.num_ops,
            "flop": self.flop,
            "weights": {"count": self.num_weights, "bytes": self.weight_bytes},
            "inputs": [value_json(value) for value in self.inputs],
            "outputs": [value_json(value) for value in self.outputs],
            "dynamic_dims": dict(self.dynamic_dims),
            "op_types": [
                {
                    "op_type": use.op_type,
                    "count": use.count,
                    "flop": use.flop,
                    "bytes": use.size_bytes,
                }
                for use in self.op_types
            ],
            "captures": [
                {"op": capture.op, "op_type": capture.op_type, "values": list(capture.values)}
                for capture in self.captures
            ],
            "uncut": [
                {"reason": uncut.reason, "op": uncut.op, "detail": uncut.detail}
                for uncut in self.uncut
            ],
            "warnings": list(self.warnings),
        }


def value_json(value: ValueType) -> dict[str, object]:
    """Return name, type and shape of a value as a JSON object."""
    shape = None if value.shape is None else list(value.shape)
    return {"name": value.name, "type": value.type, "shape": shape}
