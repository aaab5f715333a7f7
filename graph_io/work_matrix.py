"""Work of the ops that multiply matrices: convolutions, products, recurrences, attention.

A multiply-add counts as two operations. Convolutions: Sze et al., Proceedings of the IEEE
105(12), 2017, section III; the others follow from the operators' definitions.
"""

import math
from collections.abc import Callable

from dplace.graph_io.work_view import Cost, NodeView, Shape, UnknownShapeError, item_bytes

__all__ = ["MATRIX_RULES"]

Rule = Callable[[NodeView], Cost]

SOFTMAX_FLOP = 8
"""Operations per score of an attention: scale, mask, maximum, exponential, sum, division."""
GATE_FLOP = 10
"""Operations per gate of a recurrent cell, beside its matrix products."""
CLOSE_BYTES = 2 * 2**20
"""Weights up to this size stay in a cache of twice the speed while they are used again."""


def _convolution(weight: int, *, quantised: bool = False) -> Rule:
    """Return the rule of a convolution whose weights are at this input."""

    def rule(view: NodeView) -> Cost:
        kernel = view.input(weight)  # (M, C / group, k...)
        group = view.integer("group", 1)
        flop = 2.0 * math.prod(view.output()) * math.prod(kernel[1:])
        is_depthwise = group > 1 and kernel[1] == 1
        if is_depthwise:
            # Too few products a sum for int8's dot products to pay: as quick as float32.
            return Cost(kernel_class="depthwise_conv", flop=flop)
        if quantised:
            return Cost(kernel_class="quantised_conv", flop=flop, dtype="int8")
        return Cost(kernel_class="conv", flop=flop)

    return rule


def _transposed_convolution(view: NodeView) -> Cost:
    kernel = view.input(1)  # (C, M / group, k...)
    flop = 2.0 * math.prod(view.input(0)) * math.prod(kernel[1:])
    is_depthwise = view.integer("group", 1) > 1 and kernel[1] == 1
    return Cost(kernel_class="depthwise_conv" if is_depthwise else "conv", flop=flop)


def _deformed_convolution(view: NodeView) -> Cost:
    kernel = view.input(1)
    out = view.output()
    # Every tap is read between four neighbours, at an offset of its own.
    samples = out[0] * math.prod(out[2:]) * math.prod(kernel[2:]) * view.input(0)[1]
    flop = 2.0 * math.prod(out) * math.prod(kernel[1:]) + 10.0 * samples
    return Cost(kernel_class="conv", flop=flop)


def _matmul_cost(left: Shape, right: Shape, *, dtype: str | None = None) -> Cost:
    """Return the cost of a numpy-style product of two shapes."""
    left = left if len(left) > 1 else (1, *left)
    right = right if len(right) > 1 else (*right, 1)
    inner, columns = left[-1], right[-1]
    batches = [left[:-2], right[:-2]]
    depth = max(len(batch) for batch in batches)
    padded = [(1,) * (depth - len(batch)) + batch for batch in batches]
    batch = math.prod(max(a, b) if a and b else 0 for a, b in zip(*padded, strict=True))
    flop = 2.0 * batch * left[-2] * inner * columns
    # With one right matrix the batch is but more rows.
    rows = left[-2] * (batch if math.prod(right[:-2]) == 1 else 1)
    if dtype == "int8":
        return Cost(kernel_class="quantised_matmul", flop=flop, dtype=dtype)
    return Cost(kernel_class="gemv" if min(rows, columns) <= 1 else "matmul", flop=flop)


def _swapped(shape: Shape) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2])


def _matmul(left: int, right: int, *, dtype: str | None = None) -> Rule:
    """Return the rule of a product whose factors are at these inputs."""

    def rule(view: NodeView) -> Cost:
        a, b = view.input(left), view.input(right)
        if view.integer("transA"):
            a = _swapped(a)
        if view.integer("transB"):
            b = _swapped(b)
        if view.integer("transBatchA") or view.integer("transBatchB"):
            # The batch stands second to last; only the product counts.
            flop = 2.0 * math.prod(view.output()) * a[-1]
            return Cost(kernel_class="matmul", flop=flop)
        return _matmul_cost(a, b, dtype=dtype)

    return rule


