"""What policies need to keep to the devices' memory, and what to say when they cannot."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dplace.errors import MemoryLimitError
from dplace.lowering import Evaluator, Score
from dplace.placement import counted_bytes, fitting_devices, movable_units
from dplace.problem import Problem
from dplace.simulator.engine import capacity
from dplace.sizes import size_in_words

__all__ = ["ROOM_FOR_VALUES", "Units", "first_that_fits", "no_room"]

Placement = NDArray[np.int32]

ROOM_FOR_VALUES = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7)
"""Shares of each device's memory to keep free: how long values live is known on the clock only."""


def first_that_fits(evaluator: Evaluator, propose: Callable[[float], Placement]) -> Placement:
    """Return the first proposal that fits.

    Args:
        evaluator: The problem.
        propose: Makes a placement that leaves a share of each device's memory empty.

    Raises:
        MemoryLimitError: No proposal fits.
    """
    if not evaluator.is_memory_tight:
        return propose(0.0)
    best: tuple[Score, Placement] | None = None
    for room in ROOM_FOR_VALUES:
        try:
            placement = propose(room)
        except MemoryLimitError:
            break
        score = evaluator.score(placement)
        if not score.overflow_bytes:
            return placement
        if best is None or score < best[0]:
            best = score, placement
    if best is None:
        raise no_room(evaluator.problem, None, None)
    raise no_room(evaluator.problem, best[0], evaluator.overflow_bytes(best[1]))


def no_room(
    problem: Problem, score: Score | None, overflow: NDArray[np.int64] | None
) -> MemoryLimitError:
    """Return the error that says how many bytes are missing where.

    Args:
        problem: What does not fit.
        score: Of the best placement that was found, if any.
        overflow: Shape ``(num_devices,)``: by how much that one does not fit.
    """
    cluster, graph, units = problem.cluster, problem.graph, Units(problem)
    weights, total = sum(units.sizes), sum(units.capacity)
    if weights > total:
        return MemoryLimitError(
            f"{graph.name}: weights take {size_in_words(weights)}, all of {cluster.spec} has "
            f"{size_in_words(total)}; {size_in_words(weights - total)} missing"
        )
    room = np.where(units.allowed, units.capacity, 0).max(axis=1)  # (num_units,)
    lacking = units.least_bytes - room
    worst = int(lacking.argmax())
    if lacking[worst] > 0:
        return MemoryLimitError(
            f"{graph.name}: op {graph.op_names[units.members[worst][0]]!r} with what must share "
            f"its device takes {size_in_words(int(units.least_bytes[worst]))}, the largest device "
            f"that it may go to has {size_in_words(int(room[worst]))}; "
            f"{size_in_words(int(lacking[worst]))} missing"
        )
    if score is None or overflow is None:
        return MemoryLimitError(
            f"{graph.name}: no way found to spread {size_in_words(weights)} of weights over "
            f"{cluster.spec}"
        )
    device = int(overflow.argmax())
    return MemoryLimitError(
        f"{graph.name}: nothing found that fits {cluster.spec}; the best placement lacks "
        f"{size_in_words(int(overflow[device]))} on {cluster.devices[device].name}, "
        f"{size_in_words(score.overflow_bytes)} in all"
    )


class Units:
    """Co-located ops as one, in the order of the graph, with what they hold in memory."""

    def __init__(self, problem: Problem) -> None:
        graph, counted = problem.graph, counted_bytes(problem)
        self.problem = problem
        self.unit = movable_units(problem)
        num_units = int(self.unit.max(initial=-1)) + 1
        self.members: list[list[int]] = [[] for _ in range(num_units)]
        for op, unit in enumerate(self.unit.tolist()):
            self.members[unit].append(op)
        self.allowed = fitting_devices(problem)[[row[0] for row in self.members]]
        self.sizes: list[int] = counted.weights.tolist()
        self.weights = [
            {int(weight) for op in row for weight in graph.weights_of(op)} for row in self.members
        ]
        self.bytes = [sum(self.sizes[weight] for weight in row) for row in self.weights]
        # What an op reads and makes is in memory with its weights while it runs.
        values = [
            max(
                int(counted.copies[graph.inputs_of(op)].sum())
                + int(counted.values[graph.outputs_of(op)].sum())
                for op in row
            )
            for row in self.members
        ]
        self.least_bytes = np.array(self.bytes, dtype=np.int64) + np.array(values, np.int64)
        self.made = [
            sum(int(counted.values[graph.outputs_of(op)].sum()) for op in row)
            for row in self.members
        ]
        self.capacity: list[int] = capacity(problem).tolist()
