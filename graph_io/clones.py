"""Nodes that are not placed but copied to whoever uses their result.

Constants, what is computed from constants alone, dequantized activations (the quantized value
is the smaller one to send) and the integer arithmetic on shapes that exporters write.
"""

from collections.abc import Callable, Mapping

import onnx_ir as ir

from dplace.graph_io.uses import node_graphs, read_values

__all__ = ["RIDERS", "cloned_nodes", "is_random"]

RIDERS = frozenset({"Shape", "Size"})
"""Ops that stay with the producer of their input: their result is a few bytes."""

_SHAPE_OPS = frozenset(
    [
        "Abs",
        "Add",
        "And",
        "Cast",
        "Ceil",
        "Concat",
        "ConstantOfShape",
        "Div",
        "Equal",
        "Expand",
        "Floor",
        "Gather",
        "Greater",
        "Identity",
        "Less",
        "Max",
        "Min",
        "Mod",
        "Mul",
        "Neg",
        "Not",
        "Or",
        "Range",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Sub",
        "Unsqueeze",
        "Where",
    ]
)
_SHAPE_ELEMENTS = 64
"""Longest tensor that still counts as shape arithmetic."""
_RANDOM = frozenset(
    [
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Multinomial",
        "Bernoulli",
        "Dropout",
        "TrainableDropout",
        "BiasDropout",
    ]
)

SizeOf = Callable[[ir.Value], tuple[int, ...] | None]


def is_random(node: ir.Node) -> bool:
    """Return whether two runs of ``node`` can differ: a random op without a seed."""
    if node.op_type not in _RANDOM or "seed" in node.attributes:
        return False
    if "Dropout" in node.op_type:
        training = node.inputs[2] if len(node.inputs) > 2 else None
        return training is not None
    return True


def cloned_nodes(
    graph: ir.Graph, shape_of: SizeOf, overridable: frozenset[str]
) -> Mapping[ir.Node, str]:
    """Return the nodes to clone and why: ``constant``, ``shape`` or ``dequantize``.

    A node that makes a graph output is placed, for somebody has to hand the output over.
    """
    outputs = set(graph.outputs)
    reasons: dict[ir.Node, str] = {}
    constant: set[ir.Value] = {
        value for value in graph.initializers.values() if value.name not in overridable
    }
    shape_like: set[ir.Value] = set()
    for node in graph:
        if node.op_type in RIDERS and node.domain == "":
            shape_like.update(node.outputs)
        if any(output in outputs for output in node.outputs) or _has_graphs(node):
            continue
        reads = read_values(node)
        if all(value in constant for value in reads) and not _draws(node):
            reasons[node] = "constant"
            constant.update(node.outputs)
        elif _is_dequantize(node, constant):
            reasons[node] = "dequantize"
        elif _is_shape_arithmetic(node, reads, constant, shape_like, shape_of):
            reasons[node] = "shape"
            shape_like.update(node.outputs)
    return reasons


def _draws(node: ir.Node) -> bool:
    return node.op_type in _RANDOM


def _has_graphs(node: ir.Node) -> bool:
    return next(node_graphs(node), None) is not None


def _is_dequantize(node: ir.Node, constant: set[ir.Value]) -> bool:
    if node.op_type != "DequantizeLinear" or not node.inputs or node.inputs[0] is None:
        return False
    producer = node.inputs[0].producer()
    return (
        producer is not None
        and producer.op_type == "QuantizeLinear"
        and all(value is None or value in constant for value in node.inputs[1:])
    )


def _is_shape_arithmetic(
    node: ir.Node,
    reads: list[ir.Value],
    constant: set[ir.Value],
    shape_like: set[ir.Value],
    shape_of: SizeOf,
) -> bool:
    if node.domain != "" or node.op_type not in _SHAPE_OPS or not reads:
        return False
    if not all(value in constant or value in shape_like for value in reads):
        return False
    for output in node.outputs:
        size = shape_of(output)
        if size is None or len(size) > 1 or (size and size[0] > _SHAPE_ELEMENTS):
            return False
    return True
