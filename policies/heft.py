"""HEFT: the most urgent op next, on the device where it ends first.

Topcuoglu, Hariri, Wu, "Performance-effective and low-complexity task scheduling for heterogeneous
computing", IEEE Transactions on Parallel and Distributed Systems 13(3), 2002. Departures: devices
without room for an op are left out, and see ``list_schedule.py``.
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from dplace.lowering import Evaluator
from dplace.policies.busy import Busy
from dplace.policies.list_schedule import ListSchedule
from dplace.policies.memory import first_that_fits

__all__ = ["earliest_finish", "heft", "heft_of_groups"]


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
    earliest_finish(schedule, schedule.ranks())
    return schedule.placement()


def earliest_finish(
    schedule: ListSchedule, priority: list[float], home: Mapping[int, int] | None = None
) -> None:
    """Put one group after another where it ends first, in the first gap that is long enough.

    Args:
        schedule: Still empty.
        priority: Of each group; of those whose producers are placed, the highest goes next.
        home: Devices that some groups go to if they may and fit, whenever they end there.

    Raises:
        MemoryLimitError: Some group fits nowhere in what earlier ones have left.
    """
    busy = [Busy() for _ in range(schedule.num_devices)]
    waiting = [len(makers) for makers in schedule.producers]
    ready = [(-priority[index], index) for index, count in enumerate(waiting) if not count]
    heapify(ready)
    while ready:
        _, index = heappop(ready)
        devices = schedule.choices(index)
        if home is not None and home.get(index) in devices:
            devices = (home[index],)
        best: tuple[float, int, float] | None = None
        for device in devices:
            length = schedule.seconds[index][device]
            start = busy[device].first_gap(schedule.ready_s(index, device), length)
            if best is None or (start + length, device) < best[:2]:
                best = (start + length, device, start)
        if best is None:
            raise schedule.no_room(index)
        end, device, start = best
        schedule.commit(index, device, start)
        busy[device].take(start, end)
        for reader in schedule.successors[index]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heappush(ready, (-priority[reader], reader))
