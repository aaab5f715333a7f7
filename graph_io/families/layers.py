"""The layers that several families share, each written as exporters write it."""

from __future__ import annotations

import math

from dplace.graph_io.families.builder import GraphBuilder

__all__ = ["attention", "convolution", "dense", "gelu", "layer_norm", "linear"]

HE = math.sqrt(2.0)


def convolution(
    graph: GraphBuilder,
    value: str,
    *,
    inputs: int,
    outputs: int,
    kernel: tuple[int, int] = (1, 1),
    stride: int = 1,
    groups: int = 1,
    batch_norm: bool = False,
    relu: bool = True,
) -> str:
    """Add a convolution that keeps the size of the map (but for its stride).

    Args:
        graph: the graph to add to.
        value: shape ``(batch, inputs, height, width)``.
        inputs: channels read.
        outputs: channels written.
        kernel: height and width, both odd.
        stride: the same for both axes.
        groups: number of groups of channels that do not see each other.
        batch_norm: follow with BatchNormalization instead of having a bias.
        relu: follow with Relu.
    """
    read = inputs // groups
    fan_in = read * kernel[0] * kernel[1]
    weight = graph.weight((outputs, read, *kernel), fan_in=fan_in, gain=HE if relu else 1.0)
    bias = () if batch_norm else (graph.bias(outputs),)
    top, left = kernel[0] // 2, kernel[1] // 2
    value = graph.add(
        "Conv",
        value,
        weight,
        *bias,
        kernel_shape=kernel,
        strides=[stride, stride],
        pads=[top, left, top, left],
        **({"group": groups} if groups > 1 else {}),
    )
    if batch_norm:
        scale, shift = graph.scale(outputs), graph.bias(outputs)
        mean, variance = graph.bias(outputs), graph.scale(outputs)
        value = graph.add("BatchNormalization", value, scale, shift, mean, variance)
    return graph.add("Relu", value) if relu else value


def dense(graph: GraphBuilder, value: str, inputs: int, outputs: int, *, gain: float = 1.0) -> str:
    """Add a fully connected layer (Gemm) over a value of shape ``(batch, inputs)``."""
    weight = graph.weight((outputs, inputs), fan_in=inputs, gain=gain)
    return graph.add("Gemm", value, weight, graph.bias(outputs), transB=1)


def linear(graph: GraphBuilder, value: str, inputs: int, outputs: int, *, gain: float = 1.0) -> str:
    """Add a fully connected layer (MatMul, Add) over the last axis of a value of any rank."""
    weight = graph.weight((inputs, outputs), fan_in=inputs, gain=gain)
    return graph.add("Add", graph.add("MatMul", value, weight), graph.bias(outputs))


def layer_norm(graph: GraphBuilder, value: str, width: int) -> str:
    """Add a LayerNormalization over the last axis, of length ``width``."""
    scale, shift = graph.scale(width), graph.bias(width)
    return graph.add("LayerNormalization", value, scale, shift, axis=-1)


def gelu(graph: GraphBuilder, value: str) -> str:
    """Add the exact Gelu, which opset 17 has no op for: ``x * (1 + erf(x / sqrt(2))) / 2``."""
    error = graph.add("Erf", graph.add("Div", value, graph.number(math.sqrt(2.0))))
    gate = graph.add("Add", error, graph.number(1.0))
    return graph.add("Mul", graph.add("Mul", value, gate), graph.number(0.5))


def attention(
    graph: GraphBuilder,
    value: str,
    *,
    width: int,
    heads: int,
    split_shape: str,
    merge_shape: str,
    mask: str | None = None,
    packed: bool = False,
) -> str:
    """Add multi-head self-attention, from the projections of its input to that of its output.

    Args:
        graph: the graph to add to.
        value: shape ``(batch, sequence, width)``.
        width: a multiple of ``heads``.
        heads: number of heads.
        split_shape: name of the shape ``(batch, sequence, heads, width / heads)``.
        merge_shape: name of the shape ``(batch, sequence, width)``.
        mask: a value added to the scores, broadcast to ``(batch, heads, sequence, sequence)``.
        packed: project query, key and value by one MatMul and a Split, instead of three.
    """
    if packed:
        joined = linear(graph, value, width, 3 * width)
        projected = graph.add_many("Split", joined, num_outputs=3, axis=-1)
    else:
        projected = tuple(linear(graph, value, width, width) for _ in range(3))
    query, key, values = (graph.add("Reshape", part, split_shape) for part in projected)
    query = graph.add("Transpose", query, perm=[0, 2, 1, 3])  # (batch, heads, sequence, head)
    key = graph.add("Transpose", key, perm=[0, 2, 3, 1])  # (batch, heads, head, sequence)
    values = graph.add("Transpose", values, perm=[0, 2, 1, 3])
    scores = graph.add("MatMul", query, key)
    scores = graph.add("Div", scores, graph.number(math.sqrt(width // heads)))
    if mask is not None:
        scores = graph.add("Add", scores, mask)
    mixed = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), values)
    mixed = graph.add("Transpose", mixed, perm=[0, 2, 1, 3])
    mixed = graph.add("Reshape", mixed, merge_shape)
    return linear(graph, mixed, width, width)
