"""m-SCT: the op that can start first, but a device waits a while for its last op's favourite child.

Jeon et al., "Baechi: fast device placement of machine learning graphs", SoCC 2020, after Hanen and
Munier's schedules for small communication times; see ``favourite_child.py``. After op ``i`` a
device is kept for i's favourite child for as long as sending i's value to it would take. Others
may start there only if no other device can start them within that time. Departures as in
``m_etf.py`` and ``list_schedule.py``.
"""

import numpy as np
from numpy.typing import NDArray

from dplace.lowering import Evaluator
from dplace.policies.earliest_first import EarliestFirst
from dplace.policies.favourite_child import favourite_children
from dplace.policies.list_schedule import ListSchedule
from dplace.policies.memory import first_that_fits

__all__ = ["m_sct"]


def m_sct(evaluator: Evaluator, *, rng: np.random.Generator, evaluations: int) -> NDArray[np.int32]:
    """Return the placement by m-SCT, op by op.

    Raises:
        MemoryLimitError: It does not fit, however much room is left for values.
    """
    children, away_s = favourite_children(evaluator)
    favourite, wait_s = children.tolist(), away_s.tolist()

    def propose(room: float) -> NDArray[np.int32]:
        schedule = ListSchedule(evaluator, None, room)
        queue = EarliestFirst(schedule, schedule.ranks())
        while (choice := queue.pop()) is not None:
            start, op, device = choice
            schedule.commit(op, device, start)
            until_s = schedule.end_s[op] + wait_s[op]
            queue.committed(op, device, (favourite[op], until_s) if favourite[op] >= 0 else None)
        return schedule.placement()

    return first_that_fits(evaluator, propose)
