"""Lower bounds beside the best values known, on graphs whose costs others measured.

The graphs are those of ``benchmarks/others_values.py`` and lie under ``--graphs``. *path, work* is
the better of the longest path and the work alone, *bound* the best of all arguments of
``dplace/bounds/best.py``, *gap* how far the best value known is above it.

Run: ``python -m benchmarks.bounds --graphs DIR``
"""

import time
from pathlib import Path
from typing import Any

from benchmarks.figures import arguments, report
from benchmarks.others_values import CASES, problem_of
from dplace.bounds import best_bound, bounds_by_argument
from dplace.simulator.tables import tabulate


def main() -> None:
    """Print the table; end with 1 if a bound is above a value that was reached."""
    options = arguments(__doc__ or "", graphs=Path())
    rows: list[dict[str, Any]] = []
    for case in CASES:
        problem, unit_s = problem_of(case, options.graphs)
        tables = tabulate(problem)
        each = bounds_by_argument(problem, tables)  # compiles
        start = time.perf_counter()
        bound = best_bound(problem, tables)
        milliseconds = (time.perf_counter() - start) * 1e3
        simple_s = max(each.get("path", 0.0), each.get("work", 0.0))
        rows.append(
            {
                "graph": case.name,
                "path, work": simple_s / unit_s,
                "bound": bound.seconds / unit_s,
                "by": bound.argument,
                "best known": case.best,
                "gap": f"{case.best / (bound.seconds / unit_s) - 1:.1%}",
                "ms": f"{milliseconds:.0f}",
            }
        )
    # Values are given to five digits.
    wrong = sum(row["bound"] > row["best known"] * (1 + 1e-4) for row in rows)
    summary = {"graphs": len(rows), "bounds above a known value": wrong}
    report("Lower bounds, in the files' units", rows, summary, options.json)
    raise SystemExit(min(wrong, 1))


if __name__ == "__main__":
    main()
