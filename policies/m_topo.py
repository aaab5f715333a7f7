"""m-TOPO: along the order of the graph, each device filled to its share of the memory in turn.

Jeon et al., "Baechi: fast device placement of machine learning graphs", SoCC 2020: a device is
full at ``sum of d(i) / num_devices + max of d(i)``, where ``d(i)`` are the bytes of op ``i``.
Departures: co-located ops are one, a weight counts once on each device, and what a device cannot
run, or has no memory for, goes to the next one that can.
"""

import numpy as np
from numpy.typing import NDArray

from dplace.lowering import Evaluator
from dplace.placement import repair
from dplace.policies.memory import Units, first_that_fits, no_room

__all__ = ["m_topo"]


def m_topo(
    evaluator: Evaluator, *, rng: np.random.Generator, evaluations: int
) -> NDArray[np.int32]:
    """Return the placement by m-TOPO.

    Where no op has weights or outputs of any size, all are on the first device.

    Raises:
        MemoryLimitError: It does not fit, however much room is left for values.
    """
    units = Units(evaluator.problem)
    return first_that_fits(evaluator, lambda room: fill(units, room))


def fill(units: Units, room: float) -> NDArray[np.int32]:
    """Return each device filled to its share before the next.

    Args:
        units: What is placed.
        room: Share of each device's memory to keep free of weights.

    Raises:
        MemoryLimitError: The weights of a unit fit on no device that it may go to.
    """
    problem = units.problem
    num_devices, made = problem.num_devices, units.made
    largest = max((a + b for a, b in zip(units.bytes, made, strict=True)), default=0)
    read = set[int]().union(*units.weights)
    share = (sum(units.sizes[weight] for weight in read) + sum(made)) / num_devices + largest
    limit = [capacity * (1.0 - room) for capacity in units.capacity]
    held: list[set[int]] = [set() for _ in range(num_devices)]
    weighs, filled = [0] * num_devices, [0] * num_devices
    chosen = np.empty(len(units.members), dtype=np.int32)
    turn = 0
    for unit, weights in enumerate(units.weights):
        added = [sum(units.sizes[weight] for weight in weights - row) for row in held]
        fits = [
            device
            for device in [*range(turn, num_devices), *range(turn)]
            if units.allowed[unit, device] and weighs[device] + added[device] <= limit[device]
        ]
        if not fits:
            raise no_room(problem, None, None)
        below = [d for d in fits if filled[d] + added[d] + made[unit] <= share]
        device = (below or fits)[0]
        # What only a later device may run does not end the turn of this one.
        if units.allowed[unit, turn] and device > turn:
            turn = device
        held[device] |= weights
        weighs[device] += added[device]
        filled[device] += added[device] + made[unit]
        chosen[unit] = device
    return repair(problem, chosen[units.unit])
