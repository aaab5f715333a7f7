"""The clock for parts that are given: what a plan folder takes, without its model.

It follows the rules of ``ordered.py`` except that nothing is decided here: each device runs its
parts in their order. Transfers go by priority; of equal ones those that the same part makes go in
the order in which they are given. Where nothing overtakes, that is how ``online.py`` has it too.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.cluster import Cluster
from dplace.errors import PlanError
from dplace.simulator.compiled import inlined, inner, kernel
from dplace.simulator.heap import pop_arrival, push_arrival
from dplace.simulator.part_graph import PartGraph
from dplace.simulator.queues import (
    HOST,
    MOVE,
    Queues,
    clear,
    enqueue,
    make_queues,
    release,
    settle,
)
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

__all__ = ["PartTimes", "simulate_parts"]

Int = NDArray[np.int32]
Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartTimes:
    """Start and end of parts and transfers in seconds, as in ``Timeline``."""

    makespan_s: float
    bottleneck_s: float
    part_start_s: Float
    part_end_s: Float
    transfer_start_s: Float
    transfer_end_s: Float
    copy_start_s: Float
    copy_end_s: Float
    """Of streamed weights that come from the host."""
    busy_s: Float


class _Tables(NamedTuple):
    """A PartGraph and a cluster as compiled code reads them, and the state of the run."""

    devices: Records
    """DEVICE; ``closure`` is the next place in ``queue``, ``closure_size`` the end of its row."""
    values: Records
    """VALUE; ``consumers`` is the offset into ``reader_parts``."""
    reader_parts: Int
    queue: Int
    """Parts by device."""
    part_seconds: Float
    output_offsets: Int
    output_values: Int
    sends: Int
    """Moves by the part that makes their value."""
    send_offsets: Int
    reads: Int
    """Moves of streamed weights by the part that reads them."""
    read_offsets: Int
    host_values: Int
    parts: Records
    """PART; ``ops`` is the number of inputs that are not on the device yet."""
    pending: Records
    makespan: Float


@inner
def _arrive(value: int, device: int, tables: _Tables) -> None:
    """Note that ``value`` is on ``device``."""
    for edge in range(tables.values[value]["consumers"], tables.values[value + 1]["consumers"]):
        part = tables.parts[tables.reader_parts[edge]]
        if part["device"] == device:
            part["ops"] -= 1


@inlined
def _finish(now: float, index: int, tables: _Tables, queues: Queues) -> None:
    """Hand on what the part that has run on device ``index`` made."""
    values, makespan = tables.values, tables.makespan
    device = tables.devices[index]
    part = device["part"]
    device["part"] = -1
    makespan[0] = max(makespan[0], now)
    release(part, tables.read_offsets, tables.reads, queues)
    for slot in range(tables.output_offsets[part], tables.output_offsets[part + 1]):
        value = tables.output_values[slot]
        if values[value]["returns"]:
            device["returned"] = max(now, device["returned"]) + (
                device["host_latency"] + values[value]["bytes"] / device["host_bytes_per_s"]
            )
            makespan[0] = max(makespan[0], device["returned"])
        _arrive(value, index, tables)
    for slot in range(tables.send_offsets[part], tables.send_offsets[part + 1]):
        enqueue(tables.sends[slot], queues)


@inlined
def _copy_inputs(tables: _Tables) -> None:
    """Send the graph's inputs on their way."""
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


@kernel
def _replay(tables: _Tables, queues: Queues) -> int:
    """Let the clock run until nothing is on its way; return how many parts have run."""
    devices, parts, pending = tables.devices, tables.parts, tables.pending
    clear(queues)
    _copy_inputs(tables)
    done = 0
    now = 0.0
    while now < np.inf:
        for index in range(len(devices)):
            running = devices[index]["part"]
            if running >= 0 and parts[running]["end"] <= now:
                _finish(now, index, tables, queues)
                done += 1
        settle(now, devices, pending, queues)
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
        if queues.totals[2] > 0:
            soon = min(soon, queues.flights[0]["time"])
        now = soon
    return done


def simulate_parts(graph: PartGraph, cluster: Cluster) -> PartTimes:
    """Return when each part, transfer and copy of a weight runs.

    The times of what ``dplace.lowering.lower`` returns come out exactly as they are there.

    Raises:
        PlanError: Some part waits for a value that never comes.
    """
    links = tabulate_links(cluster)
    tables, queues, place = _tabulate(graph, cluster, links)
    done = _replay(tables, queues)
    parts = tables.parts
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
    num_transfers = len(graph.transfer_value)
    records = queues.moves[place]
    sent = np.zeros(num_transfers, dtype=TRANSFER)
    for name in ("start", "end", "source", "target"):
        sent[name] = records[name][:num_transfers]
    return PartTimes(
        makespan_s=float(tables.makespan[0]),
        part_start_s=parts["start"].copy(),
        part_end_s=parts["end"].copy(),
        transfer_start_s=records["start"][:num_transfers].copy(),
        transfer_end_s=records["end"][:num_transfers].copy(),
        copy_start_s=records["start"][num_transfers:].copy(),
        copy_end_s=records["end"][num_transfers:].copy(),
        bottleneck_s=largest_station(busy_s, sent, links),
        busy_s=busy_s,
    )


