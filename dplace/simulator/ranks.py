"""Longest paths through a graph, compiled."""

import numpy as np
from numpy.typing import NDArray

from dplace.simulator.compiled import kernel
from dplace.simulator.tables import Tables

__all__ = ["earliest_times", "placed_upward", "upward"]

Float = NDArray[np.float64]


def upward(tables: Tables, op_s: Float, value_s: Float) -> Float:
    """Return the longest path from the start of each op to the end of the graph, in seconds.

    Args:
        tables: The graph.
        op_s: Shape ``(num_ops,)``: time of each op.
        value_s: Shape ``(num_values,)``: time between the maker and a reader of each value.
    """
    rank = np.zeros(len(op_s))
    _upward(tables, op_s, value_s, rank)
    return rank


@kernel
def _upward(tables: Tables, op_s: Float, value_s: Float, rank: Float) -> None:
    ops, values = tables.ops, tables.values
    for op in range(len(op_s) - 1, -1, -1):
        longest = 0.0
        for output in range(ops[op]["outputs"], ops[op + 1]["outputs"]):
            value = tables.output_values[output]
            for edge in range(values[value]["consumers"], values[value + 1]["consumers"]):
                longest = max(longest, value_s[value] + rank[tables.consumer_ops[edge]])
        rank[op] = op_s[op] + longest


def placed_upward(tables: Tables, placement: NDArray[np.int32]) -> Float:
    """Return the upward rank with each op on its device, in seconds.

    An edge between devices costs the transfer and the call of a part on the other side.
    """
    rank = np.zeros(len(placement))
    _placed_upward(tables, placement, rank)
    return rank


@kernel
def _placed_upward(tables: Tables, placement: NDArray[np.int32], rank: Float) -> None:
    ops, values, links, devices = tables.ops, tables.values, tables.links, tables.devices
    for op in range(len(placement) - 1, -1, -1):
        longest = 0.0
        source = placement[op]
        for output in range(ops[op]["outputs"], ops[op + 1]["outputs"]):
            value = tables.output_values[output]
            for edge in range(values[value]["consumers"], values[value + 1]["consumers"]):
                consumer = tables.consumer_ops[edge]
                target = placement[consumer]
                away = rank[consumer]
                if target != source:
                    link = links[source, target]
                    away += (
                        devices[target]["overhead"]
                        + link["latency"]
                        + values[value]["transfer_s"]
                        + values[value]["bytes"] / link["bytes_per_s"]
                    )
                longest = max(longest, away)
        rank[op] = tables.seconds[op, source] + longest


def earliest_times(tables: Tables, allowed: NDArray[np.bool_]) -> tuple[float, Float]:
    """Return a time before which no placement ends, and one before which no op starts.

    Args:
        tables: Graph and costs.
        allowed: Shape ``(num_ops, num_devices)``: where each op may go.

    Returns:
        The first and, of shape ``(num_ops, num_devices)``, the second where an op is on a device;
        see ``dplace/bounds/best.py``.
    """
    start = np.repeat(tables.devices["overhead"][None, :], len(allowed), axis=0)
    end, ready = np.zeros((2, len(tables.devices)))
    makespan = _earliest_makespan(tables, np.array(allowed), start, end, ready)
    return float(makespan), start


@kernel
def _delay(value: int, start: Float, ready: Float, tables: Tables) -> None:
    """Let no reader of ``value`` start on a device before it is ``ready`` there."""
    values = tables.values
    for edge in range(values[value]["consumers"], values[value + 1]["consumers"]):
        op = tables.consumer_ops[edge]
        for device in range(len(ready)):
            start[op, device] = max(start[op, device], ready[device])


@kernel
def _earliest_makespan(
    tables: Tables, allowed: NDArray[np.bool_], start: Float, end: Float, ready: Float
) -> float:
    """Return the bound after raising each op's ``start`` on each device to its own."""
    ops, values, links, devices = tables.ops, tables.values, tables.links, tables.devices
    num_ops, num_devices = allowed.shape
    for slot in range(len(tables.host_values)):
        value = tables.host_values[slot]
        for device in range(num_devices):
            host = devices[device]
            ready[device] = host["overhead"] + (
                host["host_latency"] + values[value]["bytes"] / host["host_bytes_per_s"]
            )
        _delay(value, start, ready, tables)
    makespan = 0.0
    for op in range(num_ops):
        soonest = np.inf
        for device in range(num_devices):
            end[device] = np.inf
            if allowed[op, device]:
                end[device] = start[op, device] + tables.seconds[op, device]
            soonest = min(soonest, end[device])
        makespan = max(makespan, soonest)
        for output in range(ops[op]["outputs"], ops[op + 1]["outputs"]):
            value = tables.output_values[output]
            size = values[value]["bytes"]
            soonest = np.inf
            for target in range(num_devices):
                host = devices[target]
                copy = host["host_latency"] + size / host["host_bytes_per_s"]
                soonest = min(soonest, end[target] + copy)
                ready[target] = end[target]
                for source in range(num_devices):
                    if source != target:
                        link = links[source, target]
                        away = link["latency"] + size / link["bytes_per_s"] + host["overhead"]
                        away += values[value]["transfer_s"]
                        ready[target] = min(ready[target], end[source] + away)
            if values[value]["returns"]:
                makespan = max(makespan, soonest)
            _delay(value, start, ready, tables)
    return makespan
