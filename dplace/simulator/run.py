"""The state of one online pass, and how ops become ready and values travel in it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.simulator.compiled import inner
from dplace.simulator.heap import push_arrival, push_key
from dplace.simulator.tables import ARRIVAL, NOBODY, PART, TRANSFER, Records, Tables

__all__ = ["Run", "admit", "arrive", "make_run", "reset", "take_joined", "transfer"]

Int = NDArray[np.int32]
Keys = NDArray[np.int64]


class Run(NamedTuple):
    """One pass: its state while it lasts, then its result, until the next pass uses it."""

    order: Int
    """Shape ``(num_ops,)``: ops by priority; ``position`` in ``ops`` is the inverse."""
    ops: Records
    """OP, shape ``(num_ops + 1,)``."""
    devices: Records
    """DEVICE, shape ``(num_devices,)``."""
    parts: Records
    """PART, shape ``(num_ops + 1,)``, the first ``totals[0]`` in use; ``ops`` is the offset
    into ``part_ops``."""
    part_ops: Int
    transfers: Records
    """TRANSFER, the first ``totals[1]`` in use."""
    totals: Keys
    """Shape ``(2,)``: parts and transfers so far."""
    makespan: NDArray[np.float64]
    """Shape ``(1,)``: when the last part or copy to the host so far ends."""
    device_ops: Int
    """Shape ``(num_ops,)``: the ops of each device by priority."""
    closure: Keys
    """Heaps of positions, one a device: ops that can run, or can after others of the heap."""
    pending: Records
    """Heaps of ARRIVAL, one a device: values on their way."""
    channel_free: NDArray[np.float64]
    joined: Int
    """Scratch: ops that have just joined a closure."""
    stack: Int
    queue: Keys
    """Scratch: a heap of the transfers of one part by urgency."""


def make_run(tables: Tables) -> Run:
    """Return room for a pass over a graph; ``simulate`` can fill it again and again."""
    num_ops, num_devices = tables.seconds.shape
    num_edges = len(tables.consumer_ops)
    return Run(
        order=np.zeros(num_ops, dtype=np.int32),
        ops=tables.ops.copy(),
        devices=tables.devices.copy(),
        parts=np.zeros(num_ops + 1, dtype=PART),
        part_ops=np.zeros(num_ops, dtype=np.int32),
        transfers=np.zeros(num_edges, dtype=TRANSFER),
        totals=np.zeros(2, dtype=np.int64),
        makespan=np.zeros(1),
        device_ops=np.zeros(num_ops, dtype=np.int32),
        closure=np.zeros(num_ops, dtype=np.int64),
        pending=np.zeros(num_edges, dtype=ARRIVAL),
        channel_free=np.zeros(num_devices * (num_devices + 1)),
        joined=np.zeros(num_ops, dtype=np.int32),
        stack=np.zeros(num_ops, dtype=np.int32),
        queue=np.zeros(num_edges, dtype=np.int64),
    )


@inner
def reset(tables: Tables, placement: Int, order: Int, run: Run) -> None:
    """Set the state to that before anything has happened."""
    ops, devices, device_ops = run.ops, run.devices, run.device_ops
    num_ops, num_devices = tables.seconds.shape
    run.totals[0] = 0
    run.totals[1] = 0
    run.makespan[0] = 0.0
    for channel in range(len(run.channel_free)):
        run.channel_free[channel] = 0.0
    for index in range(num_devices):
        devices[index] = tables.devices[index]
    for op in range(num_ops):
        ops[op] = tables.ops[op]
        ops[op]["device"] = placement[op]
        device = devices[placement[op]]
        device["closure"] += 1
        device["pending"] += ops[op]["missing"]
    closure = 0
    pending = 0
    for index in range(num_devices):
        device = devices[index]
        size = device["closure"]
        if size == num_ops:
            device["overhead"] = device["alone_overhead"]
            device["host_latency"] = device["alone_host_latency"]
        device["closure"] = closure
        device["blocked"] = closure
        device["blocked_end"] = closure
        closure += size
        size = device["pending"]
        device["pending"] = pending
        pending += size
    for position in range(num_ops):
        op = order[position]
        run.order[position] = op
        ops[op]["position"] = position
        device = devices[placement[op]]
        device_ops[device["blocked_end"]] = op
        device["blocked_end"] += 1


@inner
def admit(op: int, count: int, ops: Records, successor_ops: Int, stack: Int, joined: Int) -> int:
    """List ``op`` and the ops that it completes as joined, and return how many are listed."""
    device = ops[op]["device"]
    stack[0] = op
    depth = 1
    while depth > 0:
        depth -= 1
        op = stack[depth]
        joined[count] = op
        count += 1
        urgent = NOBODY
        for edge in range(ops[op]["successors"], ops[op + 1]["successors"]):
            successor = ops[successor_ops[edge]]
            if successor["device"] == device:
                successor["missing"] -= 1
                if successor["missing"] == 0:
                    stack[depth] = successor_ops[edge]
                    depth += 1
            elif successor["position"] < urgent:
                urgent = successor["position"]
        ops[op]["owed"] = urgent
    return count


@inner
def arrive(
    value: int,
    device: int,
    count: int,
    values: Records,
    consumer_ops: Int,
    ops: Records,
    successor_ops: Int,
    stack: Int,
    joined: Int,
) -> int:
    """Note that ``value`` is on ``device``; return how many ops are listed as joined."""
    for edge in range(values[value]["consumers"], values[value + 1]["consumers"]):
        consumer = ops[consumer_ops[edge]]
        if consumer["device"] == device:
            consumer["missing"] -= 1
            if consumer["missing"] == 0:
                count = admit(consumer_ops[edge], count, ops, successor_ops, stack, joined)
    return count


@inner
def take_joined(
    count: int,
    index: int,
    ops: Records,
    devices: Records,
    seconds: NDArray[np.float64],
    closure: Keys,
    joined: Int,
) -> None:
    """Move the first ``count`` joined ops into the closure of device ``index``."""
    device = devices[index]
    for slot in range(count):
        op = joined[slot]
        push_key(closure, device["closure"], device["closure_size"], ops[op]["position"])
        device["closure_size"] += 1
        device["work"] += seconds[op, index]


@inner
def transfer(
    now: float,
    value: int,
    source: int,
    target: int,
    content: np.void,
    links: Records,
    devices: Records,
    channel_free: NDArray[np.float64],
    pending: Records,
    record: Records,
) -> None:
    """Queue a transfer on its channels, note it in ``record`` and expect it at its target.

    ``content`` is the VALUE record of ``value``.
    """
    link = links[source, target]
    first, second = link["channel_a"], link["channel_b"]
    start = now
    if first >= 0:
        start = max(start, channel_free[first])
    if second >= 0:
        start = max(start, channel_free[second])
    end = start + (link["latency"] + content["transfer_s"] + content["bytes"] / link["bytes_per_s"])
    if first >= 0:
        channel_free[first] = end
    if second >= 0:
        channel_free[second] = end
    record["value"] = value
    record["source"] = source
    record["target"] = target
    record["start"] = start
    record["end"] = end
    device = devices[target]
    push_arrival(pending, device["pending"], device["pending_size"], end, value)
    device["pending_size"] += 1
