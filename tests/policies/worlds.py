"""Problems that policies are asked, like those that models pose."""

from dplace.problem import Problem
from tests.random_problems import make_cluster, make_graph, make_problem

US = 1e-6


def branchy(num_blocks: int = 4, *, num_devices: int = 2, op_s: float = 20 * US) -> Problem:
    """Return blocks of four branches of short ops, as in Inception, on CPUs.

    A branch has 5 ops, the fourth branch 9; a call costs two ops, a transfer two ops.
    """
    inputs: list[list[str]] = [["x"]]
    outputs: list[list[str]] = [["y0"]]
    for block in range(num_blocks):
        ends: list[str] = []
        for branch in range(4):
            last = f"y{block}"
            for step in range(5 if branch < 3 else 9):
                inputs.append([last])
                last = f"b{block}.{branch}.{step}"
                outputs.append([last])
            ends.append(last)
        inputs.append(ends)
        outputs.append([f"y{block + 1}"])
    graph = make_graph(inputs, outputs)
    cluster = make_cluster(num_devices, overhead_s=40 * US, latency_s=40 * US)
    return make_problem(graph, cluster, [op_s] * graph.num_ops)


def two_towers(depth: int = 20) -> Problem:
    """Return two chains and an op that joins them, on two devices."""
    inputs = [[f"{tower}{step}"] for step in range(depth) for tower in "ab"]
    outputs = [[f"{tower}{step + 1}"] for step in range(depth) for tower in "ab"]
    graph = make_graph([*inputs, [f"a{depth}", f"b{depth}"]], [*outputs, ["y"]])
    cluster = make_cluster(2, overhead_s=1.0, latency_s=1.0)
    return make_problem(graph, cluster, [1.0] * graph.num_ops)


def heavy_chain(num_ops: int, memory_bytes: int | list[int], num_devices: int = 3) -> Problem:
    """Return a chain whose ops have a weight of 100 bytes each and make values of 10 bytes."""
    names = ["x", *(f"v{op}" for op in range(num_ops))]
    graph = make_graph(
        [[name] for name in names[:-1]],
        [[name] for name in names[1:]],
        value_bytes=dict.fromkeys(names, 10),
        weights=[[f"w{op}"] for op in range(num_ops)],
        weight_bytes={f"w{op}": 100 for op in range(num_ops)},
    )
    cluster = make_cluster(num_devices, overhead_s=1.0, latency_s=1.0, memory_bytes=memory_bytes)
    return make_problem(graph, cluster, [1.0] * num_ops)
