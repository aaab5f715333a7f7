"""Upward ranks: how much work lies between an op and the end of the graph.

``rank_u`` of Topcuoglu, Hariri, Wu, IEEE Transactions on Parallel and Distributed Systems 13(3),
2002: ``rank_u(i) = w(i) + max over successors j of (c(i, j) + rank_u(j))``.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dplace.problem import Problem

if TYPE_CHECKING:
    from dplace.simulator.tables import Tables

__all__ = ["critical_path", "mean_rank", "mean_seconds", "placed_rank", "priority_order"]


def mean_seconds(problem: Problem) -> NDArray[np.float64]:
    """Return each op's time over the devices that can run it, on average, in seconds."""
    runs = np.isfinite(problem.seconds)
    total = np.where(runs, problem.seconds, 0.0).sum(axis=1)
    return np.asarray(total / np.maximum(runs.sum(axis=1), 1))


def mean_rank(problem: Problem, tables: "Tables") -> NDArray[np.float64]:
    """Return the upward rank with mean costs, in seconds, shape ``(num_ops,)``.

    ``w(i)`` is the mean over devices, ``c(i, j)`` the mean over ordered pairs of devices; a pair
    of the same device costs nothing, and one of two devices the call of a part as well.
    """
    from dplace.simulator.ranks import upward

    num = problem.num_devices
    calls_s = (num - 1) * float(tables.devices["overhead"].sum())
    links = tables.links
    apart = ~np.eye(num, dtype=np.bool_)
    latency_s = (links["latency"][apart].sum() + calls_s) / num**2
    seconds_per_byte = (1.0 / links["bytes_per_s"][apart]).sum() / num**2
    value_s = latency_s + problem.graph.value_bytes * seconds_per_byte
    given = problem.transfer_s
    if given is not None and given.shape[1] == 1:
        value_s = value_s + given[:, 0, 0] * (num - 1) / num
    elif given is not None:
        value_s = value_s + given.mean(axis=(1, 2))
    return np.asarray(upward(tables, mean_seconds(problem), value_s))


def placed_rank(tables: "Tables", placement: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the upward rank under ``placement``, in seconds, shape ``(num_ops,)``."""
    from dplace.simulator.ranks import placed_upward

    return np.asarray(placed_upward(tables, placement))


def priority_order(rank: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return the ops by descending rank, the lower index first among equals.

    With an upward rank this is a topological order: a rank never grows along an edge, and ops
    are numbered in a topological order.

    >>> priority_order(np.array([3.0, 1.0, 3.0, 2.0]))
    array([0, 2, 3, 1], dtype=int32)
    """
    return np.argsort(-rank, kind="stable").astype(np.int32)


def critical_path(problem: Problem, tables: "Tables") -> tuple[float, NDArray[np.int32]]:
    """Return the length in seconds and the ops of a longest path, each op at its fastest.

    Transfers and calls cost nothing here, so no placement is faster than this.
    """
    from dplace.simulator.ranks import upward

    graph = problem.graph
    if graph.num_ops == 0:
        return 0.0, np.zeros(0, dtype=np.int32)
    fastest = problem.seconds.min(axis=1)
    rank = np.asarray(upward(tables, fastest, np.zeros(graph.num_values)))
    op = int(rank.argmax())
    path = [op]
    while True:
        successors = [
            int(reader) for value in graph.outputs_of(op) for reader in graph.consumers_of(value)
        ]
        if not successors:
            return float(rank[path[0]]), np.array(path, dtype=np.int32)
        op = max(successors, key=lambda successor: (rank[successor], -successor))
        path.append(op)
