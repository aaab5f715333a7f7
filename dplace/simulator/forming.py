"""How parts are formed on the clock: the pieces that all passes over parts share.

``online.py`` says what a part is, and by which rules it begins and ends. What differs between the
passes is how values travel.
"""

import numpy as np

from dplace.simulator.compiled import inlined, inner
from dplace.simulator.heap import pop_arrival, pop_key, push_arrival, push_key
from dplace.simulator.run import Run, admit, arrive, take_joined
from dplace.simulator.tables import NOBODY, Tables

__all__ = ["admit_first", "copy_inputs", "holds_back", "outgoing", "receive", "start_part"]


@inlined
def admit_first(tables: Tables, run: Run) -> None:
    """Admit the ops that read nothing."""
    ops, joined = run.ops, run.joined
    for op in range(len(tables.seconds)):
        # Not tables.ops[op]["missing"] == 0 alone: admit() lowers the count of later ops.
        if tables.ops[op]["missing"] == 0:
            count = admit(op, 0, ops, tables.successor_ops, run.stack, joined)
            take_joined(
                count, ops[op]["device"], ops, run.devices, tables.seconds, run.closure, joined
            )


@inlined
def copy_inputs(tables: Tables, run: Run) -> None:
    """Send the graph's inputs on their way."""
    ops, devices, pending = run.ops, run.devices, run.pending
    values, consumer_ops = tables.values, tables.consumer_ops
    for slot in range(len(tables.host_values)):
        value = tables.host_values[slot]
        for edge in range(values[value]["consumers"], values[value + 1]["consumers"]):
            device = devices[ops[consumer_ops[edge]]["device"]]
            if device["copy"] != value:
                device["copy"] = value
                device["copied"] += (
                    device["host_latency"] + values[value]["bytes"] / device["host_bytes_per_s"]
                )
                push_arrival(
                    pending, device["pending"], device["pending_size"], device["copied"], value
                )
                device["pending_size"] += 1


@inlined
def outgoing(now: float, index: int, tables: Tables, run: Run) -> int:
    """End the part that runs on device ``index``: results go to the host.

    Return how many transfers its values need: ``run.queue`` is a heap of them, the most urgent
    first, as ``(position of the first op that waits for it << 32) + value``.
    """
    ops, devices, parts, part_ops = run.ops, run.devices, run.parts, run.part_ops
    values, consumer_ops, output_values = tables.values, tables.consumer_ops, tables.output_values
    queue, makespan = run.queue, run.makespan
    device = devices[index]
    part = device["part"]
    device["part"] = -1
    makespan[0] = max(makespan[0], now)
    queued = 0
    for slot in range(parts[part]["ops"], parts[part + 1]["ops"]):
        op = ops[part_ops[slot]]
        is_owed = op["owed"] != NOBODY
        if not (is_owed or op["returns"]):
            continue
        for output in range(op["outputs"], ops[part_ops[slot] + 1]["outputs"]):
            value = output_values[output]
            if values[value]["returns"]:
                device["returned"] = max(now, device["returned"]) + (
                    device["host_latency"] + values[value]["bytes"] / device["host_bytes_per_s"]
                )
                makespan[0] = max(makespan[0], device["returned"])
            if not is_owed:
                continue
            for edge in range(values[value]["consumers"], values[value + 1]["consumers"]):
                consumer = ops[consumer_ops[edge]]
                target = devices[consumer["device"]]
                target["urgency"] = min(target["urgency"], consumer["position"])
            for other in range(len(devices)):
                if devices[other]["urgency"] != NOBODY:
                    if other != index:
                        key = (np.int64(devices[other]["urgency"]) << 32) + value
                        push_key(queue, 0, queued, key)
                        queued += 1
                    devices[other]["urgency"] = NOBODY
    return queued


