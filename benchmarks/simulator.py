"""How many ops a second each compiled machine model simulates, and how that grows with the graph.

Every pass judges another placement: random ones on four devices, of ops that read two of the fifty
before them, or on rising devices where blocks would wait in a circle. ``native`` and ``moirai``
have serial egress and ingress. ``score`` is ``Evaluator.score`` as policies call it; ``batch``
leaves Python only once for all placements, ``threads`` is how many times as fast
``Evaluator.scores`` is with a thread on each of two cores, by the clock. The reference is that of
tests/simulator, in plain Python. Other times are those of the one thread that simulates, without
what other programs take of its core; the memory that they share still tells, so that little else
should run meanwhile:

    python -m benchmarks.simulator --json simulator.json
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.figures import arguments, report
from dplace.cluster import Cluster
from dplace.lowering import Evaluator
from dplace.op_graph import OpGraph
from dplace.problem import Machine, Objective, Problem
from dplace.simulator.op_engine import OpEngine
from tests.random_problems import make_cluster, make_graph, make_problem
from tests.simulator.agreement import largest_load, outcome

NUM_DEVICES = 4
CASES: dict[str, tuple[Machine, Objective]] = {
    "native, parts": ("native", "latency"),
    "native, no calls": ("native", "latency"),
    "placeto": ("placeto", "latency"),
    "baechi": ("baechi", "latency"),
    "moirai": ("moirai", "latency"),
    "independent": ("independent", "latency"),
    "dnn-partitioning": ("dnn-partitioning", "latency"),
    "dnn-partitioning, throughput": ("dnn-partitioning", "throughput"),
    "moirai, throughput": ("moirai", "throughput"),
}
Edges = NDArray[np.int64]


def graph_of(num_ops: int, edges: Edges, rng: np.random.Generator) -> OpGraph:
    """Return a graph whose op ``i`` makes value ``i`` and reads those of its edges.

    Args:
        num_ops: How many ops there are.
        edges: Shape ``(num_edges, 2)``: the op that makes a value and one that reads it.
        rng: Where sizes come from.
    """
    edges = np.unique(edges, axis=0)
    by_reader = edges[np.lexsort((edges[:, 0], edges[:, 1]))]
    is_read = np.bincount(edges[:, 0], minlength=num_ops) > 0
    names = tuple(f"v{op}" for op in range(num_ops))
    ids = np.arange(num_ops + 1, dtype=np.int32)
    return replace(
        make_graph([], []),
        op_names=names,
        op_types=("Test",) * num_ops,
        op_flop=np.zeros(num_ops),
        op_bytes=np.zeros(num_ops),
        op_classes=("other",) * num_ops,
        op_dtypes=("float32",) * num_ops,
        op_launches=np.ones(num_ops, dtype=np.int32),
        value_names=names,
        value_producer=ids[:-1],
        value_bytes=rng.integers(0, 2**20, num_ops),
        value_movable=np.ones(num_ops, dtype=np.bool_),
        input_offsets=offsets(by_reader[:, 1], num_ops),
        input_values=by_reader[:, 0].astype(np.int32),
        output_offsets=ids,
        output_values=ids[:-1],
        consumer_offsets=offsets(edges[:, 0], num_ops),
        consumer_ops=edges[:, 1].astype(np.int32),
        graph_outputs=np.flatnonzero(~is_read).astype(np.int32),
        weight_offsets=np.zeros(num_ops + 1, dtype=np.int32),
        colocation=np.full(num_ops, -1, dtype=np.int32),
    )


def offsets(rows: NDArray[np.int64], num_rows: int) -> NDArray[np.int32]:
    """Return where each row begins in a list that is sorted by row."""
    counts = np.bincount(rows, minlength=num_rows)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def local_edges(num_ops: int, rng: np.random.Generator) -> Edges:
    """Return two edges into each op from the fifty before it."""
    readers = np.repeat(np.arange(1, num_ops), 2)
    back = rng.integers(1, np.minimum(readers, 50) + 1)
    return np.stack([readers - back, readers], axis=1)


def chain_edges(num_ops: int, rng: np.random.Generator) -> Edges:
    """Return a chain: each op reads the one before it."""
    return np.stack([np.arange(num_ops - 1), np.arange(1, num_ops)], axis=1)


def wide_edges(num_ops: int, rng: np.random.Generator) -> Edges:
    """Return layers as wide as they are many; each op reads two of the layer before."""
    width = int(num_ops**0.5)
    readers = np.repeat(np.arange(width, num_ops), 2)
    first = (readers // width - 1) * width
    return np.stack([first + rng.integers(0, width, len(readers)), readers], axis=1)


def problem_of(case: str, graph: OpGraph, rng: np.random.Generator) -> Problem:
    """Return a problem of a case, on devices with room for anything."""
    machine, objective = CASES[case]
    calls = case == "native, parts"
    cluster = make_cluster(
        NUM_DEVICES,
        overhead_s=50e-6 if calls else 0.0,
        latency_s=10e-6,
        bytes_per_s=10e9,
        host_latency_s=10e-6 if calls or machine == "dnn-partitioning" else 0.0,
        host_bytes_per_s=10e9 if calls or machine == "dnn-partitioning" else np.inf,
        memory_bytes=2**50,
        contention="egress-ingress",
    )
    seconds = rng.uniform(1e-6, 100e-6, graph.num_ops)
    problem = make_problem(graph, with_host(cluster), seconds)
    return replace(problem, machine=machine, objective=objective)


def with_host(cluster: Cluster) -> Cluster:
    """Return the cluster with a CPU for its first device."""
    first, *others = cluster.devices
    return replace(cluster, devices=(replace(first, kind="CPU"), *others))


def placements_of(case: str, count: int, num_ops: int, rng: np.random.Generator) -> Any:
    """Return distinct placements, shape ``(count, num_ops)``."""
    placements = rng.integers(0, NUM_DEVICES, (count, num_ops)).astype(np.int32)
    if case == "dnn-partitioning":
        for row in placements:  # cut at random places, for equal shares would all be alike
            cuts = np.sort(rng.integers(0, num_ops, NUM_DEVICES - 1))
            row[:] = np.searchsorted(cuts, np.arange(num_ops), side="right")
    return placements


def median_s(call: Callable[[], object], rounds: int) -> float:
    """Return the median time of a call after one that is not counted."""
    call()
    seconds = []
    for _ in range(rounds):
        start = time.thread_time()
        call()
        seconds.append(time.thread_time() - start)
    return statistics.median(seconds)


def clock_s(call: Callable[[], object]) -> float:
    """Return the shortest time of three calls by the clock, after one that is not counted."""
    call()
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def score_all(evaluator: Evaluator, placements: NDArray[np.int32]) -> None:
    """Judge every placement under the first rule."""
    for placement in placements:
        evaluator.score(placement)


def speed_row(case: str, num_ops: int, options: Any) -> dict[str, Any]:
    """Return the speeds of one case on graphs of one size."""
    rng = np.random.default_rng(num_ops)
    graph = graph_of(num_ops, local_edges(num_ops, rng), rng)
    problem = problem_of(case, graph, rng)
    evaluator = Evaluator(problem)
    count = max(4, options.ops_a_round // num_ops)
    placements = placements_of(case, count, num_ops, rng)
    score_s = median_s(partial(score_all, evaluator, placements), options.rounds) / count
    row = {"machine": case, "ops": num_ops, "us a placement": 1e6 * score_s}
    row["score, Mops/s"] = num_ops / score_s / 1e6
    many = [*placements] * 4
    clocks = [clock_s(partial(evaluator.scores, many, threads=count)) for count in (1, 2)]
    row["threads"] = clocks[0] / clocks[1]
    row["batch, Mops/s"] = row["reference, Mops/s"] = row["times faster"] = None
    engine = evaluator.engine
    if isinstance(engine, OpEngine):
        order = evaluator.mean_order
        batch_s = median_s(partial(engine.makespans, placements, order), options.rounds) / count
        row["batch, Mops/s"] = num_ops / batch_s / 1e6
    if num_ops <= options.reference_ops and case != "native, parts":
        first = placements[0].tolist()
        judge = largest_load if problem.objective == "throughput" else outcome
        start = time.thread_time()
        judge(problem, first)
        reference_s = time.thread_time() - start
        row["reference, Mops/s"] = num_ops / reference_s / 1e6
        row["times faster"] = round(reference_s / score_s)
    return row


def growth_row(case: str, shape: str, options: Any) -> dict[str, Any]:
    """Return the time an op takes on graphs of rising size."""
    row: dict[str, Any] = {"machine": case, "graph": shape}
    edges_of = {"chain": chain_edges, "wide": wide_edges}[shape]
    for num_ops in options.growth:
        rng = np.random.default_rng(num_ops)
        problem = problem_of(case, graph_of(num_ops, edges_of(num_ops, rng), rng), rng)
        evaluator = Evaluator(problem)
        count = max(1, 100_000 // num_ops)
        placements = placements_of(case, count, num_ops, rng)
        seconds = median_s(partial(score_all, evaluator, placements), 3)
        row[f"{num_ops:,} ops, ns/op"] = round(1e9 * seconds / count / num_ops)
    return row


def main() -> None:
    """Print both tables."""
    options = arguments(
        __doc__ or "",
        sizes=(300, 1_000, 3_000, 10_000),
        growth=(1_000, 10_000, 100_000, 1_000_000),
        reference_ops=1_000,
        ops_a_round=300_000,
        rounds=5,
    )
    growth = [growth_row(case, shape, options) for case in CASES for shape in ("chain", "wide")]
    report("Time of an op as graphs grow", growth, {}, None)
    rows = [speed_row(case, num_ops, options) for case in CASES for num_ops in options.sizes]
    summary = {"slowest, Mops/s": min(row["score, Mops/s"] for row in rows)}
    print()
    report("Ops simulated a second", rows, summary, options.json, details=[*rows, *growth])


if __name__ == "__main__":
    main()
