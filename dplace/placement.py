"""Placements: a device index for each op, and what makes one right.

A placement is a plain array of shape ``(num_ops,)``. It must put each op on a device that can run
it, follow the pins, keep co-located ops together and fit in memory.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.errors import InputError, MemoryLimitError
from dplace.problem import Problem
from dplace.sizes import size_in_words

__all__ = [
    "Counted",
    "allowed_devices",
    "check_memory",
    "check_placement",
    "counted_bytes",
    "fitting_devices",
    "memory_overflow",
    "movable_units",
    "repair",
]

Placement = NDArray[np.int32]


def movable_units(problem: Problem) -> NDArray[np.int32]:
    """Return the unit of each op, shape ``(num_ops,)``: co-located ops are one unit.

    Units are numbered by their first op.
    """
    colocation = problem.graph.colocation
    num_ops = problem.num_ops
    first = np.arange(num_ops, dtype=np.int64)
    tied = np.flatnonzero(colocation >= 0)
    _, heads, group = np.unique(colocation[tied], return_index=True, return_inverse=True)
    first[tied] = tied[heads][group] if tied.size else tied
    _, unit = np.unique(first, return_inverse=True)
    return unit.astype(np.int32)


def allowed_devices(problem: Problem) -> NDArray[np.bool_]:
    """Return where each op may go by kernels, pins and co-location.

    Returns:
        Shape ``(num_ops, num_devices)``; co-located ops have equal rows.

    Raises:
        InputError: There is no device for some op.
    """
    graph, cluster = problem.graph, problem.cluster
    allowed = np.isfinite(problem.seconds)
    pinned = np.flatnonzero(problem.pins >= 0)
    for op in pinned[problem.pins[pinned] >= cluster.num_devices]:
        raise InputError(
            f"op {graph.op_names[op]!r} is pinned to device {problem.pins[op]}, "
            f"but {cluster.spec} has {cluster.num_devices}"
        )
    at_pin = np.zeros_like(allowed)
    at_pin[pinned, problem.pins[pinned]] = True
    allowed[pinned] &= at_pin[pinned]
    unit = movable_units(problem)
    together = np.ones((int(unit.max(initial=-1)) + 1, cluster.num_devices), dtype=np.bool_)
    np.logical_and.at(together, unit, allowed)
    for op in np.flatnonzero(~together[unit].any(axis=1)):
        raise InputError(_why_nowhere(problem, np.flatnonzero(unit == unit[op])))
    return together[unit]


class Counted(NamedTuple):
    """The bytes that count against a device's memory, by the rules of a machine."""

    weights: NDArray[np.int64]
    """Shape ``(num_weights,)``: of each weight, once on each device with an op that reads it."""
    values: NDArray[np.int64]
    """Shape ``(num_values,)``: of each value, on the device that makes it."""
    copies: NDArray[np.int64]
    """The same, on a device that it was sent to."""


def counted_bytes(problem: Problem) -> Counted:
    """Return what counts against memory; see docs/machine-models.md."""
    graph, machine = problem.graph, problem.machine
    weights, values = graph.weight_bytes, graph.value_bytes
    return Counted(
        weights=weights * (machine not in ("placeto", "independent")),
        values=values * (machine in ("native", "baechi", "placeto")),
        copies=values * (machine == "native"),
    )