def _matmul_of_blocks(view: NodeView) -> Cost:
    """Weights in blocks of a few bits, turned into floats on the way (MatMulNBits, MatMulBnb4)."""
    rows = math.prod(view.input(0)[:-1])
    flop = 2.0 * rows * view.integer("K") * view.integer("N")
    if flop == 0:
        flop = 2.0 * math.prod(view.output()) * view.input(0)[-1]
    dtype = "int8" if view.integer("accuracy_level") == 4 else None
    return Cost(kernel_class="quantised_matmul", flop=flop, dtype=dtype)


def _einsum(view: NodeView) -> Cost:
    """Multiply the sizes of all labels: what a loop over every index would do."""
    equation = view.text("equation").replace(" ", "")
    terms = equation.split("->")[0].split(",")
    sizes: dict[str, int] = {}
    ellipsis = 1
    for index, term in enumerate(terms):
        shape = view.input(index)
        before, dots, after = term.partition("...")
        head, tail = shape[: len(before)], shape[len(shape) - len(after) :]
        if dots:
            ellipsis = max(ellipsis, math.prod(shape[len(before) : len(shape) - len(after)]))
        for label, size in zip((*before, *after), (*head, *tail), strict=False):
            sizes[label] = max(sizes.get(label, 1), size)
    flop = float(len(terms)) * ellipsis * math.prod(sizes.values())
    is_product = len(terms) > 1 and flop > 2.0 * len(terms) * math.prod(view.output())
    return Cost(kernel_class="matmul" if is_product else "movement", flop=flop)


def _recurrent(gates: int, *, dtype: str | None = None) -> Rule:
    """Return the rule of an RNN (1 gate), GRU (3) or LSTM (4)."""

    def rule(view: NodeView) -> Cost:
        x, weight, hidden_weight = view.input(0), view.input(1), view.input(2)
        batch_first = view.integer("layout") == 1
        steps, batch = (x[1], x[0]) if batch_first else (x[0], x[1])
        directions = weight[0]
        # DynamicQuantizeLSTM keeps its weights transposed; the attribute is right for both.
        hidden = view.integer("hidden_size") or hidden_weight[-1]
        units = float(directions * steps * batch * gates * hidden)
        flop = units * (2 * (x[2] + hidden) + GATE_FLOP)
        # The hidden weights are read again at every step, from near by if they are small; one
        # direction runs after the other.
        again = view.input_bytes(2) * max(steps - 1, 0)
        if view.input_bytes(2) <= CLOSE_BYTES * directions:
            again /= 2
        bytes_moved = view.all_bytes() + again
        return Cost(kernel_class="recurrent", flop=flop, bytes_moved=bytes_moved, dtype=dtype)

    return rule


def _scores(
    view: NodeView, *, heads: int, queries: int, keys: int, batch: int
) -> tuple[float, float]:
    """Return the softmax's operations, and the bytes of scores written and read."""
    count = float(batch * heads * queries * keys)
    value = view.value(0)
    return SOFTMAX_FLOP * count, 2 * count * item_bytes(value.dtype if value else None)


def _attention(view: NodeView) -> Cost:
    """ONNX's own Attention: Q, K and V of three or four dimensions."""
    q, k, v = view.input(0), view.input(1), view.input(2)
    past = view.input_or_none(4)
    if len(q) == 4:
        batch, heads, queries, width = q
        keys, value_width = k[2], v[3]
    else:
        batch, queries = q[0], q[1]
        heads = max(view.integer("q_num_heads", 1), 1)
        width, keys = q[2] // heads, k[1]
        value_width = v[2] // max(view.integer("kv_num_heads", heads), 1)
    keys += past[2] if past else 0
    softmax, score_bytes = _scores(view, heads=heads, queries=queries, keys=keys, batch=batch)
    flop = 2.0 * batch * heads * queries * keys * (width + value_width) + softmax
    return Cost(kernel_class="attention", flop=flop, bytes_moved=view.all_bytes() + score_bytes)


