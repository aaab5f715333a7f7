"""Recurrent cells written op by op, one step of one layer at a time."""

from __future__ import annotations

from dplace.graph_io.families.builder import GraphBuilder

__all__ = ["GAIN", "GATES", "cell_weights", "gru_cell", "lstm_cell"]

GATES = {"LSTM": 4, "GRU": 3}
GAIN = 2.5
"""Of the input weights: gates shrink what passes, and this keeps its size over the layers."""

Weights = tuple[str, str, str, str]
"""Input weight and bias, recurrent weight and bias; gates along the first axis."""


def cell_weights(graph: GraphBuilder, op_type: str, width: int, hidden: int) -> Weights:
    """Add the weights of one layer, which all its steps read.

    Args:
        graph: the graph to add to.
        op_type: ``LSTM`` or ``GRU``.
        width: width of the layer's input.
        hidden: width of its state.
    """
    gates = GATES[op_type]
    return (
        graph.weight((gates * hidden, width), fan_in=width, gain=GAIN),
        graph.bias(gates * hidden),
        graph.weight((gates * hidden, hidden), fan_in=hidden),
        graph.bias(gates * hidden),
    )


def lstm_cell(
    graph: GraphBuilder, value: str, state: tuple[str, ...], weights: Weights
) -> tuple[str, ...]:
    """Add one step of an LSTM; the state is (h, c), or empty before the first step."""
    total = graph.add("Gemm", value, *weights[:2], transB=1)
    if state:
        total = graph.add("Add", total, graph.add("Gemm", state[0], *weights[2:], transB=1))
    gates = graph.add_many("Split", total, num_outputs=4, axis=1)
    write, output, forget = (graph.add("Sigmoid", gate) for gate in gates[:3])
    memory = graph.add("Mul", write, graph.add("Tanh", gates[3]))
    if state:
        memory = graph.add("Add", memory, graph.add("Mul", forget, state[1]))
    return graph.add("Mul", output, graph.add("Tanh", memory)), memory


def gru_cell(
    graph: GraphBuilder, value: str, state: tuple[str, ...], weights: Weights
) -> tuple[str, ...]:
    """Add one step of a GRU; the state is (h,), or empty before the first step."""
    from_value = graph.add("Gemm", value, *weights[:2], transB=1)
    update_in, reset_in, new_in = graph.add_many("Split", from_value, num_outputs=3, axis=1)
    if not state:
        update = graph.add("Sigmoid", update_in)
        keep = graph.add("Sub", graph.number(1.0), update)
        return (graph.add("Mul", keep, graph.add("Tanh", new_in)),)
    from_state = graph.add("Gemm", state[0], *weights[2:], transB=1)
    update_h, reset_h, new_h = graph.add_many("Split", from_state, num_outputs=3, axis=1)
    update = graph.add("Sigmoid", graph.add("Add", update_in, update_h))
    reset = graph.add("Sigmoid", graph.add("Add", reset_in, reset_h))
    new = graph.add("Tanh", graph.add("Add", new_in, graph.add("Mul", reset, new_h)))
    keep = graph.add("Sub", graph.number(1.0), update)
    return (graph.add("Add", graph.add("Mul", keep, new), graph.add("Mul", update, state[0])),)
