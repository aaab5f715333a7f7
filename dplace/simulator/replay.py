"""The clock for parts that are given: what a plan folder takes, without its model.

It follows the rules of ``online.py`` except that nothing is decided here: each device runs its
parts in their order, and the values of a part leave in the order of the transfers.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.cluster import Cluster
from dplace.errors import PlanError
from dplace.problem import Problem
from dplace.simulator.compiled import kernel
from dplace.simulator.heap import pop_arrival, push_arrival
from dplace.simulator.run import transfer
from dplace.simulator.tables import (
    ARRIVAL,
    PART,
    TRANSFER,
    VALUE,
    Records,
    largest_station,
    tabulate_devices,
    tabulate_links,
)
from dplace.simulator.timeline import Lowered

__all__ = ["PartGraph", "PartTimes", "part_graph", "simulate_parts"]

Int = NDArray[np.int32]
Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartGraph:
    """Parts, the values between them, and their order; lists are compressed by part."""

    part_device: Int
    """Shape ``(num_parts,)``; the parts of a device run in the order of their numbers."""
    part_seconds: Float
    """Time of the part's ops without the call, in seconds."""
    input_offsets: Int
    input_values: Int
    """Values that each part reads and does not make."""
    output_offsets: Int
    output_values: Int
    """Values that each part makes for other parts or for the caller."""
    value_bytes: NDArray[np.int64]
    graph_inputs: Int
    graph_outputs: Int
    transfer_value: Int
    transfer_target: Int
    """Device that the value goes to. The transfers of one part are queued in this order."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartTimes:
    """Start and end of parts and transfers in seconds, as in ``Timeline``."""

    makespan_s: float
    bottleneck_s: float
    part_start_s: Float
    part_end_s: Float
    transfer_start_s: Float
    transfer_end_s: Float
    busy_s: Float


class _Tables(NamedTuple):
    """A PartGraph and a cluster as compiled code reads them, and the state of the run."""

    devices: Records
    """DEVICE; ``closure`` is the next place in ``queue``, ``closure_size`` the end of its row."""
    links: Records
    values: Records
    """VALUE; ``consumers`` is the offset into ``reader_parts``."""
    reader_parts: Int
    queue: Int
    """Parts by device."""
    part_seconds: Float
    output_offsets: Int
    output_values: Int
    sends: Int
    """Transfers by the part that makes their value."""
    send_offsets: Int
    host_values: Int
    parts: Records
    """PART; ``ops`` is the number of inputs that are not on the device yet."""
    transfers: Records
    pending: Records
    channel_free: Float
    makespan: Float


@kernel
def _arrive(value: int, device: int, tables: _Tables) -> None:
    """Note that ``value`` is on ``device``."""
    for edge in range(tables.values[value]["consumers"], tables.values[value + 1]["consumers"]):
        part = tables.parts[tables.reader_parts[edge]]
        if part["device"] == device:
            part["ops"] -= 1


@kernel
def _finish(now: float, index: int, tables: _Tables) -> None:
    """Hand on what the part that has run on device ``index`` made."""
    values, transfers, makespan = tables.values, tables.transfers, tables.makespan
    device = tables.devices[index]
    part = device["part"]
    device["part"] = -1
    makespan[0] = max(makespan[0], now)
    for slot in range(tables.output_offsets[part], tables.output_offsets[part + 1]):
        value = tables.output_values[slot]
        if values[value]["returns"]:
            device["returned"] = max(now, device["returned"]) + (
                device["host_latency"] + values[value]["bytes"] / device["host_bytes_per_s"]
            )
            makespan[0] = max(makespan[0], device["returned"])
        _arrive(value, index, tables)
    for slot in range(tables.send_offsets[part], tables.send_offsets[part + 1]):
        record = transfers[tables.sends[slot]]
        value = record["value"]
        transfer(
            now,
            value,
            index,
            record["target"],
            values[value],
            tables.links,
            tables.devices,
            tables.channel_free,
            tables.pending,
            record,
        )


@kernel
def _run(tables: _Tables) -> int:
    """Let the clock run until nothing is on its way; return how many parts have run."""
    devices, parts, pending = tables.devices, tables.parts, tables.pending
    done = 0
    now = 0.0
    while now < np.inf:
        for index in range(len(devices)):
            running = devices[index]["part"]
            if running >= 0 and parts[running]["end"] <= now:
                _finish(now, index, tables)
                done += 1
        soon = np.inf
        for index in range(len(devices)):
            device = devices[index]
            base = device["pending"]
            if device["part"] < 0:
                while device["pending_size"] > 0 and pending[base]["time"] <= now:
                    value = pop_arrival(pending, base, device["pending_size"])
                    device["pending_size"] -= 1
                    _arrive(value, index, tables)
                if device["closure"] < device["closure_size"]:
                    part = tables.queue[device["closure"]]
                    if parts[part]["ops"] == 0:
                        parts[part]["start"] = now
                        parts[part]["end"] = now + (device["overhead"] + tables.part_seconds[part])
                        device["part"] = part
                        device["closure"] += 1
            if device["part"] >= 0:
                soon = min(soon, parts[device["part"]]["end"])
            elif device["pending_size"] > 0:
                soon = min(soon, pending[base]["time"])
        now = soon
    return done


@kernel
def _replay(tables: _Tables) -> int:
    """Send the graph's inputs on their way and run; return how many parts have run."""
    values = tables.values
    for slot in range(len(tables.host_values)):
        value = tables.host_values[slot]
        for edge in range(values[value]["consumers"], values[value + 1]["consumers"]):
            device = tables.devices[tables.parts[tables.reader_parts[edge]]["device"]]
            if device["copy"] != value:
                device["copy"] = value
                device["copied"] += (
                    device["host_latency"] + values[value]["bytes"] / device["host_bytes_per_s"]
                )
                push_arrival(
                    tables.pending,
                    device["pending"],
                    device["pending_size"],
                    device["copied"],
                    value,
                )
                device["pending_size"] += 1
    return int(_run(tables))


