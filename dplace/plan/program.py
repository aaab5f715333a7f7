"""From lowered parts to each device's program and to what crosses between parts."""

from collections import deque
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from dplace.op_graph import OpGraph
from dplace.plan.records import HOST, Step
from dplace.problem import Problem
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


class _Move(NamedTuple):
    """A value that is sent to a device; sorts as moves go where one waits for another."""

    priority: int
    is_made: bool
    """Whether a part makes it; streamed weights are ready before all that is made."""
    place: int
    """Among those of equal priority: by value and target, or in the order of their start."""
    value: int
    source: int
    """The device that it comes from, -1 for the host."""
    target: int


def programs(
    problem: Problem,
    lowered: Lowered,
    values: list[PartValues],
    names: list[str],
    device_names: tuple[str, ...],
) -> list[tuple[Step, ...]]:
    """Return what each device does, in order: receive what a part reads, run it, send.

    Receives before a part and sends behind it are in the order of their priorities. Streamed
    weights are sent before anything else, by the device that is their home. Weights come to a
    device one after another, so all that come before one that a part reads are received with it.
    """
    graph = problem.graph
    moves = _moves(problem, lowered)
    steps: list[list[Step]] = [[] for _ in device_names]
    leaving: list[list[_Move]] = [[] for _ in range(lowered.num_parts)]
    weights: list[deque[_Move]] = [deque() for _ in device_names]
    made = {(move.value, move.target): move for move in moves if move.is_made}

    def step(action: Literal["send", "receive"], move: _Move) -> Step:
        peer = move.target if action == "send" else move.source
        return Step(
            action=action,
            subject=graph.value_names[move.value],
            peer=HOST if peer < 0 else device_names[peer],
            size_bytes=int(graph.value_bytes[move.value]),
            priority=move.priority,
        )

    for move in moves:
        if move.is_made:
            leaving[lowered.part_of_op[graph.value_producer[move.value]]].append(move)
            continue
        weights[move.target].append(move)
        if move.source >= 0:
            steps[move.source].append(step("send", move))
    for part in range(lowered.num_parts):
        device = int(lowered.part_device[part])
        receives = [
            made.pop((value, device)) for value in values[part].inputs if (value, device) in made
        ]
        wanted = set(values[part].inputs)
        while any(move.value in wanted for move in weights[device]):
            receives.append(weights[device].popleft())
        program = steps[device]
        program.extend(step("receive", move) for move in sorted(receives))
        program.append(Step(action="run", subject=names[part]))
        program.extend(step("send", move) for move in leaving[part])
    return [tuple(program) for program in steps]


def _moves(problem: Problem, lowered: Lowered) -> list[_Move]:
    """Return all that is sent but what the caller feeds, sorted."""
    producer = problem.graph.value_producer
    fed = set(problem.graph.graph_inputs.tolist())
    found: list[_Move] = []
    rows = zip(
        np.concatenate([lowered.transfer_priority, lowered.copy_priority]).tolist(),
        np.concatenate([lowered.transfer_value, lowered.copy_value]).tolist(),
        np.concatenate([lowered.transfer_source, np.full(lowered.num_copies, -1)]).tolist(),
        np.concatenate([lowered.transfer_target, lowered.copy_target]).tolist(),
        strict=True,
    )
    for index, (priority, value, source, target) in enumerate(rows):
        if value not in fed:
            is_made = bool(producer[value] >= 0)
            place = index if is_made else value * problem.num_devices + target
            found.append(_Move(priority, is_made, place, value, source, target))
    return sorted(found)
