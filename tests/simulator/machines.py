"""A second opinion on docs/machine-models.md: the same rules in plain Python, slow and literal.

``by_op`` runs ops one by one, ``blocks`` is the latency of dnn-partitioning, ``loads`` and
``station_loads`` are throughput. Every step looks at everything again, so that a rule is one line.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dplace.problem import Problem

Transfer = tuple[int, int, int, float, float]
"""Value, source, target, start and end."""
Channel = tuple[str, *tuple[int, ...]]
"""What transfers wait for: its kind, and the device or devices that it belongs to."""

PLACETO_BYTES_PER_S = 7.6e9
PLACETO_BUS_S = 25e-6
PLACETO_OP_S = 5.7e-6


@dataclass
class Outcome:
    """A run of a placement."""

    op_start: list[float]
    op_end: list[float]
    transfers: list[Transfer]
    """In the order in which they were queued."""
    makespan: float
    peak_bytes: list[int]


class Crossing(NamedTuple):
    """A value on its way to some devices for some of its readers."""

    value: int
    source: int
    targets: tuple[int, ...]
    readers: tuple[int, ...]


class World:
    """A problem and a placement as plain lists."""

    def __init__(self, problem: Problem, placement: Sequence[int]) -> None:
        graph = problem.graph
        self.cluster, self.given_s = problem.cluster, problem.transfer_s
        self.machine = problem.machine
        self.ops, self.devices = range(problem.num_ops), range(problem.num_devices)
        self.placement = list(placement)
        self.time = [float(problem.seconds[op, placement[op]]) for op in self.ops]
        self.size: list[int] = graph.value_bytes.tolist()
        self.producer: list[int] = graph.value_producer.tolist()
        self.outputs: list[list[int]] = [graph.outputs_of(op).tolist() for op in self.ops]
        self.readers = [sorted(graph.consumers_of(v).tolist()) for v in range(len(self.size))]
        self.graph_outputs: set[int] = set(graph.graph_outputs.tolist())
        self.inputs = [  # those that an op makes; what the caller feeds is always there
            [value for value in graph.inputs_of(op).tolist() if self.producer[value] >= 0]
            for op in self.ops
        ]
        self.producers = [{self.producer[value] for value in row} for row in self.inputs]
        held: list[set[int]] = [set() for _ in self.devices]
        for op in self.ops:
            held[placement[op]] |= set(graph.weights_of(op).tolist())
        self.weight_bytes = [sum(int(graph.weight_bytes[w]) for w in row) for row in held]

    def is_cpu(self, device: int) -> bool:
        return self.cluster.devices[device].kind == "CPU"

    def pair_s(self, value: int, source: int, target: int) -> float:
        """Return the time that was given for a transfer."""
        assert self.given_s is not None
        if self.given_s.shape[1:] == (1, 1):
            return float(self.given_s[value, 0, 0])
        return float(self.given_s[value, source, target])


def by_op(
    problem: Problem, placement: Sequence[int], priority: Sequence[int] | None, by_ready: bool
) -> Outcome:
    """Run ops one by one; ``priority`` has them by urgency."""
    world = World(problem, placement)
    is_urgent_first = world.machine in ("native", "moirai") and not by_ready
    run = Run(world, list(world.ops if priority is None else priority), is_urgent_first)
    while run.step():
        pass
    op_start = [run.op_start[op] for op in world.ops]
    op_end = [run.op_end[op] for op in world.ops]
    makespan = max(op_end, default=0.0)
    if world.machine == "placeto":
        makespan = max([makespan, *run.device_free.values(), *run.channel_free.values()])
    peaks = peak_bytes(world, op_start, op_end, run.transfers)
    return Outcome(op_start, op_end, run.transfers, makespan, peaks)


@dataclass
class Run:
    """The state of the clock."""

    world: World
    priority: list[int]
    is_urgent_first: bool
    op_start: dict[int, float] = field(default_factory=dict)
    op_end: dict[int, float] = field(default_factory=dict)
    """Of what has started."""
    ended: set[int] = field(default_factory=set)
    running: dict[int, int] = field(default_factory=dict)
    """The op of each device that runs one."""
    device_free: dict[int, float] = field(default_factory=dict)
    arrival: dict[tuple[int, int], float] = field(default_factory=dict)
    """When a value is there for a reader."""
    channel_free: dict[Channel, float] = field(default_factory=dict)
    transfers: list[Transfer] = field(default_factory=list)

    def step(self) -> bool:
        """Do the next event and return whether there was one."""
        ends = [(self.op_end[op], "1 end", device) for device, op in self.running.items()]
        starts = [
            (self.earliest_start(device), "2 start", device)
            for device in self.world.devices
            if device not in self.running and self.known(device)
        ]
        if not ends + starts:
            return False
        now, kind, device = min(ends + starts)
        if kind == "1 end":
            self.end(device)
        else:
            self.start(now, device)
        return True

    def known(self, device: int) -> list[int]:
        """Return the ops that wait on a device and whose producers have all ended."""
        return [
            op
            for op in self.world.ops
            if self.world.placement[op] == device
            and op not in self.op_start
            and self.world.producers[op] <= self.ended
        ]

    def ready_time(self, op: int) -> float:
        return max((self.arrival[value, op] for value in self.world.inputs[op]), default=0.0)

    def earliest_start(self, device: int) -> float:
        ready = min(self.ready_time(op) for op in self.known(device))
        return max(ready, self.device_free.get(device, 0.0))

    def start(self, now: float, device: int) -> None:
        known = self.known(device)
        if self.is_urgent_first:
            ready = [op for op in known if self.ready_time(op) <= now]
            op = min(ready, key=self.priority.index)
        else:
            op = min(known, key=lambda op: (self.ready_time(op), op))
        self.running[device] = op
        self.op_start[op] = now
        self.op_end[op] = now + self.world.time[op]

    def end(self, device: int) -> None:
        world, op = self.world, self.running.pop(device)
        now = self.op_end[op]
        self.ended.add(op)
        self.device_free[device] = now
        if world.machine == "placeto" and world.time[op] > 0:
            self.device_free[device] = now + PLACETO_OP_S
        for value in world.outputs[op]:
            for reader in world.readers[value]:
                if world.placement[reader] == device:
                    self.arrival[value, reader] = now
        for crossing in crossings(world, op, self.priority):
            start, end = self.send(now, crossing)
            for target in crossing.targets:
                self.transfers.append((crossing.value, device, target, start, end))
            for reader in crossing.readers:
                self.arrival[crossing.value, reader] = end

    def send(self, now: float, crossing: Crossing) -> tuple[float, float]:
        """Book what a transfer takes; return when it starts and when the value arrives."""
        duration, taken = transfer_s(self.world, crossing), channels(self.world, crossing)
        if self.world.machine == "baechi":
            sender, receiver = taken
            start = max(now, self.channel_free.get(sender, 0.0))
            self.channel_free[sender] = start + duration
            received = max(start, self.channel_free.get(receiver, 0.0)) + duration
            self.channel_free[receiver] = received
            return start, received
        start = max([now, *(self.channel_free.get(channel, 0.0) for channel in taken)])
        end = start + duration
        after = PLACETO_BUS_S if self.world.machine == "placeto" else 0.0
        self.channel_free |= dict.fromkeys(taken, end + after)
        return start, end


def crossings(world: World, op: int, priority: Sequence[int]) -> list[Crossing]:
    """Return what leaves the device of an op at its end, in the order in which it queues."""
    source = world.placement[op]
    found: list[Crossing] = []
    for value in world.outputs[op]:
        away = [reader for reader in world.readers[value] if world.placement[reader] != source]
        targets = sorted({world.placement[reader] for reader in away})
        match world.machine:
            case "native" | "baechi":
                for target in targets:
                    there = tuple(reader for reader in away if world.placement[reader] == target)
                    found.append(Crossing(value, source, (target,), there))
            case "placeto":
                if away:
                    found.append(Crossing(value, source, tuple(targets), tuple(away)))
            case _:
                for reader in away:
                    found.append(Crossing(value, source, (world.placement[reader],), (reader,)))
    if world.machine in ("native", "moirai"):
        found.sort(key=lambda it: (min(map(priority.index, it.readers)), it.value))
    return found


def transfer_s(world: World, crossing: Crossing) -> float:
    """Return the time of a transfer; that to the slowest target where several receive at once."""
    value, source, targets, _ = crossing
    if world.given_s is not None:
        return max(world.pair_s(value, source, target) for target in targets)
    if world.machine == "placeto":
        return world.size[value] / PLACETO_BYTES_PER_S
    link = (source, targets[0])
    return float(
        world.cluster.latency_s[link] + world.size[value] / world.cluster.bytes_per_s[link]
    )


def channels(world: World, crossing: Crossing) -> list[Channel]:
    """Return what a transfer waits for; under baechi the sender's first, then the receiver's."""
    source, target = crossing.source, crossing.targets[0]
    contends: str = world.cluster.contention
    if world.machine == "moirai" and contends != "none":
        contends = "egress-ingress"
    if world.machine in ("placeto", "baechi", "independent"):
        contends = {"placeto": "egress", "baechi": "port", "independent": "none"}[world.machine]
    match contends:
        case "link":
            return [("link", source, target)]
        case "egress":
            return [("out", source)]
        case "egress-ingress":
            return [("out", source), ("in", target)]
        case "port":
            return [("port", source), ("port", target)]
    return []


def peak_bytes(
    world: World,
    op_start: Sequence[float],
    op_end: Sequence[float],
    transfers: Sequence[Transfer],
) -> list[int]:
    """Return the most bytes that each device holds at a time."""
    spans: list[list[tuple[float, float, int]]] = [[] for _ in world.devices]
    for value, size in enumerate(world.size):
        producer, readers = world.producer[value], world.readers[value]
        reads = {
            device: max(op_end[op] for op in readers if world.placement[op] == device)
            for device in {world.placement[op] for op in readers}
        }
        if producer < 0:
            if world.machine == "native":
                for device, last in reads.items():
                    spans[device].append((0.0, last, size))
            continue
        home = world.placement[producer]
        if world.machine == "native":
            moves = [(target, start, end) for v, _, target, start, end in transfers if v == value]
            sent = [end for _, _, end in moves]
            last = max([op_end[producer], reads.get(home, 0.0), *sent])
            if value in world.graph_outputs:
                last = float("inf")
            for target, start, _ in moves:
                spans[target].append((start, reads[target], size))
        else:
            last = max(reads.values(), default=op_end[producer])
        spans[home].append((op_start[producer], last, size))
    at_worst = [
        max((sum(z for begin, end, z in row if begin <= now < end) for now, _, _ in row), default=0)
        for row in spans
    ]
    match world.machine:
        case "independent":
            return [0 for _ in world.devices]
        case "moirai" | "dnn-partitioning":
            return world.weight_bytes
        case "placeto":
            return at_worst
        case _:
            return [held + most for held, most in zip(world.weight_bytes, at_worst, strict=True)]


def station_loads(
    problem: Problem, placement: Sequence[int]
) -> tuple[list[float], dict[Channel, float]]:
    """Return the load of each device and channel under the machines that run op by op."""
    world = World(problem, placement)
    devices = [0.0 for _ in world.devices]
    busy: dict[Channel, float] = {}
    is_placeto = world.machine == "placeto"
    for op in world.ops:
        after = PLACETO_OP_S if is_placeto and world.time[op] > 0 else 0.0
        devices[world.placement[op]] += world.time[op] + after
        for crossing in crossings(world, op, world.ops):
            held = transfer_s(world, crossing) + (PLACETO_BUS_S if is_placeto else 0.0)
            for channel in channels(world, crossing):
                busy[channel] = busy.get(channel, 0.0) + held
    return devices, busy


def blocks(problem: Problem, placement: Sequence[int]) -> Outcome | None:
    """Return a run under dnn-partitioning's latency, or None when blocks wait in a circle."""
    world = World(problem, placement)
    op_start: dict[int, float] = {}
    op_end: dict[int, float] = {}
    there: dict[int, float] = {}
    """When what an op makes is there: at the end of its block, or of itself on a CPU."""
    transfers: list[Transfer] = []
    waiting = units(world)
    while waiting:
        able = [unit for unit in waiting if outside_producers(world, unit) <= set(there)]
        if not able:
            return None
        for unit in able:
            now = max((there[op] for op in outside_producers(world, unit)), default=0.0)
            for value, source, target in entering(world, unit):
                end = now + host_s(world, value, source, target)
                transfers.append((value, source, target, now, end))
                now = end
            for op in unit:
                op_start[op], op_end[op] = now, now + world.time[op]
                now = op_end[op]
            for value, source, target in leaving(world, unit):
                end = now + host_s(world, value, source, target, pays="source")
                transfers.append((value, source, target, now, end))
                now = end
            there |= dict.fromkeys(unit, now)
            waiting.remove(unit)
    starts, ends = [op_start[op] for op in world.ops], [op_end[op] for op in world.ops]
    return Outcome(starts, ends, transfers, max(there.values(), default=0.0), world.weight_bytes)


