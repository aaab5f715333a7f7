"""How good are the placements that search finds on graphs that others measured?

Each graph is judged by the rules that its figures are given for, on one core, with as many
evaluations as fit into ``--seconds``; the figure to meet was found by a plain annealer in 16 to 60
seconds. Sources of the graphs: see ``benchmarks/others_graphs.py``.

- Moirai: 4 devices of the file, serial egress and ingress, and free links.
- dnn-partitioning: largest load of a stream, and latency with one block a device.
- PipeDream: forward times as a graph on 4 equal devices; a transfer takes 10 us and the value's
  bytes over the bandwidth, once a value and destination, serial egress and ingress.

Run: ``python -m benchmarks.quality --graphs DIR [--only PATTERN] [--seconds 30]``
"""

import dataclasses
import re
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.figures import arguments, report
from dplace.bounds import lower_bound_s
from dplace.cluster import Cluster, Device
from dplace.graph_io.cost_graphs import cost_problem, read_cost_graph
from dplace.lowering import Evaluator
from dplace.policies.search import search
from dplace.policies.single import best_single_device_s
from dplace.problem import Objective, Problem

THROUGHPUT, LATENCY = "dnn-partitioning/throughput-inputs", "dnn-partitioning/latency-inputs"


class Case(NamedTuple):
    """A graph, how it is judged, and the figure to meet, in the file's units."""

    name: str
    file: str
    target: float
    objective: Objective = "latency"
    bytes_per_s: float = 0.0
    is_free: bool = False


CASES = (
    Case("moirai GoogLeNet", "moirai/GoogLeNet.xls", 1.3125),
    Case("moirai transformer", "moirai/transformer.xls", 21.043),
    Case("moirai GoogLeNet, free links", "moirai/GoogLeNet.xls", 1.2452, is_free=True),
    Case("moirai transformer, free links", "moirai/transformer.xls", 17.870, is_free=True),
    *(
        Case(f"throughput {name}", f"{THROUGHPUT}/{name}.json", target, "throughput")
        for name, target in (
            ("LayerGraphs/bert24_inference", 17.715),
            ("LayerGraphs/bert24_training", 39.790),
            ("LayerGraphs/gnmt_inference", 31.687),
            ("LayerGraphs/inceptionv3_inference", 51.455),
            ("LayerGraphs/resnet50_inference", 33.437),
            ("LayerGraphs/resnet50_training", 76.857),
            ("OperatorGraphs/bert_l-3_inference", 21.908),
            ("OperatorGraphs/bert_l-3_training", 54.207),
            ("OperatorGraphs/bert_l-12_inference", 130.04),
            ("OperatorGraphs/resnet50_inference", 124.35),
            ("OperatorGraphs/resnet50_training", 255.19),
        )
    ),
    *(
        Case(f"latency {name}", f"{LATENCY}/{name}.json", target)
        for name, target in (
            ("LayerGraphs/bert24_inference", 100.22),
            ("LayerGraphs/inceptionv3_inference", 1203.2),
            ("LayerGraphs/resnet50_inference", 1156.9),
            ("OperatorGraphs/bert_l-3_inference", 408.47),
            ("OperatorGraphs/bert_l-6_inference", 438.06),
            ("OperatorGraphs/resnet50_inference", 651.12),
        )
    ),
    *(
        Case(
            f"pipedream {name}, {bytes_per_s / 1e9:g} GB/s",
            f"pipedream/{name}.txt",
            target,
            bytes_per_s=bytes_per_s,
        )
        for name, bytes_per_s, target in (
            ("nasnetalarge", 1.25e9, 254.1),
            ("nasnetalarge", 12e9, 144.4),
            ("inception_v3", 1.25e9, 307.5),
            ("inception_v3", 12e9, 240.6),
            ("squeezenet1_0", 1.25e9, 587.88),
            ("squeezenet1_0", 12e9, 587.88),
        )
    ),
)


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


def problem_of(case: Case, graphs: Path) -> tuple[Problem, float]:
    """Return the problem and the seconds that a unit of its figures is."""
    source = read_cost_graph(graphs / case.file)
    hardware = equal_devices(case.bytes_per_s) if case.bytes_per_s else None
    problem = cost_problem(source, hardware, objective=case.objective)
    if case.is_free:
        links = dataclasses.replace(problem.cluster, contention="none")
        problem = dataclasses.replace(problem, cluster=links)
    return problem, source.unit_s


def equal_devices(bytes_per_s: float) -> Cluster:
    """Return four devices that hold everything."""
    apart = ~np.eye(4, dtype=np.bool_)
    return Cluster(
        spec="4 equal devices",
        devices=tuple(
            Device(
                name=f"device:{index}",
                kind="any",
                provider="none",
                index=index,
                host=0,
                memory_bytes=2**50,
                call_overhead_s=0.0,
            )
            for index in range(4)
        ),
        latency_s=np.where(apart, 10e-6, 0.0),
        bytes_per_s=np.where(apart, bytes_per_s, np.inf),
        host_latency_s=np.zeros(4),
        host_bytes_per_s=np.full(4, np.inf),
        contention="egress-ingress",
    )


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
        "to meet": case.target,
        "found": value,
        "ratio": value / case.target,
        "bound": lower_bound_s(problem, evaluator.tables) / unit_s,
        "evaluations": evaluator.evaluations,
        "core seconds": spent_s,
    }


if __name__ == "__main__":
    main()
