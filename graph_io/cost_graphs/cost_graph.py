"""A graph with its costs as a file gives them, and the Problem it is on some devices."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from dplace.cluster import Cluster
from dplace.errors import InputError, UsageError
from dplace.op_graph import OpGraph
from dplace.problem import Machine, Objective, Problem

__all__ = ["ANY_KIND", "NO_CAP_BYTES", "CostGraph", "cost_problem"]

ANY_KIND = "*"
"""Name of the column whose times hold on every device."""

NO_CAP_BYTES = 2**56
"""Memory of a device that a file sets no limit to; a few hundred of them still add up."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CostGraph:
    """What a file of costs says, in seconds and bytes.

    Ops are named by their ids in the file; their types are what the file calls them.
    """

    graph: OpGraph
    kinds: tuple[str, ...]
    """Kind of device that each column of times is of; ``*`` holds on every device."""
    seconds: NDArray[np.float64]
    """Shape ``(num_ops, num_kinds)``; ``inf`` where the kind cannot run the op."""
    transfer_s: NDArray[np.float64] | None = None
    """Times of transfers as in ``Problem``, for the devices of ``cluster``; None where the file
    has bytes only."""
    cluster: Cluster | None = None
    """The devices that the file describes, if it does."""
    default_kind: str | None = None
    """The column that holds on devices of a kind that has none; None: there is no such device."""
    machine: Machine
    """The machine model that figures of this format are given for."""
    format: str
    """Name of the format, one of ``dplace.graph_io.cost_graphs.FORMATS``."""
    unit: str = "ms"
    """What a figure in ``unit_s`` is called: ``ms``, or ``file units`` where the file has none."""
    unit_s: float = 1e-3
    """Seconds that one unit of a figure is taken as."""
    warnings: tuple[str, ...] = ()
    """Sentences on what looks wrong in the file and was kept, one for each thing."""


def cost_problem(
    source: CostGraph,
    cluster: Cluster | None = None,
    *,
    machine: Machine | None = None,
    objective: Objective = "latency",
    pins: Sequence[tuple[str, str]] = (),
) -> Problem:
    """Return the problem of placing a cost graph.

    The times of the file are all there is: no call of a session is added to them.

    Args:
        source: The graph and its costs.
        cluster: The devices; None takes those that the file describes. On others the file's
            times hold as they are.
        machine: The rules to judge by; None takes those of the file's format.
        objective: What to make small.
        pins: Pairs of a pattern (``*``, ``?``, ``[...]``) for op ids or names, and a device.

    Raises:
        UsageError: The file describes no devices, or has no times for those of ``cluster``.
        InputError: A pin matches no op, or two pins send one op to different devices.
        ClusterError: A pin names an unknown device.
    """
    chosen = cluster if cluster is not None else source.cluster
    if chosen is None:
        raise UsageError(
            f"{source.graph.name}: the {source.format} format describes no devices, so --cluster "
            "file means nothing; name a cluster such as 4xV100"
        )
    hardware = dataclasses.replace(
        chosen,
        devices=tuple(
            dataclasses.replace(device, call_overhead_s=0.0, single_call_overhead_s=None)
            for device in chosen.devices
        ),
    )
    columns = [_column(source, hardware, device.kind) for device in hardware.devices]
    seconds = source.seconds[:, columns]  # (num_ops, num_devices)
    return Problem(
        graph=source.graph,
        cluster=hardware,
        seconds=seconds,
        measured=np.zeros(seconds.shape, dtype=np.bool_),
        pins=_pins(source.graph, hardware, pins),
        objective=objective,
        machine=machine or source.machine,
        transfer_s=_transfer_s(source, hardware),
    )


def _column(source: CostGraph, cluster: Cluster, kind: str) -> int:
    """Return the column of times that holds on devices of a kind."""
    for name in (kind, source.default_kind, ANY_KIND):
        if name in source.kinds:
            return source.kinds.index(name)
    raise UsageError(
        f"{source.graph.name}: has times for {', '.join(source.kinds)} and none for the {kind} of "
        f"{cluster.spec}; " + _instead(source)
    )


def _transfer_s(source: CostGraph, cluster: Cluster) -> NDArray[np.float64] | None:
    """Return the file's times of transfers, if they hold between the devices of the cluster."""
    times = source.transfer_s
    if times is None or times.shape[1] == 1:
        return times
    own = source.cluster
    if own is not None and [d.kind for d in own.devices] == [d.kind for d in cluster.devices]:
        return times
    raise UsageError(
        f"{source.graph.name}: has times of transfers between its own {times.shape[1]} devices, "
        f"which are not those of {cluster.spec}; " + _instead(source)
    )


def _instead(source: CostGraph) -> str:
    if source.cluster is not None:
        return "use --cluster file"
    return f"use a cluster of {', '.join(source.kinds)}"


def _pins(graph: OpGraph, cluster: Cluster, pins: Sequence[tuple[str, str]]) -> NDArray[np.int32]:
    """Return the device that each op is pinned to, or -1; shape ``(num_ops,)``."""
    result = np.full(graph.num_ops, -1, dtype=np.int32)
    for pattern, device in pins:
        target = cluster.device_index(device)
        matched = [
            op
            for op, names in enumerate(zip(graph.op_names, graph.op_types, strict=True))
            if any(name == pattern or fnmatchcase(name, pattern) for name in names)
        ]
        if not matched:
            raise InputError(f"--pin {pattern}={device}: no op has such an id or name")
        for op in matched:
            if result[op] not in (-1, target):
                raise InputError(
                    f"--pin {pattern}={device}: op {graph.op_names[op]} is pinned to "
                    f"{cluster.devices[result[op]].name} as well"
                )
            result[op] = target
    return result
