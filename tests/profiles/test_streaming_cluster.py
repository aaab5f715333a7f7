"""What it costs to bring weights to devices that work in host memory, and to others."""

import numpy as np

from dplace.profiles import read_cluster
from dplace.profiles.streaming import READ_BYTES_PER_S, READ_LATENCY_S, streaming_cluster


def test_cpus_read_weights_from_files_and_gpus_get_them_over_their_link() -> None:
    given = read_cluster("1xCPU+1xV100")
    cluster = streaming_cluster(given)
    cpu, gpu = (given.device_index(name) for name in ("cpu:0", "gpu:0"))
    assert np.isinf(given.host_bytes_per_s[cpu])
    assert cluster.host_bytes_per_s[cpu] == READ_BYTES_PER_S
    assert cluster.host_latency_s[cpu] == READ_LATENCY_S
    assert cluster.host_bytes_per_s[gpu] == given.host_bytes_per_s[gpu]
    assert cluster.host_latency_s[gpu] == given.host_latency_s[gpu]
    assert all(device.single_call_overhead_s is None for device in cluster.devices)
    assert cluster.bytes_per_s is given.bytes_per_s
