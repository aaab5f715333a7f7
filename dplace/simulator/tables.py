"""A Problem as the flat arrays that compiled code reads.

Records instead of one array a field: compiled functions then take few arguments, which is what
calls and compilation cost, and what belongs to one op lies in one cache line.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.cluster import Cluster, Contention
from dplace.op_graph import OpGraph
from dplace.problem import Machine, Problem
from dplace.simulator.streamed import homes_of

__all__ = [
    "NOBODY",
    "Tables",
    "channels",
    "largest_station",
    "least_transfer_s",
    "machine_links",
    "ordered_tables",
    "tabulate",
    "tabulate_devices",
    "tabulate_links",
]

Int = NDArray[np.int32]
Records = NDArray[np.void]

PLACETO_BYTES_PER_S = 7600 * 1e6
PLACETO_BUS_S = 25e-6
PLACETO_DEVICE_S = 5.7e-6
"""Constants of Placeto's simulator (Addanki et al., 2019): 7600 bytes a microsecond, and how long
bus and device stay busy afterwards."""

NOBODY = 2**31 - 1
"""A position behind all others: nobody waits."""

OP = np.dtype(
    [
        ("successors", np.int32),  # offset into successor_ops
        ("outputs", np.int32),  # offset into output_values
        ("returns", np.int32),  # 1 if the caller gets one of its values
        ("missing", np.int32),  # inputs neither on its device nor made by the closure there
        ("device", np.int32),
        ("position", np.int32),  # place in the order of priority, smallest first
        ("owed", np.int32),  # position of the most urgent op elsewhere that waits for it
        ("part", np.int32),
        ("start", np.float64),
        ("end", np.float64),
    ],
    align=True,
)
VALUE = np.dtype(
    [
        ("bytes", np.int64),
        ("transfer_s", np.float64),  # what a transfer takes beside latency and bytes
        ("consumers", np.int32),
        ("producer", np.int32),
        ("returns", np.int32),
    ],
    align=True,
)
DEVICE = np.dtype(
    [
        ("overhead", np.float64),
        ("host_latency", np.float64),
        ("host_bytes_per_s", np.float64),
        ("alone_overhead", np.float64),  # these two replace the first two if it has all ops
        ("alone_host_latency", np.float64),
        ("work", np.float64),  # seconds of the ops in the closure
        ("waits_since", np.float64),  # when it first held back although it could start; or inf
        ("copied", np.float64),  # when the copies from the host queued so far have ended
        ("returned", np.float64),  # the same for copies to the host
        ("closure", np.int32),  # base of its heap of ops that can run
        ("closure_size", np.int32),
        ("pending", np.int32),  # base of its heap of arrivals
        ("pending_size", np.int32),
        ("part", np.int32),  # the part that runs, or -1
        ("blocked", np.int32),  # place in its row of queues, before which all ops have joined
        ("blocked_end", np.int32),
        ("hold", np.int32),  # position that a part must reach before it may end early
        ("copy", np.int32),  # scratch: the last value copied from the host
        ("urgency", np.int32),  # scratch: the most urgent op here that waits for a value
    ],
    align=True,
)
LINK = np.dtype(
    [
        ("latency", np.float64),
        ("bytes_per_s", np.float64),
        ("channel_a", np.int32),  # -1 for none
        ("channel_b", np.int32),
    ],
    align=True,
)
PART = np.dtype(
    [("start", np.float64), ("end", np.float64), ("device", np.int32), ("ops", np.int32)],
    align=True,
)
TRANSFER = np.dtype(
    [
        ("start", np.float64),
        ("end", np.float64),
        ("value", np.int32),
        ("source", np.int32),
        ("target", np.int32),
    ],
    align=True,
)
ARRIVAL = np.dtype([("time", np.float64), ("value", np.int32)], align=True)


class Tables(NamedTuple):
    """Graph, costs and cluster. Offsets have a last entry that ends the last row."""

    ops: Records
    """OP, shape ``(num_ops + 1,)``; ``missing`` is the number of inputs."""
    values: Records
    """VALUE, shape ``(num_values + 1,)``."""
    successor_ops: Int
    """Ops that read a value of each op, once for each value."""
    output_values: Int
    consumer_ops: Int
    host_values: Int
    """Values that come from the host, in the order in which they are copied."""
    seconds: NDArray[np.float64]
    """Shape ``(num_ops, num_devices)``."""
    devices: Records
    """DEVICE, shape ``(num_devices,)``."""
    weight_bytes: NDArray[np.int64]
    weight_offsets: Int
    weight_readers: Int
    """Ops that read each weight, compressed by weight."""
    links: Records
    """LINK, shape ``(num_devices, num_devices)``, from row to column."""


def channels(cluster: Cluster) -> tuple[Int, Int]:
    """Return the two channels that a transfer from row to column occupies, -1 for none.

    A transfer starts when both are free and holds both until it ends.
    """
    num = cluster.num_devices
    source = np.repeat(np.arange(num, dtype=np.int32)[:, None], num, axis=1)
    target = source.T
    none = np.full((num, num), -1, dtype=np.int32)
    match cluster.contention:
        case "none":
            return none, none
        case "link":
            return source * np.int32(num) + target, none
        case "egress":
            return source, none
        case "egress-ingress":
            return source, target + np.int32(num)
        case "port":
            return source, target


def tabulate_links(cluster: Cluster) -> Records:
    """Return what transfers between devices cost and occupy."""
    links = np.zeros((cluster.num_devices, cluster.num_devices), dtype=LINK)
    links["latency"] = cluster.latency_s
    links["bytes_per_s"] = cluster.bytes_per_s
    links["channel_a"], links["channel_b"] = channels(cluster)
    return links


def machine_links(problem: Problem, machine: Machine) -> Records:
    """Return what transfers cost and occupy under a machine's rules, from row to column."""
    cluster = problem.cluster
    contention: Contention = cluster.contention
    if machine == "placeto":
        contention = "egress"
    elif machine == "baechi":
        contention = "port"
    elif machine == "independent":
        contention = "none"
    elif machine == "moirai" and contention != "none":
        contention = "egress-ingress"
    links = tabulate_links(dataclasses.replace(cluster, contention=contention))
    if problem.transfer_s is not None:
        links["latency"], links["bytes_per_s"] = 0.0, np.inf
    elif machine == "placeto":
        links["latency"], links["bytes_per_s"] = 0.0, PLACETO_BYTES_PER_S
    return links


