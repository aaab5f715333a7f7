"""What one request runs: the steps that lead to the outputs that were asked for.

A plan's programs are compiled once per choice of outputs. Values become numbered slots, tasks know
the slots that they read and write, and what needs no work is gone: between CPU devices a send hands
over a reference, so whoever reads the value waits for the value itself. What an accelerator makes
has a slot in its memory, and one for each memory that it is copied to. A streamed weight has a slot
for each device that it is brought to.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from dplace.errors import PlanError
from dplace.plan.records import Plan, StreamedWeight
from dplace.runtime.copies import copy_from
from dplace.runtime.devices import RunDevice
from dplace.runtime.part import LoadedPart
from dplace.runtime.streams import Delivery, is_handed_over
from dplace.runtime.values import Held

__all__ = ["Route", "Task", "compile_route"]

HOST = "host"
"""The memory that all CPU devices and the caller share."""
RESULT = "result"
"""Host memory too, for outputs that are also initializers which the caller may feed."""

Slot: TypeAlias = tuple[str, str]
"""A value and the memory it is in: HOST, or the name of an accelerator."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """A step that a device works on: a part, or a copy out of an accelerator's memory."""

    label: str
    subject: str
    """Name of the part, or of the value that is copied."""
    peer: str | None
    """Of a copy, where it goes: HOST or a device."""
    device: int
    position: int
    """Its place in the device's order."""
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    work: Callable[[Sequence[Held], Any], list[Held]]
    """From the values read, and onnxruntime's RunOptions, to the values written."""
    is_part: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Route:
    """The tasks of a request and the slots between them."""

    tasks: tuple[Task, ...]
    orders: tuple[tuple[int, ...], ...]
    """Per device, its tasks in the order that they run in."""
    missing: tuple[int, ...]
    """Per task, how many of the slots that it reads are written by tasks."""
    readers: tuple[tuple[int, ...], ...]
    """Per slot, the tasks that read it."""
    uses: tuple[int, ...]
    """Per slot, how often it is read, by tasks and by the caller."""
    feeds: tuple[tuple[str, int], ...]
    """Model inputs that tasks read, with their slots."""
    deliveries: tuple[tuple[Delivery, ...], ...]
    """Per device, the weights that are brought to it, in that order."""
    constants: tuple[tuple[str, int], ...]
    """Weights that are read where they lie, with their slots."""
    fetches: tuple[int | str, ...]
    """Per output its slot, or the name of the input that it is."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draft:
    """A task before slots are numbered, and before it is known which outputs are wanted."""

    device: int
    label: str
    subject: str
    peer: str | None
    part: LoadedPart | None
    copy: Callable[[Held], Held] | None
    reads: tuple[Slot, ...]
    writes: tuple[Slot, ...]


def compile_route(
    plan: Plan,
    devices: Sequence[RunDevice],
    parts: Mapping[str, LoadedPart],
    outputs: Sequence[str],
) -> Route:
    """Return the route to ``outputs``.

    Raises:
        PlanError: A value is made or sent by nobody, or the programs wait for each other.
    """
    passthrough = dict(plan.passthrough)
    fed = {(value.name, HOST) for value in (*plan.inputs, *plan.overridable)}
    brought, lying = _streamed(plan, devices)
    given = {*fed, *brought, *lying}
    drafts = _drafts(plan, devices, parts, {*brought, *lying})
    wanted = [result_slot(name, plan) for name in outputs if name not in passthrough]
    drafts = _needed(drafts, wanted, given)

    slots: dict[Slot, int] = {}
    for draft in drafts:
        for slot in (*draft.reads, *draft.writes):
            slots.setdefault(slot, len(slots))
    read = {slot for draft in drafts for slot in draft.reads} | set(wanted)
    orders: list[list[int]] = [[] for _ in devices]
    tasks: list[Task] = []
    for draft in drafts:
        writes = tuple(slot for slot in draft.writes if slot in read)
        tasks.append(
            Task(
                label=draft.label,
                subject=draft.subject,
                peer=draft.peer,
                device=draft.device,
                position=len(orders[draft.device]),
                reads=tuple(slots[slot] for slot in draft.reads),
                writes=tuple(slots[slot] for slot in writes),
                work=_work(draft, [name for name, _ in writes]),
                is_part=draft.part is not None,
            )
        )
        orders[draft.device].append(len(tasks) - 1)
    readers: list[list[int]] = [[] for _ in slots]
    for number, task in enumerate(tasks):
        for slot_number in task.reads:
            readers[slot_number].append(number)
    uses = [len(tasks_of) for tasks_of in readers]
    for slot in wanted:
        uses[slots[slot]] += 1
    route = Route(
        tasks=tuple(tasks),
        orders=tuple(tuple(order) for order in orders),
        missing=tuple(
            sum(slot not in given or slot in brought for slot in draft.reads) for draft in drafts
        ),
        readers=tuple(tuple(numbers) for numbers in readers),
        uses=tuple(uses),
        feeds=tuple((slot[0], number) for slot, number in slots.items() if slot in fed),
        deliveries=tuple(
            tuple(
                Delivery(slots[slot], weight)
                for slot, weight in brought.items()
                if slot in slots and slot[1] == device.name
            )
            for device in devices
        ),
        constants=tuple((slot[0], number) for slot, number in slots.items() if slot in lying),
        fetches=tuple(
            passthrough[name] if name in passthrough else slots[result_slot(name, plan)]
            for name in outputs
        ),
    )
    _check_order(route)
    return route


def _streamed(
    plan: Plan, devices: Sequence[RunDevice]
) -> tuple[dict[Slot, StreamedWeight], set[Slot]]:
    """Return the weights that are brought to devices, in order, and those read where they lie."""
    weights = {weight.name: weight for weight in plan.streamed}
    by_name = {device.name: device for device in devices}
    brought: dict[Slot, StreamedWeight] = {}
    lying: set[Slot] = set()
    for device, planned in zip(devices, plan.devices, strict=True):
        for weight in weights.values():
            if is_handed_over(weight, by_name, device):
                lying.add((weight.name, device.name))
        for step in planned.program:
            slot = (step.subject, device.name)
            if step.action == "receive" and step.subject in weights and slot not in lying:
                brought[slot] = weights[step.subject]
    return brought, lying


def _drafts(
    plan: Plan,
    devices: Sequence[RunDevice],
    parts: Mapping[str, LoadedPart],
    streamed: Collection[Slot],
) -> list[Draft]:
    """Return all steps that are work, device by device in the order of its program."""
    by_name = {device.name: device for device in devices}
    home = {name: by_name[part.device] for part in plan.parts for name in part.outputs}
    records = {part.name: part for part in plan.parts}
    returned = {value.name for value in plan.outputs}
    overridable = {value.name for value in plan.overridable}
    drafts: list[Draft] = []

    def slot_for(name: str, device: RunDevice) -> Slot:
        if (name, device.name) in streamed:
            return (name, device.name)
        # What is in host memory, onnxruntime uploads itself when an accelerator's part reads it.
        return (name, HOST) if name not in home or home[name].is_cpu else (name, _place(device))

    for number, (device, planned) in enumerate(zip(devices, plan.devices, strict=True)):
        copied: set[Slot] = set()
        for step in planned.program:
            copies: list[tuple[str, RunDevice | None]] = []
            if step.action == "run":
                made = records[step.subject].outputs
                part = parts[step.subject]
                drafts.append(
                    Draft(
                        device=number,
                        label=f"part {part.name}",
                        subject=part.name,
                        peer=None,
                        part=part,
                        copy=None,
                        reads=tuple(slot_for(name, device) for name in part.inputs),
                        writes=tuple(
                            result_slot(name, plan)
                            if name in overridable
                            else (name, _place(device))
                            for name in made
                        ),
                    )
                )
                copies = [(name, None) for name in made if name in returned]
            elif step.action == "send" and step.peer is not None and step.subject in home:
                copies = [(step.subject, by_name[step.peer])]
            for name, target in copies:
                slot = (name, HOST if target is None else _place(target))
                if device.is_cpu or slot in copied or slot == (name, device.name):
                    continue
                copied.add(slot)
                drafts.append(
                    Draft(
                        device=number,
                        label=f'copy of "{name}" to {slot[1]}',
                        subject=name,
                        peer=slot[1],
                        part=None,
                        copy=copy_from(target),
                        reads=((name, device.name),),
                        writes=(slot,),
                    )
                )
    return drafts


def result_slot(name: str, plan: Plan) -> Slot:
    """Return where the caller finds an output.

    An initializer that may be fed and is an output too has one name for what is fed, if anything
    is, and for what comes out.
    """
    is_overridable = any(value.name == name for value in plan.overridable)
    return (name, RESULT if is_overridable else HOST)


def _place(device: RunDevice) -> str:
    return HOST if device.is_cpu else device.name


def _needed(drafts: Sequence[Draft], wanted: Sequence[Slot], given: set[Slot]) -> list[Draft]:
    """Return the drafts that lead to the wanted slots, in the order given."""
    writer = {slot: draft for draft in drafts for slot in draft.writes}
    needed: set[int] = set()
    open_slots = list(wanted)
    while open_slots:
        slot = open_slots.pop()
        if slot in given:
            continue
        if slot not in writer:
            raise PlanError(f'the value "{slot[0]}" is needed on {slot[1]}, but no step brings it')
        draft = writer[slot]
        if id(draft) not in needed:
            needed.add(id(draft))
            open_slots.extend(draft.reads)
    return [draft for draft in drafts if id(draft) in needed]


def _work(draft: Draft, names: list[str]) -> Callable[[Sequence[Held], Any], list[Held]]:
    """Return the function that does a draft's work."""
    part, copy = draft.part, draft.copy
    if part is not None:
        run = part.run
        return lambda feeds, options: run(names, feeds, options)
    assert copy is not None
    move = copy
    return lambda feeds, options: [move(feeds[0])]


def _check_order(route: Route) -> None:
    """Step through a request; raise if tasks are left that wait for each other."""
    missing = list(route.missing)
    for slot, _ in (delivery for row in route.deliveries for delivery in row):
        for reader in route.readers[slot]:
            missing[reader] -= 1
    position = [0] * len(route.orders)
    active = list(range(len(route.orders)))
    while active:
        device = active.pop()
        order = route.orders[device]
        while position[device] < len(order) and missing[order[position[device]]] == 0:
            task = route.tasks[order[position[device]]]
            position[device] += 1
            for slot in task.writes:
                for reader in route.readers[slot]:
                    missing[reader] -= 1
                    active.append(route.tasks[reader].device)
    for device, order in enumerate(route.orders):
        if position[device] < len(order):
            task = route.tasks[order[position[device]]]
            raise PlanError(f"{task.label} waits for a value that is only made after it")
