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

from dplace.problem import Problem
from dplace.simulator.compiled import allocating
from dplace.simulator.run import Run
from dplace.simulator.tables import Tables

__all__ = ["Lives", "lives", "peak_bytes", "value_bytes_bound", "weight_bytes"]


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


def weight_bytes(problem: Problem, placement: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the bytes of the distinct weights on each device, shape ``(num_devices,)``."""
    graph = problem.graph
    held = np.zeros((len(graph.weight_bytes), problem.num_devices), dtype=np.bool_)
    readers = np.repeat(placement, np.diff(graph.weight_offsets))
    held[graph.op_weights, readers] = True
    return np.asarray(graph.weight_bytes @ held, dtype=np.int64)  # (num_devices,)


def value_bytes_bound(problem: Problem, placement: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the bytes of all values that are ever on each device, shape ``(num_devices,)``."""
    graph = problem.graph
    held = np.zeros((graph.num_values, problem.num_devices), dtype=np.bool_)
    made = np.flatnonzero(graph.value_producer >= 0)
    held[made, placement[graph.value_producer[made]]] = True
    read = np.repeat(np.arange(graph.num_values), np.diff(graph.consumer_offsets))
    held[read, placement[graph.consumer_ops]] = True
    return np.asarray(graph.value_bytes @ held, dtype=np.int64)


def peak_bytes(problem: Problem, tables: Tables, run: Run) -> NDArray[np.int64]:
    """Return the bytes of weights and live values at the worst moment on each device."""
    placement = run.ops["device"][:-1]
    peaks = weight_bytes(problem, placement)
    life = lives(tables, run)
    for device in range(problem.num_devices):
        here = np.flatnonzero(life.device == device)
        sizes = problem.graph.value_bytes[life.value[here]]
        # Ends come first so that, at equal times, memory is freed before it is taken.
        times = np.concatenate([life.end[here], life.start[here]])
        steps = np.concatenate([-sizes, sizes])[np.argsort(times, kind="stable")]
        peaks[device] += max(0, int(np.cumsum(steps).max(initial=0)))
    return peaks
