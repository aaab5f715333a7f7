"""What every rank does for one choice of outputs: worked out from the plan alone, by all alike.

Values have numbers that follow from the plan: first what the caller gives, then what the parts
make, then streamed weights. An initializer that the caller may feed and that is an output as well
is there twice.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from dplace.errors import PlanError
from dplace.plan.records import HOST, Part, Plan
from dplace.runtime.ranks.payload import crosses
from dplace.runtime.ranks.watch import Link
from dplace.runtime.ranks.weights import Stream, fitting

__all__ = [
    "FEED",
    "OUTPUT",
    "Crossing",
    "RankRoute",
    "Turn",
    "Values",
    "plan_links",
    "plan_streams",
    "rank_routes",
]

FEED = -1
"""Priority of graph inputs: they are ready before anything else is."""
OUTPUT = 2**31 - 1
"""Priority of what only the caller waits for."""


class Values:
    """The values of a plan by number."""

    def __init__(self, plan: Plan) -> None:
        self.given = {
            value.name: number for number, value in enumerate((*plan.inputs, *plan.overridable))
        }
        made = [(part, name) for part in plan.parts for name in part.outputs]
        first = len(self.given)
        self.made = {name: first + at for at, (_, name) in enumerate(made)}
        first_weight = first + len(made)
        self.weights = {first_weight + at: weight for at, weight in enumerate(plan.streamed)}
        """Streamed weights by number."""
        self.names = (*self.given, *(name for _, name in made), *(w.name for w in plan.streamed))
        self._weight_numbers = {weight.name: number for number, weight in self.weights.items()}
        devices = [device.name for device in plan.devices]
        self.maker = {first + at: devices.index(part.device) for at, (part, _) in enumerate(made)}
        """Rank of what a part makes."""
        typed = (*plan.values, *plan.outputs, *plan.overridable, *plan.inputs)
        self.types = {value.name: value.type for value in typed}

    def read(self, name: str) -> int:
        """Return the number of a value that a part reads."""
        for numbers in (self.given, self.made):
            if name in numbers:
                return numbers[name]
        return self._weight_numbers[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """A value that goes to another rank."""

    value: int
    target: int
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One run of a part."""

    part: str
    reads: tuple[int, ...]
    """Numbers of its inputs, then of its overridable initializers; -1 for one that is not fed."""
    outputs: tuple[str, ...]
    """Those that somebody needs."""
    writes: tuple[int, ...]
    sends: tuple[tuple[int, Crossing], ...]
    """What leaves when it has run: place among ``writes``, and where to."""
    frees: tuple[int, ...] = ()
    """Streamed weights that no later part here reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRoute:
    """What one rank does for a request."""

    feeds: tuple[Crossing, ...]
    """On rank 0: what is sent of the caller's values, in the order in which it is first needed."""
    turns: tuple[Turn, ...]
    uses: dict[int, int]
    """How often each value is taken here: by parts, and on rank 0 by the caller."""
    streams: tuple[Stream, ...] = ()
    """Weights that come to this rank, in their order."""
    unasked: int = 0
    """How many of them find room when the request begins."""
    fetches: tuple[int | str, ...] = ()
    """On rank 0: per output its value, or the name of the input that it is."""


def plan_links(plan: Plan) -> tuple[Link, ...]:
    """Return the links that a plan's run uses, in an order that is the same on all ranks.

    Rank 0 has one to and from every rank: for what the caller gives and gets, and for orders.
    """
    ranks = {device.name: rank for rank, device in enumerate(plan.devices)}
    weights = {weight.name for weight in plan.streamed}
    links = {link for rank in range(1, len(ranks)) for link in ((0, rank), (rank, 0))}
    for source, device in enumerate(plan.devices):
        for step in device.program:
            if step.action == "send" and step.peer is not None:
                links.add((source, ranks[step.peer]))
                if step.subject in weights:
                    links.add((ranks[step.peer], source))  # on which it is asked for
    return tuple(sorted(links))


