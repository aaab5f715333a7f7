"""Small worlds for tests: problems written by hand or drawn at random.

Times and sizes are sums of powers of two, so that sums come out exact in any order and ties,
where rules meet, are common.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dplace.cluster import Cluster, Contention, Device
from dplace.op_graph import OpGraph
from dplace.problem import Problem

TICK = 2.0**-20
"""About a microsecond, exact in binary."""


def make_graph(
    inputs: Sequence[Sequence[str]],
    outputs: Sequence[Sequence[str]],
    *,
    value_bytes: dict[str, int] | None = None,
    graph_outputs: Sequence[str] | None = None,
    weights: Sequence[Sequence[str]] | None = None,
    weight_bytes: dict[str, int] | None = None,
    colocation: Sequence[int] | None = None,
) -> OpGraph:
    """Return a graph from the names of the values that each op reads and writes.

    Values that no op writes are the graph's inputs. By default values that no op reads are its
    outputs, and all sizes are 0.
    """
    num_ops = len(inputs)
    names = list(dict.fromkeys(n for op in range(num_ops) for n in (*inputs[op], *outputs[op])))
    value_of = {name: value for value, name in enumerate(names)}
    producer = np.full(len(names), -1, dtype=np.int32)
    readers: list[list[int]] = [[] for _ in names]
    for op in range(num_ops):
        for name in outputs[op]:
            producer[value_of[name]] = op
        for name in dict.fromkeys(inputs[op]):
            readers[value_of[name]].append(op)
    if graph_outputs is None:
        graph_outputs = [
            n for n in names if not readers[value_of[n]] and producer[value_of[n]] >= 0
        ]
    weights = weights or [[] for _ in range(num_ops)]
    weight_names = list(dict.fromkeys(name for row in weights for name in row))
    input_offsets, input_values = compress(
        [[value_of[n] for n in dict.fromkeys(row)] for row in inputs]
    )
    output_offsets, output_values = compress([[value_of[n] for n in row] for row in outputs])
    consumer_offsets, consumer_ops = compress(readers)
    weight_offsets, op_weights = compress([[weight_names.index(n) for n in row] for row in weights])
    return OpGraph(
        name="test",
        op_names=tuple(outputs[op][0] if outputs[op] else f"op{op}" for op in range(num_ops)),
        op_types=("Test",) * num_ops,
        op_flop=np.zeros(num_ops),
        op_bytes=np.zeros(num_ops),
        op_classes=("other",) * num_ops,
        op_dtypes=("float32",) * num_ops,
        op_launches=np.ones(num_ops, dtype=np.int32),
        value_names=tuple(names),
        value_producer=producer,
        value_bytes=np.array([(value_bytes or {}).get(n, 0) for n in names], dtype=np.int64),
        value_movable=np.ones(len(names), dtype=np.bool_),
        input_offsets=input_offsets,
        input_values=input_values,
        output_offsets=output_offsets,
        output_values=output_values,
        consumer_offsets=consumer_offsets,
        consumer_ops=consumer_ops,
        graph_inputs=np.flatnonzero(producer < 0).astype(np.int32),
        graph_outputs=np.array([value_of[n] for n in graph_outputs], dtype=np.int32),
        weight_names=tuple(weight_names),
        weight_bytes=np.array([(weight_bytes or {}).get(n, 0) for n in weight_names], np.int64),
        weight_offsets=weight_offsets,
        op_weights=op_weights,
        colocation=np.array(colocation or [-1] * num_ops, dtype=np.int32),
    )


def compress(rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return rows as offsets and items."""
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
    return offsets, np.array([item for row in rows for item in row], dtype=np.int32)


def make_cluster(
    num_devices: int,
    *,
    overhead_s: float = 0.0,
    single_s: float | None = None,
    latency_s: float = 0.0,
    bytes_per_s: float = np.inf,
    host_latency_s: float = 0.0,
    host_bytes_per_s: float = np.inf,
    memory_bytes: int | Sequence[int] = 2**40,
    contention: Contention = "link",
) -> Cluster:
    """Return equal devices, with the same link between any two."""
    memories = [memory_bytes] * num_devices if isinstance(memory_bytes, int) else memory_bytes
    apart = 1.0 - np.eye(num_devices)
    return Cluster(
        spec=f"{num_devices}xTEST",
        devices=tuple(
            Device(
                name=f"test:{index}",
                kind="TEST",
                provider="CPUExecutionProvider",
                index=index,
                host=0,
                memory_bytes=memories[index],
                call_overhead_s=overhead_s,
                single_call_overhead_s=single_s,
            )
            for index in range(num_devices)
        ),
        latency_s=latency_s * apart,
        bytes_per_s=np.where(apart > 0, bytes_per_s, np.inf),
        host_latency_s=np.full(num_devices, host_latency_s),
        host_bytes_per_s=np.full(num_devices, host_bytes_per_s),
        contention=contention,
    )


