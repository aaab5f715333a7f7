"""From a lowered placement to the Plan record."""

import numpy as np

from dplace.cluster import Cluster
from dplace.graph_io.build import PlaceableModel
from dplace.graph_io.export import part_records, streamed_records, value_records
from dplace.graph_io.observe import index_limits
from dplace.graph_io.optimise import OptimisedModel
from dplace.graph_io.summary import interface, value_sizes
from dplace.plan.program import PartValues, part_names, part_ops, part_values, programs
from dplace.plan.records import Plan, PlannedDevice, PlannedLinks
from dplace.plan.session_memory import peak_with_sessions
from dplace.problem import Problem
from dplace.simulator.streamed import room_bytes
from dplace.simulator.timeline import Lowered, Timeline

__all__ = ["make_plan"]


def make_plan(
    placeable: PlaceableModel,
    optimised: OptimisedModel,
    problem: Problem,
    lowered: Lowered,
    timeline: Timeline,
    *,
    policy: str,
    comm_order: str,
    bound_s: float,
    best_single_device_s: float,
    dims: dict[str, int],
    runtime: dict[str, str],
) -> tuple[Plan, list[PartValues]]:
    """Return the plan of a lowered placement, its files still unwritten.

    Args:
        policy: Name of the policy that decided.
        comm_order: Name of the order that gave the priorities of transfers.
        dims: Sizes that dynamic dimensions were bound to.
        runtime: What a ``native`` plan is bound to, see ``dplace.runtime.devices``.

    Returns:
        The plan, and what crosses the border of each part.
    """
    graph, cluster = problem.graph, problem.cluster
    device_names = tuple(device.name for device in cluster.devices)
    names = part_names(lowered, device_names)
    crossing = part_values(graph, lowered)
    steps = programs(problem, lowered, crossing, names, device_names)
    original = optimised.original
    inputs, outputs, overridable = interface(original, placeable.observed.types, value_sizes(graph))
    fed = {value.name for value in original.ir.graph.inputs if not value.is_initializer()}
    streamed = set(problem.streamed.tolist())
    moved = sorted({value for part in crossing for value in part.inputs} - streamed)
    room = room_bytes(problem, lowered.placement)
    peak = peak_with_sessions(problem, lowered, timeline)
    seconds = [
        float(problem.seconds[part_ops(lowered, part), lowered.part_device[part]].sum())
        for part in range(lowered.num_parts)
    ]
    counts = np.bincount(lowered.placement, minlength=cluster.num_devices)
    plan = Plan(
        model=original.name,
        model_digest=original.digest,
        cluster=cluster.spec,
        objective=problem.objective,
        policy=policy,
        optimize=optimised.mode,
        opt_level=optimised.opt_level,
        exact=optimised.exact,
        runtime=runtime,
        makespan_s=float(timeline.makespan_s),
        bottleneck_s=float(timeline.bottleneck_s),
        bound_s=bound_s,
        best_single_device_s=best_single_device_s,
        inputs=inputs,
        outputs=outputs,
        overridable=overridable,
        passthrough=tuple(
            (value.name, value.name) for value in dict.fromkeys(outputs) if value.name in fed
        ),
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
                num_ops=int(counts[index]),
                weight_bytes=int(timeline.weight_bytes[index]),
                peak_bytes=int(peak[index]),
                busy_s=float(timeline.busy_s[index]),
                program=steps[index],
                buffer_bytes=int(room[index]),
            )
            for index, device in enumerate(cluster.devices)
        ),
        parts=part_records(
            placeable,
            lowered,
            crossing,
            names=names,
            device_names=device_names,
            seconds=seconds,
        ),
        values=value_records(placeable, moved),
        links=_links(cluster),
        dims=dims,
        index_limits=index_limits(original.ir),
        comm_order=comm_order,
        streamed=streamed_records(placeable, problem),
    )
    return plan, crossing


def _links(cluster: Cluster) -> PlannedLinks:
    return PlannedLinks(
        latency_s=tuple(tuple(row) for row in cluster.latency_s.tolist()),
        bytes_per_s=tuple(tuple(row) for row in cluster.bytes_per_s.tolist()),
        host_latency_s=tuple(cluster.host_latency_s.tolist()),
        host_bytes_per_s=tuple(cluster.host_bytes_per_s.tolist()),
        contention=cluster.contention,
    )
