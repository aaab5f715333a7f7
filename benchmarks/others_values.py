"""Graphs that others measured, as they are placed, and the best values known for them.

The files are those of ``benchmarks/others_graphs.py``. Values are in the files' units: what a plain
annealer found in 16 to 60 s, or the least that was published.
"""

import dataclasses
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dplace.cluster import Cluster, Device
from dplace.graph_io.cost_graphs import cost_problem, read_cost_graph
from dplace.problem import Objective, Problem

__all__ = ["CASES", "Case", "problem_of"]

THROUGHPUT, LATENCY = "dnn-partitioning/throughput-inputs", "dnn-partitioning/latency-inputs"


class Case(NamedTuple):
    """A graph, how it is judged, and the best value known, in the file's units."""

    name: str
    file: str
    best: float
    objective: Objective = "latency"
    bytes_per_s: float = 0.0
    """Between four equal devices; 0 for the file's own devices."""
    is_free: bool = False
    """Whether links carry any number of transfers at a time."""


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
