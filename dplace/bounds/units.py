"""What bounds count: co-located ops as one, and the room that devices have for their weights."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.placement import counted_bytes, movable_units
from dplace.problem import Problem

__all__ = ["Units", "by_unit", "op_bytes", "room_of"]

Int = NDArray[np.int32]
Float = NDArray[np.float64]


class Units(NamedTuple):
    """Co-located ops as one."""

    of: Int
    """Shape ``(num_ops,)``."""
    seconds: Float
    """Shape ``(num_units, num_devices)``."""
    bytes: Float
    """Shape ``(num_units,)``; see ``op_bytes``."""


def by_unit(problem: Problem, allowed: NDArray[np.bool_]) -> Units:
    """Return co-located ops as one; times are ``inf`` where they may not go."""
    unit = movable_units(problem)
    num_units = int(unit.max(initial=-1)) + 1
    seconds = np.zeros((num_units, problem.num_devices))
    np.add.at(seconds, unit, np.where(allowed, problem.seconds, np.inf))
    size = np.zeros(num_units)
    np.add.at(size, unit, op_bytes(problem))
    return Units(unit, seconds, size)


def op_bytes(problem: Problem) -> Float:
    """Return a share of the weights for each op: those of ops on a device never exceed theirs.

    A weight with several readers is there once on a device with any of them, so each gets an equal
    part of it.
    """
    graph = problem.graph
    ops = np.repeat(np.arange(graph.num_ops), np.diff(graph.weight_offsets))
    readers = np.bincount(graph.op_weights, minlength=len(graph.weight_bytes))
    shares = counted_bytes(problem).weights[graph.op_weights] / readers[graph.op_weights]
    size = np.zeros(graph.num_ops)
    np.add.at(size, ops, shares)
    return size


def room_of(problem: Problem) -> Float:
    """Return the bytes of weights that each device can hold, shape ``(num_devices,)``."""
    from dplace.simulator.engine import capacity

    return capacity(problem).astype(np.float64)
