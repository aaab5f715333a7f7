"""Which devices are alike: of those, one need be looked at, or they are taken in their order."""

import numpy as np

from dplace.lowering import Evaluator
from dplace.placement import allowed_devices
from dplace.problem import Problem

__all__ = ["alike_devices", "traits"]


def traits(problem: Problem, device: int) -> tuple[object, ...]:
    """Return what a device is on its own: devices with equal traits differ in links alone."""
    cluster, own = problem.cluster, problem.cluster.devices[device]
    return (
        own.kind,
        own.memory_bytes,
        own.call_overhead_s,
        own.single_call_overhead_s,
        float(cluster.host_latency_s[device]),
        float(cluster.host_bytes_per_s[device]),
        problem.seconds[:, device].tobytes(),
    )


def alike_devices(evaluator: Evaluator) -> list[list[int]]:
    """Return the devices in sets of which any two can be swapped without changing anything.

    Where transfers from several devices share a channel, those that are queued at the same moment
    go by the number of the device, so no two devices are alike there. Under dnn-partitioning
    nothing is queued.
    """
    problem = evaluator.problem
    is_queued = problem.machine != "dnn-partitioning"
    if is_queued and (evaluator.tables.links["channel_b"] >= 0).any():
        return [[device] for device in range(problem.num_devices)]
    allowed = allowed_devices(problem)
    sets: dict[tuple[object, ...], list[list[int]]] = {}
    for device in range(problem.num_devices):
        alike = sets.setdefault((*traits(problem, device), allowed[:, device].tobytes()), [])
        for devices in alike:
            if _can_swap_links(problem, devices[0], device):
                devices.append(device)
                break
        else:
            alike.append([device])
    return sorted(devices for alike in sets.values() for devices in alike)


def _can_swap_links(problem: Problem, one: int, other: int) -> bool:
    """Return whether all transfers take as long with two devices swapped."""
    swapped = np.arange(problem.num_devices)
    swapped[[one, other]] = other, one
    pairs = [problem.cluster.latency_s, problem.cluster.bytes_per_s]
    if problem.transfer_s is not None and problem.transfer_s.shape[1] > 1:
        pairs += list(problem.transfer_s)
    return all(np.array_equal(pair, pair[np.ix_(swapped, swapped)]) for pair in pairs)
