"""What a plan of one device costs beside a plain onnxruntime session of one thread.

For every real model that takes 5 ms or more; the calls take turns in one process. Run it as:

    python -m benchmarks.overhead --json overhead.json
"""

import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.figures import arguments, report
from benchmarks.stopwatch import median_ratio, take_turns
from dplace import api
from dplace.runtime.placed_session import PlacedSession
from tests.zoo.plain_session import plain_session
from tests.zoo.real_models import REAL_MODELS, ModelMissingError

LEAST_S = 0.005
LIMIT = 1.03


def row_of(name: str, rounds: int) -> dict[str, Any]:
    """Time one model both ways."""
    model = REAL_MODELS[name]()
    feeds = model.feeds[0]
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan"
        api.place(model.path, cluster="1xCPU", out=plan, policy="single")
        plain = plain_session(model.path)
        with PlacedSession(plan) as placed:
            calls = {
                "plain": partial(plain.run, None, feeds),
                "placed": partial(placed.run, None, feeds),
            }
            seconds = take_turns(calls, rounds=rounds)
    return {
        "model": name,
        "plain_ms": statistics.median(seconds["plain"]) * 1e3,
        "placed_ms": statistics.median(seconds["placed"]) * 1e3,
        "ratio": median_ratio(seconds["placed"], seconds["plain"]),
    }


def main() -> None:
    """Time every model; leave with 1 if the median of the ratios is above the limit."""
    options = arguments(__doc__ or "", rounds=30, models=tuple(REAL_MODELS))
    rows = []
    for name in options.models:
        try:
            row = row_of(name, options.rounds)
        except ModelMissingError as error:
            print(f"{name}: {error}")
            continue
        row["counts"] = row["plain_ms"] >= LEAST_S * 1e3
        rows.append(row)
    ratios = [row["ratio"] for row in rows if row["counts"]]
    summary = {
        "models of 5 ms and more": len(ratios),
        "median ratio": statistics.median(ratios),
        "largest ratio": max(ratios),
        "limit of the median": LIMIT,
    }
    report("A plan of one device against a plain session", rows, summary, options.json)
    raise SystemExit(0 if summary["median ratio"] <= LIMIT else 1)


if __name__ == "__main__":
    main()
