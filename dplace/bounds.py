"""Lower bounds: what no placement can beat.

Two arguments, the better of which holds:

*Longest path.* Let ``e(i, d)`` be a time before which op ``i`` cannot end on device ``d``. An op
waits for each of its producers, wherever that is best: on the same device, or on another one and
then for the transfer and the call of a new part. This relaxes that an op has one device only.

*Work.* For any weights ``y(d) >= 0`` of the devices that add up to 1, the makespan is at least
``sum over i of min over d of y(d) * seconds(i, d)``: the dual of spreading fractions of ops over
unlike devices (Lenstra, Shmoys, Tardos, Mathematical Programming 46, 1990). Any weights give a
bound; multiplicative updates find good ones. A first call is paid besides.

Where a device that has all ops is called for another price, that placement is counted apart.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dplace.placement import allowed_devices
from dplace.problem import Problem

if TYPE_CHECKING:
    from dplace.simulator.tables import Tables

__all__ = ["lower_bound_s", "path_bound_s", "work_bound_s"]

ROUNDING = 1.0 - 1e-12
"""Sums are made in another order here than on the clock."""


def lower_bound_s(problem: Problem, tables: "Tables | None" = None) -> float:
    """Return a time in seconds that no placement of the problem can beat; 0 without ops."""
    if problem.num_ops == 0:
        return 0.0
    if tables is None:
        from dplace.simulator.tables import tabulate

        tables = tabulate(problem)
    allowed = allowed_devices(problem)
    if problem.objective == "throughput":
        fastest = np.where(allowed, problem.seconds, np.inf).min(axis=1)
        best = max(float(fastest.max()), work_bound_s(problem, allowed))
    elif problem.machine == "dnn-partitioning":
        # A CPU runs any number of ops at a time, so work bounds nothing.
        best = path_bound_s(tables, allowed)
    else:
        best = max(path_bound_s(tables, allowed), work_bound_s(problem, allowed))
    if problem.machine == "native":
        best = min(best, _alone_s(problem, allowed))
    return best * ROUNDING


def _alone_s(problem: Problem, allowed: NDArray[np.bool_]) -> float:
    """Return what a device that has all ops takes at least, if its call then has its own price."""
    seconds = np.where(allowed, problem.seconds, np.inf).sum(axis=0)
    return min(
        (
            device.single_call_overhead_s + float(seconds[index])
            for index, device in enumerate(problem.cluster.devices)
            if device.single_call_overhead_s is not None
        ),
        default=np.inf,
    )


def path_bound_s(tables: "Tables", allowed: NDArray[np.bool_]) -> float:
    """Return the longest path with calls and transfers, each op ending where that is best.

    Args:
        tables: Graph and costs.
        allowed: Shape ``(num_ops, num_devices)``: where each op may go.
    """
    from dplace.simulator.ranks import earliest_makespan

    return float(earliest_makespan(tables, allowed))


def work_bound_s(problem: Problem, allowed: NDArray[np.bool_], rounds: int = 60) -> float:
    """Return the time that the work takes if it can be spread in fractions, and one call.

    Args:
        problem: Graph and costs.
        allowed: Shape ``(num_ops, num_devices)``: where each op may go.
        rounds: Updates of the devices' weights.
    """
    seconds = np.where(allowed, problem.seconds, np.inf)
    weights = np.full(problem.num_devices, 1.0 / problem.num_devices)
    call_s = 0.0
    if problem.machine == "native":
        call_s = min(device.call_overhead_s for device in problem.cluster.devices)
    best = 0.0
    for step in range(rounds):
        # A device without weight would make a free home of itself for every op; inf * 0 is nan.
        weighted = seconds * weights  # (num_ops, num_devices)
        home = weighted.argmin(axis=1)
        best = max(best, float(weighted.min(axis=1).sum()))
        load = np.bincount(
            home, weights=seconds[np.arange(len(home)), home], minlength=problem.num_devices
        )
        if load.max() <= 0.0:
            break
        weights *= np.exp(load / load.max() / (1.0 + 0.2 * step))
        weights = np.maximum(weights / weights.sum(), 1e-9)
        weights /= weights.sum()
    return call_s + best
