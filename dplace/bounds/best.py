"""The best lower bound, and the argument that gave it.

The best of several arguments holds:

``path``
    The longest path. Let ``e(i, d)`` be a time before which op ``i`` cannot end on device ``d``. An
    op waits for each of its producers, wherever that is best: on the same device, or on another one
    and then for the transfer and the call of a new part. This relaxes that an op has one device
    only.
``work``, ``count``
    How much there is to do, in time and in memory: ``work.py``.
``forks``, ``crossing``
    What a fork takes on one device and on several; and that either one device has all ops or some
    value crosses: ``forks.py``. In a stream, what crosses keeps a channel busy.
``blocks``
    What a chain of ops takes that is cut into blocks none of which may exceed an accelerator's
    memory, for the latency of dnn-partitioning: ``blocks.py``.
``pieces``
    The same for its throughput, where crossings keep devices busy: ``stream.py``.
``alone``
    Where a device that has all ops is called for another price, that placement is counted apart.

Everywhere an op may only go where its pin, its kernel and those co-located with it let it, and
where their weights fit.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.bounds.blocks import blocks_bound_s
from dplace.bounds.chain import edges_of
from dplace.bounds.forks import alone_s, are_connected, crossing_bound_s, forks_bound_s
from dplace.bounds.stream import pieces_bound_s
from dplace.bounds.units import Units, by_unit, room_of
from dplace.bounds.work import counting_bound_s, spread_work
from dplace.placement import allowed_devices, fitting_devices
from dplace.problem import Problem

if TYPE_CHECKING:
    from dplace.simulator.tables import Tables

__all__ = ["Bound", "best_bound", "bounds_by_argument", "lower_bound_s"]

ROUNDING = 1.0 - 1e-12
"""Sums are made in another order here than on the clock."""


class Bound(NamedTuple):
    """What no placement can beat, and why."""

    seconds: float
    argument: str
    """The name of the argument that gave it, as in the module's first lines."""


def lower_bound_s(problem: Problem, tables: "Tables | None" = None) -> float:
    """Return a time in seconds that no placement of the problem can beat; 0 without ops."""
    return best_bound(problem, tables).seconds


def best_bound(problem: Problem, tables: "Tables | None" = None) -> Bound:
    """Return the best lower bound on what the objective makes small, and its argument."""
    bounds = bounds_by_argument(problem, tables)
    # What cannot be at all has no bound; then the other arguments do.
    finite = [Bound(seconds, name) for name, seconds in bounds.items() if np.isfinite(seconds)]
    best = max(finite, key=lambda bound: bound.seconds, default=Bound(0.0, "path"))
    if problem.machine == "native" and problem.num_ops:
        best = min(best, Bound(_single_call_s(problem), "alone"))
    return best._replace(seconds=best.seconds * ROUNDING)


def bounds_by_argument(problem: Problem, tables: "Tables | None" = None) -> dict[str, float]:
    """Return what each argument gives, in seconds, a device that has all ops at no other price."""
    if problem.num_ops == 0:
        return {}
    if tables is None:
        from dplace.simulator.tables import tabulate

        tables = tabulate(problem)
    allowed = fitting_devices(problem)
    is_stream = problem.objective == "throughput"
    if problem.machine != "dnn-partitioning":
        return _by_ops(problem, tables, allowed, is_stream=is_stream)
    return (_by_loads if is_stream else _by_blocks)(problem, tables, allowed)


def _by_ops(
    problem: Problem, tables: "Tables", allowed: NDArray[np.bool_], *, is_stream: bool
) -> dict[str, float]:
    """Return the bounds where devices run ops one by one, by argument."""
    from dplace.simulator.ranks import earliest_times

    units, room = _busy_units(problem, allowed), room_of(problem)
    call_s = float(tables.devices["overhead"].min())
    work_s = spread_work(units, room).seconds
    alone = call_s + float(alone_s(units, room).min())
    bounds = {
        "work": call_s + work_s,
        "count": call_s + counting_bound_s(units, room, work_s),
    }
    if is_stream:
        bounds["crossing"] = min(alone, _channel_s(problem, tables))
        return bounds
    path_s, starts = earliest_times(tables, allowed)
    bounds["path"] = path_s
    bounds["forks"] = call_s + forks_bound_s(problem, tables, allowed)
    bounds["crossing"] = crossing_bound_s(problem, tables, allowed, starts, alone)
    return bounds


def _by_loads(problem: Problem, tables: "Tables", allowed: NDArray[np.bool_]) -> dict[str, float]:
    """Return the bounds on the loads of dnn-partitioning, by argument."""
    units, room = by_unit(problem, allowed), room_of(problem)
    work = spread_work(units, room)
    count_s = counting_bound_s(units, room, work.seconds)
    pieces_s = pieces_bound_s(problem, tables, allowed, units, room, work, count_s)
    return {"work": work.seconds, "count": count_s, "pieces": pieces_s}


def _by_blocks(problem: Problem, tables: "Tables", allowed: NDArray[np.bool_]) -> dict[str, float]:
    """Return the bounds on the latency of dnn-partitioning, by argument.

    A CPU runs any number of ops at a time, so work bounds nothing; and what a transfer takes is not
    the time between two devices.
    """
    from dplace.simulator.ranks import earliest_times

    links = tables.links.copy()
    links["latency"], links["bytes_per_s"] = 0.0, np.inf
    path_s, _ = earliest_times(tables._replace(links=links), allowed)
    return {"path": path_s, "blocks": blocks_bound_s(problem, tables, allowed)}


def _busy_units(problem: Problem, allowed: NDArray[np.bool_]) -> Units:
    """Return co-located ops as one, with how long they keep a device busy."""
    units = by_unit(problem, allowed)
    if problem.machine != "placeto":
        return units
    from dplace.simulator.tables import PLACETO_DEVICE_S

    after = np.zeros_like(units.seconds)
    np.add.at(after, units.of, np.where(problem.seconds > 0.0, PLACETO_DEVICE_S, 0.0))
    return units._replace(seconds=units.seconds + after)


def _channel_s(problem: Problem, tables: "Tables") -> float:
    """Return how long a channel is busy at least if no device has all ops."""
    from dplace.simulator.op_tables import tabulate_ops

    edges = edges_of(problem)
    if problem.num_devices == 1 or not are_connected(problem.num_ops, edges):
        return 0.0
    by_op = tabulate_ops(problem, problem.machine, tables)
    num = problem.num_devices
    links = tables.links
    apart = ~np.eye(num, dtype=np.bool_)
    if problem.machine == "independent" or (links["channel_a"][apart] < 0).any():
        return 0.0
    values = np.unique(edges.values)
    if len(by_op.pair_s):
        length = by_op.pair_s.reshape(-1, num, num)[values][:, apart].min(axis=1)
    else:
        size = problem.graph.value_bytes[values][:, None]
        length = (links["latency"] + size[:, :, None] / links["bytes_per_s"])[:, apart].min(axis=1)
        length = length + by_op.values["transfer_s"][values]
    return float(length.min(initial=np.inf)) + by_op.after_send_s


def _single_call_s(problem: Problem) -> float:
    """Return what a device that has all ops takes at least, if its call then has its own price."""
    alone = alone_s(by_unit(problem, allowed_devices(problem)), room_of(problem))
    return min(
        (
            device.single_call_overhead_s + float(seconds)
            for device, seconds in zip(problem.cluster.devices, alone, strict=True)
            if device.single_call_overhead_s is not None
        ),
        default=np.inf,
    )
