"""The question that every policy answers."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dplace.cluster import Cluster
from dplace.op_graph import OpGraph

__all__ = ["Machine", "Objective", "Problem"]

Objective = Literal["latency", "throughput"]
"""``latency``: the shortest makespan of one request; ``throughput``: the smallest bottleneck."""

Machine = Literal["native", "placeto", "baechi", "moirai", "independent", "dnn-partitioning"]
"""The rules that a placement is judged by: dplace's own, or those of another system, so that its
published figures can be met on its terms."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """A graph, what its ops cost on each device, and what a placement must keep to."""

    graph: OpGraph
    cluster: Cluster
    seconds: NDArray[np.float64]
    """Shape ``(num_ops, num_devices)``: time of one execution, in seconds; ``inf`` where the
    device cannot run the op."""
    measured: NDArray[np.bool_]
    """Shape ``(num_ops, num_devices)``: whether that time was measured rather than modelled."""
    pins: NDArray[np.int32]
    """Shape ``(num_ops,)``: the device an op must go to, or -1 where the policy is free."""
    objective: Objective = "latency"
    machine: Machine = "native"
    """How devices queue, what contends, how often a value is sent and how memory counts."""
    transfer_s: NDArray[np.float64] | None = None
    """Times of transfers where they were given as such, for a source's and a target's device;
    shape ``(num_values, num_devices, num_devices)`` or ``(num_values, 1, 1)`` for any pair. None
    where a transfer takes the cluster's latency and the value's bytes over its bandwidth."""
    value_home: NDArray[np.int32] | None = None
    """Shape ``(num_values,)``: where a value that no op makes lies at the start, -1 for the host,
    else a device; what the caller feeds lies on the host. None: all of those lie there.

    Those among them that the caller does not feed (not in ``graph.graph_inputs``) are *streamed
    weights*: they are sent to the devices that read them, and freed there after their last use."""
    buffer_bytes: NDArray[np.int64] | None = None
    """Shape ``(num_devices,)``: room for streamed weights on each device, taken all the time; what
    is on its way or not freed yet never takes more. None: no device has less than it takes to hold
    all that is streamed to it, and that is what it takes."""

    @property
    def num_ops(self) -> int:
        """Return the number of ops."""
        return self.graph.num_ops

    @property
    def num_devices(self) -> int:
        """Return the number of devices."""
        return self.cluster.num_devices

    @property
    def streamed(self) -> NDArray[np.int32]:
        """Return the streamed weights: values that no op makes and the caller does not feed."""
        is_streamed = self.graph.value_producer < 0
        is_streamed[self.graph.graph_inputs] = False
        return np.flatnonzero(is_streamed).astype(np.int32)

    @property
    def is_host(self) -> NDArray[np.bool_]:
        """Return which devices stand for host memory and its many cores.

        Shape ``(num_devices,)``; the CPUs under ``dnn-partitioning``, elsewhere none.
        """
        is_apart = self.machine == "dnn-partitioning"
        return np.array([is_apart and device.kind == "CPU" for device in self.cluster.devices])
