"""Packing: a placement that fits, for models that fit on no single device.

First in one sweep along the order of the graph, each device filled before the next, so that few
values cross; with more or less room left for values. If nothing of that fits, weights decide: the
unit of ops with the most goes to the device with the least room for it. A weight counts once on
each device, however many ops read it there.
"""

import itertools

import numpy as np
from numpy.typing import NDArray

from dplace.errors import MemoryLimitError
from dplace.lowering import Evaluator, Score
from dplace.placement import allowed_devices, movable_units, repair, size_in_words
from dplace.problem import Problem

__all__ = ["packing", "require_room"]

Placement = NDArray[np.int32]

ROOM_FOR_VALUES = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7)
"""Shares of each device's memory that a sweep leaves free of weights."""


def packing(evaluator: Evaluator, *, rng: np.random.Generator, evaluations: int) -> Placement:
    """Return the best placement that fits.

    Raises:
        MemoryLimitError: None does.
    """
    problem = evaluator.problem
    if problem.num_ops == 0:
        return np.zeros(0, dtype=np.int32)
    units = _Units(problem)
    candidates: dict[bytes, Placement] = {}
    for share, order in itertools.product(ROOM_FOR_VALUES, units.device_orders()):
        for placement in (units.sweep(share, order), units.best_fit(share)):
            if placement is not None:
                candidates.setdefault(placement.tobytes(), placement)
    scored = [(evaluator.score(placement), placement) for placement in candidates.values()]
    if not scored:
        raise require_room(problem, None, None)
    score, best = min(scored, key=lambda pair: pair[0])
    if score.overflow_bytes:
        raise require_room(problem, score, evaluator.overflow_bytes(best))
    return best


def require_room(
    problem: Problem, score: Score | None, overflow: NDArray[np.int64] | None
) -> MemoryLimitError:
    """Return the error that says how many bytes are missing where.

    Args:
        problem: What does not fit.
        score: Of the best placement that was found, if any.
        overflow: Shape ``(num_devices,)``: by how much that one does not fit.
    """
    cluster, graph = problem.cluster, problem.graph
    capacity = np.array([device.memory_bytes for device in cluster.devices])
    weights = int(graph.weight_bytes.sum())
    total = int(capacity.sum())
    if weights > total:
        return MemoryLimitError(
            f"{graph.name}: weights take {size_in_words(weights)}, all of {cluster.spec} has "
            f"{size_in_words(total)}; {size_in_words(weights - total)} missing"
        )
    units = _Units(problem)
    room = np.where(units.allowed, capacity, 0).max(axis=1)  # (num_units,)
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
            f"{cluster.spec} ({size_in_words(total)})"
        )
    device = int(overflow.argmax())
    return MemoryLimitError(
        f"{graph.name}: nothing found that fits {cluster.spec}; the best placement lacks "
        f"{size_in_words(int(overflow[device]))} on {cluster.devices[device].name}, "
        f"{size_in_words(score.overflow_bytes)} in all"
    )


class _Units:
    """Co-located ops as one, in the order of the graph, with their weights."""

    def __init__(self, problem: Problem) -> None:
        graph = problem.graph
        self._problem = problem
        self._unit = movable_units(problem)
        num_units = int(self._unit.max(initial=-1)) + 1
        self.members: list[list[int]] = [[] for _ in range(num_units)]
        for op, unit in enumerate(self._unit.tolist()):
            self.members[unit].append(op)
        self.allowed = allowed_devices(problem)[[row[0] for row in self.members]]
        sizes = graph.weight_bytes.tolist()
        self._sizes: list[int] = sizes
        self._weights = [
            {int(weight) for op in row for weight in graph.weights_of(op)} for row in self.members
        ]
        self._bytes = [sum(sizes[weight] for weight in row) for row in self._weights]
        # What an op reads and makes is in memory with its weights while it runs.
        values = [
            max(
                int(graph.value_bytes[graph.inputs_of(op)].sum())
                + int(graph.value_bytes[graph.outputs_of(op)].sum())
                for op in row
            )
            for row in self.members
        ]
        self.least_bytes = np.array(self._bytes, dtype=np.int64) + np.array(values, np.int64)
        self._capacity = [device.memory_bytes for device in problem.cluster.devices]

    def device_orders(self) -> list[list[int]]:
        """Return orders to fill devices in: as they are, and the fastest first."""
        runs = np.where(np.isfinite(self._problem.seconds), self._problem.seconds, 0.0)
        given = list(range(self._problem.num_devices))
        fastest = sorted(given, key=lambda device: float(runs[:, device].sum()))
        return [given] if fastest == given else [given, fastest]

    def sweep(self, share: float, order: list[int]) -> Placement | None:
        """Return each device filled before the next, along the order of the graph."""
        held: list[set[int]] = [set() for _ in self._capacity]
        used = [0] * len(self._capacity)
        chosen = np.empty(len(self.members), dtype=np.int32)
        at = 0
        for unit, weights in enumerate(self._weights):
            # What the device in turn may not take, or has no room for, goes to a later one.
            for device in order[at:] + order[:at]:
                added = sum(self._sizes[weight] for weight in weights - held[device])
                if self.allowed[unit, device] and used[device] + added <= self._capacity[device] * (
                    1.0 - share
                ):
                    break
            else:
                return None
            if self.allowed[unit, order[at]] and order.index(device) > at:
                at = order.index(device)
            held[device] |= weights
            used[device] += added
            chosen[unit] = device
        return repair(self._problem, chosen[self._unit])

    def best_fit(self, share: float) -> Placement | None:
        """Return the heaviest unit first, each on the device with the least room that is enough."""
        held: list[set[int]] = [set() for _ in self._capacity]
        free = [int(capacity * (1.0 - share)) for capacity in self._capacity]
        chosen = np.full(len(self.members), -1, dtype=np.int32)
        last = 0
        heavy = sorted(range(len(self.members)), key=lambda unit: -self._bytes[unit])
        for unit in heavy:
            if not self._bytes[unit]:
                continue
            best: tuple[int, int, int] | None = None
            for device in np.flatnonzero(self.allowed[unit]).tolist():
                added = sum(self._sizes[w] for w in self._weights[unit] - held[device])
                if added <= free[device]:
                    best = min(best or (added, free[device], device), (added, free[device], device))
            if best is None:
                return None
            added, _, device = best
            held[device] |= self._weights[unit]
            free[device] -= added
            chosen[unit] = device
        # Ops without weights go where the op before them is.
        for unit in range(len(chosen)):
            if chosen[unit] < 0:
                chosen[unit] = last if self.allowed[unit, last] else self.allowed[unit].argmax()
            last = int(chosen[unit])
        return repair(self._problem, chosen[self._unit])
