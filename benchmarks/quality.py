"""How good are the placements that search finds on graphs that others measured?

Each graph is judged by the rules that its figures are given for, on one core, with as many
evaluations as fit into ``--seconds``; the figures to meet are in ``benchmarks/others_values.py``.

- Moirai: 4 devices of the file, serial egress and ingress, and free links.
- dnn-partitioning: largest load of a stream, and latency with one block a device.
- PipeDream: forward times as a graph on 4 equal devices; a transfer takes 10 us and the value's
  bytes over the bandwidth, once a value and destination, serial egress and ingress.

Run: ``python -m benchmarks.quality --graphs DIR [--only PATTERN] [--seconds 30]``
"""

import re
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import arguments, report
from benchmarks.others_values import CASES, Case, problem_of
from dplace.bounds import lower_bound_s
from dplace.lowering import Evaluator
from dplace.policies.search import search
from dplace.policies.single import best_single_device_s


def main() -> None:
    """Print what search finds beside what there is to meet."""
    options = arguments(__doc__ or "", graphs=Path(), only="", seconds=30.0, seed=0)
    rows: list[dict[str, Any]] = []
    for case in CASES:
        if re.search(options.only, case.name):
            rows.append(row_of(case, options.graphs, options.seconds, options.seed))
            print(rows[-1], flush=True)
    ratios = [row["ratio"] for row in rows]
    summary = {
        "graphs": len(rows),
        "largest ratio": max(ratios),
        "at most 1.01": sum(ratio <= 1.01 for ratio in ratios),
        "below the figure": sum(ratio < 0.9999 for ratio in ratios),
    }
    report("search on graphs that others measured", rows, summary, options.json)


def row_of(case: Case, graphs: Path, seconds: float, seed: int) -> dict[str, Any]:
    """Search one graph."""
    problem, unit_s = problem_of(case, graphs)
    trial = Evaluator(problem)
    search(trial, rng=np.random.default_rng(seed), evaluations=2000)  # compiles
    begun_s, before = time.process_time(), trial.evaluations
    search(trial, rng=np.random.default_rng(seed), evaluations=20_000)
    rate = (trial.evaluations - before) / (time.process_time() - begun_s)
    evaluator = Evaluator(problem)
    begun_s = time.process_time()
    found = search(evaluator, rng=np.random.default_rng(seed), evaluations=int(rate * seconds))
    spent_s = time.process_time() - begun_s
    score, _ = evaluator.best_rule(found)
    value = score.makespan_s / unit_s
    return {
        "graph": case.name,
        "ops": problem.num_ops,
        "one device": best_single_device_s(evaluator) / unit_s,
        "to meet": case.best,
        "found": value,
        "ratio": value / case.best,
        "bound": lower_bound_s(problem, evaluator.tables) / unit_s,
        "evaluations": evaluator.evaluations,
        "core seconds": spent_s,
    }


if __name__ == "__main__":
    main()