def simulate_parts(graph: PartGraph, cluster: Cluster) -> PartTimes:
    """Return when each part and transfer runs.

    The times of what ``dplace.lowering.lower`` returns come out exactly as they are there.

    Raises:
        PlanError: Some part waits for a value that never comes.
    """
    tables = _tabulate(graph, cluster)
    done = _replay(tables)
    parts, transfers = tables.parts, tables.transfers
    if done < len(parts):
        stuck = int(np.flatnonzero(parts["ops"] > 0)[0])
        raise PlanError(
            f"part {stuck} on {cluster.devices[parts['device'][stuck]].name} waits for a value "
            "that never comes: no transfer brings it, or parts wait for each other in a circle"
        )
    lengths = parts["end"] - parts["start"]
    busy_s = np.bincount(parts["device"], weights=lengths, minlength=cluster.num_devices).astype(
        np.float64
    )
    return PartTimes(
        makespan_s=float(tables.makespan[0]),
        part_start_s=parts["start"].copy(),
        part_end_s=parts["end"].copy(),
        transfer_start_s=transfers["start"].copy(),
        transfer_end_s=transfers["end"].copy(),
        bottleneck_s=largest_station(busy_s, transfers, tables.links),
        busy_s=busy_s,
    )


def _tabulate(graph: PartGraph, cluster: Cluster) -> _Tables:
    num_parts, num_values = len(graph.part_device), len(graph.value_bytes)
    num_devices = cluster.num_devices
    num_inputs = np.diff(graph.input_offsets)
    reader_offsets, reader_order = _by_key(graph.input_values, num_values)
    queue_offsets, queue = _by_key(graph.part_device, num_devices)
    maker = np.full(num_values, num_parts, dtype=np.int32)
    maker[graph.output_values] = np.repeat(np.arange(num_parts), np.diff(graph.output_offsets))
    send_offsets, sends = _by_key(maker[graph.transfer_value], num_parts + 1)

    devices = tabulate_devices(cluster)
    if len(np.unique(graph.part_device)) == 1:
        devices["overhead"] = devices["alone_overhead"]
        devices["host_latency"] = devices["alone_host_latency"]
    devices["closure"], devices["closure_size"] = queue_offsets[:-1], queue_offsets[1:]
    # A device receives at most what its parts read, each part apart.
    room = np.bincount(graph.part_device, weights=num_inputs, minlength=num_devices)
    room += np.bincount(graph.transfer_target, minlength=num_devices)
    devices["pending"][1:] = np.cumsum(room)[:-1]
    values = np.zeros(num_values + 1, dtype=VALUE)
    values["bytes"][:-1] = graph.value_bytes
    values["consumers"] = reader_offsets
    values["returns"][graph.graph_outputs] = 1
    parts = np.zeros(num_parts, dtype=PART)
    parts["device"] = graph.part_device
    parts["ops"] = num_inputs
    transfers = np.zeros(len(graph.transfer_value), dtype=TRANSFER)
    transfers["value"], transfers["target"] = graph.transfer_value, graph.transfer_target
    return _Tables(
        devices=devices,
        links=tabulate_links(cluster),
        values=values,
        reader_parts=np.repeat(np.arange(num_parts, dtype=np.int32), num_inputs)[reader_order],
        queue=queue,
        part_seconds=np.array(graph.part_seconds, dtype=np.float64),
        output_offsets=np.array(graph.output_offsets, dtype=np.int32),
        output_values=np.array(graph.output_values, dtype=np.int32),
        sends=sends,
        send_offsets=send_offsets,
        host_values=np.array(graph.graph_inputs, dtype=np.int32),
        parts=parts,
        transfers=transfers,
        pending=np.zeros(int(room.sum()), dtype=ARRIVAL),
        channel_free=np.zeros(num_devices * (num_devices + 1)),
        makespan=np.zeros(1),
    )


