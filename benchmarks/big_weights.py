"""Resident memory of placing and splitting a model with 2.4 GB of weights in another file.

The weights lie in a sparse file; the command runs in a process of its own, whose largest
resident set the kernel tells. Run it as:

    python -m benchmarks.big_weights --json big_weights.json
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.figures import arguments, report
from tests.zoo.external_data import write_big_weights

LIMIT_BYTES = 10**9


def peak_of(command: list[str]) -> tuple[int, int]:
    """Run a command; return its exit code and its largest resident set in bytes."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_maxrss * 1024


def row_of(model: Path, plan: Path, options: list[str]) -> dict[str, Any]:
    """Place and split the model once."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "dplace", "place", str(model), "-o", str(plan), *options]
    code, peak = peak_of(command)
    files = [file for file in plan.rglob("*") if file.is_file()]
    return {
        "options": " ".join(options),
        "exit code": code,
        "seconds": time.perf_counter() - start,
        "peak_mb": peak / 1e6,
        "weights_mb": model.with_name("chain.data").stat().st_size / 1e6,
        "plan_mb": sum(file.stat().st_size for file in files) / 1e6,
        "on_disk_mb": sum(file.stat().st_blocks * 512 for file in files) / 1e6,
        "fits": code == 0 and peak < LIMIT_BYTES,
    }


def main() -> None:
    """Place the model in several ways; leave with 1 if one takes too much memory."""
    options = arguments(__doc__ or "")
    ways = (
        ["--cluster", "2xCPU"],
        ["--cluster", "3xCPU", "--policy", "random"],
        ["--cluster", "4xV100"],
        ["--cluster", "2xCPU", "--optimize", "none"],
    )
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        model = write_big_weights(Path(folder) / "model")
        for number, way in enumerate(ways):
            rows.append(row_of(model, Path(folder) / f"plan{number}", list(way)))
    large = [row["options"] for row in rows if not row["fits"]]
    summary = {"limit": f"{LIMIT_BYTES / 1e6:.0f} MB", "above it or failed": large or "none"}
    report("2.4 GB of weights, placed and split", rows, summary, options.json)
    raise SystemExit(1 if large else 0)


if __name__ == "__main__":
    main()