def make_problem(
    graph: OpGraph,
    cluster: Cluster,
    seconds: Sequence[float] | NDArray[np.float64],
    *,
    pins: Sequence[int] | None = None,
) -> Problem:
    """Return a problem; a flat list of seconds holds on every device."""
    times = np.asarray(seconds, dtype=np.float64)
    if times.ndim == 1:
        times = np.repeat(times[:, None], cluster.num_devices, axis=1)
    return Problem(
        graph=graph,
        cluster=cluster,
        seconds=times,
        measured=np.zeros(times.shape, dtype=np.bool_),
        pins=np.array(pins if pins is not None else [-1] * graph.num_ops, dtype=np.int32),
    )


def stream(
    problem: Problem, homes: dict[str, int], *, buffer_bytes: Sequence[int] | None = None
) -> Problem:
    """Return the problem with some weights streamed; ``homes`` has a device of each, -1 the host.

    They become values behind the others, of the same names.
    """
    graph = problem.graph
    lifted = [graph.weight_names.index(name) for name in homes]
    value_of = {weight: graph.num_values + at for at, weight in enumerate(lifted)}
    rows = [graph.weights_of(op).tolist() for op in range(graph.num_ops)]
    inputs = compress(
        [
            [*graph.inputs_of(op).tolist(), *(value_of[w] for w in row if w in value_of)]
            for op, row in enumerate(rows)
        ]
    )
    consumers = compress(
        [graph.consumers_of(value).tolist() for value in range(graph.num_values)]
        + [[op for op, row in enumerate(rows) if weight in row] for weight in lifted]
    )
    kept = compress([[w for w in row if w not in value_of] for row in rows])
    streamed = replace(
        graph,
        value_names=(*graph.value_names, *homes),
        value_producer=np.append(graph.value_producer, [-1] * len(lifted)).astype(np.int32),
        value_bytes=np.append(graph.value_bytes, graph.weight_bytes[lifted]),
        value_movable=np.append(graph.value_movable, [True] * len(lifted)),
        input_offsets=inputs[0],
        input_values=inputs[1],
        consumer_offsets=consumers[0],
        consumer_ops=consumers[1],
        weight_offsets=kept[0],
        op_weights=kept[1],
    )
    at_home = np.append(np.full(graph.num_values, -1), list(homes.values())).astype(np.int32)
    room = None if buffer_bytes is None else np.array(buffer_bytes, dtype=np.int64)
    return replace(problem, graph=streamed, value_home=at_home, buffer_bytes=room)


def random_graph(
    rng: np.random.Generator,
    num_ops: int,
    *,
    max_inputs: int = 3,
    window: int | None = None,
    max_kib: int = 8,
) -> OpGraph:
    """Return a graph in which each op reads values of the ``window`` ops before it.

    Some ops have no input, two outputs, or share a weight; some values are empty.
    """
    inputs: list[list[str]] = []
    outputs: list[list[str]] = []
    known = ["x0", "x1"]
    for op in range(num_ops):
        near = known if window is None else known[-window:]
        count = min(int(rng.integers(0 if op % 7 == 3 else 1, max_inputs + 1)), len(near))
        inputs.append([near[index] for index in rng.choice(len(near), count, replace=False)])
        outputs.append([f"v{op}"] + ([f"w{op}"] if rng.random() < 0.15 else []))
        known += outputs[-1]
    written = [name for row in outputs for name in row]
    read = {name for row in inputs for name in row}
    ends = [name for name in written if name not in read or rng.random() < 0.05]
    names = list(dict.fromkeys(name for row in (*inputs, *outputs) for name in row))
    return make_graph(
        inputs,
        outputs,
        value_bytes={name: 1024 * int(rng.integers(0, max_kib + 1)) for name in names},
        graph_outputs=ends[: max(1, len(ends))],
        weights=[[f"t{rng.integers(num_ops)}"] if rng.random() < 0.5 else [] for _ in inputs],
        weight_bytes={f"t{op}": 1024 * int(rng.integers(1, 9)) for op in range(num_ops)},
    )


def random_problem(
    rng: np.random.Generator,
    num_ops: int,
    num_devices: int,
    *,
    contention: Contention = "link",
    unlike: bool = False,
    max_ticks: int = 64,
    overhead_ticks: int = 8,
    single_ticks: int | None = None,
    window: int | None = None,
    max_kib: int = 8,
) -> Problem:
    """Return a random graph on equal devices, or with ``unlike`` on devices of other speeds.

    Ops take 0 to ``max_ticks`` ticks, a call ``overhead_ticks``, or ``single_ticks`` where one
    device has all ops, a transfer 4 and 1 for each KiB.
    """
    graph = random_graph(rng, num_ops, window=window, max_kib=max_kib)
    cluster = make_cluster(
        num_devices,
        overhead_s=overhead_ticks * TICK,
        single_s=None if single_ticks is None else single_ticks * TICK,
        latency_s=4 * TICK,
        bytes_per_s=1024 / TICK,
        host_latency_s=2 * TICK if unlike else 0.0,
        host_bytes_per_s=2048 / TICK if unlike else np.inf,
        contention=contention,
    )
    seconds = rng.integers(0, max_ticks + 1, num_ops)[:, None] * TICK
    speed = 2.0 ** rng.integers(0, 3, num_devices) if unlike else np.ones(num_devices)
    return make_problem(graph, cluster, seconds * speed)