def _tabulate(
    graph: PartGraph, cluster: Cluster, links: Records
) -> tuple[_Tables, Queues, NDArray[np.int64]]:
    """Return what ``_replay`` reads, and the move of each transfer and behind them each copy."""
    num_parts, num_values = len(graph.part_device), len(graph.value_bytes)
    num_devices = cluster.num_devices
    num_inputs = np.diff(graph.input_offsets)
    reader_offsets, reader_order = _by_key(graph.input_values, num_values)
    reader_parts = np.repeat(np.arange(num_parts, dtype=np.int32), num_inputs)
    queue_offsets, queue = _by_key(graph.part_device, num_devices)
    devices = tabulate_devices(cluster)
    if len(np.unique(graph.part_device)) == 1:
        devices["overhead"] = devices["alone_overhead"]
        devices["host_latency"] = devices["alone_host_latency"]
    devices["closure"], devices["closure_size"] = queue_offsets[:-1], queue_offsets[1:]
    # A device receives at most what its parts read, each part apart.
    room = np.bincount(graph.part_device, weights=num_inputs, minlength=num_devices)
    room += np.bincount(graph.transfer_target, minlength=num_devices)
    room += np.bincount(graph.copy_target, minlength=num_devices)
    devices["pending"][1:] = np.cumsum(room)[:-1]
    values = np.zeros(num_values + 1, dtype=VALUE)
    values["bytes"][:-1] = graph.value_bytes
    values["consumers"] = reader_offsets
    values["returns"][graph.graph_outputs] = 1
    parts = np.zeros(num_parts, dtype=PART)
    parts["device"] = graph.part_device
    parts["ops"] = num_inputs

    moves, place = _moves(graph, devices, links)
    num_weights = int(np.isin(moves["value"], graph.streamed).sum())
    for move in moves[:num_weights][moves["readers"][:num_weights] == 0]:
        raise PlanError(
            f"a streamed weight is sent to {cluster.devices[move['target']].name}, where no part "
            "reads it"
        )
    move_of = {(int(it["value"]), int(it["target"])): at for at, it in enumerate(moves)}
    is_read = [
        move_of.get((value, int(graph.part_device[part])), num_weights)
        for value, part in zip(graph.input_values.tolist(), reader_parts.tolist(), strict=True)
    ]
    reads = np.array(is_read, dtype=np.int32)
    read_offsets, by_part = _by_key(reader_parts[reads < num_weights], num_parts)
    maker = np.full(num_values, num_parts, dtype=np.int32)
    maker[graph.output_values] = np.repeat(np.arange(num_parts), np.diff(graph.output_offsets))
    makers = maker[moves["value"][num_weights:]]
    send_offsets, sends = _by_key(makers, num_parts + 1)
    by_target = np.lexsort((moves["priority"][:num_weights], moves["target"][:num_weights]))
    tables = _Tables(
        devices=devices,
        values=values,
        reader_parts=reader_parts[reader_order],
        queue=queue,
        part_seconds=np.array(graph.part_seconds, dtype=np.float64),
        output_offsets=np.array(graph.output_offsets, dtype=np.int32),
        output_values=np.array(graph.output_values, dtype=np.int32),
        sends=sends + np.int32(num_weights),
        send_offsets=send_offsets,
        reads=reads[reads < num_weights][by_part],
        read_offsets=read_offsets,
        host_values=np.array(graph.graph_inputs, dtype=np.int32),
        parts=parts,
        pending=np.zeros(int(room.sum()), dtype=ARRIVAL),
        makespan=np.zeros(1),
    )
    queues = make_queues(moves, by_target.astype(np.int32), links, graph.buffer_bytes)
    return tables, queues, place


def _moves(graph: PartGraph, devices: Records, links: Records) -> tuple[Records, NDArray[np.int64]]:
    """Return MOVE of weights, by value and target, and then of what parts make.

    With them the move of each transfer of ``graph``, and behind those of each copy.
    """
    value = np.concatenate([graph.transfer_value, graph.copy_value])
    target = np.concatenate([graph.transfer_target, graph.copy_target])
    source = np.concatenate([graph.transfer_source, np.full(len(graph.copy_value), HOST)])
    is_weight = np.isin(value, graph.streamed)
    size = graph.value_bytes[value]
    host_s = devices["host_latency"][target] + size / devices["host_bytes_per_s"][target]
    taken = links[source, target]
    moves = np.zeros(len(value), dtype=MOVE)
    moves["seconds"] = np.where(
        source == HOST, host_s, taken["latency"] + size / taken["bytes_per_s"]
    )
    moves["bytes"], moves["value"] = size, value
    moves["source"], moves["target"] = source, target
    moves["priority"] = np.concatenate([graph.transfer_priority, graph.copy_priority])
    readers = np.repeat(graph.part_device, np.diff(graph.input_offsets))
    pairs = graph.input_values.astype(np.int64) * len(devices) + readers
    keys, counts = np.unique(pairs, return_counts=True)
    mine = value.astype(np.int64) * len(devices) + target
    found = np.searchsorted(keys, mine).clip(max=max(0, len(keys) - 1))
    is_read = is_weight & (keys[found] == mine) if len(keys) else np.zeros(len(value), np.bool_)
    moves["readers"][is_read] = counts[found[is_read]]
    order = np.lexsort((np.where(is_weight, target, 0), np.where(is_weight, value, 0), ~is_weight))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return moves[order], place


def _by_key(keys: Int, num_keys: int) -> tuple[Int, Int]:
    """Return the indices of ``keys`` grouped by key, in order, as offsets and items."""
    counts = np.bincount(keys, minlength=num_keys)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return offsets, np.argsort(keys, kind="stable").astype(np.int32)