@inlined
def receive(now: float, index: int, tables: Tables, run: Run) -> None:
    """Take in what has arrived on device ``index``."""
    ops, devices, pending, joined = run.ops, run.devices, run.pending, run.joined
    device = devices[index]
    base = device["pending"]
    count = 0
    while device["pending_size"] > 0 and pending[base]["time"] <= now:
        value = pop_arrival(pending, base, device["pending_size"])
        device["pending_size"] -= 1
        count = arrive(
            value,
            index,
            count,
            tables.values,
            tables.consumer_ops,
            ops,
            tables.successor_ops,
            run.stack,
            joined,
        )
    take_joined(count, index, ops, devices, tables.seconds, run.closure, joined)


@inlined
def holds_back(now: float, index: int, patience: float, tables: Tables, run: Run) -> bool:
    """Return whether a device waits for the next arrival although it could start a part."""
    device = run.devices[index]
    if device["pending_size"] == 0:
        return False
    since = min(device["waits_since"], now)
    arrival = run.pending[device["pending"]]
    if not arrival["time"] <= since + patience * device["overhead"]:
        return False
    first = NOBODY
    values, value = tables.values, arrival["value"]
    for edge in range(values[value]["consumers"], values[value + 1]["consumers"]):
        consumer = run.ops[tables.consumer_ops[edge]]
        if consumer["device"] == index and consumer["missing"] == 1:
            first = min(first, consumer["position"])
    if first == NOBODY:
        return False
    device["waits_since"] = since
    device["hold"] = max(device["hold"], first)
    return True


@inner
def _first_blocked(index: int, run: Run) -> int:
    """Return the position of the most urgent op that has not joined the closure of its device."""
    device = run.devices[index]
    while device["blocked"] < device["blocked_end"]:
        op = run.ops[run.device_ops[device["blocked"]]]
        if op["missing"] > 0:
            return int(op["position"])
        device["blocked"] += 1
    return NOBODY


@inlined
def start_part(
    now: float,
    index: int,
    cut_gain: float,
    urgent_only: bool,
    slice_work: float,
    tables: Tables,
    run: Run,
) -> None:
    """Form a part out of the closure of device ``index`` and start it."""
    ops, devices, closure, joined = run.ops, run.devices, run.closure, run.joined
    order, part_ops, pending, seconds = run.order, run.part_ops, run.pending, tables.seconds
    device = devices[index]
    overhead = device["overhead"]
    base = device["closure"]
    part = run.totals[0]
    run.totals[0] += 1
    slot = run.parts[part]["ops"] if part > 0 else 0
    run.parts[part]["ops"] = slot
    spent = 0.0
    owed = NOBODY
    late = 0
    late_first = NOBODY
    last = -1
    while device["closure_size"] > 0:
        first = closure[base]
        start = now + (overhead + spent)
        may_end = last >= 0 and last >= device["hold"]
        if may_end and device["work"] > cut_gain * overhead:
            if owed != NOBODY and (not urgent_only or owed < first):
                break
            while device["pending_size"] > 0 and pending[device["pending"]]["time"] <= start:
                value = pop_arrival(pending, device["pending"], device["pending_size"])
                device["pending_size"] -= 1
                before = late
                late = arrive(
                    value,
                    index,
                    late,
                    tables.values,
                    tables.consumer_ops,
                    ops,
                    tables.successor_ops,
                    run.stack,
                    joined,
                )
                for entry in range(before, late):
                    late_first = min(late_first, ops[joined[entry]]["position"])
            if late_first < first:
                break
            if spent > slice_work * overhead and _first_blocked(index, run) < first:
                break
        pop_key(closure, base, device["closure_size"])
        device["closure_size"] -= 1
        op = order[first]
        spent += seconds[op, index]
        device["work"] -= seconds[op, index]
        mark = ops[op]
        owed = min(owed, mark["owed"])
        mark["part"] = part
        mark["start"] = start
        mark["end"] = now + (overhead + spent)
        part_ops[slot] = op
        slot += 1
        last = first
    take_joined(late, index, ops, devices, seconds, closure, joined)
    run.parts[part]["device"] = index
    run.parts[part]["start"] = now
    run.parts[part]["end"] = now + (overhead + spent)
    run.parts[part + 1]["ops"] = slot
    device["part"] = part
    device["hold"] = -1
    device["waits_since"] = np.inf
