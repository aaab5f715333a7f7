"""m-ETF: of all ops that can run, the one that can start first, where it can; within memory.

ETF is by Hwang, Chow, Anger, Lee, SIAM Journal on Computing 18(2), 1989; the memory cap by Jeon
et al., "Baechi: fast device placement of machine learning graphs", SoCC 2020. Departures: the
more urgent op goes first among those that can start at the same time; see ``list_schedule.py``.
"""

import numpy as np
from numpy.typing import NDArray

from dplace.lowering import Evaluator
from dplace.policies.earliest_first import EarliestFirst
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
    queue = EarliestFirst(schedule, schedule.ranks())
    while (choice := queue.pop()) is not None:
        start, index, device = choice
        schedule.commit(index, device, start)
        queue.committed(index, device)
    return schedule.placement()