def rank_routes(
    plan: Plan, outputs: Sequence[str], fed: Collection[str] = ()
) -> tuple[RankRoute, ...]:
    """Return what each rank does so that rank 0 has ``outputs``.

    Args:
        outputs: Names, all of them outputs of the plan.
        fed: Overridable initializers that the caller gives a value for.

    Raises:
        PlanError: A value of a type that does not cross, such as a map, would have to.
    """
    values = Values(plan)
    passthrough = dict(plan.passthrough)
    wanted = [values.made[name] for name in outputs if name not in passthrough]
    needed = _needed(plan, values, wanted)
    absent = {value.name for value in plan.overridable} - set(fed)
    priorities = {
        (step.subject, source, step.peer): step.priority
        for source, device in enumerate(plan.devices)
        for step in device.program
        if step.action == "send"
    }
    names = [device.name for device in plan.devices]
    reads: list[dict[str, tuple[int, ...]]] = [{} for _ in names]
    arriving: dict[tuple[int, int], int] = {}
    """Value and target rank, to the priority."""
    for rank, device in enumerate(plan.devices):
        for step in device.program:
            if step.action != "run" or step.subject not in needed:
                continue
            part = needed[step.subject]
            reads[rank][part.name] = tuple(
                -1 if name in absent else values.read(name)
                for name in (*part.inputs, *part.overridable)
            )
            for value in reads[rank][part.name]:
                source = values.maker.get(value, 0)
                if value >= 0 and value not in values.weights and source != rank:
                    priority = priorities.get((values.names[value], source, names[rank]), FEED)
                    arriving.setdefault((value, rank), priority)
    for value in wanted:
        if values.maker[value] != 0:
            arriving.setdefault((value, 0), OUTPUT)
    _check_types(plan, values, arriving)
    routes: list[RankRoute] = []
    all_streams = plan_streams(plan, values)
    for rank, device in enumerate(plan.devices):
        read = {value for part in reads[rank].values() for value in part}
        streams = tuple(stream for stream in all_streams[rank] if stream.value in read)
        route = _route(rank, values, needed, reads[rank], arriving, wanted, streams)
        routes.append(replace(route, unasked=fitting(streams, device.buffer_bytes)))
    fetches = (passthrough[name] if name in passthrough else values.made[name] for name in outputs)
    return (replace(routes[0], fetches=tuple(fetches)), *routes[1:])


def plan_streams(plan: Plan, values: Values) -> list[tuple[Stream, ...]]:
    """Return the weights that come to each rank, in the order of its receives."""
    numbers = {weight.name: number for number, weight in values.weights.items()}
    ranks = {device.name: number for number, device in enumerate(plan.devices)}
    return [
        tuple(
            Stream(
                value=numbers[step.subject],
                source=0 if step.peer == HOST else ranks[step.peer or ""],
                priority=step.priority,
                size_bytes=values.weights[numbers[step.subject]].size_bytes,
            )
            for step in device.program
            if step.action == "receive" and step.subject in numbers
        )
        for device in plan.devices
    ]


def _needed(plan: Plan, values: Values, wanted: Sequence[int]) -> dict[str, Part]:
    """Return the parts that lead to the wanted values, by name."""
    maker = {name: part for part in plan.parts for name in part.outputs}
    needed: dict[str, Part] = {}
    waiting = [values.names[value] for value in wanted]
    while waiting:
        part = maker[waiting.pop()]
        if part.name not in needed:
            needed[part.name] = part
            waiting += [name for name in part.inputs if name in values.made]
    return needed


def _route(
    rank: int,
    values: Values,
    needed: dict[str, Part],
    reads: dict[str, tuple[int, ...]],
    arriving: dict[tuple[int, int], int],
    wanted: Sequence[int],
    streams: tuple[Stream, ...],
) -> RankRoute:
    """Return one rank's share, but for what the caller fetches."""
    # Of the weights, those whose home is the device itself are there from the start.
    resident = values.weights.keys() - {stream.value for stream in streams}
    uses = Counter(
        value for read in reads.values() for value in read if value >= 0 and value not in resident
    )
    crossings: dict[int, list[Crossing]] = {}
    for (value, target), priority in arriving.items():
        if values.maker.get(value, 0) == rank:
            crossings.setdefault(value, []).append(
                Crossing(value=value, target=target, priority=priority)
            )
    if rank == 0:
        uses.update(wanted)
    last = {value: name for name, read in reads.items() for value in read}
    turns: list[Turn] = []
    for name, read in reads.items():
        made = [(output, values.made[output]) for output in needed[name].outputs]
        kept = [(output, value) for output, value in made if uses[value] or value in crossings]
        turns.append(
            Turn(
                part=name,
                reads=read,
                outputs=tuple(output for output, _ in kept),
                writes=tuple(value for _, value in kept),
                sends=tuple(
                    (at, crossing)
                    for at, (_, value) in enumerate(kept)
                    for crossing in crossings.get(value, ())
                ),
                frees=tuple(
                    value
                    for value in dict.fromkeys(read)
                    if value in values.weights and value not in resident and last[value] == name
                ),
            )
        )
    return RankRoute(
        feeds=tuple(
            crossing
            for value, leaving in crossings.items()
            for crossing in leaving
            if value not in values.maker
        ),
        turns=tuple(turns),
        uses={value: number for value, number in uses.items() if number},
        streams=streams,
    )


def _check_types(plan: Plan, values: Values, arriving: dict[tuple[int, int], int]) -> None:
    for value, target in arriving:
        name = values.names[value]
        if not crosses(values.types.get(name, "tensor(float)")):
            source = plan.devices[values.maker.get(value, 0)].name
            raise PlanError(
                f'the value "{name}" of type {values.types[name]} would have to go from {source} '
                f"to {plan.devices[target].name}, and only tensors and sequences of tensors cross "
                "between processes; place what makes and reads it on one device"
            )
