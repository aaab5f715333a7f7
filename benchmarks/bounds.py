"""Lower bounds beside the best values known, on graphs whose costs others measured.

The files are those of ``benchmarks/others_graphs.py`` and lie under ``--graphs``. Best values are
what a plain annealer found in 16 to 60 s, or the least that was published, in the files' units.
*path, work* is the better of the longest path and the work alone, *bound* the best of all arguments
of ``dplace/bounds/best.py``, *gap* how far the best value known is above it.

Run: ``python -m benchmarks.bounds --graphs DIR``
"""

import dataclasses
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.figures import arguments, report
from dplace.bounds import best_bound, bounds_by_argument
from dplace.cluster import Cluster, Contention, Device
from dplace.graph_io.cost_graphs import cost_problem, read_cost_graph
from dplace.problem import Objective, Problem
from dplace.simulator.tables import tabulate


class Known(NamedTuple):
    """A graph as it is placed, and the best value known, in the file's units."""

    file: str
    best: float
    objective: Objective = "latency"
    links: str = ""
    """``free`` or ``serial`` for the file's devices, GB/s between four equal ones, or as in the
    file."""


LATENCY, THROUGHPUT = "dnn-partitioning/latency-inputs", "dnn-partitioning/throughput-inputs"
SERIAL, FREE = "serial", "free"
STREAM: Objective = "throughput"

KNOWN = (
    Known("moirai/GoogLeNet.xls", 1.3125, links=SERIAL),
    Known("moirai/transformer.xls", 21.043, links=SERIAL),
    Known("moirai/GoogLeNet.xls", 1.2452, links=FREE),
    Known("moirai/transformer.xls", 17.870, links=FREE),
    Known(f"{THROUGHPUT}/LayerGraphs/bert24_inference.json", 17.715, STREAM),
    Known(f"{THROUGHPUT}/LayerGraphs/bert24_training.json", 39.790, STREAM),
    Known(f"{THROUGHPUT}/LayerGraphs/gnmt_inference.json", 31.687, STREAM),
    Known(f"{THROUGHPUT}/LayerGraphs/inceptionv3_inference.json", 51.455, STREAM),
    Known(f"{THROUGHPUT}/LayerGraphs/resnet50_inference.json", 33.437, STREAM),
    Known(f"{THROUGHPUT}/LayerGraphs/resnet50_training.json", 76.857, STREAM),
    Known(f"{THROUGHPUT}/OperatorGraphs/bert_l-3_inference.json", 21.908, STREAM),
    Known(f"{THROUGHPUT}/OperatorGraphs/bert_l-3_training.json", 54.207, STREAM),
    Known(f"{THROUGHPUT}/OperatorGraphs/bert_l-12_inference.json", 130.04, STREAM),
    Known(f"{THROUGHPUT}/OperatorGraphs/resnet50_inference.json", 124.35, STREAM),
    Known(f"{THROUGHPUT}/OperatorGraphs/resnet50_training.json", 255.19, STREAM),
    Known(f"{LATENCY}/LayerGraphs/bert24_inference.json", 100.22),
    Known(f"{LATENCY}/LayerGraphs/inceptionv3_inference.json", 1203.2),
    Known(f"{LATENCY}/LayerGraphs/resnet50_inference.json", 1156.9),
    Known(f"{LATENCY}/OperatorGraphs/bert_l-3_inference.json", 408.47),
    Known(f"{LATENCY}/OperatorGraphs/bert_l-6_inference.json", 438.06),
    Known(f"{LATENCY}/OperatorGraphs/resnet50_inference.json", 651.12),
    Known("pipedream/nasnetalarge.txt", 254.1, links="1.25"),
    Known("pipedream/nasnetalarge.txt", 144.4, links="12"),
    Known("pipedream/inception_v3.txt", 307.5, links="1.25"),
    Known("pipedream/inception_v3.txt", 240.6, links="12"),
    Known("pipedream/squeezenet1_0.txt", 587.88, links="1.25"),
    Known("pipedream/squeezenet1_0.txt", 587.88, links="12"),
)


def main() -> None:
    """Print the table; end with 1 if a bound is above a value that was reached."""
    options = arguments(__doc__ or "", graphs=Path())
    rows: list[dict[str, Any]] = []
    for known in KNOWN:
        problem, unit_s = problem_of(options.graphs, known)
        tables = tabulate(problem)
        each = bounds_by_argument(problem, tables)  # compiles
        start = time.perf_counter()
        bound = best_bound(problem, tables)
        milliseconds = (time.perf_counter() - start) * 1e3
        simple_s = max(each.get("path", 0.0), each.get("work", 0.0))
        rows.append(
            {
                "graph": known.file.removeprefix("dnn-partitioning/").removesuffix(".json"),
                "links": known.links or None,
                "path, work": simple_s / unit_s,
                "bound": bound.seconds / unit_s,
                "by": bound.argument,
                "best known": known.best,
                "gap": f"{known.best / (bound.seconds / unit_s) - 1:.1%}",
                "ms": f"{milliseconds:.0f}",
            }
        )
    # Values are given to five digits.
    wrong = sum(row["bound"] > row["best known"] * (1 + 1e-4) for row in rows)
    summary = {"graphs": len(rows), "bounds above a known value": wrong}
    report("Lower bounds, in the files' units", rows, summary, options.json)
    raise SystemExit(min(wrong, 1))


def problem_of(folder: Path, known: Known) -> tuple[Problem, float]:
    """Return a graph as it is placed, and the seconds of its unit."""
    is_text = known.file.startswith("pipedream/")
    source = read_cost_graph(folder / known.file, "pipedream" if is_text else None)
    if is_text:
        return cost_problem(source, four_equal(float(known.links) * 1e9)), source.unit_s
    problem = cost_problem(source, objective=known.objective)
    if known.links:
        contention: Contention = "none" if known.links == FREE else "egress-ingress"
        cluster = dataclasses.replace(problem.cluster, contention=contention)
        problem = dataclasses.replace(problem, cluster=cluster)
    return problem, source.unit_s


def four_equal(bytes_per_s: float) -> Cluster:
    """Return four devices with 10 us and a bandwidth between any two."""
    apart = 1.0 - np.eye(4)
    devices = tuple(
        Device(
            name=f"device:{index}",
            kind="ANY",
            provider="CPUExecutionProvider",
            index=index,
            host=0,
            memory_bytes=2**56,
            call_overhead_s=0.0,
        )
        for index in range(4)
    )
    return Cluster(
        spec="4 equal devices",
        devices=devices,
        latency_s=1e-5 * apart,
        bytes_per_s=np.where(apart > 0, bytes_per_s, np.inf),
        host_latency_s=np.zeros(4),
        host_bytes_per_s=np.full(4, np.inf),
        contention="egress-ingress",
    )


if __name__ == "__main__":
    main()
