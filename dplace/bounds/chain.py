"""Chains of ops, along which bounds on blocks, pieces and forks are summed up.

Any list of ops each of which reaches the next will do; the longest paths by several measures are
good ones.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.bounds.units import op_bytes
from dplace.problem import Problem

if TYPE_CHECKING:
    from dplace.simulator.tables import Tables

__all__ = [
    "Edges",
    "Surroundings",
    "edges_of",
    "long_chains",
    "longest_chain",
    "surroundings",
    "thin",
]

Int = NDArray[np.int32]
Float = NDArray[np.float64]


class Edges(NamedTuple):
    """Who reads what from whom, by maker; what the caller feeds left out."""

    makers: Int
    readers: Int
    values: Int


class Surroundings(NamedTuple):
    """Where each op lies beside a chain of ``length`` ops."""

    length: int
    after: Int
    """Shape ``(num_ops,)``: position of the last op of the chain that reaches the op or is it, -1
    for none."""
    before: Int
    """Position of the first op of the chain that it reaches or is, ``length`` for none."""


def edges_of(problem: Problem) -> Edges:
    """Return the edges of a graph."""
    graph = problem.graph
    values = np.repeat(np.arange(graph.num_values), np.diff(graph.consumer_offsets))
    makers = graph.value_producer[values]
    order = np.argsort(makers, kind="stable")[np.count_nonzero(makers < 0) :]
    return Edges(
        makers[order].astype(np.int32),
        graph.consumer_ops[order].astype(np.int32),
        values[order].astype(np.int32),
    )


def longest_chain(problem: Problem, tables: "Tables", op_s: Float, value_s: Float) -> Int:
    """Return the ops on the longest path by times of ops and of values between two ops."""
    from dplace.simulator.ranks import upward

    graph = problem.graph
    rank = upward(tables, op_s, value_s)
    op = int(rank.argmax())
    chain = [op]
    while True:
        best = -1.0
        for value in graph.outputs_of(chain[-1]):
            for reader in graph.consumers_of(value):
                length = float(value_s[value] + rank[reader])
                if length > best:
                    best, op = length, int(reader)
        if best < 0.0:
            return np.array(chain, dtype=np.int32)
        chain.append(op)


def thin(chain: Int, most: int) -> Int:
    """Return at most so many ops of a chain, evenly spread: a chain again."""
    if len(chain) <= most:
        return chain
    return chain[np.linspace(0, len(chain) - 1, most).astype(np.int64)]


def surroundings(edges: Edges, chain: Int, num_ops: int) -> Surroundings:
    """Return where each op lies beside a chain."""
    from dplace.simulator.chains import surround

    after = np.full(num_ops, -1, dtype=np.int32)
    before = np.full(num_ops, len(chain), dtype=np.int32)
    after[chain] = before[chain] = np.arange(len(chain), dtype=np.int32)
    surround(edges.makers, edges.readers, after, before)
    return Surroundings(len(chain), after, before)


def long_chains(
    problem: Problem, tables: "Tables", allowed: NDArray[np.bool_], value_s: Float
) -> list[Int]:
    """Return the longest chains by time, by what crosses and by memory, each once."""
    least_s = np.where(allowed, problem.seconds, np.inf).min(axis=1)
    nothing = np.zeros_like(value_s)
    measures = [
        (least_s, nothing),
        (np.zeros_like(least_s), value_s),
        (op_bytes(problem), nothing),
    ]
    chains = [longest_chain(problem, tables, *measure) for measure in measures]
    return list({chain.tobytes(): chain for chain in chains}.values())
