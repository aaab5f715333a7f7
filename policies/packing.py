"""Packing: a placement that fits, for models that fit on no single device.

First in one sweep along the order of the graph, each device filled before the next, so that few
values cross; with more or less room left for values. If nothing of that fits, weights decide: the
unit of ops with the most goes to the device with the least room for it. A weight counts once on
each device, however many ops read it there.
"""

import numpy as np
from numpy.typing import NDArray

from dplace.lowering import Evaluator
from dplace.placement import repair
from dplace.policies.memory import ROOM_FOR_VALUES, Units, no_room
from dplace.problem import Problem

__all__ = ["packing"]

Placement = NDArray[np.int32]


def packing(evaluator: Evaluator, *, rng: np.random.Generator, evaluations: int) -> Placement:
    """Return the best placement that fits.

    Raises:
        MemoryLimitError: None does.
    """
    problem = evaluator.problem
    if problem.num_ops == 0:
        return np.zeros(0, dtype=np.int32)
    units = Units(problem)
    candidates: dict[bytes, Placement] = {}
    orders = _device_orders(problem)
    for share in ROOM_FOR_VALUES:
        found = [*(_sweep(units, share, order) for order in orders), _best_fit(units, share)]
        for placement in found:
            if placement is not None:
                candidates.setdefault(placement.tobytes(), placement)
    scored = [(evaluator.score(placement), placement) for placement in candidates.values()]
    if not scored:
        raise no_room(problem, None, None)
    score, best = min(scored, key=lambda pair: pair[0])
    if score.overflow_bytes:
        raise no_room(problem, score, evaluator.overflow_bytes(best))
    return best


def _device_orders(problem: Problem) -> list[list[int]]:
    """Return orders to fill devices in: as they are, and the fastest first."""
    runs = np.where(np.isfinite(problem.seconds), problem.seconds, 0.0)
    given = list(range(problem.num_devices))
    fastest = sorted(given, key=lambda device: float(runs[:, device].sum()))
    return [given] if fastest == given else [given, fastest]


def _sweep(units: Units, share: float, order: list[int]) -> Placement | None:
    """Return each device filled before the next, along the order of the graph."""
    held: list[set[int]] = [set() for _ in units.capacity]
    used = [0] * len(units.capacity)
    chosen = np.empty(len(units.members), dtype=np.int32)
    at = 0
    for unit, weights in enumerate(units.weights):
        # What the device in turn may not take, or has no room for, goes to a later one.
        for device in order[at:] + order[:at]:
            added = sum(units.sizes[weight] for weight in weights - held[device])
            if units.allowed[unit, device] and used[device] + added <= units.capacity[device] * (
                1.0 - share
            ):
                break
        else:
            return None
        if units.allowed[unit, order[at]] and order.index(device) > at:
            at = order.index(device)
        held[device] |= weights
        used[device] += added
        chosen[unit] = device
    return repair(units.problem, chosen[units.unit])


def _best_fit(units: Units, share: float) -> Placement | None:
    """Return the heaviest unit first, each on the device with the least room that is enough."""
    held: list[set[int]] = [set() for _ in units.capacity]
    free = [int(capacity * (1.0 - share)) for capacity in units.capacity]
    chosen = np.full(len(units.members), -1, dtype=np.int32)
    last = 0
    heavy = sorted(range(len(units.members)), key=lambda unit: -units.bytes[unit])
    for unit in heavy:
        if not units.bytes[unit]:
            continue
        best: tuple[int, int, int] | None = None
        for device in np.flatnonzero(units.allowed[unit]).tolist():
            added = sum(units.sizes[w] for w in units.weights[unit] - held[device])
            if added <= free[device]:
                best = min(best or (added, free[device], device), (added, free[device], device))
        if best is None:
            return None
        added, _, device = best
        held[device] |= units.weights[unit]
        free[device] -= added
        chosen[unit] = device
    # Ops without weights go where the op before them is.
    for unit in range(len(chosen)):
        if chosen[unit] < 0:
            chosen[unit] = last if units.allowed[unit, last] else units.allowed[unit].argmax()
        last = int(chosen[unit])
    return repair(units.problem, chosen[units.unit])
