"""How long commands take from the shell, imports and all.

Run it as:

    python -m benchmarks.place_time --json place_time.json
"""

import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks.figures import arguments, report
from tests.zoo.real_models import REAL_MODELS

DPLACE = (sys.executable, "-m", "dplace")


def row_of(command: list[str], limit_s: float, rounds: int) -> dict[str, Any]:
    """Run a command several times; the first one, which compiles, is told apart."""
    seconds = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        subprocess.run([*DPLACE, *command], check=True, capture_output=True)
        seconds.append(time.perf_counter() - start)
    shown = " ".join(part.rpartition("/")[2] for part in command)
    return {
        "command": f"dplace {shown}",
        "first_s": seconds[0],
        "median_s": statistics.median(seconds[1:]),
        "limit_s": limit_s,
    }


def main() -> None:
    """Time the commands; leave with 1 if one takes too long."""
    options = arguments(__doc__ or "", rounds=5)
    model = str(REAL_MODELS["light_densenet121"]().path)
    rows = [
        row_of(["--help"], 0.3, options.rounds),
        row_of(["place", model, "--cluster", "2xCPU"], 5.0, options.rounds),
        row_of(["place", model, "--cluster", "4xV100"], 5.0, options.rounds),
    ]
    slow = [row["command"] for row in rows if row["median_s"] > row["limit_s"]]
    report("Commands from the shell", rows, {"too slow": slow or "none"}, options.json)
    raise SystemExit(1 if slow else 0)


if __name__ == "__main__":
    main()
