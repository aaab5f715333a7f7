"""The ``two-tower`` family: two heavy, equally heavy towers that meet in a tiny head.

The shape of retrieval and matching models (Huang et al., *Learning Deep Structured Semantic
Models*, 2013): nothing joins the towers but their last vectors, so two devices are nearly twice
as fast as one. Both towers have the same kinds of blocks and the same work in each, so that they
are balanced on any machine; the order of the blocks and all their widths differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from dplace.graph_io.families.builder import GraphBuilder
from dplace.graph_io.families.layers import (
    HE,
    attention,
    convolution,
    dense,
    gelu,
    layer_norm,
    linear,
)
from dplace.graph_io.families.scale import deep, wide

__all__ = ["two_tower"]

BLOCKS = ("convolution", "attention", "mixer")
PATCH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tower:
    """The plan of one tower: its map of ``side * side`` tokens, and its blocks in order."""

    side: int
    width: int
    blocks: Sequence[str]
    block_macs: float
    """Multiply-adds of each block, for one item of the batch."""

    @property
    def tokens(self) -> int:
        """Number of tokens of the map."""
        return self.side**2


def two_tower(rng: np.random.Generator, *, size: float = 1.0) -> onnx.ModelProto:
    """Return two towers over images, ``query`` and ``item``, and a ``score`` of the pair.

    Args:
        rng: draws the architecture first, then the weights.
        size: scales the channels, and the number of blocks by its fourth root; below 1 the
            images shrink too, so that the balance holds.
    """
    num_blocks = deep(int(rng.integers(4, 8)), size)
    drawn = [BLOCKS[i] for i in rng.integers(len(BLOCKS), size=num_blocks)]
    shrink = min(1.0, size)
    total_macs = rng.uniform(0.35e9, 0.65e9) * size**2 * shrink
    embedding = int(rng.integers(2, 9)) * 16
    sides = rng.choice([11, 12, 13, 14], size=2, replace=False)
    widths = rng.choice([128, 144, 160, 176, 192], size=2, replace=False)
    towers = [
        _Tower(
            side=max(3, round(int(side) * shrink**0.5)),
            width=wide(int(width), size),
            blocks=[drawn[i] for i in rng.permutation(num_blocks)],
            block_macs=total_macs / num_blocks,
        )
        for side, width in zip(sides, widths, strict=True)
    ]

    graph = GraphBuilder("two-tower", rng)
    vectors = []
    for name, tower in zip(("query", "item"), towers, strict=True):
        pixels = tower.side * PATCH
        image = graph.input(name, ["batch", 3, pixels, pixels])
        with graph.scope(name):
            vectors.append(_tower(graph, image, tower, embedding))
    with graph.scope("head"):
        score = _head(graph, vectors[0], vectors[1], embedding, dot=bool(rng.integers(2)))
        graph.output("score", score, ["batch", 1])
    return graph.model(
        f"dplace two-tower: {num_blocks} blocks a tower, widths {towers[0].width} and "
        f"{towers[1].width}, {towers[0].tokens} and {towers[1].tokens} tokens"
    )


def _head(graph: GraphBuilder, query: str, item: str, embedding: int, *, dot: bool) -> str:
    """Join two vectors of shape ``(batch, embedding)`` to a score ``(batch, 1)``."""
    if dot:
        product = graph.add("Mul", query, item)
        score = graph.add("ReduceSum", product, graph.integers(1), keepdims=1)
        score = graph.add("Div", score, graph.number(math.sqrt(embedding)))
    else:
        both = graph.add("Concat", query, item, axis=1)
        hidden = graph.add("Relu", dense(graph, both, 2 * embedding, 32, gain=HE))
        score = dense(graph, hidden, 32, 1)
    return graph.add("Sigmoid", score)


def _tower(graph: GraphBuilder, image: str, tower: _Tower, embedding: int) -> str:
    """Add one tower, from its image to its vector of shape ``(batch, embedding)``."""
    with graph.scope("patches"):
        weight = graph.weight((tower.width, 3, PATCH, PATCH), fan_in=3 * PATCH**2)
        value = graph.add(
            "Conv",
            image,
            weight,
            graph.bias(tower.width),
            kernel_shape=[PATCH, PATCH],
            strides=[PATCH, PATCH],
        )
        value = _to_tokens(graph, value, tower)
    owed = 0.0
    for i, kind in enumerate(tower.blocks):
        with graph.scope(f"block{i}"):
            normed = layer_norm(graph, value, tower.width)
            # What rounding to whole channels left over goes to the next block.
            change, macs = _block(graph, normed, kind, tower, tower.block_macs + owed)
            owed += tower.block_macs - macs
            value = graph.add("Add", value, change)
    with graph.scope("pool"):
        value = layer_norm(graph, value, tower.width)
        value = graph.add("ReduceMean", value, axes=[1], keepdims=0)  # (batch, width)
        return dense(graph, value, tower.width, embedding, gain=2.0)


def _block(
    graph: GraphBuilder, value: str, kind: str, tower: _Tower, macs: float
) -> tuple[str, float]:
    """Add one block of about ``macs`` multiply-adds.

    Args:
        graph: the graph to add to.
        value: shape ``(batch, tokens, width)``.
        kind: one of ``BLOCKS``.
        tower: the plan of the tower.
        macs: the work to aim at; the block's hidden width is chosen to meet it.

    Returns:
        A value of the same shape, and the multiply-adds that it really takes.
    """
    tokens, width = tower.tokens, tower.width
    if kind == "convolution":
        # tokens * (2 * width * hidden + 9 * hidden ** 2) = macs, solved for hidden
        root = math.sqrt(width**2 + 9 * max(0.0, macs) / tokens)
        hidden = wide((root - width) / 9, 1.0)
        value = _convolutions(graph, value, tower, hidden)
        return value, tokens * (2 * width * hidden + 9 * hidden**2)
    if kind == "attention":
        heads = width // 16
        first = graph.integers(0, tokens, heads, 16)
        value = attention(
            graph,
            value,
            width=width,
            heads=heads,
            split_shape=first,
            merge_shape=graph.integers(0, tokens, width),
        )
        first_macs = 4 * tokens * width**2 + 2 * tokens**2 * width
    else:
        mixed = wide(tokens / 2, 1.0)
        turned = graph.add("Transpose", value, perm=[0, 2, 1])
        turned = gelu(graph, linear(graph, turned, tokens, mixed, gain=HE))
        value = graph.add("Transpose", linear(graph, turned, mixed, tokens), perm=[0, 2, 1])
        first_macs = 2 * tokens * mixed * width
    hidden = wide((macs - first_macs) / (2 * tokens * width), 1.0)
    value = gelu(graph, linear(graph, layer_norm(graph, value, width), width, hidden, gain=HE))
    return linear(graph, value, hidden, width), first_macs + 2 * tokens * width * hidden


def _convolutions(graph: GraphBuilder, value: str, tower: _Tower, hidden: int) -> str:
    """Add a bottleneck of three convolutions over the tokens as a map."""
    side, width = tower.side, tower.width
    value = graph.add("Transpose", value, perm=[0, 2, 1])
    value = graph.add("Reshape", value, graph.integers(0, width, side, side))
    value = convolution(graph, value, inputs=width, outputs=hidden)
    value = convolution(graph, value, inputs=hidden, outputs=hidden, kernel=(3, 3))
    value = convolution(graph, value, inputs=hidden, outputs=width, relu=False)
    return _to_tokens(graph, value, tower)


def _to_tokens(graph: GraphBuilder, value: str, tower: _Tower) -> str:
    """Turn a map ``(batch, width, side, side)`` into tokens ``(batch, tokens, width)``."""
    value = graph.add("Reshape", value, graph.integers(0, tower.width, tower.tokens))
    return graph.add("Transpose", value, perm=[0, 2, 1])