def _by_key(keys: Int, num_keys: int) -> tuple[Int, Int]:
    """Return the indices of ``keys`` grouped by key, in order, as offsets and items."""
    counts = np.bincount(keys, minlength=num_keys)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return offsets, np.argsort(keys, kind="stable").astype(np.int32)


def part_graph(problem: Problem, lowered: Lowered) -> PartGraph:
    """Return the parts of a lowered placement with what each reads and makes."""
    graph = problem.graph
    inputs: list[list[int]] = []
    outputs: list[list[int]] = []
    seconds: list[float] = []
    returned = set(graph.graph_outputs.tolist())
    for part, device in enumerate(lowered.part_device):
        row = lowered.part_ops[lowered.part_offsets[part] : lowered.part_offsets[part + 1]]
        members = set(row.tolist())
        read = [int(value) for op in row for value in graph.inputs_of(op)]
        made = [int(value) for op in row for value in graph.outputs_of(op)]
        inputs.append([v for v in dict.fromkeys(read) if graph.value_producer[v] not in members])
        outputs.append(
            [v for v in made if v in returned or not members.issuperset(graph.consumers_of(v))]
        )
        # One after another, as on the clock: sum() and np.sum may add in another order.
        seconds.append(float(np.cumsum(problem.seconds[row, device])[-1]))
    return PartGraph(
        part_device=lowered.part_device,
        part_seconds=np.array(seconds),
        input_offsets=np.cumsum([0, *map(len, inputs)], dtype=np.int32),
        input_values=np.array([v for values in inputs for v in values], dtype=np.int32),
        output_offsets=np.cumsum([0, *map(len, outputs)], dtype=np.int32),
        output_values=np.array([v for values in outputs for v in values], dtype=np.int32),
        value_bytes=graph.value_bytes,
        graph_inputs=graph.graph_inputs,
        graph_outputs=graph.graph_outputs,
        transfer_value=lowered.transfer_value,
        transfer_target=lowered.transfer_target,
    )
