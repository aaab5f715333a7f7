"""Two CPU cores against one: measured, predicted, and what was asked for.

``auto`` on 2xCPU and the plan of one device take turns in one process, on an idle machine. Run
it as:

    python -m benchmarks.speedup --json speedup.json
"""

import statistics
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.figures import arguments, report
from benchmarks.stopwatch import median_ratio, take_turns
from dplace import api
from dplace.runtime.placed_session import PlacedSession
from tests.zoo.real_models import REAL_MODELS

WANTED: Mapping[str, float] = {"generated_two-tower": 1.7, "light_inception_v2": 1.15}
"""Least speed-up of each model."""


def row_of(name: str, rounds: int) -> dict[str, Any]:
    """Time one model on one and on two devices."""
    model = REAL_MODELS[name]()
    feeds = model.feeds[0]
    with tempfile.TemporaryDirectory() as folder:
        one = api.place(model.path, cluster="1xCPU", out=Path(folder) / "one", policy="single")
        two = api.place(model.path, cluster="2xCPU", out=Path(folder) / "two", policy="auto")
        with (
            PlacedSession(Path(folder) / "one") as first,
            PlacedSession(Path(folder) / "two") as second,
        ):
            calls = {
                "one": partial(first.run, None, feeds),
                "two": partial(second.run, None, feeds),
            }
            seconds = take_turns(calls, rounds=rounds)
    measured = {name: statistics.median(times) for name, times in seconds.items()}
    return {
        "model": name,
        "one_ms": measured["one"] * 1e3,
        "one_predicted_ms": one.plan.makespan_s * 1e3,
        "two_ms": measured["two"] * 1e3,
        "two_predicted_ms": two.plan.makespan_s * 1e3,
        "parts": len(two.plan.parts),
        "speedup": median_ratio(seconds["one"], seconds["two"]),
        "predicted": one.plan.makespan_s / two.plan.makespan_s,
        "bound": one.plan.makespan_s / two.plan.bound_s,
        "wanted": WANTED.get(name),
    }


def main() -> None:
    """Time the models; leave with 1 if one is slower than wanted."""
    options = arguments(__doc__ or "", rounds=40, models=tuple(WANTED))
    rows = [row_of(name, options.rounds) for name in options.models]
    slow = [row["model"] for row in rows if row["wanted"] and row["speedup"] < row["wanted"]]
    report("2xCPU against one", rows, {"slower than wanted": slow or "none"}, options.json)
    raise SystemExit(1 if slow else 0)


if __name__ == "__main__":
    main()
