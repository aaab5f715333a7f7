"""The ``ptb`` family: language models over recurrent cells of a random wiring, unrolled.

The search space of ENAS for Penn Treebank (Pham et al., *Efficient Neural Architecture Search via
Parameter Sharing*, 2018), which Placeto takes its graphs from: a cell is a tree of nodes, each one
an activation of an earlier node with a highway connection around it (Zilly et al., *Recurrent
Highway Networks*, 2017); the nodes that no other reads are averaged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from dplace.graph_io.families.builder import GraphBuilder
from dplace.graph_io.families.language import drawn_vocabulary, score_output, word, word_score
from dplace.graph_io.families.scale import deep, solved_width, wide

__all__ = ["ptb"]

ACTIVATIONS = ("Tanh", "Relu", "Sigmoid", "Identity")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """One node of a cell."""

    reads: int
    """The earlier node whose state it reads; -1 for the first, which reads word and state."""
    activation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """The wiring of a cell and its weights, which every step reads."""

    nodes: tuple[_Node, ...]
    from_word: tuple[str, ...]
    """Two of ``(width, width)``, for the gate and for the state; or one of twice the width."""
    from_state: tuple[tuple[str, ...], ...]
    """The same for what each node reads of the state."""

    @property
    def ends(self) -> list[int]:
        """The nodes that no other reads."""
        read = {node.reads for node in self.nodes}
        return [i for i in range(len(self.nodes)) if i not in read]


def ptb(rng: np.random.Generator, *, size: float = 1.0) -> onnx.ModelProto:
    """Return a language model: an embedding, one recurrent cell unrolled, a softmax each step.

    The input is ``tokens``, int64, ``(batch, steps + 1)``; the output ``log_likelihood``,
    ``(batch, steps)``, is that of each word after the words before it.

    Args:
        rng: draws the architecture first, then the weights.
        size: scales the width, and the number of steps by its fourth root.
    """
    num_nodes = int(rng.integers(6, 11))
    nodes = [_Node(reads=-1, activation=_activation(rng))]
    for i in range(1, num_nodes):
        nodes.append(_Node(reads=int(rng.integers(i)), activation=_activation(rng)))
    packed = bool(rng.integers(2))
    steps = deep(int(rng.integers(14, 25)), size)
    graph = GraphBuilder("ptb", rng)
    vocabulary = drawn_vocabulary(graph, size)
    weights_wanted = rng.uniform(3.6e6, 4.6e6) * size**2
    width = wide(solved_width(weights_wanted, squares=2 * num_nodes + 2, linears=vocabulary), 1.0)

    tokens = graph.input("tokens", ["batch", steps + 1], dtype=TensorProto.INT64)
    with graph.scope("embedding"):
        table = graph.weight((vocabulary, width), fan_in=width)
        head = (table, graph.bias(vocabulary))
    cell = _cell(graph, tuple(nodes), width, packed)
    state, scores = "", []
    for step in range(steps):
        with graph.scope(f"step{step}"):
            state = _step(graph, cell, word(graph, table, tokens, step), state, width)
            with graph.scope("softmax"):
                scores.append(word_score(graph, state, head, tokens, step + 1))
    score_output(graph, scores)
    return graph.model(
        f"dplace ptb: {steps} steps of a cell of {num_nodes} nodes of width {width}, "
        f"{vocabulary} words"
    )


def _activation(rng: np.random.Generator) -> str:
    return ACTIVATIONS[rng.integers(len(ACTIVATIONS))]


def _cell(graph: GraphBuilder, nodes: tuple[_Node, ...], width: int, packed: bool) -> _Cell:
    """Add the weights of a cell; ``packed`` joins those of gate and state to one matrix."""

    def pair() -> tuple[str, ...]:
        if packed:
            return (graph.weight((width, 2 * width), fan_in=width),)
        return tuple(graph.weight((width, width), fan_in=width) for _ in range(2))

    with graph.scope("cell"):
        return _Cell(nodes=nodes, from_word=pair(), from_state=tuple(pair() for _ in nodes))


def _step(graph: GraphBuilder, cell: _Cell, value: str, state: str, width: int) -> str:
    """Add one step of the cell.

    Args:
        graph: the graph to add to.
        cell: the wiring, and the weights.
        value: the word, shape ``(batch, width)``.
        state: of the same shape, or empty before the first step.
        width: of word and state.

    Returns:
        The state after the step.
    """
    states: list[str] = []
    for i, node in enumerate(cell.nodes):
        with graph.scope(f"node{i}"):
            if node.reads >= 0:
                before = states[node.reads]
                sums = _products(graph, before, cell.from_state[i])
            else:
                before = state
                sums = _products(graph, value, cell.from_word)
                if state:
                    recurrent = _products(graph, state, cell.from_state[0])
                    sums = [graph.add("Add", *pair) for pair in zip(sums, recurrent, strict=True)]
            states.append(_highway(graph, sums, before, node.activation, width))
    ends = [states[i] for i in cell.ends]
    if len(ends) == 1:
        return ends[0]
    return graph.add("Mul", graph.add("Sum", *ends), graph.number(1 / len(ends)))


def _products(graph: GraphBuilder, value: str, weights: tuple[str, ...]) -> list[str]:
    return [graph.add("MatMul", value, weight) for weight in weights]


def _highway(graph: GraphBuilder, sums: list[str], before: str, activation: str, width: int) -> str:
    """Add a gate between what a node computes and what it has read.

    Args:
        graph: the graph to add to.
        sums: what goes into the gate and into the activation, or both side by side.
        before: what the node has read, or empty for zeros.
        activation: one of ``ACTIVATIONS``.
        width: of all of them.
    """
    if len(sums) == 1:
        sums = list(
            graph.add_many("Split", sums[0], graph.integers(width, width), num_outputs=2, axis=1)
        )
    gate = graph.add("Sigmoid", sums[0])
    value = sums[1] if activation == "Identity" else graph.add(activation, sums[1])
    if not before:
        return graph.add("Mul", gate, value)
    change = graph.add("Mul", gate, graph.add("Sub", value, before))
    return graph.add("Add", before, change)