def largest_station(busy_s: NDArray[np.float64], transfers: Records, links: Records) -> float:
    """Return the largest time for which a device computes or a channel is occupied, in seconds.

    Args:
        busy_s: Shape ``(num_devices,)``.
        transfers: TRANSFER of one request.
        links: LINK, shape ``(num_devices, num_devices)``.
    """
    num = len(links)
    lengths = transfers["end"] - transfers["start"]
    taken = links[transfers["source"], transfers["target"]]
    held = np.zeros(num * (num + 1))
    for field in ("channel_a", "channel_b"):
        has = taken[field] >= 0
        np.add.at(held, taken[field][has], lengths[has])
    return max(float(busy_s.max(initial=0.0)), float(held.max(initial=0.0)))


def least_transfer_s(problem: Problem) -> NDArray[np.float64]:
    """Return the least time that was given for a transfer of each value between two devices."""
    given = problem.transfer_s
    if given is None:
        return np.zeros(problem.graph.num_values)
    if given.shape[1] == 1:
        return given[:, 0, 0]
    apart = np.where(np.eye(given.shape[1], dtype=np.bool_)[None], np.inf, given)
    least = apart.min(axis=(1, 2), initial=np.inf)
    return np.where(np.isfinite(least), least, 0.0)


def tabulate_devices(cluster: Cluster, *, is_native: bool = True) -> Records:
    """Return the devices, idle and empty; calls and host copies cost under ``native`` only."""
    devices = np.zeros(cluster.num_devices, dtype=DEVICE)
    devices["host_bytes_per_s"] = np.inf
    if is_native:
        devices["overhead"] = [device.call_overhead_s for device in cluster.devices]
        devices["host_latency"] = cluster.host_latency_s
        devices["host_bytes_per_s"] = cluster.host_bytes_per_s
        devices["alone_overhead"] = devices["overhead"]
        devices["alone_host_latency"] = devices["host_latency"]
        for index, device in enumerate(cluster.devices):
            if device.single_call_overhead_s is not None:
                devices[index]["alone_overhead"] = device.single_call_overhead_s
                devices[index]["alone_host_latency"] = 0.0
    devices["waits_since"] = np.inf
    devices["part"] = -1
    devices["hold"] = -1
    devices["copy"] = -1
    devices["urgency"] = NOBODY
    return devices


