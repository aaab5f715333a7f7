"""How the values of an op travel when it ends, under the rules of ``op_tables.py``."""

import numpy as np
from numpy.typing import NDArray

from dplace.simulator.compiled import merged
from dplace.simulator.op_run import OpRun
from dplace.simulator.op_tables import ALL_AT_ONCE, PER_READER, TWO_STEPS, OpTables
from dplace.simulator.tables import NOBODY, Records

__all__ = ["book", "send_by_priority", "send_in_order"]

Float = NDArray[np.float64]
Keys = NDArray[np.int64]


@merged
def book(
    now: float,
    value: int,
    source: int,
    target: int,
    tables: OpTables,
    channel_free: Float,
    transfers: Records,
    totals: Keys,
) -> float:
    """Book a transfer on its channels and return when the value arrives."""
    pair = source * tables.num_devices + target
    link = tables.links[pair]
    if len(tables.pair_s) > 0:
        length = tables.pair_s[value * tables.num_devices**2 + pair]
    else:
        content = tables.values[value]
        length = content["transfer_s"] + (link["latency"] + content["bytes"] / link["bytes_per_s"])
    first, second = link["channel_a"], link["channel_b"]
    start = now
    if first >= 0:
        start = max(start, channel_free[first])
    end = start + length
    if tables.send == TWO_STEPS:
        channel_free[first] = end
        end = max(start, channel_free[second]) + length
    elif second >= 0:
        start = max(start, channel_free[second])
        end = start + length
    if second >= 0:
        channel_free[second] = end
    if first >= 0 and tables.send != TWO_STEPS:
        channel_free[first] = end
    record = transfers[totals[0]]
    record["value"] = value
    record["source"] = source
    record["target"] = target
    record["start"] = start
    record["end"] = end
    totals[0] += 1
    return float(end)


@merged
def _insert(sending: Records, count: int, key: int, to: int) -> None:
    """Add an entry to a sorted list: few are in it."""
    at = count
    while at > 0 and sending[at - 1]["key"] > key:
        sending[at]["key"] = sending[at - 1]["key"]
        sending[at]["to"] = sending[at - 1]["to"]
        at -= 1
    sending[at]["key"] = key
    sending[at]["to"] = to


@merged
def send_by_priority(now: float, op: int, source: int, tables: OpTables, run: OpRun) -> None:
    """Send an op's values, what serves the most urgent reader first; note when they arrive."""
    num = tables.num_devices
    ops, devices, consumers = run.ops, run.devices, tables.consumer_ops
    first = tables.ops[op]["outputs"]
    count = 0
    for slot in range(first, tables.ops[op + 1]["outputs"]):
        value = tables.output_values[slot]
        is_away = False
        for edge in range(tables.values[value]["consumers"], tables.values[value + 1]["consumers"]):
            reader = ops[consumers[edge]]
            if reader["device"] == source:
                continue
            if tables.send == PER_READER:
                key = (np.int64(reader["position"]) << 32) + (slot - first)
                _insert(run.sending, count, key, consumers[edge])
                count += 1
            else:
                is_away = True
                target = devices[reader["device"]]
                target["urgency"] = min(target["urgency"], reader["position"])
        if is_away:
            for index in range(num):
                urgency = devices[index]["urgency"]
                if urgency != NOBODY:
                    _insert(run.sending, count, (np.int64(urgency) << 32) + (slot - first), index)
                    count += 1
                    devices[index]["urgency"] = NOBODY
    for at in range(count):
        slot = run.sending[at]["key"] & 0xFFFFFFFF
        to = run.sending[at]["to"]
        target_index = ops[to]["device"] if tables.send == PER_READER else to
        value = tables.output_values[first + slot]
        arrives = book(
            now, value, source, target_index, tables, run.channel_free, run.transfers, run.totals
        )
        if tables.send == PER_READER:
            ops[to]["ready"] = max(ops[to]["ready"], arrives)
        else:
            run.arrival[slot * num + target_index] = arrives


@merged
def _time_for_all(value: int, source: int, tables: OpTables, devices: Records) -> float:
    """Return what a transfer to all devices that are noted takes: as long as the slowest."""
    content = tables.values[value]
    if len(tables.pair_s) == 0:
        return float(content["transfer_s"] + content["bytes"] / tables.links[0]["bytes_per_s"])
    longest = 0.0
    for target in range(tables.num_devices):
        if devices[target]["urgency"] != NOBODY:
            pair = (value * tables.num_devices + source) * tables.num_devices + target
            longest = max(longest, tables.pair_s[pair])
    return longest


@merged
def send_in_order(
    now: float, value: int, row: int, source: int, tables: OpTables, run: OpRun
) -> None:
    """Send a value to the devices of its readers, by index; note when it arrives."""
    devices, arrival = run.devices, run.arrival
    is_away = False
    for edge in range(tables.values[value]["consumers"], tables.values[value + 1]["consumers"]):
        index = run.ops[tables.consumer_ops[edge]]["device"]
        if index != source:
            is_away = True
            devices[index]["urgency"] = 0
    if not is_away:
        return
    start = max(now, run.channel_free[source])
    end = start + _time_for_all(value, source, tables, devices)
    for target in range(tables.num_devices):
        if devices[target]["urgency"] == NOBODY:
            continue
        devices[target]["urgency"] = NOBODY
        if tables.send == TWO_STEPS:
            arrival[row + target] = book(
                now, value, source, target, tables, run.channel_free, run.transfers, run.totals
            )
            continue
        arrival[row + target] = end
        record = run.transfers[run.totals[0]]
        record["value"] = value
        record["source"] = source
        record["target"] = target
        record["start"] = start
        record["end"] = end
        run.totals[0] += 1
    if tables.send == ALL_AT_ONCE:
        run.channel_free[source] = end + tables.after_send_s
