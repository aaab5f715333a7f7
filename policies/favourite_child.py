"""The favourite child of each op: the one whose transfer it saves that shortens the whole most.

The linear program of Hanen, Munier, "An approximation algorithm for scheduling dependent tasks on m
processors with small communication delays", IEEE Symposium on Emerging Technologies and Factory
Automation, 1995, as Baechi uses it (Jeon et al., SoCC 2020):

    minimise   w
    such that  s(i) + p(i) <= w                      for each op i
               s(i) + p(i) + c(i, j) x(i, j) <= s(j) for each edge
               sum over children j of i of x(i, j)  >= number of children - 1
               sum over parents i of j of x(i, j)   >= number of parents - 1
               0 <= x(i, j) <= 1

Child j is i's favourite if x(i, j), whether the value crosses, is below 0.5; there is at most one.
Between any two devices a transfer takes its mean time here, and an op its mean time.
"""

import numpy as np
from numpy.typing import NDArray

from dplace.lowering import Evaluator
from dplace.placement import movable_units
from dplace.policies.transfer_times import mean_transfer_s
from dplace.schedule.rank import mean_seconds

__all__ = ["EDGES_AT_ONCE", "favourite_children"]

EDGES_AT_ONCE = 5_000
"""Larger graphs are cut along their order; solving them whole would take time with the square of
their size."""

THRESHOLD = 0.5


def favourite_children(
    evaluator: Evaluator, edges_at_once: int = EDGES_AT_ONCE
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return the favourite child of each op, and what it would take to send it its values.

    Args:
        evaluator: The problem.
        edges_at_once: Size of one linear program, about; edges between two stretches of the graph
            are nobody's favourites.

    Returns:
        Ops, -1 for none, and seconds with the call of a part; both of shape ``(num_ops,)``.
    """
    pairs, away_s = _edges(evaluator)
    num_ops = evaluator.problem.num_ops
    favourite = np.full(num_ops, -1, dtype=np.int32)
    saved_s = np.zeros(num_ops)
    op_s = mean_seconds(evaluator.problem)
    begin = 0
    while begin < len(pairs):
        # Pairs are sorted by their source, and ops by the order of the graph.
        end = min(begin + edges_at_once, len(pairs))
        if end < len(pairs):
            end = int(np.searchsorted(pairs[:, 0], pairs[end, 0]))
        if end <= begin:
            end = int(np.searchsorted(pairs[:, 0], pairs[begin, 0], side="right"))
        first = int(pairs[begin, 0])
        last = int(pairs[end, 0]) if end < len(pairs) else num_ops
        inside = np.arange(begin, end)[pairs[begin:end, 1] < last]
        crosses = _solve(pairs[inside] - first, away_s[inside], op_s[first:last])
        for edge in inside[crosses < THRESHOLD].tolist():
            parent, child = pairs[edge].tolist()
            favourite[parent], saved_s[parent] = child, away_s[edge]
        begin = end
    return favourite, saved_s


def _edges(evaluator: Evaluator) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return each pair (parent, child) once, sorted, and the seconds between unlike devices."""
    problem = evaluator.problem
    graph = problem.graph
    call_s = float(evaluator.tables.devices["overhead"].mean())
    read = np.repeat(np.arange(graph.num_values), np.diff(graph.consumer_offsets))
    made = graph.value_producer[read] >= 0
    read, child = read[made], graph.consumer_ops[made].astype(np.int64)
    keys = graph.value_producer[read].astype(np.int64) * graph.num_ops + child
    keys, edge = np.unique(keys, return_inverse=True)
    pairs = np.stack(np.divmod(keys, max(1, graph.num_ops)), axis=1).astype(np.int64)
    away_s = np.bincount(edge, weights=mean_transfer_s(evaluator)[read], minlength=len(keys))
    unit = movable_units(problem)
    away_s = np.where(unit[pairs[:, 0]] == unit[pairs[:, 1]], 0.0, away_s + call_s)
    return pairs, np.asarray(away_s, dtype=np.float64)


def _solve(
    pairs: NDArray[np.int64], away_s: NDArray[np.float64], op_s: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return x, shape ``(num_edges,)``: 0 where child and parent share a device, 1 where not."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, vstack

    num_ops, num_edges = len(op_s), len(pairs)
    if num_edges == 0:
        return np.zeros(0)
    scale = max(float(op_s.max()), float(away_s.max())) or 1.0
    run, away = op_s / scale, away_s / scale
    source, target = pairs.T
    edge, op, one = np.arange(num_edges), np.arange(num_ops), np.ones(num_edges)
    width = num_ops + num_edges + 1  # starts, crossings, makespan

    def rows(count: int, *parts: tuple[NDArray[np.float64], object, object]) -> "coo_array":
        values, row, column = (np.concatenate(item) for item in zip(*parts, strict=True))
        return coo_array((values, (row, column)), shape=(count, width))

    ends = rows(
        num_ops,
        (np.ones(num_ops), op, op),
        (-np.ones(num_ops), op, np.full(num_ops, width - 1)),
    )
    waits = rows(num_edges, (one, edge, source), (away, edge, num_ops + edge), (-one, edge, target))
    children = rows(num_ops, (-one, source, num_ops + edge))
    parents = rows(num_ops, (-one, target, num_ops + edge))
    limits = [
        -run,
        -run[source],
        1.0 - np.bincount(source, minlength=num_ops),
        1.0 - np.bincount(target, minlength=num_ops),
    ]
    bounds = np.zeros((width, 2))
    bounds[:, 1] = np.inf
    bounds[num_ops:-1, 1] = 1.0
    cost = np.zeros(width)
    cost[-1] = 1.0
    found = linprog(
        cost,
        A_ub=vstack([ends, waits, children, parents]).tocsr(),
        b_ub=np.concatenate(limits),
        bounds=bounds,
        method="highs",
    )
    # All on one device is a solution, so failing is a matter of numbers: then nobody is favoured.
    return one if found.x is None else np.asarray(found.x[num_ops:-1])
