"""Plans of random problems, without any files: what the lowering of a placement becomes."""

import numpy as np

from dplace.plan.program import part_names, part_ops, part_values, programs
from dplace.plan.records import (
    HOST,
    Part,
    Plan,
    PlannedDevice,
    PlannedLinks,
    StreamedWeight,
    ValueType,
)
from dplace.problem import Problem
from dplace.simulator.streamed import homes_of, room_bytes
from dplace.simulator.timeline import Lowered, Timeline


def plan_of(problem: Problem, lowered: Lowered, timeline: Timeline) -> Plan:
    """Return the plan of a lowered placement."""
    graph, cluster = problem.graph, problem.cluster
    device_names = tuple(device.name for device in cluster.devices)
    names = part_names(lowered, device_names)
    crossing = part_values(graph, lowered)
    steps = programs(problem, lowered, crossing, names, device_names)
    room = room_bytes(problem, lowered.placement)
    homes = homes_of(problem)

    def value(index: int) -> ValueType:
        return ValueType(
            name=graph.value_names[index],
            type="tensor(float)",
            shape=None,
            size_bytes=int(graph.value_bytes[index]),
        )

    def of_part(part: int) -> Part:
        device = int(lowered.part_device[part])
        seconds = problem.seconds[part_ops(lowered, part), device]
        return Part(
            name=names[part],
            file=f"parts/{names[part]}.onnx",
            device=device_names[device],
            inputs=tuple(graph.value_names[value] for value in crossing[part].inputs),
            outputs=tuple(graph.value_names[value] for value in crossing[part].outputs),
            overridable=(),
            digest="",
            weights_file=None,
            weights_digest=None,
            num_ops=len(seconds),
            # One after another, as on the clock: sum() may add in another order.
            predicted_s=float(np.cumsum(seconds)[-1]),
        )

    streamed = problem.streamed.tolist()
    return Plan(
        model="m",
        model_digest="",
        cluster=cluster.spec,
        objective="latency",
        policy="given",
        optimize="native",
        opt_level="all",
        exact=True,
        runtime={},
        makespan_s=timeline.makespan_s,
        bottleneck_s=timeline.bottleneck_s,
        bound_s=0.0,
        best_single_device_s=0.0,
        inputs=tuple(value(index) for index in graph.graph_inputs.tolist()),
        outputs=tuple(value(index) for index in graph.graph_outputs.tolist()),
        overridable=(),
        passthrough=(),
        devices=tuple(
            PlannedDevice(
                name=device.name,
                kind=device.kind,
                provider=device.provider,
                index=device.index,
                host=device.host,
                memory_bytes=device.memory_bytes,
                call_overhead_s=device.call_overhead_s,
                single_call_overhead_s=device.single_call_overhead_s,
                num_ops=0,
                weight_bytes=0,
                peak_bytes=0,
                busy_s=0.0,
                program=steps[index],
                buffer_bytes=int(room[index]),
            )
            for index, device in enumerate(cluster.devices)
        ),
        parts=tuple(of_part(part) for part in range(lowered.num_parts)),
        values=tuple(
            value(index)
            for index in sorted({index for part in crossing for index in part.inputs})
            if index not in streamed
        ),
        links=PlannedLinks(
            latency_s=tuple(tuple(row) for row in cluster.latency_s.tolist()),
            bytes_per_s=tuple(tuple(row) for row in cluster.bytes_per_s.tolist()),
            host_latency_s=tuple(cluster.host_latency_s.tolist()),
            host_bytes_per_s=tuple(cluster.host_bytes_per_s.tolist()),
            contention=cluster.contention,
        ),
        dims={},
        index_limits={},
        streamed=tuple(
            StreamedWeight(
                name=graph.value_names[index],
                type="tensor(float)",
                shape=(),
                size_bytes=int(graph.value_bytes[index]),
                home=HOST if homes[index] < 0 else device_names[homes[index]],
                file="parts/weights",
                offset=0,
                digest="",
            )
            for index in streamed
        ),
    )
