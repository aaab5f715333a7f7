"""Parts that are given, as the clock reads them: see ``replay.py``."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dplace.problem import Problem
from dplace.simulator.streamed import homes_of, room_bytes
from dplace.simulator.timeline import Lowered, Timeline

__all__ = ["PartGraph", "part_graph", "starts_late"]

Int = NDArray[np.int32]
Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartGraph:
    """Parts, the values between them, and their order; lists are compressed by part."""

    part_device: Int
    """Shape ``(num_parts,)``; the parts of a device run in the order of their numbers."""
    part_seconds: Float
    """Time of the part's ops without the call, in seconds."""
    input_offsets: Int
    input_values: Int
    """Values that each part reads and does not make; streamed weights at home are left out."""
    output_offsets: Int
    output_values: Int
    """Values that each part makes for other parts or for the caller."""
    value_bytes: NDArray[np.int64]
    graph_inputs: Int
    graph_outputs: Int
    transfer_value: Int
    transfer_source: Int
    """Device that the value comes from: of its part, or the home of a streamed weight."""
    transfer_target: Int
    """Device that the value goes to."""
    transfer_priority: Int
    """Smaller goes first; of equal ones what a part makes is ready in this order."""
    streamed: Int
    """Values that are streamed weights; those of equal priority go in the order of their ids."""
    copy_value: Int
    """Streamed weights that come from the host."""
    copy_target: Int
    copy_priority: Int
    buffer_bytes: NDArray[np.int64]
    """Shape ``(num_devices,)``: room for streamed weights."""


def part_graph(problem: Problem, lowered: Lowered) -> PartGraph:
    """Return the parts of a lowered placement with what each reads and makes."""
    graph = problem.graph
    inputs: list[list[int]] = []
    outputs: list[list[int]] = []
    seconds: list[float] = []
    returned = set(graph.graph_outputs.tolist())
    homes, streamed = homes_of(problem), problem.streamed
    home = {value: int(homes[value]) for value in streamed.tolist()}
    is_weight = np.isin(lowered.copy_value, streamed)
    for part, device in enumerate(lowered.part_device):
        row = lowered.part_ops[lowered.part_offsets[part] : lowered.part_offsets[part + 1]]
        members = set(row.tolist())
        read = [int(value) for op in row for value in graph.inputs_of(op)]
        made = [int(value) for op in row for value in graph.outputs_of(op)]
        inputs.append(
            [
                value
                for value in dict.fromkeys(read)
                if graph.value_producer[value] not in members and home.get(value) != device
            ]
        )
        outputs.append(
            [v for v in made if v in returned or not members.issuperset(graph.consumers_of(v))]
        )
        # One after another, as on the clock: sum() and np.sum may add in another order.
        seconds.append(float(np.cumsum(problem.seconds[row, device])[-1]))
    return PartGraph(
        part_device=lowered.part_device,
        part_seconds=np.array(seconds),
        input_offsets=np.cumsum([0, *map(len, inputs)], dtype=np.int32),
        input_values=np.array([v for values in inputs for v in values], dtype=np.int32),
        output_offsets=np.cumsum([0, *map(len, outputs)], dtype=np.int32),
        output_values=np.array([v for values in outputs for v in values], dtype=np.int32),
        value_bytes=graph.value_bytes,
        graph_inputs=graph.graph_inputs,
        graph_outputs=graph.graph_outputs,
        transfer_value=lowered.transfer_value,
        transfer_source=lowered.transfer_source,
        transfer_target=lowered.transfer_target,
        transfer_priority=lowered.transfer_priority,
        streamed=streamed,
        copy_value=lowered.copy_value[is_weight],
        copy_target=lowered.copy_target[is_weight],
        copy_priority=lowered.copy_priority[is_weight],
        buffer_bytes=room_bytes(problem, lowered.placement),
    )


def starts_late(problem: Problem, lowered: Lowered, timeline: Timeline) -> bool:
    """Return whether a part starts later than its device is free and all that it reads is there.

    The runtime and ``replay.py`` do not wait then, so the times of the run are not those of its
    parts. ``online.py`` lets a device wait for a value that would unlock an op; if another value
    comes under way before that and unlocks nothing, the device gives up waiting at that moment.
    """
    graph, num_devices = problem.graph, problem.num_devices
    ready_s = np.zeros(lowered.num_parts)
    for device in range(num_devices):
        mine = np.flatnonzero(lowered.part_device == device)
        ready_s[mine[1:]] = timeline.part_end_s[mine[:-1]]
    moved = np.concatenate([lowered.transfer_value, lowered.copy_value]).astype(np.int64)
    moved = moved * num_devices + np.concatenate([lowered.transfer_target, lowered.copy_target])
    come_s = np.concatenate([timeline.transfer_end_s, timeline.copy_end_s])
    order = np.argsort(moved)
    values = np.repeat(np.arange(graph.num_values), np.diff(graph.consumer_offsets))
    reads = values * num_devices + lowered.placement[graph.consumer_ops]
    first, last = (np.searchsorted(moved[order], reads, side=side) for side in ("left", "right"))
    is_moved = first < last
    parts = lowered.part_of_op[graph.consumer_ops[is_moved]]
    np.maximum.at(ready_s, parts, come_s[order[first[is_moved]]])
    return bool((timeline.part_start_s > ready_s).any())
