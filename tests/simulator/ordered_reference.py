"""A second opinion on the ordered pass: the same rules in plain Python, slow, with lists."""

from dataclasses import dataclass, field

from tests.simulator.reference import Reference

Pair = tuple[int, int]
"""A value and the device that it goes to."""


@dataclass
class OrderedReference(Reference):
    """The run of a placement whose transfers go by priority."""

    priority: dict[Pair, int] = field(default_factory=dict)
    one_by_one: bool = False
    copies: list[tuple[int, int, float, float]] = field(default_factory=list)
    """Value, target, start and end of each copy from the host."""

    waiting: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    """Priority, ready number, value, source and target of what waits for its link."""
    weights: list[list[int]] = field(default_factory=list)
    """Streamed weights that have still to go to each device, the next one first."""
    coming_weight: dict[int, float] = field(default_factory=dict)
    """When the weight on its way to a device arrives."""
    buffered: list[set[int]] = field(default_factory=list)
    """Weights that take room on each device."""
    free: dict[object, float] = field(default_factory=dict)
    copied: list[float] = field(default_factory=list)
    coming: list[list[tuple[float, int]]] = field(default_factory=list)
    ready: int = 0

    def home(self, value: int) -> int:
        homes = self.problem.value_home
        return -1 if homes is None else int(homes[value])

    def reads(self, value: int, device: int) -> list[int]:
        """Return the ops on a device that read a value."""
        return [op for op in self.readers(value) if self.placement[op] == device]

    def run(self) -> "OrderedReference":
        graph = self.problem.graph
        devices = range(self.problem.num_devices)
        self.coming = [[] for _ in devices]
        self.copied = [0.0 for _ in devices]
        self.buffered = [set() for _ in devices]
        present: list[set[int]] = [set() for _ in devices]
        streamed: list[int] = self.problem.streamed.tolist()
        for device in devices:
            for value in graph.graph_inputs.tolist():
                if self.reads(value, device):
                    start = self.copied[device]
                    self.copied[device] += self.host_s(value, device)
                    self.copies.append((value, device, start, self.copied[device]))
                    self.coming[device].append((self.copied[device], value))
            present[device] = {value for value in streamed if self.home(value) == device}
            mine = [v for v in streamed if self.home(v) != device and self.reads(v, device)]
            self.weights.append(sorted(mine, key=lambda v: (self.priority[v, device], v)))
        running: list[int | None] = [None for _ in devices]
        since: list[float | None] = [None for _ in devices]
        until = [0.0 for _ in devices]
        hold = [-1 for _ in devices]
        returned = [0.0 for _ in devices]
        now = 0.0
        while True:
            for device in devices:
                part = running[device]
                if part is not None and self.parts[part][3] <= now:
                    running[device] = None
                    self.end(now, part, present, returned)
            self.settle(now)
            for device in devices:
                if running[device] is not None:
                    continue
                coming = self.coming[device]
                present[device] |= {value for at, value in coming if at <= now}
                coming[:] = sorted(entry for entry in coming if entry[0] > now)
                ready = self.closure(device, present[device])
                if not ready or until[device] > now:
                    continue
                if self.one_by_one:
                    ready = ready[:1]
                else:
                    first = self.worth_waiting(now, device, present, self.coming, since)
                    if first is not None:
                        since[device] = now if since[device] is None else since[device]
                        hold[device] = max(hold[device], first)
                        until[device] = coming[0][0]
                        continue
                running[device] = len(self.parts)
                self.form(now, device, ready, hold[device], present[device], coming)
                since[device], hold[device] = None, -1
            soon = [self.parts[part][3] for part in running if part is not None]
            soon += [at for coming in self.coming for at, _ in coming if at > now]
            soon += [at for at in self.free.values() if at > now]
            if not soon:
                if len(self.op_times) < self.problem.num_ops:
                    self.makespan_s = float("inf")
                return self
            now = min(soon)

    def end(self, now: float, part: int, present: list[set[int]], returned: list[float]) -> None:
        """Queue what a part made, and free the weights that nobody reads any more."""
        device = self.parts[part][0]
        nowhere: list[list[tuple[float, int]]] = [[] for _ in present]
        sent = len(self.transfers)
        self.finish(now, part, present, nowhere, {}, returned)
        made, self.transfers = self.transfers[sent:], self.transfers[:sent]
        for value, source, target, _, _ in made:  # in the order of urgency
            self.waiting.append((self.priority[value, target], self.ready, value, source, target))
            self.ready += 1
        ended = {op for _, done, _, end in self.parts if end <= now for op in done}
        for value in list(self.buffered[device]):
            if ended.issuperset(self.reads(value, device)):
                self.buffered[device].remove(value)

    def settle(self, now: float) -> None:
        """Let weights arrive and start all that can, until nothing is left that takes no time."""
        while True:
            arrived = [device for device, at in self.coming_weight.items() if at <= now]
            for device in arrived:
                del self.coming_weight[device]
            able = self.able(now)
            if not able and not arrived:
                return
            while able:
                priority, is_made, number, value, source, target = min(able)
                if is_made:
                    self.waiting.remove((priority, number, value, source, target))
                self.start(now, value, source, target)
                able = self.able(now)

    def able(self, now: float) -> list[tuple[int, int, int, int, int, int]]:
        """Return what may start: its priority, whether an op made it, its ready number; the move.

        Weights are ready before all else, by their value and then by their target.
        """
        found = [
            (priority, 1, number, value, source, target)
            for priority, number, value, source, target in self.waiting
            if self.is_free(now, source, target)
        ]
        for target, row in enumerate(self.weights):
            if row and self.may_come(row[0], target):
                source = self.home(row[0])
                if source < 0 or self.is_free(now, source, target):
                    priority = self.priority[row[0], target]
                    found.append((priority, 0, row[0], row[0], source, target))
        return found

    def is_free(self, now: float, source: int, target: int) -> bool:
        return all(self.free.get(key, 0.0) <= now for key in self.channels(source, target))

    def may_come(self, value: int, target: int) -> bool:
        """Return whether the next weight for a device may start, as far as the device goes."""
        if target in self.coming_weight:
            return False
        if self.problem.buffer_bytes is None:
            return True
        sizes = self.problem.graph.value_bytes
        taken = sum(int(sizes[other]) for other in self.buffered[target])
        return taken + int(sizes[value]) <= int(self.problem.buffer_bytes[target])

    def start(self, now: float, value: int, source: int, target: int) -> None:
        if source < 0:
            begin = max(now, self.copied[target])
            end = begin + self.host_s(value, target)
            self.copied[target] = end
            self.copies.append((value, target, begin, end))
        else:
            begin = now
            end = begin + self.transfer_s(value, source, target)
            for key in self.channels(source, target):
                self.free[key] = end
            self.transfers.append((value, source, target, begin, end))
        if self.problem.graph.value_producer[value] < 0:
            self.weights[target].pop(0)
            self.buffered[target].add(value)
            self.coming_weight[target] = end
        self.coming[target].append((end, value))
        self.coming[target].sort()