def _keys(view: NodeView, queries: int) -> int:
    """Return how many keys there are, from whichever input or output shows it.

    Keys are ``(B, S, H)`` or ``(B, N, S, D)``; caches ``(B, N, S, D)`` or ``(2, B, N, S, D)``.
    """
    key = view.input_or_none(1)
    seen = [queries]
    if key is not None and len(key) in (3, 4):
        seen.append(key[1] if len(key) == 3 else key[2])
    for index in range(3, len(view.node.inputs)):
        past = view.input_or_none(index)
        if past is not None and len(past) == 5 and past[0] == 2:
            seen.append(past[3] + queries)
    present = view.output_or_none(1)
    if present is not None and len(present) in (4, 5):
        seen.append(present[-2])
    return max(seen)


def _fused_attention(*, projects: bool, dtype: str | None = None) -> Rule:
    """Return the rule of a com.microsoft attention; ``projects``: it makes Q, K and V itself."""

    def rule(view: NodeView) -> Cost:
        x, out = view.input(0), view.output()
        batch, queries, hidden = x[0], x[1], out[-1]
        heads = max(view.integer("num_heads", 1), 1)
        keys = _keys(view, queries)
        softmax, score_bytes = _scores(view, heads=heads, queries=queries, keys=keys, batch=batch)
        flop = 4.0 * batch * queries * keys * hidden + softmax
        if projects:
            flop += 2.0 * math.prod(x) * view.input(1)[-1]
        bytes_moved = view.all_bytes() + score_bytes
        return Cost(kernel_class="attention", flop=flop, bytes_moved=bytes_moved, dtype=dtype)

    return rule


def _linear_attention(view: NodeView) -> Cost:
    """A state of head width squared is updated and read once a step."""
    query, out = view.input(0), view.output()
    heads = view.integer("q_num_heads", 0) or view.integer("num_heads", 0) or 1
    width = query[-1] if len(query) == 4 else query[-1] // heads
    return Cost(kernel_class="attention", flop=6.0 * math.prod(out) * width)


def _mixture_of_experts(*, quantised: bool) -> Rule:
    """Return the rule of MoE, or of QMoE, whose weights are each followed by their scales."""

    def rule(view: NodeView) -> Cost:
        x = view.input(0)
        rows, hidden = math.prod(x[:-1]), x[-1]
        first = view.input(2)
        experts, chosen = first[0], view.integer("k", 1)
        if quantised:
            packed = 8 // max(view.integer("expert_weight_bits", 4), 1)
            inner = math.prod(first[1:]) * packed // max(hidden, 1)
        else:
            inner = math.prod(first[1:]) // max(hidden, 1)
        if experts == 0:
            raise UnknownShapeError
        flop = 2.0 * rows * chosen * hidden * inner * 2
        used = min(1.0, rows * chosen / experts)
        weights = sum(view.input_bytes(index) for index in range(2, len(view.node.inputs)))
        bytes_moved = view.input_bytes(0) + view.output_bytes() + used * weights
        name = "quantised_matmul" if quantised else "matmul"
        return Cost(kernel_class=name, flop=flop, bytes_moved=bytes_moved)

    return rule


