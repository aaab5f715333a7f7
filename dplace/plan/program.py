"""From lowered parts to each device's program and to what crosses between parts."""

from dataclasses import dataclass

import numpy as np

from dplace.op_graph import OpGraph
from dplace.plan.records import Step
from dplace.simulator.timeline import Lowered

__all__ = ["PartValues", "part_names", "part_values", "programs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartValues:
    """Ids of the values that a part reads from outside and that others need of it."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def part_names(lowered: Lowered, device_names: tuple[str, ...]) -> list[str]:
    """Return a name for each part that is also a plain file name: ``cpu-0-003``."""
    counts = dict.fromkeys(range(len(device_names)), 0)
    names: list[str] = []
    for device in lowered.part_device.tolist():
        names.append(f"{device_names[device].replace(':', '-')}-{counts[device]:03d}")
        counts[device] += 1
    return names


def part_values(graph: OpGraph, lowered: Lowered) -> list[PartValues]:
    """Return what crosses the border of each part."""
    returned = np.zeros(graph.num_values, dtype=bool)
    returned[graph.graph_outputs] = True
    part_of_op = lowered.part_of_op
    found: list[PartValues] = []
    for part in range(lowered.num_parts):
        inputs: dict[int, None] = {}
        outputs: list[int] = []
        for op in part_ops(lowered, part):
            for value in graph.inputs_of(op).tolist():
                producer = graph.value_producer[value]
                if producer < 0 or part_of_op[producer] != part:
                    inputs[value] = None
            for value in graph.outputs_of(op).tolist():
                consumers = graph.consumers_of(value)
                if returned[value] or np.any(part_of_op[consumers] != part):
                    outputs.append(value)
        found.append(PartValues(inputs=tuple(inputs), outputs=tuple(outputs)))
    return found


def part_ops(lowered: Lowered, part: int) -> list[int]:
    """Return the ops of ``part`` in the order they run."""
    first, last = lowered.part_offsets[part], lowered.part_offsets[part + 1]
    ops: list[int] = lowered.part_ops[first:last].tolist()
    return ops


def programs(
    graph: OpGraph,
    lowered: Lowered,
    values: list[PartValues],
    names: list[str],
    device_names: tuple[str, ...],
) -> list[tuple[Step, ...]]:
    """Return what each device does, in order: receive what a part reads, run it, send."""
    arriving: dict[tuple[int, int], tuple[int, int]] = {}
    leaving: list[list[tuple[int, int, int]]] = [[] for _ in range(lowered.num_parts)]
    for priority in range(lowered.num_transfers):
        value = int(lowered.transfer_value[priority])
        target = int(lowered.transfer_target[priority])
        arriving[value, target] = (priority, int(lowered.transfer_source[priority]))
        maker = int(lowered.part_of_op[graph.value_producer[value]])
        leaving[maker].append((priority, value, target))
    steps: list[list[Step]] = [[] for _ in device_names]
    for part in range(lowered.num_parts):
        device = int(lowered.part_device[part])
        receives = sorted(
            (*arriving.pop((value, device)), value)
            for value in values[part].inputs
            if (value, device) in arriving
        )
        program = steps[device]
        program.extend(
            Step(
                action="receive",
                subject=graph.value_names[value],
                peer=device_names[source],
                size_bytes=int(graph.value_bytes[value]),
                priority=priority,
            )
            for priority, source, value in receives
        )
        program.append(Step(action="run", subject=names[part]))
        program.extend(
            Step(
                action="send",
                subject=graph.value_names[value],
                peer=device_names[target],
                size_bytes=int(graph.value_bytes[value]),
                priority=priority,
            )
            for priority, value, target in leaving[part]
        )
    return [tuple(program) for program in steps]
