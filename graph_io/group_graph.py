"""A Problem as learned policies see it: groups of ops, devices, and figures that compare.

Times are told in the mean group's time and bytes in the mean device's memory, so that a small graph
on slow devices looks like a large one on fast ones. What can be a thousand times the mean goes
through ``log1p``. There are no names and no indices: an op type or a position seen in training
would not be found in another graph.

Plain arrays; ``to_dgl.py`` turns them into a DGL graph.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dplace.placement import allowed_devices
from dplace.problem import Problem
from dplace.schedule.rank import mean_seconds
from dplace.simulator.tables import machine_links

__all__ = ["DEVICE_FEATURES", "GROUP_FEATURES", "GroupGraph", "group_graph"]

Float = NDArray[np.float32]
Double = NDArray[np.float64]

GROUP_FEATURES = ("work", "sent", "weights", "outputs")
"""Mean time; time of sending what other groups read (both through ``log1p``); bytes of weights and
of outputs, in the mean device's memory."""

DEVICE_FEATURES = ("slowness", "fullness", "call", "host", "capable", "devices")
"""Time of what it can run against the mean device's (log2); bytes of all weights in its memory
(``log1p``); the time of a call and of a copy from or to the host (``log1p``); share of the groups
that it can run; number of devices (log2)."""

LARGEST = 8.0
"""Where features end: a device a hundred times too small is as bad as one ten times too small."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupGraph:
    """Groups of ops, what passes between them, and the devices that they may go to."""

    group: NDArray[np.int32]
    """Shape ``(num_ops,)``: the group of each op."""
    edges: NDArray[np.int64]
    """Shape ``(num_edges, 2)``: which group feeds which, each pair once and sorted."""
    edge_sent: Float
    """Shape ``(num_edges,)``: mean time that the pair's values take, in mean groups."""
    features: Float
    """Shape ``(num_groups, len(GROUP_FEATURES))``."""
    sent: Float
    """Shape ``(num_groups,)``: mean time of sending what other groups read, in mean groups."""
    run: Float
    """Shape ``(num_groups, num_devices)``: time on each device, in mean groups; 0 where not
    allowed."""
    allowed: NDArray[np.bool_]
    """Shape ``(num_groups, num_devices)``: by kernels, pins and co-location."""
    device_features: Float
    """Shape ``(num_devices, len(DEVICE_FEATURES))``."""
    link: Float
    """Shape ``(num_devices, num_devices)``: time of a transfer from row to column against the mean
    pair's; 0 on the diagonal."""

    unit_s: float
    """The mean group's time in seconds, what times are told in."""

    @property
    def num_groups(self) -> int:
        """Return the number of groups."""
        return len(self.features)

    @property
    def num_devices(self) -> int:
        """Return the number of devices."""
        return len(self.device_features)


def group_graph(problem: Problem, group: NDArray[np.int32]) -> GroupGraph:
    """Return groups, devices and features of a problem.

    Args:
        problem: Graph, costs and cluster.
        group: Shape ``(num_ops,)``, numbered from 0 without gaps; co-located ops together.

    Raises:
        InputError: Some op can go nowhere.
    """
    num = int(group.max(initial=-1)) + 1
    num_devices = problem.num_devices
    op_allowed = allowed_devices(problem)
    allowed = np.ones((num, num_devices), dtype=np.bool_)
    np.logical_and.at(allowed, group, op_allowed)
    run_s = np.zeros((num, num_devices))
    np.add.at(run_s, group, np.where(op_allowed, problem.seconds, 0.0))
    run_s = np.where(allowed, run_s, 0.0)
    work_s = _sums(group, mean_seconds(problem), num)
    unit_s = float(work_s.mean()) if work_s.any() else 1.0

    leaving, edges, edge_s, pair_s = _transfers(problem, group)
    graph = problem.graph
    weights = _weight_bytes(problem, group, num)
    made = np.flatnonzero(graph.value_producer >= 0)
    outputs = _sums(group[graph.value_producer[made]], graph.value_bytes[made], num)
    memory = np.array([device.memory_bytes for device in problem.cluster.devices], np.float64)
    features = np.stack(
        [
            np.log1p(work_s / unit_s),
            np.log1p(leaving / unit_s),
            weights / memory.mean(),
            outputs / memory.mean(),
        ],
        axis=1,
    )
    return GroupGraph(
        group=np.asarray(group, dtype=np.int32),
        edges=edges,
        edge_sent=(edge_s / unit_s).astype(np.float32),
        features=_scaled(features),
        sent=(leaving / unit_s).astype(np.float32),
        run=(run_s / unit_s).astype(np.float32),
        allowed=allowed,
        device_features=_scaled(_device_features(problem, run_s, allowed, memory, unit_s)),
        link=_scaled(_link_factors(pair_s)),
        unit_s=unit_s,
    )


