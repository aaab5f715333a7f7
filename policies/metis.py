"""METIS: as many parts as devices, equal in work, with as little as can be between them.

Karypis, Kumar, "A fast and high quality multilevel scheme for partitioning irregular graphs", SIAM
Journal on Scientific Computing 20(1), 1998; METIS comes with dgl. It knows no order of time: parts
that wait for each other are as good to it as parts that run side by side.

What dgl does not pass on is said in the graph: an edge weighs as much as there are edges, and a
device that is slow or has pinned ops is a vertex that takes up room in its part. Co-located ops are
one vertex. Where memory is tight, bytes of weights are balanced as well.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dplace.lowering import Evaluator
from dplace.placement import repair
from dplace.policies.memory import Units, no_room
from dplace.policies.metis_call import partitions
from dplace.policies.transfer_times import mean_transfer_s
from dplace.problem import Problem
from dplace.schedule.rank import mean_seconds

__all__ = ["metis"]

Float = NDArray[np.float64]
Long = NDArray[np.int64]

EDGES_OF_ONE = 32
"""Edges that a transfer counts for, at most; the median transfer counts for one."""

WEIGHT_OF_ALL = 10**6
"""METIS counts work in whole numbers."""


def metis(evaluator: Evaluator, *, rng: np.random.Generator, evaluations: int) -> NDArray[np.int32]:
    """Return the best placement by METIS's two modes and by what is balanced.

    Raises:
        MemoryLimitError: None fits.
    """
    problem = evaluator.problem
    units = Units(problem)
    placements = [
        repair(problem, devices_of_parts(units, part)[part][units.unit])
        for part in _partitions(evaluator, units)
    ]
    scored = [(evaluator.best_rule(placement)[0], placement) for placement in placements]
    score, best = min(scored, key=lambda pair: pair[0])
    if score.overflow_bytes:
        raise no_room(problem, score, evaluator.overflow_bytes(best))
    return best


def _partitions(evaluator: Evaluator, units: Units) -> list[Long]:
    """Return ways to part the units, each of shape ``(num_units,)``."""
    is_free = units.allowed.sum(axis=1) > 1
    num_parts = min(units.problem.num_devices, int(is_free.sum()))
    if num_parts < 2:
        return [np.zeros(len(is_free), dtype=np.int64)]
    graph = weighted_graph(evaluator, units)
    columns = [graph.weights[:, :1]]
    if evaluator.is_memory_tight and graph.weights[:, 1].any():
        columns += [graph.weights, graph.weights[:, 1:]]
    return [part[graph.vertex] for part in partitions(graph.edges, columns, num_parts)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightedGraph:
    """What METIS is asked to cut."""

    vertex: Long
    """Of each unit, shape ``(num_units,)``; those that must go to one device share a vertex."""
    edges: Long
    """Pairs of vertices, each as often as it weighs; shape ``(num_edges, 2)``."""
    weights: Long
    """Work and bytes of each vertex, shape ``(num_vertices, 2)``."""


def weighted_graph(evaluator: Evaluator, units: Units) -> WeightedGraph:
    """Return units as vertices, and a vertex for each device that differs or has pinned ops."""
    problem = evaluator.problem
    num_units = len(units.members)
    work = np.zeros(num_units)
    np.add.at(work, units.unit, mean_seconds(problem))
    if not work.any():
        work += 1.0
    size = np.array(units.bytes, dtype=np.float64)
    capacity = np.minimum(units.capacity, size.sum())
    idle = np.stack([_idle(_speeds(problem), work), _idle(capacity, size)], axis=1)
    forced = np.where(units.allowed.sum(axis=1) == 1, units.allowed.argmax(axis=1), -1)
    # Vertices are numbered free units first, then devices that have anything to say.
    key = np.where(forced >= 0, num_units + forced, np.arange(num_units))
    differs = num_units + np.flatnonzero(idle.any(axis=1))
    keys = np.unique(np.concatenate([key, differs]))
    vertex = np.searchsorted(keys, key)
    weights = np.zeros((len(keys), 2))
    np.add.at(weights, vertex, np.stack([work, size], axis=1))
    at_device = keys >= num_units
    weights[at_device] += idle[keys[at_device] - num_units]
    scale = WEIGHT_OF_ALL / np.maximum(weights.sum(axis=0), 1e-300)
    return WeightedGraph(
        vertex=vertex.astype(np.int64),
        edges=_edges(evaluator, units, vertex),
        weights=np.rint(weights * scale).astype(np.int64),
    )


def _speeds(problem: Problem) -> Float:
    """Return how fast each device runs what it can, against the mean; shape ``(num_devices,)``."""
    runs = np.isfinite(problem.seconds)
    own_s = np.where(runs, problem.seconds, 0.0).sum(axis=0)
    mean_s = (runs * mean_seconds(problem)[:, None]).sum(axis=0)
    return np.where(own_s > 0, mean_s / np.where(own_s > 0, own_s, 1.0), runs.any(axis=0))


def _idle(shares: Float, amounts: Float) -> Float:
    """Return what makes the parts of unequal devices equal: zero for those with the most share.

    >>> _idle(np.array([2.0, 1.0, 1.0]), np.array([3.0, 5.0]))
    array([0., 2., 2.])
    """
    parts = shares / max(float(shares.sum()), 1e-300) * amounts.sum()
    missing = parts.max() - parts
    return np.asarray(np.where(missing > 1e-6 * parts.max(), missing, 0.0))


def _edges(evaluator: Evaluator, units: Units, vertex: NDArray[np.intp]) -> Long:
    """Return an edge from the maker of each value to each vertex that reads it, by its time."""
    graph = evaluator.problem.graph
    read = np.repeat(np.arange(graph.num_values), np.diff(graph.consumer_offsets))
    made = graph.value_producer[read] >= 0
    of_op = vertex[units.unit]
    rows = np.stack(
        [read[made], of_op[graph.value_producer[read[made]]], of_op[graph.consumer_ops[made]]],
        axis=1,
    )
    rows = np.unique(rows[rows[:, 1] != rows[:, 2]], axis=0)  # a value crosses once
    seconds = mean_transfer_s(evaluator)[rows[:, 0]]
    median = float(np.median(seconds)) if len(seconds) else 0.0
    counts = np.clip(np.rint(seconds / (median or 1.0)), 1, EDGES_OF_ONE).astype(np.int64)
    return np.repeat(rows[:, 1:], counts, axis=0).astype(np.int64)


def devices_of_parts(units: Units, part: Long) -> Long:
    """Return a device for each part, so that all together take least time where they are.

    Args:
        units: What was parted.
        part: Shape ``(num_units,)``.
    """
    from scipy.optimize import linear_sum_assignment

    problem = units.problem
    num_parts = int(part.max(initial=0)) + 1
    of_op = part[units.unit]
    runs = np.isfinite(problem.seconds)
    # Nothing that a device cannot run is worth a part's going there.
    cannot_s = 10.0 * float(np.where(runs, problem.seconds, 0.0).max(initial=1e-6, axis=None))
    allowed = units.allowed[units.unit]
    cost = np.zeros((num_parts, problem.num_devices))
    np.add.at(cost, of_op, np.where(allowed, np.where(runs, problem.seconds, 0.0), cannot_s))
    found = np.zeros(num_parts, dtype=np.int64)
    rows, columns = linear_sum_assignment(cost)
    found[rows] = columns
    return found