MATRIX_RULES: dict[str, Rule] = {
    "Conv": _convolution(1),
    "ConvInteger": _convolution(1, quantised=True),
    "QLinearConv": _convolution(3, quantised=True),
    "CausalConvWithState": _convolution(1),
    "ConvTranspose": _transposed_convolution,
    "DeformConv": _deformed_convolution,
    "MatMul": _matmul(0, 1),
    "Gemm": _matmul(0, 1),
    "MatMulInteger": _matmul(0, 1, dtype="int8"),
    "QLinearMatMul": _matmul(0, 3, dtype="int8"),
    "Einsum": _einsum,
    "RNN": _recurrent(1),
    "GRU": _recurrent(3),
    "LSTM": _recurrent(4),
    "Attention": _attention,
    "LinearAttention": _linear_attention,
    "ai.onnx.preview:FlexAttention": _attention,
    "ai.onnx.ml:LinearClassifier": lambda view: Cost(
        kernel_class="matmul", flop=2.0 * math.prod(view.input(0)) * view.output(1)[-1]
    ),
    "ai.onnx.ml:LinearRegressor": lambda view: Cost(
        kernel_class="matmul", flop=2.0 * math.prod(view.input(0)) * view.output()[-1]
    ),
}
"""By op type, with the domain before it unless it is ONNX's own."""

MATRIX_RULES |= {
    f"com.microsoft:{op_type}": rule
    for op_type, rule in {
        "FusedConv": _convolution(1),
        "NhwcConv": _convolution(1),
        "NhwcFusedConv": _convolution(1),
        "QLinearConv": _convolution(3, quantised=True),
        "CausalConvWithState": _convolution(1),
        "VarlenCausalConvWithState": _convolution(1),
        "ConvTransposeWithDynamicPads": _transposed_convolution,
        "FusedMatMul": _matmul(0, 1),
        "FusedMatMulActivation": _matmul(0, 1),
        "TransposeMatMul": _matmul(0, 1),
        "SparseToDenseMatMul": _matmul(0, 1),
        "FusedGemm": _matmul(0, 1),
        "GemmFastGelu": _matmul(0, 1),
        "GemmFloat8": _matmul(0, 1),
        "QGemm": _matmul(0, 3, dtype="int8"),
        "MatMulIntegerToFloat": _matmul(0, 1, dtype="int8"),
        "MatMulInteger16": _matmul(0, 1),
        "DynamicQuantizeMatMul": _matmul(0, 1, dtype="int8"),
        "QOrderedMatMul": _matmul(0, 2, dtype="int8"),
        "MatMulFpQ4": _matmul_of_blocks,
        "MatMulNBits": _matmul_of_blocks,
        "MatMulNBitsMlp": _matmul_of_blocks,
        "MatMulNBitsQkv": _matmul_of_blocks,
        "MatMulBnb4": _matmul_of_blocks,
        "MatMulBlockQuantizedFp4Weight": _matmul_of_blocks,
        "MatMulBlockQuantizedFp8Weight": _matmul_of_blocks,
        "DynamicQuantizeLSTM": _recurrent(4, dtype="int8"),
        "Attention": _fused_attention(projects=True),
        "QAttention": _fused_attention(projects=True, dtype="int8"),
        "LongformerAttention": _fused_attention(projects=True),
        "QOrderedAttention": _fused_attention(projects=True, dtype="int8"),
        "MultiHeadAttention": _fused_attention(projects=False),
        "GroupQueryAttention": _fused_attention(projects=False),
        "DecoderMaskedMultiHeadAttention": _fused_attention(projects=False),
        "DecoderMaskedSelfAttention": _fused_attention(projects=True),
        "SparseAttention": _fused_attention(projects=False),
        "LinearAttention": _linear_attention,
        "GatedDeltaNet": _linear_attention,
        "CDist": lambda view: Cost(
            kernel_class="matmul", flop=3.0 * math.prod(view.output()) * view.input(0)[-1]
        ),
        "MoE": _mixture_of_experts(quantised=False),
        "QMoE": _mixture_of_experts(quantised=True),
    }.items()
}

# The blocked layout of onnxruntime's CPU kernels keeps ONNX's weight shape, channels padded.
MATRIX_RULES["com.microsoft.nchwc:Conv"] = _convolution(1)