def loads(problem: Problem, placement: Sequence[int]) -> list[float]:
    """Return the load of each device under dnn-partitioning's throughput."""
    world = World(problem, placement)
    found = [0.0 for _ in world.devices]
    for unit in units(world):
        found[world.placement[unit[0]]] += (
            sum(host_s(world, *crossing) for crossing in entering(world, unit))
            + sum(world.time[op] for op in unit)
            + sum(host_s(world, *crossing, pays="source") for crossing in leaving(world, unit))
        )
    return found


def units(world: World) -> list[list[int]]:
    """Return what starts as one: each op of a CPU, all ops of an accelerator."""
    found = [[op] for op in world.ops if world.is_cpu(world.placement[op])]
    for device in world.devices:
        ops = [op for op in world.ops if world.placement[op] == device]
        if ops and not world.is_cpu(device):
            found.append(ops)
    return found


def outside_producers(world: World, unit: Sequence[int]) -> set[int]:
    return {producer for op in unit for producer in world.producers[op]} - set(unit)


def entering(world: World, unit: Sequence[int]) -> Iterable[tuple[int, int, int]]:
    """Yield value, source and target of what a block pays for at its start."""
    device = world.placement[unit[0]]
    for value in sorted({value for op in unit for value in world.inputs[op]}):
        if world.producer[value] not in unit and not world.is_cpu(device):
            yield value, world.placement[world.producer[value]], device


def leaving(world: World, unit: Sequence[int]) -> Iterable[tuple[int, int, int]]:
    """Yield value, source and target (its first reader's) of what a block pays for at its end."""
    device = world.placement[unit[0]]
    for value in sorted(value for op in unit for value in world.outputs[op]):
        outside = [reader for reader in world.readers[value] if reader not in unit]
        if outside and not world.is_cpu(device):
            yield value, device, world.placement[outside[0]]


def host_s(world: World, value: int, source: int, target: int, *, pays: str = "target") -> float:
    """Return the time of a transfer between host memory and the accelerator that pays for it."""
    if world.given_s is not None:  # no pair of devices is that of an accelerator and the host
        return float(world.given_s[value].max())
    device = source if pays == "source" else target
    bytes_per_s = world.cluster.host_bytes_per_s[device]
    return float(world.cluster.host_latency_s[device] + world.size[value] / bytes_per_s)
