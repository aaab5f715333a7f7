"""What list schedulers share: groups of ops in an order, devices that fill up, memory that ends.

The schedule here is a plan, not the clock: it does not know parts, so what it decides is judged by
the simulator afterwards. So that it does not cut at every chance, a value that changes devices
costs the call of a part besides its transfer. Transfers wait for their channels: each value goes
to a device once, in the first gap that both of its channels have after it is made. Copies from the
host do not wait for each other here.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dplace.errors import MemoryLimitError
from dplace.lowering import Evaluator
from dplace.placement import allowed_devices, counted_bytes, movable_units, repair
from dplace.policies.busy import Busy, first_gap_of_both
from dplace.policies.transfer_times import given_transfer_s, mean_transfer_s

__all__ = ["ListSchedule"]


Send = tuple[int, int, float, float]
"""A transfer that is planned: value, source, start and end in seconds."""


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
        counted = counted_bytes(problem)
        self._weight_bytes: list[int] = counted.weights.tolist()
        self._made_bytes: list[int] = counted.values.tolist()
        self._copy_bytes: list[int] = counted.copies.tolist()
        self._value_bytes: list[int] = graph.value_bytes.tolist()
        links, devices = evaluator.tables.links, evaluator.tables.devices
        self.overhead_s: list[float] = devices["overhead"].tolist()
        self._host_latency_s: list[float] = devices["host_latency"].tolist()
        self._host_s_per_byte: list[float] = (1.0 / devices["host_bytes_per_s"]).tolist()
        self._latency_s: list[list[float]] = links["latency"].tolist()
        self._s_per_byte: list[list[float]] = (1.0 / links["bytes_per_s"]).tolist()
        self._given_s = given_transfer_s(problem)
        self._mean_transfer_s = mean_transfer_s(evaluator)
        self._read_channels(links["channel_a"].tolist(), links["channel_b"].tolist())
        self._capacity = [int(size * (1.0 - room)) for size in evaluator.engine.capacity.tolist()]
        self._used = [0] * self.num_devices
        self._held: list[set[int]] = [set() for _ in range(self.num_devices)]
        self._is_tight = evaluator.is_memory_tight

        self.device: list[int] = [-1] * self.num_groups
        self.end_s: list[float] = [0.0] * self.num_groups
        self._arrival_s: dict[int, float] = {}

    def _read_channels(self, first: list[list[int]], second: list[list[int]]) -> None:
        """List the channels from each device to each, all of them free."""
        made: dict[int, Busy] = {}
        self._channels: list[list[tuple[Busy, ...]]] = [
            [
                tuple(made.setdefault(index, Busy()) for index in dict.fromkeys(pair) if index >= 0)
                for pair in zip(*rows, strict=True)
            ]
            for rows in zip(first, second, strict=True)
        ]

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

    def mean_away_s(self) -> list[float]:
        """Return what each value takes to a reader, the mean over all pairs of devices.

        A pair of the same device costs nothing, one of two devices the call of a part as well.
        """
        num = self.num_devices
        call_s = sum(self.overhead_s) / num
        away_s = (self._mean_transfer_s + call_s) * (num - 1) / num
        return [float(seconds) for seconds in away_s]

    def mean_run_s(self) -> list[float]:
        """Return the time of each group, the mean over the devices that it may go to."""
        runs = [[time for time in row if time != np.inf] for row in self.seconds]
        return [sum(row) / max(1, len(row)) for row in runs]

    def ranks(self) -> list[float]:
        """Return the upward rank of each group with mean costs, in seconds."""
        away_s, run_s = self.mean_away_s(), self.mean_run_s()
        ranks = [0.0] * self.num_groups
        waiting = [len(readers) for readers in self.successors]
        ready = [index for index in range(self.num_groups) if not waiting[index]]
        while ready:
            index = ready.pop()
            longest = 0.0
            for value in self.makes[index]:
                for reader in self._readers[value]:
                    longest = max(longest, away_s[value] + ranks[reader])
            ranks[index] = longest + run_s[index]
            for maker in self.producers[index]:
                waiting[maker] -= 1
                if not waiting[maker]:
                    ready.append(maker)
        return ranks

    def downward_ranks(self) -> list[float]:
        """Return the longest path to the start of each group with mean costs, in seconds."""
        away_s, run_s = self.mean_away_s(), self.mean_run_s()
        ranks = [0.0] * self.num_groups
        waiting = [len(makers) for makers in self.producers]
        ready = [index for index in range(self.num_groups) if not waiting[index]]
        while ready:
            index = ready.pop()
            for value in self.makes[index]:
                for reader in self._readers[value]:
                    ranks[reader] = max(ranks[reader], ranks[index] + run_s[index] + away_s[value])
            for reader in self.successors[index]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    ready.append(reader)
        return ranks

    def ready_s(self, index: int, device: int) -> float:
        """Return when all that a group reads can be on ``device``, in seconds."""
        return self._plan(index, device)[0]

    def _plan(self, index: int, device: int) -> tuple[float, list[Send]]:
        """Return when all that a group reads can be on ``device``, and what must be sent for it."""
        call_s = ready = self.overhead_s[device]
        sends: list[tuple[float, int, int]] = []
        for value in self.reads[index]:
            maker = self._maker[value]
            if maker < 0:
                at = self._host_latency_s[device] + call_s
                at += self._value_bytes[value] * self._host_s_per_byte[device]
            elif self.device[maker] == device:
                at = self.end_s[maker]
            elif (sent := self._arrival_s.get(value * self.num_devices + device)) is not None:
                at = sent + call_s
            else:
                sends.append((self.end_s[maker], value, self.device[maker]))
                continue
            if at > ready:
                ready = at
        if not sends:
            return ready, []
        queued = self._queue(sends, device)
        return max(ready, call_s + max([end for _, _, _, end in queued])), queued

    def _queue(self, sends: list[tuple[float, int, int]], device: int) -> list[Send]:
        """Return transfers to ``device`` with their times: first made, first sent."""
        sends.sort()
        queued: list[Send] = []
        free_s: dict[Busy, float] = {}
        for start, value, source in sends:
            length = self._latency_s[source][device]
            length += self._value_bytes[value] * self._s_per_byte[source][device]
            if self._given_s is not None:
                length += self._given_s.item(value, source, device)
            channels = self._channels[source][device]
            if queued:
                # Those before are not booked yet.
                start = max([start, *[free_s.get(channel, 0.0) for channel in channels]])
            if len(channels) == 2:
                start = first_gap_of_both(*channels, start, length)
            elif channels:
                start = channels[0].first_gap(start, length)
            end = start + length
            for channel in channels:
                free_s[channel] = end
            queued.append((value, source, start, end))
        return queued

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
        made = sum(self._made_bytes[value] for value in self.makes[index])
        read = sum(
            self._copy_bytes[value]
            for value in self.reads[index]
            if self._maker[value] >= 0 and self.device[self._maker[value]] != device
        )
        return weights + made + read

    def commit(self, index: int, device: int, start_s: float) -> None:
        """Put a group on ``device`` at ``start_s``, and what it reads on its way there."""
        for value, source, begin, end in self._plan(index, device)[1]:
            self._arrival_s[value * self.num_devices + device] = end
            for channel in self._channels[source][device]:
                channel.take(begin, end)
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
                self._used[device] += self._made_bytes[value]
        for value in self.reads[index]:
            self._unread[value] -= 1
            if not self._unread[value] and self._maker[value] >= 0:
                self._used[self.device[self._maker[value]]] -= self._made_bytes[value]

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