def fitting_devices(problem: Problem) -> NDArray[np.bool_]:
    """Return where each op may go and the weights of its unit fit; co-located ops have equal rows.

    Where that would leave nothing, there is no answer, and the rows are those of
    ``allowed_devices``.
    """
    from dplace.simulator.engine import capacity

    graph, allowed = problem.graph, allowed_devices(problem)
    unit = movable_units(problem)
    ops = np.repeat(np.arange(graph.num_ops), np.diff(graph.weight_offsets))
    num_weights = max(1, len(graph.weight_bytes))
    held = np.unique(unit[ops].astype(np.int64) * num_weights + graph.op_weights)
    weights = counted_bytes(problem).weights[held % num_weights]
    size = np.bincount(held // num_weights, weights=weights, minlength=len(unit))
    fits = allowed & (size[unit][:, None] <= capacity(problem))
    return np.where(fits.any(axis=1, keepdims=True), fits, allowed)


def _why_nowhere(problem: Problem, ops: NDArray[np.intp]) -> str:
    """Return a line on why no device may run all of ``ops``."""
    graph, devices = problem.graph, problem.cluster.devices
    pinned = [op for op in ops if problem.pins[op] >= 0]
    for op in pinned[1:]:
        if problem.pins[op] != problem.pins[pinned[0]]:
            return (
                f"ops {graph.op_names[pinned[0]]!r} and {graph.op_names[op]!r} must share a device "
                f"but are pinned to {devices[problem.pins[pinned[0]]].name} and "
                f"{devices[problem.pins[op]].name}; pin both to one"
            )
    for op in pinned:
        for other in ops:
            if not np.isfinite(problem.seconds[other, problem.pins[op]]):
                name = devices[problem.pins[op]].name
                return (
                    f"op {graph.op_names[op]!r} is pinned to {name}, which cannot run "
                    f"{graph.op_types[other]} {graph.op_names[other]!r}; pin it elsewhere"
                )
    kinds = ", ".join(sorted({device.kind for device in devices}))
    op = ops[0]
    return (
        f"op {graph.op_names[op]!r} ({graph.op_types[op]}): no device of "
        f"{problem.cluster.spec} ({kinds}) can run it"
    )


def check_placement(problem: Problem, devices: NDArray[np.integer]) -> Placement:
    """Return ``devices`` as a placement after making sure that it is one.

    Raises:
        InputError: Wrong shape, an unknown device, a device that cannot run an op, a pin or a
            co-location that is not kept.
        MemoryLimitError: It does not fit.
    """
    graph, cluster = problem.graph, problem.cluster
    if devices.shape != (problem.num_ops,):
        raise InputError(
            f"placement: expected one device for each of {problem.num_ops} ops, "
            f"got shape {devices.shape}"
        )
    if not np.issubdtype(devices.dtype, np.integer):
        raise InputError(f"placement: expected device indices, got {devices.dtype}")
    outside = np.flatnonzero((devices < 0) | (devices >= cluster.num_devices))
    faults = [
        f"op {graph.op_names[op]!r} is on device {devices[op]}, but {cluster.spec} has "
        f"devices 0 to {cluster.num_devices - 1}"
        for op in outside
    ]
    if not faults:
        rows = np.arange(problem.num_ops)
        faults += [
            f"{cluster.devices[devices[op]].name} cannot run "
            f"{graph.op_types[op]} {graph.op_names[op]!r}"
            for op in np.flatnonzero(~np.isfinite(problem.seconds[rows, devices]))
        ]
        faults += [
            f"op {graph.op_names[op]!r} is pinned to {_device_name(problem, problem.pins[op])}, "
            f"not {cluster.devices[devices[op]].name}"
            for op in np.flatnonzero((problem.pins >= 0) & (problem.pins != devices))
        ]
        unit = movable_units(problem)
        _, heads = np.unique(unit, return_index=True)
        faults += [
            f"ops {graph.op_names[heads[unit[op]]]!r} and {graph.op_names[op]!r} must share a "
            "device"
            for op in np.flatnonzero(devices != devices[heads[unit]])
        ]
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise InputError(f"placement: {faults[0]}{more}")
    placement = devices.astype(np.int32)
    _refuse_overflow(problem, memory_overflow(problem, placement))
    return placement


def check_memory(problem: Problem, peak_bytes: NDArray[np.int64]) -> None:
    """Make sure that what a placement takes at the worst moment fits.

    Args:
        problem: Where the limits are.
        peak_bytes: Shape ``(num_devices,)``.

    Raises:
        MemoryLimitError: It does not.
    """
    from dplace.simulator.engine import capacity

    _refuse_overflow(problem, np.maximum(peak_bytes - capacity(problem), 0))


def _refuse_overflow(problem: Problem, overflow: NDArray[np.int64]) -> None:
    if overflow.any():
        worst = int(overflow.argmax())
        device = problem.cluster.devices[worst]
        raise MemoryLimitError(
            f"placement: {device.name} has {size_in_words(device.memory_bytes)}, "
            f"{size_in_words(int(overflow[worst]))} too little"
        )


def repair(problem: Problem, placement: NDArray[np.integer]) -> Placement:
    """Return the placement with each op moved that is where it may not be.

    A unit of co-located ops goes to its first op's device if it may, otherwise to the device
    that runs it fastest of those it may go to; ties to the lower index.
    """
    allowed = allowed_devices(problem)
    unit = movable_units(problem)
    _, heads = np.unique(unit, return_index=True)
    wanted = placement[heads].astype(np.int32)  # (num_units,)
    total = np.zeros((len(heads), problem.num_devices))
    np.add.at(total, unit, problem.seconds)
    fastest = np.where(allowed[heads], total, np.inf).argmin(axis=1)
    inside = (wanted >= 0) & (wanted < problem.num_devices)
    fits = inside & allowed[heads, np.where(inside, wanted, 0)]
    return np.asarray(np.where(fits, wanted, fastest)[unit], dtype=np.int32)


def memory_overflow(problem: Problem, placement: Placement) -> NDArray[np.int64]:
    """Return the bytes by which each device's peak exceeds its memory, shape ``(num_devices,)``.

    The peak is that of the schedule that ``dplace.lowering.lower`` returns.
    """
    from dplace.lowering import Evaluator

    return Evaluator(problem).overflow_bytes(placement)


def _device_name(problem: Problem, index: int) -> str:
    """Return a device's name, or its index if there is no such device."""
    devices = problem.cluster.devices
    return devices[index].name if index < len(devices) else f"device {index}"
