"""What a message of the runtime costs on the link from rank 1 to rank 0, by size.

Started on two hosts with the variables of torchrun; rank 0 prints latency in seconds and bytes per
second, as a cluster file has them. Rank 1 sends one message after another, as it does with weights.

    python -m benchmarks.link_probe BITS_PER_S
"""

import os
import sys
import time

import numpy as np
import torch.distributed as dist

from dplace.profiles.line_fit import fit_line
from dplace.runtime.ranks.message import Header, Kind, Message
from dplace.runtime.ranks.wire import make_wires

TIMEOUT_S = 120.0
SECONDS = 0.4
"""That all messages of one size take together, about."""
SIZES = (2**14, 2**16, 2**18, 2**20, 2**22, 2**24)
MIN_COUNT, MAX_COUNT = 3, 40
FLOAT = 1


def main() -> None:
    """Send or receive."""
    bytes_per_s = float(sys.argv[1]) / 8
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    links = [(1, 0)]
    wire = make_wires(links, rank, TIMEOUT_S, direct=(), given={}, delivered={})[1, 0]
    seconds = []
    sizes = [size for size in SIZES if size / bytes_per_s < SECONDS]
    for size in sizes:
        count = int(min(max(SECONDS * bytes_per_s / size, MIN_COUNT), MAX_COUNT))
        payload = np.ones(size, dtype=np.uint8).data
        header = Header(kind=Kind.TENSOR, element_type=FLOAT, shape=(size // 4,), size_bytes=size)
        dist.barrier()
        times = []
        for _ in range(count + 1):
            if rank:
                wire.send(Message(header=header, payload=payload))
            else:
                wire.receive(lambda header: (None, np.empty(header.size_bytes, np.uint8).data))
                times.append(time.perf_counter())
        # The first says when it all began; those after it leave one behind the other.
        seconds.append((times[-1] - times[0]) / count if times else 0.0)
    if not rank:
        line = fit_line(np.array(sizes, dtype=np.float64), np.array(seconds))
        print(line.intercept, 1 / line.slope, flush=True)
    dist.barrier()
    os._exit(0)  # the wire has a receive that nothing answers


if __name__ == "__main__":
    main()
