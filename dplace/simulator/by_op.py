"""One pass over a placement op by op: no parts, each op starts when its device takes it.

docs/machine-models.md has the rules. Two kinds of event drive the clock, of which each device has
one pending at most: its op ends, or it takes its next op. So the earliest is found by looking at
all devices, and no queue of events is needed: when a value will arrive is known at the moment it
is sent.
"""

import numpy as np
from numpy.typing import NDArray

from dplace.simulator.bit_queue import pop_bit, push_bit
from dplace.simulator.compiled import kernel, merged
from dplace.simulator.heap import pop_arrival, push_arrival
from dplace.simulator.op_run import OpRun, make_op_run
from dplace.simulator.op_send import book, send_by_priority, send_in_order
from dplace.simulator.op_tables import (
    ALL_AT_ONCE,
    PER_DEVICE,
    PER_READER,
    TWO_STEPS,
    UNLIMITED,
    OpTables,
)
from dplace.simulator.tables import NOBODY

__all__ = ["OpRun", "make_op_run", "simulate_batch", "simulate_ops"]

Int = NDArray[np.int32]
Float = NDArray[np.float64]


@merged
def _note(
    now: float, ready: float, op: int, is_urgent_first: bool, num_ops: int, run: OpRun
) -> None:
    """Put an op whose ready time is known into a queue of its device."""
    index = run.ops[op]["device"]
    device = run.devices[index]
    if is_urgent_first and ready <= now:
        push_bit(run.urgent, index, run.ops[op]["position"])
        device["num_urgent"] += 1
        ready = now
    else:
        push_arrival(run.known, index * num_ops, device["num_known"], ready, op)
        device["num_known"] += 1
    if device["running"] < 0:
        device["event"] = min(device["event"], max(device["free"], ready))


@merged
def _end_op(now: float, op: int, index: int, tables: OpTables, run: OpRun) -> None:
    """Send what ``op`` has made on device ``index``, and let the ops that wait for it know."""
    ops, send = run.ops, tables.send
    if send in (PER_DEVICE, PER_READER):
        send_by_priority(now, op, index, tables, run)
    first = tables.ops[op]["outputs"]
    for slot in range(first, tables.ops[op + 1]["outputs"]):
        value = tables.output_values[slot]
        row = (slot - first) * tables.num_devices
        if send in (ALL_AT_ONCE, TWO_STEPS):
            send_in_order(now, value, row, index, tables, run)
        for edge in range(tables.values[value]["consumers"], tables.values[value + 1]["consumers"]):
            reader_index = tables.consumer_ops[edge]
            reader = ops[reader_index]
            target = reader["device"]
            arrives = now
            if target != index:
                if send == UNLIMITED:
                    arrives = book(
                        now,
                        value,
                        index,
                        target,
                        tables,
                        run.channel_free,
                        run.transfers,
                        run.totals,
                    )
                elif send != PER_READER:
                    arrives = run.arrival[row + target]
            ready = max(reader["ready"], arrives)
            reader["ready"] = ready
            reader["missing"] -= 1
            if reader["missing"] == 0:
                _note(now, ready, reader_index, tables.is_urgent_first, len(ops), run)


@merged
def _reset(tables: OpTables, placement: Int, position: Int, run: OpRun) -> None:
    """Set the state to that before anything has happened."""
    ops, devices = run.ops, run.devices
    run.totals[0] = 0
    for channel in range(len(run.channel_free)):
        run.channel_free[channel] = 0.0
    for index in range(len(devices)):
        device = devices[index]
        device["event"] = np.inf
        device["free"] = 0.0
        device["running"] = -1
        device["num_known"] = 0
        device["num_urgent"] = 0
        device["urgency"] = NOBODY
    for index in range(len(ops)):
        op = ops[index]
        op["ready"] = 0.0
        op["missing"] = tables.ops[index]["missing"]
        op["device"] = placement[index]
        op["position"] = position[index]


@kernel
def simulate_ops(tables: OpTables, placement: Int, order: Int, position: Int, run: OpRun) -> float:
    """Run a placement and return its makespan in seconds; ``run`` has the rest.

    Args:
        tables: Graph, costs and rules.
        placement: Shape ``(num_ops,)``: the device of each op.
        order: Shape ``(num_ops,)``: ops by priority; what goes by ready time does not look at it.
        position: The inverse of ``order``.
        run: Room for the pass.
    """
    ops, devices, known = run.ops, run.devices, run.known
    num_ops, num = len(ops), len(devices)
    _reset(tables, placement, position, run)
    for start in range(num_ops):
        if tables.ops[start]["missing"] == 0:
            _note(0.0, 0.0, start, tables.is_urgent_first, num_ops, run)
    makespan = 0.0
    while True:
        index = 0
        now = devices[0]["event"]
        is_end = devices[0]["running"] >= 0
        for other in range(1, num):
            at_s = devices[other]["event"]
            if at_s > now:
                continue
            # At the same time ends come before starts, then the lower device.
            other_ends = devices[other]["running"] >= 0
            if at_s < now or (other_ends and not is_end):
                now = at_s
                index = other
                is_end = other_ends
        if now == np.inf:
            return makespan
        device = devices[index]
        base = index * num_ops
        if is_end:
            op = device["running"]
            device["running"] = -1
            device["event"] = np.inf
            device["free"] = now
            if ops[op]["end"] > ops[op]["start"]:
                device["free"] += tables.after_op_s
            _end_op(now, op, index, tables, run)
            makespan = max(makespan, device["free"])
            if tables.after_send_s > 0.0:
                makespan = max(makespan, run.channel_free[index])
            if device["num_urgent"] > 0:
                device["event"] = device["free"]
            elif device["num_known"] > 0:
                device["event"] = max(device["free"], known[base]["time"])
            continue
        if tables.is_urgent_first:
            while device["num_known"] > 0 and known[base]["time"] <= now:
                op = pop_arrival(known, base, device["num_known"])
                device["num_known"] -= 1
                push_bit(run.urgent, index, ops[op]["position"])
                device["num_urgent"] += 1
            op = order[pop_bit(run.urgent, index)]
            device["num_urgent"] -= 1
        else:
            op = pop_arrival(known, base, device["num_known"])
            device["num_known"] -= 1
        device["running"] = op
        ops[op]["start"] = now
        ops[op]["end"] = now + tables.seconds[op * num + index]
        device["event"] = ops[op]["end"]


@kernel
def simulate_batch(
    tables: OpTables,
    placements: NDArray[np.int32],
    order: Int,
    position: Int,
    run: OpRun,
    makespans: Float,
) -> None:
    """Fill ``makespans`` with those of several placements, shape ``(num, num_ops)``."""
    for index in range(len(placements)):
        makespans[index] = simulate_ops(tables, placements[index], order, position, run)
