"""Which weights stay, which are streamed and through how much room, and where ops may go then.

A device reads a weight that lies elsewhere through its buffers, so what counts is that the links to
all devices work all the time. A policy places the ops as if weights took no memory but time. Along
a chain that gains nothing, so ``dealt_out`` has other placements: ops in their order, by turns, in
runs of about equal bytes, so that the next device's weights come while one computes.

Devices then keep what is needed first, for that could not come in time, as far as their memory
goes. The rest of it is the room for what is streamed.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.errors import MemoryLimitError
from dplace.op_graph import OpGraph
from dplace.placement import repair
from dplace.problem import Problem
from dplace.simulator.timeline import Timeline
from dplace.sizes import size_in_words

__all__ = ["AT_HOST", "Choice", "Streamable", "dealt_out", "filled", "relaxed"]

Placement = NDArray[np.int32]
Bytes = NDArray[np.int64]

AT_HOST = -1
RUNS = (1.0, 2.0, 4.0, 16.0)
"""Lengths of runs to try, in the most bytes that one op reads."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Streamable:
    """A problem, and what of its weights may be streamed."""

    problem: Problem
    without: OpGraph
    """Its graph as it is if ops did without these weights."""
    may_be: NDArray[np.bool_]
    """Shape ``(num_weights,)``."""
    home: int
    """Where streamed weights lie: a device, or -1 for the host."""

    @property
    def sizes(self) -> Bytes:
        """Return the bytes of each weight if it may be streamed, else 0."""
        return np.where(self.may_be, self.problem.graph.weight_bytes, 0)

    def op_bytes(self) -> Bytes:
        """Return the bytes of these weights that each op reads at once, shape ``(num_ops,)``."""
        graph = self.problem.graph
        ops = np.repeat(np.arange(graph.num_ops), np.diff(graph.weight_offsets))
        sizes = self.sizes[graph.op_weights]
        return np.bincount(ops, weights=sizes, minlength=graph.num_ops).astype(np.int64)

    def bytes_per_s(self) -> NDArray[np.float64]:
        """Return how fast weights come to each device, ``inf`` to their home."""
        cluster = self.problem.cluster
        return cluster.host_bytes_per_s if self.home == AT_HOST else cluster.bytes_per_s[self.home]


class Choice(NamedTuple):
    """A placement and how the weights get to it."""

    placement: Placement
    streamed: NDArray[np.bool_]
    """Shape ``(num_weights,)``: which weights are streamed; the others stay where they are read."""
    buffer_bytes: Bytes
    """Shape ``(num_devices,)``: room for them."""
    taken_bytes: Bytes
    """Shape ``(num_devices,)``: that room, and what stays of the weights that may be streamed."""


