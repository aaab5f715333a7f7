"""Loads of devices and channels under a stream of requests, kept up to date move by move.

The load of a resource does not depend on when anything happens, only on where, so moving an op
changes what its own values and those that it reads cost, and nothing else.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.problem import Problem
from dplace.simulator.compiled import inner, kernel, merged
from dplace.simulator.op_tables import (
    ALL_AT_ONCE,
    PER_READER,
    UNLIMITED,
    OpTables,
    tabulate_ops,
)
from dplace.simulator.tables import Tables

__all__ = [
    "LoadSearch",
    "crossings",
    "host_times",
    "largest",
    "make_load_search",
    "move_op",
    "recount",
]

Int = NDArray[np.int32]
Float = NDArray[np.float64]

BY_HOST = 5
"""Beside the ways of sending of ``op_tables.py``: out to host memory once, then in once for each
device that reads, as in dnn-partitioning."""


class LoadSearch(NamedTuple):
    """Graph, costs and the loads of the placement that was counted last."""

    op_tables: OpTables
    input_offsets: Int
    input_values: Int
    send: int
    host_s: Float
    """Shape ``(num_values * num_devices,)``: time between the device and host memory; only where
    values go by the host."""
    readers: Int
    """Shape ``(num_values * num_devices,)``: readers of each value on each device."""
    device: Int
    """Shape ``(num_ops,)``: the placement that was counted."""
    loads: Float
    """Devices first, channels behind them."""


def host_times(problem: Problem) -> Float:
    """Return the time of each value between each device and host memory, 0 for a CPU.

    Returns:
        Shape ``(num_values, num_devices)``, in seconds.
    """
    cluster, given = problem.cluster, problem.transfer_s
    if given is None:
        sizes = problem.graph.value_bytes[:, None]
        times = cluster.host_latency_s[None, :] + sizes / cluster.host_bytes_per_s[None, :]
    else:
        apart = given if given.shape[1] == 1 else given.max(axis=(1, 2), keepdims=True)
        times = np.repeat(apart[:, 0, :], cluster.num_devices, axis=1)
    return np.asarray(np.where(problem.is_host[None, :], 0.0, times))


def make_load_search(problem: Problem, tables: Tables) -> LoadSearch:
    """Return the arrays, with nothing counted yet; those of ``tables`` are shared."""
    graph, num = problem.graph, problem.num_devices
    is_by_host = problem.machine == "dnn-partitioning"
    op_tables = tabulate_ops(problem, "independent" if is_by_host else problem.machine, tables)
    made = graph.value_producer[graph.input_values] >= 0
    readers = np.repeat(np.arange(graph.num_ops), np.diff(graph.input_offsets))[made]
    counts = np.bincount(readers, minlength=graph.num_ops)
    return LoadSearch(
        op_tables=op_tables,
        input_offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        input_values=graph.input_values[made].astype(np.int32),
        send=BY_HOST if is_by_host else op_tables.send,
        host_s=host_times(problem).ravel() if is_by_host else np.zeros(0),
        readers=np.zeros(graph.num_values * num, dtype=np.int32),
        device=np.zeros(graph.num_ops, dtype=np.int32),
        loads=np.zeros(num + num * (num + 1)),
    )


@merged
def _charge(value: int, sign: float, search: LoadSearch) -> None:
    """Add what the transfers of a value cost to the loads, or take it off with ``sign`` -1."""
    tables, readers, loads, send = search.op_tables, search.readers, search.loads, search.send
    num = tables.num_devices
    content = tables.values[value]
    if content["producer"] < 0 or send == UNLIMITED:
        return
    source = search.device[content["producer"]]
    base = value * num
    is_away = False
    longest = 0.0
    for target in range(num):
        count = readers[base + target]
        if count == 0 or target == source:
            continue
        if send == BY_HOST:
            if not is_away:
                loads[source] += sign * search.host_s[base + source]
            loads[target] += sign * search.host_s[base + target]
            is_away = True
            continue
        pair = source * num + target
        link = tables.links[pair]
        if len(tables.pair_s) > 0:
            length = tables.pair_s[value * num * num + pair]
        else:
            length = content["transfer_s"] + (
                link["latency"] + content["bytes"] / link["bytes_per_s"]
            )
        if send == PER_READER:
            length *= count
        if send == ALL_AT_ONCE:
            longest = max(longest, length)
            is_away = True
            continue
        if link["channel_a"] >= 0:
            loads[num + link["channel_a"]] += sign * length
        if link["channel_b"] >= 0:
            loads[num + link["channel_b"]] += sign * length
    if is_away and send == ALL_AT_ONCE:
        loads[num + source] += sign * (longest + tables.after_send_s)


@merged
def _op_s(op: int, device: int, tables: OpTables) -> float:
    """Return how long an op keeps its device busy."""
    seconds = tables.seconds[op * tables.num_devices + device]
    return float(seconds + tables.after_op_s if seconds > 0.0 else seconds)


@kernel
def recount(search: LoadSearch, placement: Int) -> None:
    """Count a placement from scratch."""
    tables, readers, loads = search.op_tables, search.readers, search.loads
    num = tables.num_devices
    for slot in range(len(readers)):
        readers[slot] = 0
    for resource in range(len(loads)):
        loads[resource] = 0.0
    for op in range(len(placement)):
        device = placement[op]
        search.device[op] = device
        loads[device] += _op_s(op, device, tables)
        for slot in range(search.input_offsets[op], search.input_offsets[op + 1]):
            readers[search.input_values[slot] * num + device] += 1
    for value in range(len(tables.values) - 1):
        _charge(value, 1.0, search)


@inner
def move_op(op: int, target: int, search: LoadSearch) -> None:
    """Count an op on another device than before."""
    tables, readers = search.op_tables, search.readers
    num = tables.num_devices
    source = search.device[op]
    first, last = search.input_offsets[op], search.input_offsets[op + 1]
    outputs, end = tables.ops[op]["outputs"], tables.ops[op + 1]["outputs"]
    for slot in range(first, last):
        _charge(search.input_values[slot], -1.0, search)
    for slot in range(outputs, end):
        _charge(tables.output_values[slot], -1.0, search)
    search.device[op] = target
    search.loads[source] -= _op_s(op, source, tables)
    search.loads[target] += _op_s(op, target, tables)
    for slot in range(first, last):
        value = search.input_values[slot]
        readers[value * num + source] -= 1
        readers[value * num + target] += 1
        _charge(value, 1.0, search)
    for slot in range(outputs, end):
        _charge(tables.output_values[slot], 1.0, search)


@kernel
def crossings(search: LoadSearch) -> int:
    """Return how many values go to how many other devices, in all."""
    num = search.op_tables.num_devices
    count = 0
    for value in range(len(search.op_tables.values) - 1):
        producer = search.op_tables.values[value]["producer"]
        for device in range(num):
            if search.readers[value * num + device] > 0:
                count += producer >= 0 and search.device[producer] != device
    return count


@kernel
def largest(loads: Float) -> float:
    """Return the largest load in seconds."""
    most = 0.0
    for resource in range(len(loads)):
        most = max(most, loads[resource])
    return most
