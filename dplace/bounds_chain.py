"""Chains of ops, along which bounds on blocks, pieces and forks are summed up.

Any list of ops each of which reaches the next will do; the longest paths by several measures are
good ones.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.placement import movable_units
from dplace.problem import Problem

if TYPE_CHECKING:
    from dplace.simulator.tables import Tables

__all__ = [
    "Edges",
    "Surroundings",
    "Units",
    "by_unit",
    "edges_of",
    "fitting_devices",
    "long_chains",
    "longest_chain",
    "op_bytes",
    "room_of",
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


class Units(NamedTuple):
    """Co-located ops as one."""

    of: Int
    """Shape ``(num_ops,)``."""
    seconds: Float
    """Shape ``(num_units, num_devices)``."""
    bytes: Float
    """Shape ``(num_units,)``; see ``op_bytes``."""


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


def op_bytes(problem: Problem) -> Float:
    """Return a share of the weights for each op: those of ops on a device never exceed theirs.

    A weight with several readers is there once on a device with any of them, so each gets an equal
    part of it.
    """
    graph = problem.graph
    ops = np.repeat(np.arange(graph.num_ops), np.diff(graph.weight_offsets))
    readers = np.bincount(graph.op_weights, minlength=len(graph.weight_bytes))
    shares = graph.weight_bytes[graph.op_weights] / readers[graph.op_weights]
    size = np.zeros(graph.num_ops)
    np.add.at(size, ops, shares)
    return size


def by_unit(problem: Problem, allowed: NDArray[np.bool_]) -> Units:
    """Return co-located ops as one; times are ``inf`` where they may not go."""
    unit = movable_units(problem)
    num_units = int(unit.max(initial=-1)) + 1
    seconds = np.zeros((num_units, problem.num_devices))
    np.add.at(seconds, unit, np.where(allowed, problem.seconds, np.inf))
    size = np.zeros(num_units)
    np.add.at(size, unit, op_bytes(problem))
    return Units(unit, seconds, size)


def room_of(problem: Problem) -> Float:
    """Return the bytes of weights that each device can hold; ``inf`` where they do not count."""
    from dplace.simulator.engine import capacity

    if problem.machine in ("placeto", "independent"):
        return np.full(problem.num_devices, np.inf)
    return capacity(problem).astype(np.float64)


def fitting_devices(problem: Problem, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return where each op may go and the weights of its unit fit.

    Rows where nothing would be left stay as they are: then there is no answer to bound.
    """
    graph = problem.graph
    unit = movable_units(problem)
    ops = np.repeat(np.arange(graph.num_ops), np.diff(graph.weight_offsets))
    num_weights = max(1, len(graph.weight_bytes))
    held = np.unique(unit[ops].astype(np.int64) * num_weights + graph.op_weights)
    size = np.bincount(
        held // num_weights, weights=graph.weight_bytes[held % num_weights], minlength=len(unit)
    )
    fits = allowed & (size[unit][:, None] <= room_of(problem))
    return np.where(fits.any(axis=1, keepdims=True), fits, allowed)


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
