"""m-ETF: of all ops that can run, the one that can start first, where it can; within memory.

ETF is by Hwang, Chow, Anger, Lee, SIAM Journal on Computing 18(2), 1989; the memory cap by Jeon
et al., "Baechi: fast device placement of machine learning graphs", SoCC 2020. Departures: the
more urgent op goes first among those that can start at the same time; see ``list_schedule.py``.
"""

from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from dplace.lowering import Evaluator
from dplace.policies.list_schedule import ListSchedule
from dplace.policies.memory import first_that_fits

__all__ = ["etf_of_groups", "m_etf"]


def m_etf(evaluator: Evaluator, *, rng: np.random.Generator, evaluations: int) -> NDArray[np.int32]:
    """Return the placement by m-ETF, op by op.

    Raises:
        MemoryLimitError: It does not fit, however much room is left for values.
    """
    return first_that_fits(evaluator, lambda room: etf_of_groups(evaluator, None, room))


def etf_of_groups(
    evaluator: Evaluator, group: NDArray[np.int32] | None, room: float = 0.0
) -> NDArray[np.int32]:
    """Return the placement by m-ETF with groups of ops kept whole.

    Args:
        evaluator: The problem.
        group: Shape ``(num_ops,)``: group of each op, without circles; None for op by op.
        room: Share of each device's memory to leave empty.

    Raises:
        MemoryLimitError: Some group fits nowhere in what earlier ones have left.
    """
    schedule = ListSchedule(evaluator, group, room)
    ranks = schedule.ranks()
    free = list(schedule.overhead_s)
    waiting = [len(makers) for makers in schedule.producers]
    ready: list[tuple[float, float, int, int]] = []

    def offer(index: int) -> None:
        devices = schedule.choices(index)
        if not devices:
            raise schedule.no_room(index)
        for device in devices:
            start = max(free[device], schedule.ready_s(index, device))
            heappush(ready, (start, -ranks[index], index, device))

    for index in range(schedule.num_groups):
        if not waiting[index]:
            offer(index)
    while ready:
        start, _, index, device = heappop(ready)
        if schedule.device[index] >= 0:
            continue
        # Starts only move back, so an entry that is still right is the first of all.
        now = max(free[device], schedule.ready_s(index, device))
        devices = schedule.choices(index)
        if device not in devices:
            if not devices:
                raise schedule.no_room(index)
            if not any(entry[2] == index for entry in ready):
                offer(index)
            continue
        if now > start:
            heappush(ready, (now, -ranks[index], index, device))
            continue
        schedule.commit(index, device, now)
        free[device] = schedule.end_s[index]
        for reader in schedule.successors[index]:
            waiting[reader] -= 1
            if not waiting[reader]:
                offer(reader)
    return schedule.placement()