def _scaled(features: Double) -> Float:
    return np.clip(features, -LARGEST, LARGEST).astype(np.float32)


def _weight_bytes(problem: Problem, group: NDArray[np.int32], num: int) -> Double:
    """Return the bytes of the distinct weights that each group reads."""
    graph = problem.graph
    reader = np.repeat(np.arange(graph.num_ops), np.diff(graph.weight_offsets))
    pairs = np.unique(np.stack([group[reader], graph.op_weights], axis=1), axis=0)
    return _sums(pairs[:, 0], graph.weight_bytes[pairs[:, 1]], num)


def _transfers(
    problem: Problem, group: NDArray[np.int32]
) -> tuple[Double, NDArray[np.int64], Double, Double]:
    """Return what leaves each group, edges and what passes along each, and what each pair takes.

    Returns:
        Seconds of each group, shape ``(num_groups,)``; edges, shape ``(num_edges, 2)``, and
        seconds of each; seconds of all values between groups for each pair of devices, shape
        ``(num_devices, num_devices)``. A value that several groups read leaves once.
    """
    graph, num_devices = problem.graph, problem.num_devices
    num = int(group.max(initial=-1)) + 1
    read = np.repeat(np.arange(graph.num_values), np.diff(graph.consumer_offsets))
    made = graph.value_producer[read] >= 0
    rows = np.stack(
        [read[made], group[graph.value_producer[read[made]]], group[graph.consumer_ops[made]]],
        axis=1,
    ).astype(np.int64)
    rows = np.unique(rows[rows[:, 1] != rows[:, 2]], axis=0)
    links = machine_links(problem, problem.machine)
    latency_s = np.array(links["latency"], dtype=np.float64)
    s_per_byte = 1.0 / np.array(links["bytes_per_s"], dtype=np.float64)
    apart = ~np.eye(num_devices, dtype=np.bool_)
    values = np.unique(rows[:, 0])
    pair_s = len(values) * latency_s + float(graph.value_bytes[values].sum()) * s_per_byte
    value_s = np.zeros(graph.num_values)
    if apart.any():
        value_s = latency_s[apart].mean() + graph.value_bytes * s_per_byte[apart].mean()
    if problem.transfer_s is not None:
        given = np.broadcast_to(problem.transfer_s, (graph.num_values, num_devices, num_devices))
        pair_s = pair_s + given[values].sum(axis=0)
        if apart.any():
            value_s = value_s + given[:, apart].mean(axis=1)
    pair_s = np.where(apart, pair_s, 0.0)
    edges, edge = np.unique(rows[:, 1:], axis=0, return_inverse=True)
    edge_s = _sums(edge.reshape(-1), value_s[rows[:, 0]], len(edges))
    leaving_s = _sums(group[graph.value_producer[values]], value_s[values], num)
    return leaving_s, edges, edge_s, pair_s


def _sums(index: NDArray[np.integer], amounts: NDArray[np.generic], num: int) -> Double:
    return np.bincount(index, amounts, num).astype(np.float64)


def _link_factors(pair_s: Double) -> Double:
    num = len(pair_s)
    total = float(pair_s.sum())
    return pair_s * (num * (num - 1)) / total if total > 0 else pair_s


def _device_features(
    problem: Problem,
    run_s: Double,
    allowed: NDArray[np.bool_],
    memory: Double,
    unit_s: float,
) -> Double:
    """Return what sets devices apart, shape ``(num_devices, len(DEVICE_FEATURES))``."""
    graph, cluster = problem.graph, problem.cluster
    num_groups, num = run_s.shape
    mean_s = run_s.sum(axis=1) / np.maximum(allowed.sum(axis=1), 1)
    of_mean = np.where(allowed, mean_s[:, None], 0.0).sum(axis=0)
    slowness = np.where(of_mean > 0, run_s.sum(axis=0) / np.where(of_mean > 0, of_mean, 1.0), 1.0)
    is_native = problem.machine == "native"
    calls_s = np.array([device.call_overhead_s for device in cluster.devices])
    fed = np.concatenate([graph.graph_inputs, graph.graph_outputs])
    copied = float(graph.value_bytes[fed].mean()) if len(fed) else 0.0
    host_s = cluster.host_latency_s + copied / cluster.host_bytes_per_s
    return np.stack(
        [
            np.log2(np.maximum(slowness, 2.0**-LARGEST)),
            np.log1p(float(graph.weight_bytes.sum()) / memory),
            np.log1p(calls_s / unit_s) * is_native,
            np.log1p(host_s / unit_s) * is_native,
            allowed.sum(axis=0) / max(num_groups, 1),
            np.full(num, np.log2(num)),
        ],
        axis=1,
    )
