"""HEFT: the most urgent op next, on the device where it ends first.

Topcuoglu, Hariri, Wu, "Performance-effective and low-complexity task scheduling for heterogeneous
computing", IEEE Transactions on Parallel and Distributed Systems 13(3), 2002. Departures: devices
without room for an op are left out, and see ``list_schedule.py``.
"""

import numpy as np
from numpy.typing import NDArray

from dplace.lowering import Evaluator
from dplace.policies.busy import Busy
from dplace.policies.list_schedule import ListSchedule
from dplace.policies.memory import first_that_fits

__all__ = ["heft", "heft_of_groups"]


def heft(evaluator: Evaluator, *, rng: np.random.Generator, evaluations: int) -> NDArray[np.int32]:
    """Return the placement by HEFT, op by op.

    Raises:
        MemoryLimitError: It does not fit, however much room is left for values.
    """
    return first_that_fits(evaluator, lambda room: heft_of_groups(evaluator, None, room))


def heft_of_groups(
    evaluator: Evaluator, group: NDArray[np.int32] | None, room: float = 0.0
) -> NDArray[np.int32]:
    """Return the placement by HEFT with groups of ops kept whole.

    Args:
        evaluator: The problem.
        group: Shape ``(num_ops,)``: group of each op, without circles; None for op by op.
        room: Share of each device's memory to leave empty.

    Raises:
        MemoryLimitError: Some group fits nowhere in what earlier ones have left.
    """
    schedule = ListSchedule(evaluator, group, room)
    ranks = schedule.ranks()
    busy = [Busy() for _ in range(schedule.num_devices)]
    done = [len(makers) for makers in schedule.producers]
    for index in _by_rank(schedule, ranks, done):
        best: tuple[float, int, float] | None = None
        for device in schedule.choices(index):
            length = schedule.seconds[index][device]
            start = busy[device].first_gap(schedule.ready_s(index, device), length)
            if best is None or (start + length, device) < best[:2]:
                best = (start + length, device, start)
        if best is None:
            raise schedule.no_room(index)
        end, device, start = best
        schedule.commit(index, device, start)
        busy[device].take(start, end)
    return schedule.placement()


def _by_rank(schedule: ListSchedule, ranks: list[float], waiting: list[int]) -> list[int]:
    """Return the groups by descending rank, none before a group that it reads from.

    Ranks order them already unless two are equal, as with ops that take no time.
    """
    from heapq import heappop, heappush

    ready = [(-ranks[index], index) for index in range(len(ranks)) if not waiting[index]]
    ready.sort()
    order: list[int] = []
    while ready:
        _, index = heappop(ready)
        order.append(index)
        for reader in schedule.successors[index]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heappush(ready, (-ranks[reader], reader))
    return order
