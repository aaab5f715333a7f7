"""A second opinion on the simulator: the same rules in plain Python, slow, with sets."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dplace.lowering import Rule
from dplace.problem import Problem
from dplace.simulator.timeline import Lowered, Timeline


def is_alone(problem: Problem, placement: list[int], device: int) -> bool:
    """Return whether a device has all ops and a price for that."""
    own = problem.cluster.devices[device].single_call_overhead_s
    return own is not None and set(placement) == {device}


def call_s(problem: Problem, placement: list[int], device: int) -> float:
    """Return what a call costs under a placement."""
    record = problem.cluster.devices[device]
    if is_alone(problem, placement, device):
        assert record.single_call_overhead_s is not None
        return record.single_call_overhead_s
    return record.call_overhead_s


def host_latency_s(problem: Problem, placement: list[int], device: int) -> float:
    """Return the latency of a copy from or to the host under a placement."""
    if is_alone(problem, placement, device):
        return 0.0
    return float(problem.cluster.host_latency_s[device])


@dataclass
class Reference:
    """The run of a placement."""

    problem: Problem
    placement: list[int]
    position: list[int]
    rule: Rule
    parts: list[tuple[int, list[int], float, float]] = field(default_factory=list)
    """Device, ops, start and end of each part."""
    op_times: dict[int, tuple[float, float]] = field(default_factory=dict)
    transfers: list[tuple[int, int, int, float, float]] = field(default_factory=list)
    """Value, source, target, start and end of each transfer, as they were queued."""
    makespan_s: float = 0.0

    def inputs(self, op: int) -> set[int]:
        return set(self.problem.graph.inputs_of(op).tolist())

    def outputs(self, op: int) -> list[int]:
        values: list[int] = self.problem.graph.outputs_of(op).tolist()
        return values

    def readers(self, value: int) -> list[int]:
        ops: list[int] = self.problem.graph.consumers_of(value).tolist()
        return ops

    def closure(self, device: int, present: set[int]) -> list[int]:
        """Return the ops of ``device`` that can run from what is there, by priority."""
        known = set(present)
        found: list[int] = []
        for op in range(self.problem.num_ops):  # a topological order
            if self.placement[op] == device and self.inputs(op) <= known:
                known |= set(self.outputs(op))
                if op not in self.op_times:
                    found.append(op)
        return sorted(found, key=lambda op: self.position[op])

    def call_s(self, device: int) -> float:
        return call_s(self.problem, self.placement, device)

    def host_s(self, value: int, device: int) -> float:
        size = float(self.problem.graph.value_bytes[value])
        latency_s = host_latency_s(self.problem, self.placement, device)
        return float(latency_s + size / self.problem.cluster.host_bytes_per_s[device])

    def run(self) -> "Reference":
        cluster, graph = self.problem.cluster, self.problem.graph
        devices = range(cluster.num_devices)
        present: list[set[int]] = [set() for _ in devices]
        coming: list[list[tuple[float, int]]] = [[] for _ in devices]
        running: list[int | None] = [None for _ in devices]
        waits_since: list[float | None] = [None for _ in devices]
        hold = [-1 for _ in devices]
        free: dict[object, float] = {}
        returned = [0.0 for _ in devices]
        for device in devices:
            at = 0.0
            for value in graph.graph_inputs.tolist():
                if any(self.placement[op] == device for op in self.readers(value)):
                    at += self.host_s(value, device)
                    coming[device].append((at, value))
        now = 0.0
        while True:
            for device in devices:
                part = running[device]
                if part is not None and self.parts[part][3] <= now:
                    running[device] = None
                    self.finish(now, part, present, coming, free, returned)
            for device in devices:
                if running[device] is not None:
                    continue
                present[device] |= {value for at, value in coming[device] if at <= now}
                coming[device] = sorted(entry for entry in coming[device] if entry[0] > now)
                ready = self.closure(device, present[device])
                if not ready:
                    continue
                first = self.worth_waiting(now, device, present, coming, waits_since)
                if first is not None:
                    waits_since[device] = (
                        now if waits_since[device] is None else waits_since[device]
                    )
                    hold[device] = max(hold[device], first)
                    continue
                running[device] = len(self.parts)
                self.form(now, device, ready, hold[device], present[device], coming[device])
                waits_since[device], hold[device] = None, -1
            soon = [self.parts[part][3] for part in running if part is not None]
            soon += [
                min(coming[device])[0]
                for device in devices
                if running[device] is None and coming[device]
            ]
            if not soon:
                return self
            now = min(soon)

    def worth_waiting(
        self,
        now: float,
        device: int,
        present: list[set[int]],
        coming: list[list[tuple[float, int]]],
        waits_since: list[float | None],
    ) -> int | None:
        """Return the most urgent op that the next arrival unlocks, if it comes soon enough."""
        if not coming[device]:
            return None
        at, value = coming[device][0]
        since = waits_since[device]
        since = now if since is None else since
        if at > since + self.rule.patience * self.call_s(device):
            return None
        before = self.closure(device, present[device])
        made = {v for op in before for v in self.outputs(op)} | present[device]
        made |= {
            v for op in self.op_times if self.placement[op] == device for v in self.outputs(op)
        }
        unlocked = [
            self.position[op]
            for op in self.readers(value)
            if self.placement[op] == device and self.inputs(op) - made == {value}
        ]
        return min(unlocked, default=None)

    def form(
        self,
        now: float,
        device: int,
        ready: list[int],
        hold: int,
        present: set[int],
        coming: list[tuple[float, int]],
    ) -> None:
        """Start a part with as many ops of the closure as the rule lets it have."""
        overhead = self.call_s(device)
        seconds = [float(self.problem.seconds[op, device]) for op in ready]
        least = self.rule.cut_gain * overhead
        spent = 0.0
        chosen: list[int] = []
        for index, op in enumerate(ready):
            start = now + (overhead + spent)
            left = sum(seconds[index:])
            if chosen and self.position[chosen[-1]] >= hold and left > least:
                waiting = [
                    self.position[reader]
                    for earlier in chosen
                    for value in self.outputs(earlier)
                    for reader in self.readers(value)
                    if self.placement[reader] != device
                ]
                if waiting and (not self.rule.urgent_only or min(waiting) < self.position[op]):
                    break
                arrived = present | {value for at, value in coming if at <= start}
                late = set(self.closure(device, arrived)) - set(ready)
                if any(self.position[other] < self.position[op] for other in late):
                    break
                blocked = [
                    self.position[other]
                    for other in range(self.problem.num_ops)
                    if self.placement[other] == device
                    and other not in self.op_times
                    and other not in late | set(ready)
                ]
                if spent > self.rule.slice_work * overhead and any(
                    urgent < self.position[op] for urgent in blocked
                ):
                    break
            chosen.append(op)
            spent += seconds[index]
            self.op_times[op] = (start, now + (overhead + spent))
        self.parts.append((device, chosen, now, now + (overhead + spent)))

    def finish(
        self,
        now: float,
        part: int,
        present: list[set[int]],
        coming: list[list[tuple[float, int]]],
        free: dict[object, float],
        returned: list[float],
    ) -> None:
        """Hand on what a part made."""
        graph = self.problem.graph
        device, ops, _, _ = self.parts[part]
        self.makespan_s = max(self.makespan_s, now)
        queue: list[tuple[int, int, int]] = []
        for op in ops:
            for value in self.outputs(op):
                present[device].add(value)
                if value in graph.graph_outputs:
                    returned[device] = max(now, returned[device]) + self.host_s(value, device)
                    self.makespan_s = max(self.makespan_s, returned[device])
                targets = {self.placement[reader] for reader in self.readers(value)} - {device}
                for target in targets:
                    urgency = min(
                        self.position[reader]
                        for reader in self.readers(value)
                        if self.placement[reader] == target
                    )
                    queue.append((urgency, value, target))
        for _, value, target in sorted(queue):
            start = max([now, *(free.get(key, 0.0) for key in self.channels(device, target))])
            end = start + self.transfer_s(value, device, target)
            for key in self.channels(device, target):
                free[key] = end
            self.transfers.append((value, device, target, start, end))
            coming[target].append((end, value))
            coming[target].sort()

    def transfer_s(self, value: int, source: int, target: int) -> float:
        cluster = self.problem.cluster
        size = float(self.problem.graph.value_bytes[value])
        return float(cluster.latency_s[source, target] + size / cluster.bytes_per_s[source, target])

    def channels(self, source: int, target: int) -> list[object]:
        match self.problem.cluster.contention:
            case "none":
                return []
            case "link":
                return [(source, target)]
            case "egress":
                return [("out", source)]
            case "egress-ingress":
                return [("out", source), ("in", target)]
            case "port":
                return [("port", source), ("port", target)]


def reference_peaks(problem: Problem, lowered: Lowered, timeline: Timeline) -> NDArray[np.int64]:
    """Return each device's peak in bytes: at every start, add up what is alive."""
    graph, placement = problem.graph, lowered.placement.tolist()
    part_of = lowered.part_of_op.tolist()
    alive: list[list[tuple[float, float, int]]] = [[] for _ in range(problem.num_devices)]

    def last_read(value: int, device: int) -> float:
        """Return when the last part on a device that reads a value ends."""
        parts = {part_of[op] for op in graph.consumers_of(value) if placement[op] == device}
        return max((float(timeline.part_end_s[part]) for part in parts), default=0.0)

    copied = [0.0] * problem.num_devices
    for value in graph.graph_inputs.tolist():
        for device in sorted({placement[op] for op in graph.consumers_of(value)}):
            start = copied[device]
            copied[device] += float(
                host_latency_s(problem, placement, device)
                + graph.value_bytes[value] / problem.cluster.host_bytes_per_s[device]
            )
            alive[device].append((start, last_read(value, device), int(graph.value_bytes[value])))
    moved = list(
        zip(
            lowered.transfer_value.tolist(),
            lowered.transfer_target.tolist(),
            timeline.transfer_start_s.tolist(),
            timeline.transfer_end_s.tolist(),
            strict=True,
        )
    )
    for value, target, start, _ in moved:
        alive[target].append((start, last_read(value, target), int(graph.value_bytes[value])))
    for op in range(graph.num_ops):
        for value in graph.outputs_of(op).tolist():
            readers = graph.consumers_of(value).tolist()
            if value in graph.graph_outputs:
                end = float("inf")
            elif all(part_of[reader] == part_of[op] for reader in readers):
                end = max(float(timeline.op_end_s[other]) for other in (op, *readers))
            else:
                ends = [float(timeline.part_end_s[part_of[op]]), last_read(value, placement[op])]
                end = max(ends + [sent for v, _, _, sent in moved if v == value])
            start = float(timeline.op_start_s[op])
            alive[placement[op]].append((start, end, int(graph.value_bytes[value])))
    peaks = np.zeros(problem.num_devices, dtype=np.int64)
    for device, spans in enumerate(alive):
        weights = {
            int(w)
            for op in range(graph.num_ops)
            if placement[op] == device
            for w in graph.weights_of(op)
        }
        at_start = [
            sum(size for begin, end, size in spans if begin <= now < end) for now, _, _ in spans
        ]
        held = sum(int(graph.weight_bytes[weight]) for weight in weights)
        peaks[device] = held + max(at_start, default=0)
    return peaks
