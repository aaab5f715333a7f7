"""What onnxruntime makes of a weight that is fed in place of being a constant of the session."""

from collections.abc import Iterator

import onnx_ir as ir

from dplace.graph_io.build import PlaceableModel

__all__ = ["FLOAT_PRODUCTS", "PACKED_AT_START", "SAME_BITS", "changes_bits", "nodes_of", "op_type"]

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
