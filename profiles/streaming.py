"""What it costs to bring weights from the host's memory to devices that are CPUs."""

import dataclasses

import numpy as np

from dplace.cluster import Cluster

__all__ = ["streaming_cluster"]

READ_LATENCY_S = 30e-6
READ_BYTES_PER_S = 3e9
"""Of a file that the system has in its cache. One thread alone reads 4.3 GB/s into memory that was
touched before (a Xeon at 2.1 GHz); beside devices that compute it gets less of the memory's rate.
"""


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
