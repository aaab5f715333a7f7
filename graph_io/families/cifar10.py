"""The ``cifar10`` family: image classifiers that stack two cells of a random wiring.

The search space of ENAS for CIFAR-10 (Pham et al., *Efficient Neural Architecture Search via
Parameter Sharing*, 2018), which Placeto takes its graphs from. A cell reads the two cells before
it; each of its nodes adds what two ops make of two earlier nodes, and the nodes that no other
reads are concatenated. One cell keeps the size of the map, the other halves it; the convolutions
of the second kind are separable (Chollet, *Xception*, 2017).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx

from dplace.graph_io.families.builder import GraphBuilder
from dplace.graph_io.families.layers import convolution, dense
from dplace.graph_io.families.scale import deep, solved_width, wide

__all__ = ["cifar10"]

OPS = ("conv3", "conv5", "separable3", "separable5", "average", "maximum", "skip")
SQUARES = {"conv3": 9, "conv5": 25, "separable3": 2, "separable5": 2}
"""Weights of an op over the square of its channels; those of the other ops are few."""
SIDE = 32
NUM_CLASSES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """One node of a cell: which earlier nodes it reads (0 and 1 are the cells before), and how."""

    reads: tuple[int, int]
    ops: tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """The wiring of a cell."""

    nodes: tuple[_Node, ...]

    @property
    def ends(self) -> list[int]:
        """The nodes that no other reads, counted as in ``_Node.reads``."""
        read = {i for node in self.nodes for i in node.reads}
        return [i for i in range(2, len(self.nodes) + 2) if i not in read]

    @property
    def squares(self) -> float:
        """Weights of the cell over the square of its channels, about."""
        ops = sum(SQUARES.get(op, 0) for node in self.nodes for op in node.ops)
        return ops + 2 * len(self.ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Map:
    """A feature map: its value, its channels, its height and width."""

    value: str
    channels: int
    side: int


def cifar10(rng: np.random.Generator, *, size: float = 1.0) -> onnx.ModelProto:
    """Return a classifier of 32x32 images: three stages of cells, each half the size of the last.

    Args:
        rng: draws the architecture first, then the weights.
        size: scales the channels, and the number of cells by its fourth root.
    """
    num_nodes = int(rng.integers(5, 8))
    normal, reduction = (_drawn_cell(rng, num_nodes) for _ in range(2))
    num_cells = deep(int(rng.integers(2, 5)), size)
    growth = (1.0, 1.25, 1.5)[rng.integers(3)]
    weights_wanted = rng.uniform(2.8e6, 4.2e6) * size**2
    squares = num_cells * normal.squares * (1 + growth**2 + growth**4)
    squares += reduction.squares * (growth**2 + growth**4)
    width = solved_width(weights_wanted, squares=squares)
    widths = [wide(width * growth**stage, 1.0, multiple=8) for stage in range(3)]

    graph = GraphBuilder("cifar10", rng)
    image = graph.input("image", ["batch", 3, SIDE, SIDE])
    with graph.scope("stem"):
        stem = convolution(
            graph,
            image,
            inputs=3,
            outputs=3 * widths[0],
            kernel=(3, 3),
            batch_norm=True,
            relu=False,
        )
    before = last = _Map(value=stem, channels=3 * widths[0], side=SIDE)
    for stage, channels in enumerate(widths):
        if stage:
            with graph.scope(f"reduction{stage}"):
                before, last = last, _cell(graph, reduction, (before, last), channels, stride=2)
        for i in range(num_cells):
            with graph.scope(f"stage{stage}/cell{i}"):
                before, last = last, _cell(graph, normal, (before, last), channels, stride=1)
    with graph.scope("head"):
        pooled = graph.add("GlobalAveragePool", graph.add("Relu", last.value))
        logits = dense(graph, graph.add("Flatten", pooled), last.channels, NUM_CLASSES)
        graph.output("logits", logits, ["batch", NUM_CLASSES])
    return graph.model(
        f"dplace cifar10: 3 stages of {num_cells} cells of {num_nodes} nodes, "
        f"{widths[0]}, {widths[1]} and {widths[2]} channels"
    )


def _drawn_cell(rng: np.random.Generator, num_nodes: int) -> _Cell:
    nodes = []
    for i in range(num_nodes):
        first, second = (int(j) for j in rng.integers(i + 2, size=2))
        one, two = (OPS[j] for j in rng.integers(len(OPS), size=2))
        nodes.append(_Node(reads=(first, second), ops=(one, two)))
    return _Cell(nodes=tuple(nodes))


def _cell(
    graph: GraphBuilder, cell: _Cell, inputs: tuple[_Map, _Map], channels: int, *, stride: int
) -> _Map:
    """Add a cell over the outputs of the two cells before it.

    Args:
        graph: the graph to add to.
        cell: the wiring.
        inputs: the second last and the last output; the first may still be twice as large.
        channels: of every node.
        stride: 2 to halve the map; it is the ops that read ``inputs`` that do it.
    """
    side = inputs[1].side
    with graph.scope("calibration"):
        values = [
            _convolution(graph, read.value, read.channels, channels, stride=read.side // side)
            for read in inputs
        ]
    for i, node in enumerate(cell.nodes):
        with graph.scope(f"node{i}"):
            terms = []
            for read, op in zip(node.reads, node.ops, strict=True):
                halved = stride if read < 2 else 1
                terms.append(_op(graph, op, values[read], channels, halved))
            values.append(graph.add("Add", *terms))
    ends = [values[i] for i in cell.ends]
    value = ends[0] if len(ends) == 1 else graph.add("Concat", *ends, axis=1)
    return _Map(value=value, channels=len(ends) * channels, side=side // stride)


def _op(graph: GraphBuilder, op: str, value: str, channels: int, stride: int) -> str:
    """Add one op of ``OPS``; it keeps the channels, and the size of the map but for the stride."""
    match op:
        case "skip" if stride == 1:
            return value
        case "skip":
            return _convolution(graph, value, channels, channels, stride=stride)
        case "average" | "maximum":
            return graph.add(
                "AveragePool" if op == "average" else "MaxPool",
                value,
                kernel_shape=[3, 3],
                strides=[stride, stride],
                pads=[1, 1, 1, 1],
            )
        case "conv3" | "conv5":
            return _convolution(graph, value, channels, channels, kernel=int(op[-1]), stride=stride)
    kernel = int(op[-1])
    for strides in (stride, 1):  # ENAS applies a separable convolution twice
        value = convolution(
            graph,
            graph.add("Relu", value),
            inputs=channels,
            outputs=channels,
            kernel=(kernel, kernel),
            stride=strides,
            groups=channels,
            relu=False,
        )
        value = convolution(
            graph, value, inputs=channels, outputs=channels, batch_norm=True, relu=False
        )
    return value


def _convolution(
    graph: GraphBuilder,
    value: str,
    inputs: int,
    outputs: int,
    *,
    kernel: int = 1,
    stride: int = 1,
) -> str:
    """Add a Relu, a convolution and a normalisation, in the order of ENAS."""
    return convolution(
        graph,
        graph.add("Relu", value),
        inputs=inputs,
        outputs=outputs,
        kernel=(kernel, kernel),
        stride=stride,
        batch_norm=True,
        relu=False,
    )
