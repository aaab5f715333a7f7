"""What a message of the runtime costs on the link from rank 1 to rank 0, by size.

Started on two hosts with the variables of torchrun; rank 0 prints latency in seconds and bytes per
second, as a cluster file has them. It is what ``dplace profile --links --connect`` measures.

    python -m benchmarks.link_probe
"""

import os

import numpy as np

from dplace.profiles.line_fit import fit_line
from dplace.runtime.ranks.gathering import Gathering
from dplace.runtime.ranks.launch import launch_of
from dplace.runtime.ranks.message_times import message_times

TIMEOUT_S = 120.0


def main() -> None:
    """Send or receive."""
    launch = launch_of(os.environ)
    if launch is None:
        raise SystemExit("link_probe: expected the variables of torchrun")
    with Gathering(launch, timeout_s=TIMEOUT_S) as gathering:
        times = gathering.do(lambda: message_times(gathering))
    if launch.rank == 0:
        sizes, seconds = zip(*times[1, 0], strict=True)
        line = fit_line(np.array(sizes, dtype=np.float64), np.array(seconds))
        print(line.intercept, 1 / line.slope, flush=True)


if __name__ == "__main__":
    main()
