"""The ``nmt`` family: translation by LSTM layers with attention, unrolled op by op.

After Luong et al., *Effective Approaches to Attention-based Neural Machine Translation*, 2015,
and Wu et al., *Google's Neural Machine Translation System*, 2016. Layer k at step t can run beside
layer k + 1 at step t - 1, and the softmax of a step beside the steps that follow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from dplace.graph_io.families.builder import GraphBuilder
from dplace.graph_io.families.cells import cell_weights, lstm_cell
from dplace.graph_io.families.language import drawn_vocabulary, score_output, word, word_score
from dplace.graph_io.families.layers import linear
from dplace.graph_io.families.scale import deep, solved_width, wide

__all__ = ["nmt"]

State = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """What one member looks like."""

    encoder_layers: int
    decoder_layers: int
    source_steps: int
    target_steps: int
    bidirectional: bool
    """Whether the first encoder layer reads the source backwards as well."""
    residual: bool
    """Whether layers after the first add what they have read."""
    feeding: bool
    """Whether a step of the decoder sees what the attention of the step before has found."""
    additive: bool
    """Scores of attention by a small network (Bahdanau et al., 2015), not by a product."""
    width: int


def nmt(rng: np.random.Generator, *, size: float = 1.0) -> onnx.ModelProto:
    """Return an encoder and a decoder that scores a translation word by word.

    The inputs are ``source``, int64, ``(batch, source_steps)``, and ``target``, int64,
    ``(batch, target_steps + 1)``; the output ``log_likelihood``, ``(batch, target_steps)``, is
    that of each target word after those before it.

    Args:
        rng: draws the architecture first, then the weights.
        size: scales the width, and the numbers of layers and of steps by its fourth root.
    """
    graph = GraphBuilder("nmt", rng)
    vocabularies = drawn_vocabulary(graph, size), drawn_vocabulary(graph, size)
    shape = _drawn_shape(rng, size, sum(vocabularies))
    width = shape.width
    source = graph.input("source", ["batch", shape.source_steps], dtype=TensorProto.INT64)
    target = graph.input("target", ["batch", shape.target_steps + 1], dtype=TensorProto.INT64)
    with graph.scope("encoder"):
        table = graph.weight((vocabularies[0], width), fan_in=1)
        words = [word(graph, table, source, step) for step in range(shape.source_steps)]
        found, states = _encoder(graph, words, shape)
    with graph.scope("decoder"):
        table = graph.weight((vocabularies[1], width), fan_in=width)
        head = (table, graph.bias(vocabularies[1]))
        words = [word(graph, table, target, step) for step in range(shape.target_steps)]
        scores = []
        for step, value in enumerate(_decoder(graph, words, found, states, shape)):
            with graph.scope(f"softmax{step}"):
                scores.append(word_score(graph, value, head, target, step + 1))
    score_output(graph, scores)
    return graph.model(
        f"dplace nmt: {shape.encoder_layers} and {shape.decoder_layers} layers of width {width}, "
        f"{shape.source_steps} and {shape.target_steps} steps"
    )


def _drawn_shape(rng: np.random.Generator, size: float, words: int) -> _Shape:
    """Draw a shape of 45 to 110 cells at size 1; ``words`` are those of both languages."""
    encoder_layers, decoder_layers = (deep(int(rng.integers(2, 5)), size) for _ in range(2))
    bidirectional = bool(rng.integers(2))
    cells_wanted = int(rng.integers(45, 111))
    layers = encoder_layers + bidirectional + decoder_layers
    steps = 2 * cells_wanted / layers  # of source and target together
    source_share = rng.uniform(0.4, 0.6)
    weights_wanted = rng.uniform(3.4e6, 4.5e6) * size**2
    width = solved_width(weights_wanted, squares=8 * layers + 3, linears=words)
    return _Shape(
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        source_steps=max(2, deep(round(steps * source_share), size)),
        target_steps=max(2, deep(round(steps * (1 - source_share)), size)),
        bidirectional=bidirectional,
        residual=bool(rng.integers(2)),
        feeding=bool(rng.integers(2)),
        additive=bool(rng.integers(2)),
        width=wide(width, 1.0),
    )


def _encoder(graph: GraphBuilder, words: list[str], shape: _Shape) -> tuple[list[str], list[State]]:
    """Add the encoder.

    Returns:
        What the last layer wrote at each step, and the last state of each layer.
    """
    with graph.scope("layer0"):
        found, state = _layer(graph, words, (), shape.width)
    if shape.bidirectional:
        with graph.scope("backwards"):
            backwards, _ = _layer(graph, words[::-1], (), shape.width)
            found = [graph.add("Add", *pair) for pair in zip(found, backwards[::-1], strict=True)]
    states = [state]
    for i in range(1, shape.encoder_layers):
        with graph.scope(f"layer{i}"):
            read = found
            found, state = _layer(graph, read, (), shape.width)
            if shape.residual:
                found = [graph.add("Add", *pair) for pair in zip(found, read, strict=True)]
            states.append(state)
    return found, states


def _layer(
    graph: GraphBuilder, values: list[str], state: State, width: int
) -> tuple[list[str], State]:
    """Add one layer; return what it writes at each step, and its last state."""
    weights = cell_weights(graph, "LSTM", width, width)
    written = []
    for step, value in enumerate(values):
        with graph.scope(f"step{step}"):
            state = lstm_cell(graph, value, state, weights)
            written.append(state[0])
    return written, state


def _decoder(
    graph: GraphBuilder,
    words: list[str],
    found: list[str],
    encoder_states: list[State],
    shape: _Shape,
) -> list[str]:
    """Add the decoder, whose layers start from the last states of the encoder's.

    Returns:
        What each step knows of the next word, shape ``(batch, width)``.
    """
    weights = []
    for i in range(shape.decoder_layers):
        with graph.scope(f"layer{i}"):
            weights.append(cell_weights(graph, "LSTM", shape.width, shape.width))
    states = [
        encoder_states[i] if i < len(encoder_states) else () for i in range(shape.decoder_layers)
    ]
    with graph.scope("attention"):
        attention = _Attention(graph, found, shape)
    attended: list[str] = []
    for step, value in enumerate(words):
        with graph.scope(f"step{step}"):
            if shape.feeding and attended:
                value = graph.add("Add", value, attended[-1])
            for i in range(shape.decoder_layers):
                with graph.scope(f"layer{i}"):
                    read = value
                    states[i] = lstm_cell(graph, read, states[i], weights[i])
                    value = states[i][0]
                    if shape.residual and i > 0:
                        value = graph.add("Add", value, read)
            with graph.scope("attention"):
                attended.append(attention.step(graph, value))
    return attended


class _Attention:
    """Attention over what the encoder has found; every step of the decoder asks it once."""

    def __init__(self, graph: GraphBuilder, found: list[str], shape: _Shape) -> None:
        """Add the ops that no step of the decoder has a part in, and the weights."""
        width = shape.width
        self._axis = graph.integers(1)
        rows = [graph.add("Unsqueeze", value, self._axis) for value in found]
        self._found = graph.add("Concat", *rows, axis=1)  # (batch, source_steps, width)
        self._query = graph.weight((width, width), fan_in=width)
        self._score = graph.weight((width, 1), fan_in=width) if shape.additive else ""
        if shape.additive:
            self._keys = linear(graph, self._found, width, width)
        else:
            self._keys = graph.add("Transpose", self._found, perm=[0, 2, 1])
        self._join = graph.weight((2 * width, width), fan_in=2 * width), graph.bias(width)

    def step(self, graph: GraphBuilder, value: str) -> str:
        """Add one look at the source; takes and returns shape ``(batch, width)``."""
        query = graph.add("MatMul", value, self._query)
        query = graph.add("Unsqueeze", query, self._axis)  # (batch, 1, width)
        if self._score:
            energy = graph.add("Tanh", graph.add("Add", self._keys, query))
            energy = graph.add("MatMul", energy, self._score)
            scores = graph.add("Transpose", energy, perm=[0, 2, 1])  # (batch, 1, source_steps)
        else:
            scores = graph.add("MatMul", query, self._keys)
        mixed = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), self._found)
        context = graph.add("Squeeze", mixed, self._axis)
        return graph.add(
            "Tanh", graph.add("Gemm", graph.add("Concat", value, context, axis=1), *self._join)
        )
