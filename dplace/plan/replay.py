"""Predict anew what a plan takes, from the plan alone."""

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.cluster import Cluster, Device
from dplace.plan.records import HOST, Plan, PlannedDevice

if TYPE_CHECKING:  # dplace.simulator brings numba along
    from dplace.simulator.replay import PartTimes

__all__ = ["Replay", "planned_cluster", "replay_plan"]


class Replay(NamedTuple):
    """What a plan is predicted to take; times in seconds."""

    makespan_s: float
    bottleneck_s: float
    devices: tuple[PlannedDevice, ...]
    """With how long each is busy."""
    times: "PartTimes"
    """Of the plan's parts, in its order, and of ``transfers``."""
    transfers: tuple[tuple[str, str, str], ...]
    """Value, source and target of each: first those between devices, then the copies of streamed
    weights, whose source is ``host``."""


def replay_plan(plan: Plan) -> Replay:
    """Return what a plan is predicted to take, by what is written in it.

    Raises:
        PlanError: Some part waits for a value that never comes.
    """
    from dplace.simulator.part_graph import PartGraph
    from dplace.simulator.replay import simulate_parts

    devices = {device.name: index for index, device in enumerate(plan.devices)}
    sizes = {value.name: value.size_bytes for value in (*plan.inputs, *plan.outputs)}
    sizes.update((value.name, value.size_bytes) for value in plan.values)
    for weight in plan.streamed:  # behind all others, in their order
        sizes.pop(weight.name, None)
        sizes[weight.name] = weight.size_bytes
    names = list(sizes)
    values = {name: index for index, name in enumerate(names)}
    homes = {weight.name: weight.home for weight in plan.streamed}
    inputs = _rows(
        [
            [values[name] for name in part.inputs if homes.get(name) != part.device]
            for part in plan.parts
        ]
    )
    outputs = _rows([[values[name] for name in part.outputs] for part in plan.parts])
    sends = [
        (values[step.subject], source, devices[step.peer], step.priority)
        for source, device in enumerate(plan.devices)
        for step in device.program
        if step.action == "send" and step.peer is not None
    ]
    copies = [
        (values[step.subject], target, step.priority)
        for target, device in enumerate(plan.devices)
        for step in device.program
        if step.action == "receive" and step.peer == HOST
    ]
    made = {name for part in plan.parts for name in part.outputs}
    times = simulate_parts(
        PartGraph(
            part_device=_ids(devices[part.device] for part in plan.parts),
            part_seconds=np.array([part.predicted_s for part in plan.parts], dtype=np.float64),
            input_offsets=inputs[0],
            input_values=inputs[1],
            output_offsets=outputs[0],
            output_values=outputs[1],
            value_bytes=np.array(list(sizes.values()), dtype=np.int64),
            graph_inputs=_ids(values[value.name] for value in plan.inputs),
            graph_outputs=_ids(
                values[name]
                for name in dict.fromkeys(value.name for value in plan.outputs)
                if name in made
            ),
            transfer_value=_ids(value for value, _, _, _ in sends),
            transfer_source=_ids(source for _, source, _, _ in sends),
            transfer_target=_ids(target for _, _, target, _ in sends),
            transfer_priority=_ids(priority for _, _, _, priority in sends),
            streamed=_ids(values[name] for name in homes),
            copy_value=_ids(value for value, _, _ in copies),
            copy_target=_ids(target for _, target, _ in copies),
            copy_priority=_ids(priority for _, _, priority in copies),
            buffer_bytes=np.array([it.buffer_bytes for it in plan.devices], dtype=np.int64),
        ),
        planned_cluster(plan),
    )
    return Replay(
        times.makespan_s,
        times.bottleneck_s,
        tuple(
            dataclasses.replace(device, busy_s=float(times.busy_s[index]))
            for index, device in enumerate(plan.devices)
        ),
        times,
        (
            *(
                (names[value], plan.devices[source].name, plan.devices[target].name)
                for value, source, target, _ in sends
            ),
            *((names[value], HOST, plan.devices[target].name) for value, target, _ in copies),
        ),
    )


def planned_cluster(plan: Plan) -> Cluster:
    """Return the cluster that a plan was made for, as the plan holds it."""
    return Cluster(
        spec=plan.cluster,
        devices=tuple(
            Device(
                name=device.name,
                kind=device.kind,
                provider=device.provider,
                index=device.index,
                host=device.host,
                memory_bytes=device.memory_bytes,
                call_overhead_s=device.call_overhead_s,
                single_call_overhead_s=device.single_call_overhead_s,
            )
            for device in plan.devices
        ),
        latency_s=np.array(plan.links.latency_s, dtype=np.float64),
        bytes_per_s=np.array(plan.links.bytes_per_s, dtype=np.float64),
        host_latency_s=np.array(plan.links.host_latency_s, dtype=np.float64),
        host_bytes_per_s=np.array(plan.links.host_bytes_per_s, dtype=np.float64),
        contention=plan.links.contention,
    )


def _ids(items: Iterable[int]) -> NDArray[np.int32]:
    return np.array(list(items), dtype=np.int32)


def _rows(rows: list[list[int]]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    offsets = np.zeros(len(rows) + 1, dtype=np.int32)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    return offsets, _ids(item for row in rows for item in row)
