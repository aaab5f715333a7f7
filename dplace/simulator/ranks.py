"""Longest paths through a graph, compiled."""

import numpy as np
from numpy.typing import NDArray

from dplace.simulator.compiled import allocating
from dplace.simulator.tables import Tables

__all__ = ["downward", "earliest_makespan", "placed_upward", "upward"]

Float = NDArray[np.float64]


@allocating
def upward(tables: Tables, op_s: Float, value_s: Float) -> Float:
    """Return the longest path from the start of each op to the end of the graph, in seconds.

    Args:
        tables: The graph.
        op_s: Shape ``(num_ops,)``: time of each op.
        value_s: Shape ``(num_values,)``: time between the maker and a reader of each value.
    """
    ops, values = tables.ops, tables.values
    num_ops = len(op_s)
    rank = np.zeros(num_ops)
    for op in range(num_ops - 1, -1, -1):
        longest = 0.0
        for output in range(ops[op]["outputs"], ops[op + 1]["outputs"]):
            value = tables.output_values[output]
            for edge in range(values[value]["consumers"], values[value + 1]["consumers"]):
                longest = max(longest, value_s[value] + rank[tables.consumer_ops[edge]])
        rank[op] = op_s[op] + longest
    return rank


@allocating
def downward(tables: Tables, op_s: Float, value_s: Float) -> Float:
    """Return the longest path from the start of the graph to the start of each op, in seconds."""
    ops, values = tables.ops, tables.values
    num_ops = len(op_s)
    rank = np.zeros(num_ops)
    for op in range(num_ops):
        for output in range(ops[op]["outputs"], ops[op + 1]["outputs"]):
            value = tables.output_values[output]
            reached = rank[op] + op_s[op] + value_s[value]
            for edge in range(values[value]["consumers"], values[value + 1]["consumers"]):
                consumer = tables.consumer_ops[edge]
                rank[consumer] = max(rank[consumer], reached)
    return rank


@allocating
def placed_upward(tables: Tables, placement: NDArray[np.int32]) -> Float:
    """Return the upward rank with each op on its device, in seconds.

    An edge between devices costs the transfer and the call of a part on the other side.
    """
    ops, values, links, devices = tables.ops, tables.values, tables.links, tables.devices
    num_ops = len(placement)
    rank = np.zeros(num_ops)
    for op in range(num_ops - 1, -1, -1):
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
                        + values[value]["bytes"] / link["bytes_per_s"]
                    )
                longest = max(longest, away)
        rank[op] = tables.seconds[op, source] + longest
    return rank


@allocating
def earliest_makespan(tables: Tables, allowed: NDArray[np.bool_]) -> float:
    """Return a time before which no placement ends: see ``dplace/bounds.py``.

    Args:
        tables: Graph and costs.
        allowed: Shape ``(num_ops, num_devices)``: where each op may go.
    """
    ops, values, links, devices = tables.ops, tables.values, tables.links, tables.devices
    num_ops, num_devices = allowed.shape
    num_values = len(values) - 1
    # When each value can be on each device, with the call that a part waiting for it pays.
    ready = np.full((num_values, num_devices), np.inf)
    start = np.zeros((num_ops, num_devices))
    end = np.empty(num_devices)
    for device in range(num_devices):
        start[:, device] = devices[device]["overhead"]
        for value in tables.host_values:
            ready[value, device] = (
                devices[device]["host_latency"]
                + values[value]["bytes"] / devices[device]["host_bytes_per_s"]
                + devices[device]["overhead"]
            )
    for value in tables.host_values:
        for edge in range(values[value]["consumers"], values[value + 1]["consumers"]):
            for device in range(num_devices):
                op = tables.consumer_ops[edge]
                start[op, device] = max(start[op, device], ready[value, device])
    makespan = 0.0
    for op in range(num_ops):
        for device in range(num_devices):
            end[device] = np.inf
            if allowed[op, device]:
                end[device] = start[op, device] + tables.seconds[op, device]
        makespan = max(makespan, end.min())
        for output in range(ops[op]["outputs"], ops[op + 1]["outputs"]):
            value = tables.output_values[output]
            size = values[value]["bytes"]
            if values[value]["returns"]:
                back = np.inf
                for device in range(num_devices):
                    copy = devices[device]["host_latency"]
                    copy += size / devices[device]["host_bytes_per_s"]
                    back = min(back, end[device] + copy)
                makespan = max(makespan, back)
            if values[value]["consumers"] == values[value + 1]["consumers"]:
                continue
            for target in range(num_devices):
                soonest = end[target]
                for source in range(num_devices):
                    if source != target:
                        link = links[source, target]
                        away = link["latency"] + size / link["bytes_per_s"]
                        away += devices[target]["overhead"]
                        soonest = min(soonest, end[source] + away)
                ready[value, target] = soonest
            for edge in range(values[value]["consumers"], values[value + 1]["consumers"]):
                consumer = tables.consumer_ops[edge]
                for device in range(num_devices):
                    start[consumer, device] = max(start[consumer, device], ready[value, device])
    return makespan