def relaxed(streamable: Streamable, reserve: float = 0.0) -> Problem:
    """Return the problem of placing the ops if weights that may be streamed take time, not memory.

    An op takes at least as long as its weights do to its device. What they need for one op at a
    time is taken from the memory of every device but their home, which has to hold them all.

    Args:
        streamable: The problem.
        reserve: Share of each device's memory to leave as well, for what is known only afterwards.

    Raises:
        MemoryLimitError: Some op's weights fit on no device, or all of them not on their home.
    """
    problem, home = streamable.problem, streamable.home
    graph, devices = problem.graph, problem.cluster.devices
    memory = np.array([device.memory_bytes for device in devices], dtype=np.int64)
    op_bytes = streamable.op_bytes()
    held = op_bytes + _activations(streamable.without)
    fits = held[:, None] <= memory  # (num_ops, num_devices)
    if home != AT_HOST:
        fits[:, home] = True
    allowed = np.isfinite(problem.seconds)
    for op in np.flatnonzero(~(allowed & fits).any(axis=1)):
        largest = int(memory[allowed[op]].max())
        raise MemoryLimitError(
            f"{graph.name}: op {graph.op_names[op]!r} reads {size_in_words(int(op_bytes[op]))} of "
            f"weights at once and takes {size_in_words(int(held[op]))} with what it computes; the "
            f"largest device that it may go to has {size_in_words(largest)}, "
            f"{size_in_words(int(held[op]) - largest)} missing"
        )
    readers = np.bincount(graph.op_weights, minlength=len(graph.weight_bytes))
    shares = (streamable.sizes / np.maximum(readers, 1))[graph.op_weights]
    ops = np.repeat(np.arange(graph.num_ops), np.diff(graph.weight_offsets))
    share = np.bincount(ops, weights=shares, minlength=graph.num_ops)
    seconds = np.maximum(problem.seconds, share[:, None] / streamable.bytes_per_s())
    room = np.where(allowed & fits, op_bytes[:, None], 0).max(axis=0, initial=0)
    reserved = (reserve * memory).astype(np.int64)
    left = np.maximum(memory - np.minimum(room, memory * 3 // 4) - reserved, 1)
    if home != AT_HOST:
        left[home] = memory[home] - int(streamable.sizes.sum())
        if left[home] <= 0:
            total = size_in_words(int(streamable.sizes.sum()))
            raise MemoryLimitError(
                f"{graph.name}: weights of {total} do not fit on their home {devices[home].name}, "
                f"which has {size_in_words(int(memory[home]))}; "
                f"{size_in_words(-int(left[home]))} missing"
            )
    return replace(
        problem,
        graph=streamable.without,
        cluster=replace(
            problem.cluster,
            devices=tuple(
                replace(device, memory_bytes=int(bytes_left))
                for device, bytes_left in zip(devices, left.tolist(), strict=True)
            ),
        ),
        seconds=np.where(fits, seconds, np.inf),
    )


def _activations(graph: OpGraph) -> Bytes:
    """Return the bytes of what each op reads and makes, weights left out; shape ``(num_ops,)``."""
    read = np.repeat(np.arange(graph.num_ops), np.diff(graph.input_offsets))
    made = np.repeat(np.arange(graph.num_ops), np.diff(graph.output_offsets))
    total = np.bincount(
        np.concatenate([read, made]),
        weights=graph.value_bytes[np.concatenate([graph.input_values, graph.output_values])],
        minlength=graph.num_ops,
    )
    return total.astype(np.int64)


def dealt_out(streamable: Streamable, problem: Problem, run: float) -> Placement:
    """Return the ops in their order on the devices by turns.

    A device's turn ends before an op whose weights come after those of a whole run; to a device
    with a slower link runs are shorter by as much.

    Args:
        streamable: Tells the weights.
        problem: The relaxed one, which tells where ops may go.
        run: Bytes of a run, in the most that one op reads.
    """
    op_bytes = streamable.op_bytes()
    rates = streamable.bytes_per_s()
    fastest = rates[np.isfinite(rates)].max(initial=0.0)
    share = np.minimum(rates / fastest, 1.0) if fastest else np.ones(problem.num_devices)
    limits = np.maximum(1.0, share * run * op_bytes.max(initial=0))
    placement = np.zeros(problem.num_ops, dtype=np.int32)
    device, taken = 0, 0
    for op in range(problem.num_ops):
        if op_bytes[op] and taken + op_bytes[op] > limits[device] and taken:
            device, taken = (device + 1) % problem.num_devices, 0
        taken += int(op_bytes[op])
        placement[op] = device
    return repair(problem, placement)


def filled(
    streamable: Streamable,
    placement: Placement,
    timeline: Timeline,
    free_bytes: Bytes,
    *,
    ahead: int = 1,
    largest_first: bool = False,
    keep_none: bool = False,
) -> Choice:
    """Return which weights stay on the devices of a placement, and the room for the others.

    Args:
        streamable: The problem.
        placement: Of its ops.
        timeline: What the placement is predicted to run like if weights take no memory.
        free_bytes: Shape ``(num_devices,)``: memory that nothing else takes.
        ahead: Room beside what ops read at a time, in the most bytes that one reads: while one
            runs, the weights of so many more come.
        largest_first: Keep the largest weights, so that little room is needed; else those that
            are needed first.
        keep_none: Keep no weight but on its home.

    Raises:
        MemoryLimitError: There is too little room for what some op reads.
    """
    graph, home = streamable.problem.graph, streamable.home
    held = _Held(streamable, placement, timeline)
    sizes, free = streamable.sizes, free_bytes.copy()
    if home != AT_HOST:
        free[home] -= sizes.sum()
    order = sorted(
        held.spans,
        key=lambda weight: (
            not held.is_long(weight),
            -sizes[weight] * largest_first,
            held.needed_s[weight],
            weight,
        ),
    )
    streamed = streamable.may_be.copy()
    for weight in order:
        size = int(sizes[weight])
        away = [device for device in held.spans[weight] if device != home]
        held.add(weight, -size)
        if (keep_none and away) or any(
            free[device] < size + held.most(device, ahead) for device in away
        ):
            held.add(weight, size)
            continue
        streamed[weight] = False
        free[away] -= size
        if home != AT_HOST and home not in held.spans[weight]:
            free[home] += size
    room = np.zeros(len(free), dtype=np.int64)
    for device in range(len(free)):
        sent = [at for at in held.spans if streamed[at] and device in held.spans[at]]
        if device == home or not sent:
            continue
        most = held.most(device, 0)
        if most > free[device]:
            name = streamable.problem.cluster.devices[device].name
            raise MemoryLimitError(
                f"{graph.name}: ops on {name} read {size_in_words(most)} of streamed weights at a "
                f"time, and it has {size_in_words(max(0, int(free[device])))} left for them, "
                f"{size_in_words(most - int(free[device]))} missing; so much is there while op "
                f"{graph.op_names[held.fullest(device)]!r} runs"
            )
        # Sums of sizes are multiples of what divides them all: more room would never be filled.
        step = int(np.gcd.reduce(sizes[sent]))
        room[device] = min(int(sizes[sent].sum()), int(free[device]) // step * step)
    return Choice(placement, streamed, room, free_bytes - free + room)


class _Held:
    """What is in the buffers of each device at each of its ops, in the order in which they start.

    A weight is there from the first op that reads it to the last.
    """

    def __init__(self, streamable: Streamable, placement: Placement, timeline: Timeline) -> None:
        graph, sizes = streamable.problem.graph, streamable.sizes
        order = np.argsort(timeline.op_start_s, kind="stable")
        self.spans: dict[int, dict[int, list[int]]] = {}
        """Of each weight that may be streamed: on which devices, and which of its ops read it."""
        self.needed_s: dict[int, float] = {}
        """When each of them is first read, in seconds."""
        count = [0] * streamable.problem.num_devices
        self._ops: list[list[int]] = [[] for _ in count]
        for op in order.tolist():
            device = int(placement[op])
            self._ops[device].append(op)
            for weight in graph.weights_of(op).tolist():
                if sizes[weight]:
                    self.needed_s.setdefault(weight, float(timeline.op_start_s[op]))
                    self.spans.setdefault(weight, {}).setdefault(device, []).append(count[device])
            count[device] += 1
        self._held = [np.zeros(number, dtype=np.int64) for number in count]
        self._read = [np.zeros(number, dtype=np.int64) for number in count]
        for weight in self.spans:
            self.add(weight, int(sizes[weight]))

    def add(self, weight: int, size_bytes: int) -> None:
        """Count so many bytes more or less for a weight."""
        for device, reads in self.spans[weight].items():
            self._held[device][reads[0] : reads[-1] + 1] += size_bytes
            self._read[device][reads] += size_bytes

    def most(self, device: int, ahead: int) -> int:
        """Return the most bytes at one time, and those that as many ops more read."""
        most_read = int(self._read[device].max(initial=0))
        return int(self._held[device].max(initial=0)) + ahead * most_read

    def fullest(self, device: int) -> int:
        """Return the first op at which most is there."""
        return self._ops[device][int(self._held[device].argmax())]

    def is_long(self, weight: int) -> bool:
        """Return whether a weight would be in the buffers most of the time."""
        return any(
            2 * (reads[-1] - reads[0]) > len(self._held[device])
            for device, reads in self.spans[weight].items()
        )
