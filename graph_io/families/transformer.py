"""The ``transformer`` family: encoders and decoders over tokens, as exporters write them.

After Vaswani et al., *Attention Is All You Need*, 2017; the wiring with attention and MLP side
by side is that of GPT-J (Wang and Komatsuzaki, 2021).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from dplace.graph_io.families.builder import GraphBuilder
from dplace.graph_io.families.layers import HE, attention, dense, gelu, layer_norm, linear
from dplace.graph_io.families.scale import deep

__all__ = ["transformer"]

WIRINGS = ("pre-norm", "post-norm", "side-by-side")
MAX_SEQUENCE = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """What the layers of one member have in common."""

    width: int
    heads: int
    hidden: int
    wiring: str
    relu: bool
    packed: bool


def transformer(rng: np.random.Generator, *, size: float = 1.0) -> onnx.ModelProto:
    """Return an encoder (classifier) or a decoder (a causal language model).

    The input is ``tokens``, int64, ``(batch, sequence)``, both dynamic, with ids below the
    length of the embedding; the sequence may be up to 1,024 long.

    Args:
        rng: draws the architecture first, then the weights.
        size: scales the number of heads and so the width, and the number of layers by its
            fourth root.
    """
    head_width = (32, 48, 64)[rng.integers(3)]
    heads = max(1, round(int(rng.integers(240, 385)) / head_width * size))
    width = heads * head_width
    hidden = width * int(rng.integers(2, 5))
    weights_wanted = rng.uniform(4.0e6, 6.5e6) * size**2
    layers = round(weights_wanted / (4 * width**2 + 2 * width * hidden))
    num_layers = deep(min(max(layers, 2), 12), size)
    layer = _Layer(
        width=width,
        heads=heads,
        hidden=hidden,
        wiring=WIRINGS[rng.integers(len(WIRINGS))],
        relu=bool(rng.integers(2)),
        packed=bool(rng.integers(2)),
    )
    causal = bool(rng.integers(2))
    vocabulary = int(rng.integers(8, 33)) * 128

    graph = GraphBuilder("transformer", rng)
    tokens = graph.input("tokens", ["batch", "sequence"], dtype=TensorProto.INT64)
    value, table, mask = _embedding(graph, tokens, vocabulary, width, causal)
    for i in range(num_layers):
        with graph.scope(f"layer{i}"):
            value = _layer(graph, value, mask, layer)
    with graph.scope("head"):
        value = layer_norm(graph, value, width)
        if causal:
            logits = graph.add("MatMul", value, graph.add("Transpose", table, perm=[1, 0]))
            graph.output("logits", logits, ["batch", "sequence", vocabulary])
        else:
            num_classes = int(rng.integers(2, 100))
            first = graph.add("Gather", value, graph.integer(0), axis=1)  # (batch, width)
            pooled = graph.add("Tanh", dense(graph, first, width, width))
            graph.output("logits", dense(graph, pooled, width, num_classes), ["batch", num_classes])
    return graph.model(
        f"dplace transformer: {'decoder' if causal else 'encoder'}, {num_layers} layers of width "
        f"{width}, {heads} heads, {layer.wiring}; sequence up to {MAX_SEQUENCE}"
    )


def _embedding(
    graph: GraphBuilder, tokens: str, vocabulary: int, width: int, causal: bool
) -> tuple[str, str, str | None]:
    """Add the token and position embeddings.

    Returns:
        The embedded tokens ``(batch, sequence, width)``, the table ``(vocabulary, width)``, and
        for a causal model the mask ``(sequence, sequence)``: 0 up to the diagonal, very low after.
    """
    with graph.scope("embedding"):
        table = graph.weight((vocabulary, width), fan_in=width)
        positions_table = graph.weight((MAX_SEQUENCE, width), fan_in=width)
        length = _dim(graph, tokens, 1)
        positions = graph.add("Range", graph.integer(0), length, graph.integer(1))
        value = graph.add(
            "Add",
            graph.add("Gather", table, tokens),
            graph.add("Gather", positions_table, positions),
        )
        value = layer_norm(graph, value, width)
        if not causal:
            return value, table, None
        row = graph.add("Unsqueeze", positions, graph.integers(1))
        column = graph.add("Unsqueeze", positions, graph.integers(0))
        later = graph.add("Greater", column, row)
        mask = graph.add("Where", later, graph.number(-1e9), graph.number(0.0))
    return value, table, mask


def _layer(graph: GraphBuilder, value: str, mask: str | None, layer: _Layer) -> str:
    """Add one layer, with the residual connections that its wiring says."""
    if layer.wiring == "post-norm":
        value = graph.add("Add", value, _attention(graph, value, mask, layer))
        value = layer_norm(graph, value, layer.width)
        value = graph.add("Add", value, _mlp(graph, value, layer))
        return layer_norm(graph, value, layer.width)
    normed = layer_norm(graph, value, layer.width)
    attended = graph.add("Add", value, _attention(graph, normed, mask, layer))
    if layer.wiring == "pre-norm":
        normed = layer_norm(graph, attended, layer.width)
    return graph.add("Add", attended, _mlp(graph, normed, layer))


def _attention(graph: GraphBuilder, value: str, mask: str | None, layer: _Layer) -> str:
    """Add self-attention; its shapes are computed in the graph from those of its input."""
    with graph.scope("attention"):
        batch, length = (_unsqueezed_dim(graph, value, axis) for axis in (0, 1))
        head = graph.integers(layer.heads, layer.width // layer.heads)
        split_shape = graph.add("Concat", batch, length, head, axis=0)
        merge_shape = graph.add("Concat", batch, length, graph.integers(layer.width), axis=0)
        return attention(
            graph,
            value,
            width=layer.width,
            heads=layer.heads,
            split_shape=split_shape,
            merge_shape=merge_shape,
            mask=mask,
            packed=layer.packed,
        )


def _mlp(graph: GraphBuilder, value: str, layer: _Layer) -> str:
    with graph.scope("mlp"):
        value = linear(graph, value, layer.width, layer.hidden, gain=HE)
        value = graph.add("Relu", value) if layer.relu else gelu(graph, value)
        return linear(graph, value, layer.hidden, layer.width)


def _dim(graph: GraphBuilder, value: str, axis: int) -> str:
    """Add Shape and Gather, and return the scalar length of one axis."""
    return graph.add("Gather", graph.add("Shape", value), graph.integer(axis), axis=0)


def _unsqueezed_dim(graph: GraphBuilder, value: str, axis: int) -> str:
    return graph.add("Unsqueeze", _dim(graph, value, axis), graph.integers(0))
