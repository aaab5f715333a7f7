"""What it costs to bring weights from the host's memory to devices, and to compute with them."""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from dplace.cluster import Cluster

__all__ = ["streaming_cluster", "with_repacking"]

READ_LATENCY_S = 30e-6
READ_BYTES_PER_S = 3e9
"""Of a file that the system has in its cache, beside a device that computes, as streaming is meant
to be: 2.7 to 3.4 GB/s (``benchmarks/streamed_model.py``, two cores of a Xeon at 2.1 GHz). One that
has the machine to itself reads 5 to 7 GB/s."""
PACK_BYTES_PER_S = (6e9, 16e9)
"""At which a CPU packs a matrix for a product, as it lies and transposed. In the median of twelve
sizes each 8.6 and 17 GB/s, from 16 MB on 6 and 15 (``benchmarks/fed_products.py``, the same cores).
"""
CPU = "CPUExecutionProvider"


def streaming_cluster(cluster: Cluster) -> Cluster:
    """Return the cluster as a plan with streamed weights finds it.

    A CPU device works in host memory, so what the caller hands over costs it nothing; but weights
    that are not to lie there are read from the plan's files into its buffers. Its work is done in a
    thread of its own even if it has all ops.
    """
    is_free = np.isinf(cluster.host_bytes_per_s)
    return dataclasses.replace(
        cluster,
        devices=tuple(
            dataclasses.replace(device, single_call_overhead_s=None) for device in cluster.devices
        ),
        host_latency_s=np.maximum(cluster.host_latency_s, np.where(is_free, READ_LATENCY_S, 0.0)),
        host_bytes_per_s=np.where(is_free, READ_BYTES_PER_S, cluster.host_bytes_per_s),
    )


def with_repacking(
    seconds: NDArray[np.float64], repacked_bytes: NDArray[np.float64], cluster: Cluster
) -> NDArray[np.float64]:
    """Return what ops take if they pack some of their weights each time, which CPUs do.

    Args:
        seconds: With all weights packed before; shape ``(num_ops, num_devices)``.
        repacked_bytes: Of fed weights, shape ``(num_ops, 2)``: as they lie, and transposed.
        cluster: The devices.
    """
    is_cpu = np.array([device.provider == CPU for device in cluster.devices])
    return seconds + np.where(is_cpu, (repacked_bytes / PACK_BYTES_PER_S).sum(axis=1)[:, None], 0.0)
