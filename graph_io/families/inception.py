"""The ``inception`` family: image classifiers whose cells run branches in parallel.

After GoogLeNet and its successors (Szegedy et al., *Going Deeper with Convolutions*, 2015, and
*Rethinking the Inception Architecture*, 2016).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx

from dplace.graph_io.families.builder import GraphBuilder
from dplace.graph_io.families.layers import convolution, dense
from dplace.graph_io.families.scale import deep, wide

__all__ = ["inception"]

BRANCHES: dict[str, tuple[tuple[int, int], ...]] = {
    "1x1": ((1, 1),),
    "3x3": ((1, 1), (3, 3)),
    "5x5": ((1, 1), (5, 5)),
    "double-3x3": ((1, 1), (3, 3), (3, 3)),
    "factorised": ((1, 1), (1, 7), (7, 1)),
    "pool": ((1, 1),),
}
"""The kernels of each kind of branch, in order."""


@dataclass(slots=True)
class _Map:
    """A feature map under way: its value, its channels, its height and width."""

    value: str
    channels: int
    side: int


def inception(rng: np.random.Generator, *, size: float = 1.0) -> onnx.ModelProto:
    """Return a branchy CNN: a stem, 4 to 10 cells of 3 to 5 branches, a linear classifier.

    Args:
        rng: draws the architecture first, then the weights.
        size: scales the channels, and the number of cells by its fourth root.
    """
    side = int(rng.integers(6, 10)) * 16
    num_cells = deep(int(rng.integers(4, 11)), size)
    width = wide(int(rng.integers(10, 15)) * 80 / num_cells**0.5 / (side / 112), size, multiple=32)
    batch_norm = bool(rng.integers(2))
    residual = bool(rng.integers(2))
    num_classes = int(rng.integers(10, 200))
    reductions = {max(1, num_cells // 3), max(2, 2 * num_cells // 3)}

    graph = GraphBuilder("inception", rng)
    image = graph.input("image", ["batch", 3, side, side])
    current = _stem(graph, image, side, wide(int(rng.integers(24, 49)), size), batch_norm)
    for i in range(num_cells):
        with graph.scope(f"cell{i}"):
            if i in reductions:
                current = _reduction(graph, current, width // 2, batch_norm)
            current = _cell(graph, current, width, batch_norm=batch_norm, residual=residual)
    with graph.scope("head"):
        pooled = graph.add("Flatten", graph.add("GlobalAveragePool", current.value))
        logits = dense(graph, pooled, current.channels, num_classes)
        graph.output("logits", logits, ["batch", num_classes])
    return graph.model(
        f"dplace inception: {num_cells} cells of {width} channels, image {side}x{side}"
    )


def _stem(graph: GraphBuilder, image: str, side: int, width: int, batch_norm: bool) -> _Map:
    """Add the plain convolutions that bring the image to a quarter of its side."""
    with graph.scope("stem"):
        value = convolution(
            graph, image, inputs=3, outputs=width, kernel=(3, 3), stride=2, batch_norm=batch_norm
        )
        value = convolution(
            graph, value, inputs=width, outputs=2 * width, kernel=(3, 3), batch_norm=batch_norm
        )
        value = graph.add("MaxPool", value, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    return _Map(value, 2 * width, side // 4)


def _reduction(graph: GraphBuilder, current: _Map, width: int, batch_norm: bool) -> _Map:
    """Halve the map: a strided convolution beside a pooling, as in Inception-v3."""
    with graph.scope("reduction"):
        convolved = convolution(
            graph,
            current.value,
            inputs=current.channels,
            outputs=width,
            kernel=(3, 3),
            stride=2,
            batch_norm=batch_norm,
        )
        pooled = graph.add(
            "MaxPool", current.value, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]
        )
        value = graph.add("Concat", convolved, pooled, axis=1)
    return _Map(value, width + current.channels, (current.side + 1) // 2)


def _cell(
    graph: GraphBuilder, current: _Map, width: int, *, batch_norm: bool, residual: bool
) -> _Map:
    """Add 3 to 5 different branches from one map, and join them by Concat."""
    num_branches = int(graph.rng.integers(3, 6))
    kinds = [list(BRANCHES)[i] for i in graph.rng.permutation(len(BRANCHES))[:num_branches]]
    shares = graph.rng.uniform(0.6, 1.4, num_branches)
    outputs = [wide(width * share / shares.sum(), 1.0) for share in shares]
    outputs[-1] = max(16, width - sum(outputs[:-1]))
    joined = []
    for i, (kind, branch_outputs) in enumerate(zip(kinds, outputs, strict=True)):
        with graph.scope(f"branch{i}"):
            joined.append(_branch(graph, current, kind, branch_outputs, batch_norm))
    value = graph.add("Concat", *joined, axis=1)
    channels = sum(outputs)
    if residual and channels == current.channels:
        value = graph.add("Add", value, current.value)
    return _Map(value, channels, current.side)


def _branch(graph: GraphBuilder, current: _Map, kind: str, outputs: int, batch_norm: bool) -> str:
    """Add one branch of a kind of ``BRANCHES``; its last map has ``outputs`` channels."""
    reduced = wide(0.75 * outputs, 1.0)
    kernels = BRANCHES[kind]
    value, channels = current.value, current.channels
    if kind == "pool":
        pooling = ("AveragePool", "MaxPool")[graph.rng.integers(2)]
        value = graph.add(pooling, value, kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    for i, kernel in enumerate(kernels):
        written = outputs if i == len(kernels) - 1 else reduced
        value = convolution(
            graph,
            value,
            inputs=channels,
            outputs=written,
            kernel=kernel,
            batch_norm=batch_norm,
        )
        channels = written
    return value
