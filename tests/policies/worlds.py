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


def unrolled(num_layers: int, num_steps: int, *, num_devices: int = 4) -> Problem:
    """Return an unrolled recurrent net: cells of ten ops that read the cells below and before.

    Half of the time of a cell is its first op; a call costs twice as much as another op.
    """
    inputs: list[list[str]] = []
    outputs: list[list[str]] = []
    for step in range(num_steps):
        for layer in range(num_layers):
            below = f"h{layer - 1}.{step}" if layer else f"x{step}"
            before = [f"h{layer}.{step - 1}"] if step else []
            name = f"{layer}.{step}"
            inputs.append([below, *before])
            outputs.append([f"g{name}"])
            for gate in range(4):
                inputs.append([f"g{name}"])
                outputs.append([f"a{name}.{gate}"])
            for gate in range(4):
                inputs.append([f"a{name}.{gate}"])
                outputs.append([f"b{name}.{gate}"])
            inputs.append([f"b{name}.{gate}" for gate in range(4)])
            outputs.append([f"h{name}"])
    sizes = {name: 4096 for row in outputs for name in row}
    sizes |= {name: 65536 for name in sizes if name.startswith("h")}
    graph = make_graph(inputs, outputs, value_bytes=sizes)
    cluster = make_cluster(num_devices, overhead_s=20 * US, latency_s=20 * US, bytes_per_s=2e9)
    return make_problem(graph, cluster, [90 * US, *[10 * US] * 9] * (num_layers * num_steps))
