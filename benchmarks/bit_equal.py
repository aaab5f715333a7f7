"""Outputs of placed models against the whole model in one session, to the last bit.

Every real model under 5 random placements over 3 CPU devices, at levels all and none, and under
``auto`` on 2 CPU devices. Run it as:

    python -m benchmarks.bit_equal --json bit_equal.json
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import arguments, report
from dplace import api
from dplace.runtime.placed_session import PlacedSession
from tests.zoo.plain_session import assert_bit_equal, run_plain
from tests.zoo.real_models import REAL_MODELS, ModelMissingError, RealModel

LEVELS = ("all", "none")


def largest_difference(got: Any, expected: Any) -> float:
    """Return the largest absolute difference between two results of equal form."""
    if isinstance(expected, list):
        pairs = zip(got, expected, strict=True)
        return max((largest_difference(*pair) for pair in pairs), default=0.0)
    if expected.size == 0:
        return 0.0
    return float(np.abs(got.astype(np.float64) - expected.astype(np.float64)).max())


def compare(model: RealModel, expected: list[list[Any]], **options: Any) -> dict[str, Any]:
    """Place and run one model in one way; return how far it is from the whole one."""
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan"
        answer = api.place(model.path, out=plan, **options)
        with PlacedSession(plan) as session:
            got = [session.run(None, feeds) for feeds in model.feeds]
    try:
        assert_bit_equal(got, expected)
    except AssertionError as error:
        failure: str | None = str(error)
    else:
        failure = None
    return {
        "parts": len(answer.plan.parts),
        "bit_equal": failure is None,
        "max_abs_diff": 0.0 if failure is None else largest_difference(got, expected),
        "failure": failure,
    }


def ways(num_seeds: int) -> list[dict[str, Any]]:
    """Return the options of every placement of one model."""
    random = [
        {"cluster": "3xCPU", "policy": "random", "seed": seed, "opt_level": level}
        for level in LEVELS
        for seed in range(num_seeds)
    ]
    auto = [{"cluster": "2xCPU", "policy": "auto", "opt_level": level} for level in LEVELS]
    return random + auto


def rows_of(name: str, num_seeds: int) -> list[dict[str, Any]]:
    """Compare one model in every way; an error is a row too."""
    model = REAL_MODELS[name]()
    expected = {level: run_plain(model.path, model.feeds, level) for level in LEVELS}
    rows = []
    for options in ways(num_seeds):
        row = {"model": name, "policy": options["policy"], "seed": options.get("seed")}
        row["level"] = options["opt_level"]
        start = time.perf_counter()
        try:
            row |= compare(model, expected[options["opt_level"]], **options)
        except Exception as error:  # a benchmark goes on; the row says what went wrong
            row |= {"parts": None, "bit_equal": False, "max_abs_diff": None}
            row["failure"] = f"{type(error).__name__}: {error}"
        row["seconds"] = time.perf_counter() - start
        rows.append(row)
    return rows


def main() -> None:
    """Compare every model in every way; leave with 1 if any differs."""
    options = arguments(__doc__ or "", seeds=5, models=tuple(REAL_MODELS))
    rows: list[dict[str, Any]] = []
    missing: dict[str, str] = {}
    table = []
    for name in options.models:
        try:
            found = rows_of(name, options.seeds)
        except ModelMissingError as error:
            missing[name] = str(error)
            continue
        rows += found
        differences = [row["max_abs_diff"] for row in found if row["max_abs_diff"] is not None]
        parts = [row["parts"] for row in found if row["parts"] is not None]
        table.append(
            {
                "model": name,
                "placements": len(found),
                "bit-equal": sum(row["bit_equal"] for row in found),
                "max_abs_diff": max(differences, default=None),
                "parts": f"{min(parts)}-{max(parts)}" if parts else None,
                "seconds": sum(row["seconds"] for row in found),
                "failure": next((row["failure"] for row in found if row["failure"]), ""),
            }
        )
        print(f"{name}: {table[-1]['bit-equal']} of {len(found)}", flush=True)
    equal = sum(row["bit_equal"] for row in rows)
    summary: dict[str, Any] = {"models": len(table), "placements": len(rows), "bit-equal": equal}
    summary |= {"missing": missing or "none"}
    report("Placed against whole", table, summary, options.json, details=rows)
    raise SystemExit(0 if equal == len(rows) else 1)


if __name__ == "__main__":
    main()
