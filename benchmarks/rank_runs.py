"""Runs plans one after the other as one rank: what benchmarks start on each host.

Started with the variables of torchrun; each plan takes the next port. Rank 0 prints a line of JSON
for each plan: what ``dplace run --json`` prints, and ``latencies_s``, all of them.

    python -m benchmarks.rank_runs WARMUP REPEAT:PLAN...
"""

import json
import os
import sys
from pathlib import Path

from dplace.api import run_ranks
from dplace.runtime.ranks.launch import launch_of


def main() -> None:
    """Run all plans."""
    warmup = int(sys.argv[1])
    port = int(os.environ["MASTER_PORT"])
    for number, word in enumerate(sys.argv[2:]):
        repeat, _, plan = word.partition(":")
        launch = launch_of({**os.environ, "MASTER_PORT": str(port + number)})
        assert launch is not None
        report = run_ranks(Path(plan), launch, repeat=int(repeat), warmup=warmup, timeout_s=120.0)
        if report is not None:
            told = report.as_json() | {"latencies_s": list(report.measurement.latencies_s)}
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
