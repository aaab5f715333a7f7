"""What onnxruntime makes of a weight that is fed in place of being a constant of the session."""

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from dplace.graph_io.build import PlaceableModel

__all__ = [
    "FLOAT_PRODUCTS",
    "PACKED_AT_START",
    "SAME_BITS",
    "changes_bits",
    "nodes_of",
    "op_type",
    "repacked_bytes",
]

PACKED_AT_START = frozenset(
    [
        "com.microsoft:MatMulBnb4",
        "com.microsoft:MatMulFpQ4",
        "com.microsoft:MatMulNBits",
        "com.microsoft:QMoE",
    ]
)
"""Quantised to blocks of a few bits: without packing other kernels run, and ``MatMulNBits`` at
accuracy level 4 then computes in float what it would have computed in integers."""

FLOAT_PRODUCTS = {
    "GRU": (1, 2),
    "Gemm": (1,),
    "LSTM": (1, 2),
    "MatMul": (1,),
    "com.microsoft:Attention": (1,),
    "com.microsoft:FusedGemm": (1,),
    "com.microsoft:FusedMatMul": (1,),
}
"""Inputs of float32 that onnxruntime packs when they are constant, and then sums up in other
blocks. Measured with 1.31: other last bits for a single row, and from 129 columns on."""

RECURRENT = ("GRU", "LSTM")
"""Their matrices lie transposed, and the second of them is used at every step."""

SAME_BITS = frozenset(
    [
        "Add",
        "BatchNormalization",
        "Cast",
        "Concat",
        "Conv",
        "ConvInteger",
        "ConvTranspose",
        "DequantizeLinear",
        "Div",
        "Einsum",
        "Expand",
        "GRU",
        "Gather",
        "Gemm",
        "LSTM",
        "LayerNormalization",
        "MatMul",
        "MatMulInteger",
        "Mul",
        "PRelu",
        "QLinearConv",
        "QLinearMatMul",
        "RNN",
        "Reshape",
        "SimplifiedLayerNormalization",
        "Sub",
        "Transpose",
        "Where",
        "com.microsoft:Attention",
        "com.microsoft:BiasGelu",
        "com.microsoft:DynamicQuantizeLSTM",
        "com.microsoft:DynamicQuantizeMatMul",
        "com.microsoft:EmbedLayerNormalization",
        "com.microsoft:FusedConv",
        "com.microsoft:FusedGemm",
        "com.microsoft:FusedMatMul",
        "com.microsoft:MatMulIntegerToFloat",
        "com.microsoft:QAttention",
        "com.microsoft:QGemm",
        "com.microsoft:SkipLayerNormalization",
        "com.microsoft.nchwc:Conv",
    ]
)
"""Ops that compute the same bits with a weight that is fed, ``FLOAT_PRODUCTS`` aside."""


def op_type(node: ir.Node) -> str:
    """Return the operator type, with ``domain:`` before it unless it is ONNX's own."""
    return f"{node.domain}:{node.op_type}" if node.domain else node.op_type


def nodes_of(source: PlaceableModel, op: int) -> Iterator[ir.Node]:
    """Yield the nodes that run with an op, its clones included."""
    yield from source.op_clones[op]
    yield from source.op_nodes[op]


def changes_bits(lifted: PlaceableModel) -> bool:
    """Return whether some op may compute other last bits because a weight of it is lifted."""
    for op in range(lifted.graph.num_ops):
        read = (lifted.values[value] for value in lifted.graph.inputs_of(op).tolist())
        values = {value for value in read if value.is_initializer()}
        if not values:
            continue
        for node in nodes_of(lifted, op):
            kind = op_type(node)
            for slot, value in enumerate(node.inputs):
                if value is None or value not in values:
                    continue
                if kind not in SAME_BITS:
                    return True
                if slot in FLOAT_PRODUCTS.get(kind, ()) and value.dtype == ir.DataType.FLOAT:
                    return True
    return False


def repacked_bytes(source: PlaceableModel) -> NDArray[np.float64]:
    """Return the bytes that ops pack at each run, of each weight that they read, were it fed.

    A constant matrix is packed once, when a session opens; a fed one is packed by each product that
    has more than one row, a recurrent one at every step.

    Args:
        source: A model whose weights are not lifted yet.

    Returns:
        Shape ``(len(graph.op_weights), 2)``: of matrices as they lie, and of transposed ones.
    """
    graph = source.graph
    found = np.zeros((len(graph.op_weights), 2))
    for op in range(graph.num_ops):
        mine = enumerate(graph.weights_of(op).tolist(), int(graph.weight_offsets[op]))
        places = {source.weights[weight]: {place} for place, weight in mine}
        # What a clone makes of a weight counts as another one; the one that it reads is moved.
        for node in source.op_clones[op]:
            read = [places[value] for value in node.inputs if value is not None and value in places]
            places.update(dict.fromkeys(node.outputs, set().union(*read)))
        for node in nodes_of(source, op):
            for slot in FLOAT_PRODUCTS.get(op_type(node), ()):
                value = node.inputs[slot] if slot < len(node.inputs) else None
                if value is None or value.dtype != ir.DataType.FLOAT:
                    continue
                is_transposed = op_type(node) in RECURRENT or _is_set(node, "transB")
                for place in places.get(value, ()):
                    size = graph.weight_bytes[graph.op_weights[place]]
                    found[place, int(is_transposed)] += _products(source, node, slot) * size
    return found


def _products(source: PlaceableModel, node: ir.Node, slot: int) -> int:
    """Return how many products with more than one row a node makes with one of its weights."""
    x = node.inputs[0]
    shape = source.observed.shapes.get(x.name or "") if x is not None else None
    if shape is None or len(shape) < 2:
        return int(shape is None)  # a vector is one row
    if op_type(node) in RECURRENT:  # onnxruntime has no other layout than (steps, batch, size)
        steps, batch = shape[:2]
        if slot == 1:
            return int(batch * steps > 1)
        return steps if batch > 1 else 0
    rows = shape[-1] if _is_set(node, "transA") else int(np.prod(shape[:-1]))
    return int(rows > 1)


def _is_set(node: ir.Node, name: str) -> bool:
    attribute = node.attributes.get(name)
    return attribute is not None and attribute.as_int() != 0
