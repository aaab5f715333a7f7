"""The ``lstm`` family: recurrent networks, as LSTM and GRU ops or unrolled step by step.

Stacked and bidirectional ops have a dynamic ``time``. The unrolled variant has a fixed number of
steps and one small graph a step and layer, all reading the same weights: a grid in which layer k
at step t can run beside layer k + 1 at step t - 1 (Wu et al., *Google's Neural Machine
Translation System*, 2016).
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from dplace.graph_io.families.builder import Dim, GraphBuilder
from dplace.graph_io.families.cells import GAIN, GATES, cell_weights, gru_cell, lstm_cell
from dplace.graph_io.families.layers import dense
from dplace.graph_io.families.scale import deep, wide

__all__ = ["lstm"]


def lstm(rng: np.random.Generator, *, size: float = 1.0) -> onnx.ModelProto:
    """Return a classifier of sequences: recurrent layers and a linear head.

    The input is ``tokens``, int64, ``(batch, time)``, with ids below the length of the
    embedding, or ``features``, float32, ``(batch, time, num_features)``.

    Args:
        rng: draws the architecture first, then the weights.
        size: scales the hidden width, and the number of layers by its fourth root.
    """
    variant = ("stacked", "bidirectional", "unrolled")[rng.integers(3)]
    op_type = ("LSTM", "GRU")[rng.integers(2)]
    hidden = wide(int(rng.integers(15, 22)) * 16, size)
    steps = int(rng.integers(20, 33))
    num_classes = int(rng.integers(4, 64))
    time: Dim = steps if variant == "unrolled" else "time"

    graph = GraphBuilder("lstm", rng)
    width = wide(int(rng.integers(4, 13)) * 16, size)
    value = _sequence(graph, time, width)
    if variant == "unrolled":
        num_layers = deep(int(rng.integers(4, 6)), size)
        outputs = hidden
        last = _unrolled(graph, value, op_type, num_layers, steps, width, hidden)
    else:
        directions = 2 if variant == "bidirectional" else 1
        num_layers = deep(int(rng.integers(2, 4) if directions == 2 else rng.integers(4, 7)), size)
        last = _stacked(graph, value, op_type, num_layers, directions, width, hidden)
        outputs = hidden * directions
    with graph.scope("head"):
        graph.output("logits", dense(graph, last, outputs, num_classes), ["batch", num_classes])
    return graph.model(f"dplace lstm: {variant} {op_type}, {num_layers} layers of width {hidden}")


def _sequence(graph: GraphBuilder, time: Dim, width: int) -> str:
    """Add the input, tokens or features, and return a sequence ``(time, batch, width)``."""
    if graph.rng.integers(2):
        tokens = graph.input("tokens", ["batch", time], dtype=TensorProto.INT64)
        table = graph.weight((int(graph.rng.integers(8, 33)) * 128, width), fan_in=1)
        value = graph.add("Gather", table, tokens)
    else:
        value = graph.input("features", ["batch", time, width])
    return graph.add("Transpose", value, perm=[1, 0, 2])


def _stacked(
    graph: GraphBuilder,
    value: str,
    op_type: str,
    num_layers: int,
    directions: int,
    width: int,
    hidden: int,
) -> str:
    """Add a stack of recurrent ops and return the last one's output at the last step.

    Args:
        graph: the graph to add to.
        value: shape ``(time, batch, width)``.
        op_type: ``LSTM`` or ``GRU``.
        num_layers: number of ops.
        directions: 2 for bidirectional ops.
        width: width of the input.
        hidden: width of the state of one direction.

    Returns:
        A value of shape ``(batch, directions * hidden)``.
    """
    residual = bool(graph.rng.integers(2))
    gates = GATES[op_type]
    initial = _initial_state(graph, value, directions, hidden) if graph.rng.integers(2) else ""
    states = [initial] * (2 if op_type == "LSTM" else 1) if initial else []
    for i in range(num_layers):
        with graph.scope(f"layer{i}"):
            inputs = [
                graph.weight((directions, gates * hidden, width), fan_in=width, gain=GAIN),
                graph.weight((directions, gates * hidden, hidden), fan_in=hidden),
                graph.bias(directions, 2 * gates * hidden),
                "",
            ]
            outputs = graph.add(
                op_type,
                value,
                *inputs,
                *states,
                hidden_size=hidden,
                direction="bidirectional" if directions == 2 else "forward",
                **({"linear_before_reset": 1} if op_type == "GRU" else {}),
            )  # (time, directions, batch, hidden)
            outputs = graph.add("Transpose", outputs, perm=[0, 2, 1, 3])
            outputs = graph.add("Reshape", outputs, graph.integers(0, 0, directions * hidden))
            if residual and width == directions * hidden:
                outputs = graph.add("Add", outputs, value)
            value, width = outputs, directions * hidden
    return graph.add("Gather", value, graph.integer(-1), axis=0)


def _initial_state(graph: GraphBuilder, value: str, directions: int, hidden: int) -> str:
    """Add a state of zeros, ``(directions, batch, hidden)``, for the batch of ``value``."""
    with graph.scope("initial"):
        batch = graph.add("Gather", graph.add("Shape", value), graph.integer(1), axis=0)
        batch = graph.add("Unsqueeze", batch, graph.integers(0))
        shape = graph.add(
            "Concat", graph.integers(directions), batch, graph.integers(hidden), axis=0
        )
        return graph.add("ConstantOfShape", shape)


def _unrolled(
    graph: GraphBuilder,
    value: str,
    op_type: str,
    num_layers: int,
    steps: int,
    width: int,
    hidden: int,
) -> str:
    """Add every step of every layer as ops of its own.

    Returns:
        The state of the last layer after the last step, shape ``(batch, hidden)``.
    """
    cell = lstm_cell if op_type == "LSTM" else gru_cell
    parts = graph.add_many("Split", value, graph.integers(*[1] * steps), num_outputs=steps, axis=0)
    axis = graph.integers(0)
    xs = [graph.add("Squeeze", part, axis) for part in parts]  # (batch, width)
    for i in range(num_layers):
        with graph.scope(f"layer{i}"):
            weights = cell_weights(graph, op_type, width, hidden)
            state: tuple[str, ...] = ()
            for step in range(steps):
                with graph.scope(f"step{step}"):
                    state = cell(graph, xs[step], state, weights)
                    xs[step] = state[0]
            width = hidden
    return xs[-1]
