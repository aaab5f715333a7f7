"""Critical path: its ops on the one device that runs them fastest, the rest where it ends first.

CPOP, by Topcuoglu, Hariri, Wu, "Performance-effective and low-complexity task scheduling for
heterogeneous computing", IEEE Transactions on Parallel and Distributed Systems 13(3), 2002.
Departures: devices without room for an op are left out, and see ``list_schedule.py``.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dplace.lowering import Evaluator
from dplace.policies.heft import earliest_finish
from dplace.policies.list_schedule import ListSchedule
from dplace.policies.memory import first_that_fits

__all__ = ["critical_path"]


def critical_path(
    evaluator: Evaluator, *, rng: np.random.Generator, evaluations: int
) -> NDArray[np.int32]:
    """Return the placement by CPOP, op by op.

    Raises:
        MemoryLimitError: It does not fit, however much room is left for values.
    """

    def propose(room: float) -> NDArray[np.int32]:
        schedule = ListSchedule(evaluator, None, room)
        upward, downward = schedule.ranks(), schedule.downward_ranks()
        priority = [up + down for up, down in zip(upward, downward, strict=True)]
        path = longest_path(schedule, priority)
        earliest_finish(schedule, priority, dict.fromkeys(path, fastest_device(schedule, path)))
        return schedule.placement()

    return first_that_fits(evaluator, propose)


def longest_path(schedule: ListSchedule, priority: list[float]) -> list[int]:
    """Return the groups of a longest path, in order.

    Args:
        schedule: The groups.
        priority: Of each group, the length of the longest path through it.
    """

    def longest(groups: list[int]) -> list[int]:
        return [max(groups, key=lambda index: (priority[index], -index))] if groups else []

    path = longest([index for index, makers in enumerate(schedule.producers) if not makers])
    while path and (after := longest(schedule.successors[path[-1]])):
        path += after
    return path


def fastest_device(schedule: ListSchedule, path: list[int]) -> int:
    """Return the device that runs most of a path, and of those the one that takes least time."""

    def cost(device: int) -> tuple[int, float, int]:
        times = [schedule.seconds[index][device] for index in path]
        runs = [time for time in times if time < math.inf]
        return len(times) - len(runs), sum(runs), device

    return min(range(schedule.num_devices), key=cost)
