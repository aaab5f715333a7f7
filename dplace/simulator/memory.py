"""How much memory a run takes on each device.

A value takes memory on the device of its op from the start of the op, and where it is copied to
from the start of the copy. It is freed

- where it never leaves its part: when the last op that reads it has ended;
- where it enters or leaves a part: when the last part on that device that reads or makes it has
  ended and all its transfers from there have;
- if the caller gets it: not before the end.

A weight takes memory all the time, once on each device that has an op that reads it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.simulator.compiled import allocating
from dplace.simulator.run import Run
from dplace.simulator.tables import Tables

__all__ = ["Lives", "lives", "peak_bound", "peak_bytes", "weight_bytes"]

Bytes = NDArray[np.int64]


class Lives(NamedTuple):
    """One entry for each value and device that holds it; times in seconds."""

    value: NDArray[np.int32]
    device: NDArray[np.int32]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    """``inf`` for what the caller gets."""


@allocating
def lives(tables: Tables, run: Run) -> Lives:
    """Return when each value takes memory where."""
    ops, values, parts, transfers = run.ops, tables.values, run.parts, run.transfers
    num_values, num_devices = len(values) - 1, len(run.devices)
    num_transfers = run.totals[1]
    room = num_values + num_transfers + num_devices * len(tables.host_values)
    result = Lives(
        np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room), np.empty(room)
    )
    count = 0
    sent = np.zeros(num_values)
    for index in range(num_transfers):
        value = transfers[index]["value"]
        sent[value] = max(sent[value], transfers[index]["end"])
        result.value[count] = value
        result.device[count] = transfers[index]["target"]
        result.start[count] = transfers[index]["start"]
        count += 1
    copied = np.zeros(num_devices)
    for value in tables.host_values:
        before = count
        for edge in range(values[value]["consumers"], values[value + 1]["consumers"]):
            index = ops[tables.consumer_ops[edge]]["device"]
            is_new = True
            for entry in range(before, count):
                is_new = is_new and result.device[entry] != index
            if is_new:
                result.value[count] = value
                result.device[count] = index
                result.start[count] = copied[index]
                device = run.devices[index]
                copied[index] += (
                    device["host_latency"] + values[value]["bytes"] / device["host_bytes_per_s"]
                )
                count += 1
    num_copies = count
    for entry in range(num_copies):
        value, index = result.value[entry], result.device[entry]
        end = 0.0
        for edge in range(values[value]["consumers"], values[value + 1]["consumers"]):
            consumer = ops[tables.consumer_ops[edge]]
            if consumer["device"] == index:
                end = max(end, parts[consumer["part"]]["end"])
        result.end[entry] = end
    for value in range(num_values):
        if values[value]["producer"] < 0:
            continue
        maker = ops[values[value]["producer"]]
        part = maker["part"]
        used = maker["end"]
        kept = max(sent[value], parts[part]["end"])
        leaves = False
        for edge in range(values[value]["consumers"], values[value + 1]["consumers"]):
            consumer = ops[tables.consumer_ops[edge]]
            if consumer["part"] != part:
                leaves = True
                if consumer["device"] == maker["device"]:
                    kept = max(kept, parts[consumer["part"]]["end"])
            else:
                used = max(used, consumer["end"])
        result.value[count] = value
        result.device[count] = maker["device"]
        result.start[count] = maker["start"]
        if values[value]["returns"]:
            result.end[count] = np.inf
        else:
            result.end[count] = kept if leaves else used
        count += 1
    return Lives(
        result.value[:count], result.device[:count], result.start[:count], result.end[:count]
    )


@allocating
def weight_bytes(tables: Tables, placement: NDArray[np.int32]) -> Bytes:
    """Return the bytes of the distinct weights on each device, shape ``(num_devices,)``."""
    held = np.zeros(len(tables.devices), np.int64)
    seen = np.full(len(held), -1, np.int32)
    for weight in range(len(tables.weight_bytes)):
        for slot in range(tables.weight_offsets[weight], tables.weight_offsets[weight + 1]):
            device = placement[tables.weight_readers[slot]]
            if seen[device] != weight:
                seen[device] = weight
                held[device] += tables.weight_bytes[weight]
    return held


@allocating
def peak_bound(tables: Tables, placement: NDArray[np.int32]) -> Bytes:
    """Return bytes that no schedule exceeds: weights, and every value that is ever there."""
    values = tables.values
    held: Bytes = weight_bytes(tables, placement)
    seen = np.full(len(held), -1, np.int32)
    for value in range(len(values) - 1):
        if values[value]["producer"] >= 0:
            device = placement[values[value]["producer"]]
            seen[device] = value
            held[device] += values[value]["bytes"]
        for edge in range(values[value]["consumers"], values[value + 1]["consumers"]):
            device = placement[tables.consumer_ops[edge]]
            if seen[device] != value:
                seen[device] = value
                held[device] += values[value]["bytes"]
    return held


@allocating
def peak_bytes(tables: Tables, placement: NDArray[np.int32], run: Run) -> Bytes:
    """Return the bytes of weights and live values at the worst moment on each device."""
    held: Bytes = weight_bytes(tables, placement)
    peaks: Bytes = held.copy()
    life = lives(tables, run)
    by_start = np.argsort(life.start)
    by_end = np.argsort(life.end)
    freed = 0
    for entry in by_start:
        if life.end[entry] <= life.start[entry]:
            continue  # of an op that takes no time: there for no time
        # What ends now makes room for what starts now.
        while life.end[by_end[freed]] <= life.start[entry]:
            gone = by_end[freed]
            if life.end[gone] > life.start[gone]:
                held[life.device[gone]] -= tables.values[life.value[gone]]["bytes"]
            freed += 1
        device = life.device[entry]
        held[device] += tables.values[life.value[entry]]["bytes"]
        peaks[device] = max(peaks[device], held[device])
    return peaks