def tabulate(problem: Problem) -> Tables:
    """Return graph, costs and cluster as arrays of their own.

    To searches and bounds, which read these, streamed weights of the host are copied as the
    caller's inputs are, behind them and once to each device; those of other homes cost nothing.
    What they really take is told by the ordered pass, with ``ordered_tables``.

    numba compiles anew for read-only and for strided arrays; copies keep it to one version.
    """
    graph = problem.graph
    values = np.zeros(graph.num_values + 1, dtype=VALUE)
    values["bytes"][:-1] = graph.value_bytes
    if problem.transfer_s is not None and problem.machine != "dnn-partitioning":
        values["transfer_s"][:-1] = least_transfer_s(problem)
    values["consumers"] = graph.consumer_offsets
    values["producer"][:-1] = graph.value_producer
    values["returns"][graph.graph_outputs] = 1
    ops = np.zeros(graph.num_ops + 1, dtype=OP)
    ops["outputs"] = graph.output_offsets
    ops["missing"][:-1] = np.diff(graph.input_offsets)
    streamed = problem.streamed
    homes = homes_of(problem)[streamed]
    _take_as_there(ops, graph, streamed[homes >= 0])
    makers = graph.value_producer[graph.graph_outputs]
    ops["returns"][makers[makers >= 0]] = 1
    ops["owed"] = NOBODY
    ops["successors"], successor_ops = _successors(problem)
    readers = np.repeat(np.arange(graph.num_ops), np.diff(graph.weight_offsets))
    num_readers = np.bincount(graph.op_weights, minlength=len(graph.weight_bytes))
    return Tables(
        ops=ops,
        values=values,
        successor_ops=successor_ops,
        output_values=np.array(graph.output_values, dtype=np.int32),
        consumer_ops=np.array(graph.consumer_ops, dtype=np.int32),
        host_values=np.concatenate([graph.graph_inputs, streamed[homes < 0]]).astype(np.int32),
        seconds=np.array(problem.seconds, dtype=np.float64, order="C"),
        devices=tabulate_devices(problem.cluster, is_native=problem.machine == "native"),
        weight_bytes=np.array(graph.weight_bytes, dtype=np.int64),
        weight_offsets=np.concatenate([[0], np.cumsum(num_readers)]).astype(np.int32),
        weight_readers=readers[np.argsort(graph.op_weights, kind="stable")].astype(np.int32),
        links=machine_links(problem, problem.machine),
    )


def ordered_tables(problem: Problem, tables: Tables) -> Tables:
    """Return tables in which streamed weights are waited for and have no bytes of their own.

    Moves have what they take on links (``moves.py``), buffers what they take of memory.
    """
    streamed = problem.streamed
    if len(streamed) == 0:
        return tables
    ops, values = tables.ops.copy(), tables.values.copy()
    ops["missing"][:-1] = np.diff(problem.graph.input_offsets)
    values["bytes"][streamed] = 0
    inputs = np.array(problem.graph.graph_inputs, dtype=np.int32)
    return tables._replace(ops=ops, values=values, host_values=inputs)


def _take_as_there(ops: Records, graph: OpGraph, values: Int) -> None:
    """Let no op wait for ``values``."""
    is_there = np.zeros(graph.num_values, dtype=np.bool_)
    is_there[values] = True
    readers = np.repeat(np.arange(graph.num_ops), np.diff(graph.input_offsets))
    found = readers[is_there[graph.input_values]]
    ops["missing"][:-1] -= np.bincount(found, minlength=graph.num_ops).astype(np.int32)


def _successors(problem: Problem) -> tuple[Int, Int]:
    """Return the consumers of all of an op's values as one compressed list by op."""
    graph = problem.graph
    fan_out = np.diff(graph.consumer_offsets)[graph.output_values]
    ends = np.concatenate([[0], np.cumsum(fan_out)])
    starts = graph.consumer_offsets[:-1][graph.output_values]
    gather = np.repeat(starts - ends[:-1], fan_out) + np.arange(ends[-1])
    return ends[graph.output_offsets].astype(np.int32), graph.consumer_ops[gather].astype(np.int32)
