"""What list schedulers share: groups of ops in an order, devices that fill up, memory that ends.

The schedule here is a plan, not the clock: it knows neither parts nor contention, so what it
decides is judged by the simulator afterwards. So that it does not cut at every chance, a value
that changes devices costs the call of a part besides its transfer.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dplace.errors import MemoryLimitError
from dplace.lowering import Evaluator
from dplace.placement import allowed_devices, movable_units, repair

__all__ = ["ListSchedule"]


class ListSchedule:
    """A schedule of groups of ops that is built up group by group, in a topological order."""

    def __init__(self, evaluator: Evaluator, group: NDArray[np.int32] | None, room: float) -> None:
        """Read the problem; without ``group``, every op is a group.

        Args:
            evaluator: The problem.
            group: Shape ``(num_ops,)``: group of each op. Groups must not wait for each other in
                a circle.
            room: Share of each device's memory to leave empty, for values live longer on the
                clock than here.
        """
        problem = evaluator.problem
        graph, cluster = problem.graph, problem.cluster
        self._problem = problem
        self.num_devices = cluster.num_devices
        group = np.arange(graph.num_ops, dtype=np.int32) if group is None else group
        self.num_groups = int(group.max(initial=-1)) + 1
        self._group = group
        seconds = np.zeros((self.num_groups, self.num_devices))
        np.add.at(seconds, group, np.where(allowed_devices(problem), problem.seconds, np.inf))
        self.seconds: list[list[float]] = seconds.tolist()
        self._unit: list[int] = movable_units(problem).tolist()
        self._device_of_unit: dict[int, int] = {}
        self._ops: list[list[int]] = [[] for _ in range(self.num_groups)]
        for op, index in enumerate(group.tolist()):
            self._ops[index].append(op)
        self._read_values()
        self._weight_bytes: list[int] = graph.weight_bytes.tolist()
        self._value_bytes: list[int] = graph.value_bytes.tolist()
        given = problem.transfer_s
        self._transfer_s: list[float] = (
            [0.0] * graph.num_values if given is None else given[:, 0, 0].tolist()
        )

        self.overhead_s = [device.call_overhead_s for device in cluster.devices]
        self._latency_s = (cluster.latency_s + np.array(self.overhead_s)[None, :]).tolist()
        self._s_per_byte = (1.0 / cluster.bytes_per_s).tolist()
        self._host_latency_s = cluster.host_latency_s.tolist()
        self._host_s_per_byte = (1.0 / cluster.host_bytes_per_s).tolist()
        self._capacity = [int(device.memory_bytes * (1.0 - room)) for device in cluster.devices]
        self._used = [0] * self.num_devices
        self._held: list[set[int]] = [set() for _ in range(self.num_devices)]
        self._is_tight = evaluator.is_memory_tight

        self.device: list[int] = [-1] * self.num_groups
        self.end_s: list[float] = [0.0] * self.num_groups

    def _read_values(self) -> None:
        """List what each group reads from others and makes, and who waits for it."""
        graph = self._problem.graph
        group = self._group.tolist()
        producer = graph.value_producer.tolist()
        self._maker = [group[op] if op >= 0 else -1 for op in producer]
        self.reads: list[list[int]] = []
        self.makes: list[list[int]] = []
        self._readers: list[list[int]] = [[] for _ in producer]
        self._unread: list[int] = [0] * len(producer)
        for index, ops in enumerate(self._ops):
            values = dict.fromkeys(int(v) for op in ops for v in graph.inputs_of(op))
            self.reads.append([v for v in values if self._maker[v] != index])
            self.makes.append([int(v) for op in ops for v in graph.outputs_of(op)])
            for value in self.reads[-1]:
                self._readers[value].append(index)
                self._unread[value] += 1
        self.producers = [
            list(dict.fromkeys(self._maker[v] for v in values if self._maker[v] >= 0))
            for values in self.reads
        ]
        self.successors: list[list[int]] = [[] for _ in range(self.num_groups)]
        for index, makers in enumerate(self.producers):
            for maker in makers:
                self.successors[maker].append(index)

    def ranks(self) -> list[float]:
        """Return the upward rank of each group with mean costs, in seconds."""
        num = self.num_devices
        latency_s = sum(map(sum, self._latency_s)) - sum(self.overhead_s)
        s_per_byte = sum(map(sum, self._s_per_byte))
        ranks = [0.0] * self.num_groups
        waiting = [len(readers) for readers in self.successors]
        ready = [index for index in range(self.num_groups) if not waiting[index]]
        while ready:
            index = ready.pop()
            longest = 0.0
            for value in self.makes[index]:
                away = (latency_s + self._value_bytes[value] * s_per_byte) / num**2
                away += self._transfer_s[value] * (num - 1) / num
                for reader in self._readers[value]:
                    longest = max(longest, away + ranks[reader])
            runs = [time for time in self.seconds[index] if time != np.inf]
            ranks[index] = longest + sum(runs) / max(1, len(runs))
            for maker in self.producers[index]:
                waiting[maker] -= 1
                if not waiting[maker]:
                    ready.append(maker)
        return ranks

    def ready_s(self, index: int, device: int) -> float:
        """Return when all that a group reads can be on ``device``, in seconds."""
        ready = self.overhead_s[device]
        for value in self.reads[index]:
            maker = self._maker[value]
            size = self._value_bytes[value]
            if maker < 0:
                at = self._host_latency_s[device] + size * self._host_s_per_byte[device]
                at += self.overhead_s[device]
            else:
                source = self.device[maker]
                at = self.end_s[maker]
                if source != device:
                    at += self._latency_s[source][device] + size * self._s_per_byte[source][device]
                    at += self._transfer_s[value]
            ready = max(ready, at)
        return ready

    def choices(self, index: int) -> Sequence[int]:
        """Return the devices that a group may go to and where it fits."""
        for op in self._ops[index]:
            if self._unit[op] in self._device_of_unit:
                return (self._device_of_unit[self._unit[op]],)
        allowed = [d for d in range(self.num_devices) if self.seconds[index][d] != np.inf]
        if not self._is_tight:
            return allowed
        return [d for d in allowed if self._used[d] + self._need(index, d) <= self._capacity[d]]

    def _weights(self, index: int) -> set[int]:
        graph = self._problem.graph
        return {int(weight) for op in self._ops[index] for weight in graph.weights_of(op)}

    def _need(self, index: int, device: int) -> int:
        """Return the bytes that a group adds to what ``device`` holds when it runs."""
        weights = sum(self._weight_bytes[w] for w in self._weights(index) - self._held[device])
        made = sum(self._value_bytes[value] for value in self.makes[index])
        read = sum(
            self._value_bytes[value]
            for value in self.reads[index]
            if self._maker[value] >= 0 and self.device[self._maker[value]] != device
        )
        return weights + made + read

    def commit(self, index: int, device: int, start_s: float) -> None:
        """Put a group on ``device`` at ``start_s``."""
        self.device[index] = device
        self.end_s[index] = start_s + self.seconds[index][device]
        for op in self._ops[index]:
            self._device_of_unit[self._unit[op]] = device
        if not self._is_tight:
            return
        weights = self._weights(index) - self._held[device]
        self._held[device] |= weights
        self._used[device] += sum(self._weight_bytes[weight] for weight in weights)
        for value in self.makes[index]:
            if self._readers[value]:
                self._used[device] += self._value_bytes[value]
        for value in self.reads[index]:
            self._unread[value] -= 1
            if not self._unread[value] and self._maker[value] >= 0:
                self._used[self.device[self._maker[value]]] -= self._value_bytes[value]

    def placement(self) -> NDArray[np.int32]:
        """Return the device of each op, shape ``(num_ops,)``."""
        devices = np.array(self.device, dtype=np.int32)
        return repair(self._problem, devices[self._group])

    def no_room(self, index: int) -> MemoryLimitError:
        """Return the error for a group that fits nowhere."""
        name = self._problem.graph.op_names[self._ops[index][0]]
        free = max(c - u for c, u in zip(self._capacity, self._used, strict=True))
        return MemoryLimitError(
            f"op {name!r}: the schedule so far leaves at most {free} bytes on a device, it needs "
            f"{min(self._need(index, device) for device in range(self.num_devices))}"
        )
