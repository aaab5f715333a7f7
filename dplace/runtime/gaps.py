"""How far a request was from its prediction, part by part and by cause.

A part begins to cost its device time when the device has done what comes before it and all that the
part reads is there. Until it starts, what passes is called the call: handing over values, waking a
thread, waiting for the interpreter. The prediction has a figure for it, ``call_overhead_s``, which
holds what onnxruntime does beside the ops as well; in a measured part that is part of the compute
time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dplace.plan.planned_times import PlannedTimes
from dplace.plan.records import Part, Plan
from dplace.runtime.events import RunEvent
from dplace.runtime.route import HOST

__all__ = ["Both", "DeviceGap", "Gaps", "PartGap", "gaps"]


class Both(NamedTuple):
    """A time as it was predicted and as it was measured, in seconds."""

    predicted_s: float
    measured_s: float

    @property
    def difference_s(self) -> float:
        """Return how much longer it took than predicted."""
        return self.measured_s - self.predicted_s

    @property
    def ratio(self) -> float:
        """Return measured over predicted; infinite where nothing was predicted."""
        return self.measured_s / self.predicted_s if self.predicted_s > 0 else float("inf")

    @classmethod
    def sum(cls, times: Iterable["Both"]) -> "Both":
        """Return the sums of both."""
        together = list(times)
        return cls(
            sum(time.predicted_s for time in together), sum(time.measured_s for time in together)
        )

    def minus(self, *others: "Both") -> "Both":
        """Return what is left without some others."""
        less = Both.sum(others)
        return Both(self.predicted_s - less.predicted_s, self.measured_s - less.measured_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartGap:
    """A part: from when it could start to its end."""

    name: str
    device: str
    total: Both
    call: Both
    """Of it, the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceGap:
    """Where a device's time went; the four make the time of the request."""

    name: str
    compute: Both
    """In parts."""
    calls: Both
    """Between parts that could start and their start; measured, with copies out of its memory."""
    request: Both
    """Before the first part on any device, and after the last."""
    waiting: Both
    """For values of other devices, and for them at the end: the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """A request beside its prediction."""

    parts: tuple[PartGap, ...]
    """In the plan's order."""
    devices: tuple[DeviceGap, ...]
    """Those that run parts."""

    def furthest(self, count: int = 3) -> tuple[PartGap, ...]:
        """Return the parts that took most more, or most less, than predicted."""
        order = sorted(self.parts, key=lambda part: -abs(part.total.difference_s))
        return tuple(order[:count])

    def as_json(self) -> dict[str, object]:
        """Return the furthest parts and where the devices' time went."""
        return {
            "furthest": [
                {
                    "part": part.name,
                    "device": part.device,
                    "predicted_s": part.total.predicted_s,
                    "measured_s": part.total.measured_s,
                    "ratio": part.total.ratio,
                }
                for part in self.furthest()
            ],
            "devices": [
                {
                    "name": device.name,
                    **{
                        f"{cause}_s": {"predicted": both.predicted_s, "measured": both.measured_s}
                        for cause, both in (
                            ("compute", device.compute),
                            ("calls", device.calls),
                            ("request", device.request),
                            ("waiting", device.waiting),
                        )
                    },
                }
                for device in self.devices
            ],
        }


def gaps(
    plan: Plan,
    planned: PlannedTimes,
    events: Iterable[RunEvent],
    start_s: float,
    end_s: float,
) -> Gaps:
    """Return how far a request was from its prediction.

    Args:
        events: What happened in it, on all devices; times of one clock.
        start_s: When it began on that clock.
        end_s: When its outputs were there.
    """
    tasks = sorted(
        (event for event in events if event.kind in ("run", "copy", "receive")),
        key=lambda event: (event.start_s, event.end_s),
    )
    calls = _calls(plan, tasks)
    runs = {event.subject: event for event in tasks if event.kind == "run"}
    parts = tuple(
        _part_gap(part, planned.parts[part.name], runs[part.name], calls[runs[part.name]])
        for part in plan.parts
        if part.name in runs
    )
    request = Both(
        _outside(list(planned.parts.values()), 0.0, planned.makespan_s),
        _outside([(run.start_s, run.end_s) for run in runs.values()], start_s, end_s),
    )
    copies_s: dict[str, float] = {}
    for event in tasks:
        if event.kind == "copy":
            took_s = calls[event] + event.end_s - event.start_s
            copies_s[event.device] = copies_s.get(event.device, 0.0) + took_s
    length = Both(planned.makespan_s, end_s - start_s)
    used = {part.device for part in parts}
    return Gaps(
        parts=parts,
        devices=tuple(
            _device_gap(device.name, parts, copies_s.get(device.name, 0.0), request, length)
            for device in plan.devices
            if device.name in used
        ),
    )


def _part_gap(part: Part, planned: tuple[float, float], run: RunEvent, waited_s: float) -> PartGap:
    predicted_s = planned[1] - planned[0]
    return PartGap(
        name=part.name,
        device=part.device,
        total=Both(predicted_s, waited_s + run.end_s - run.start_s),
        call=Both(predicted_s - part.predicted_s, waited_s),
    )


def _device_gap(
    name: str, parts: Sequence[PartGap], copies_s: float, request: Both, length: Both
) -> DeviceGap:
    mine = [part for part in parts if part.device == name]
    total = Both.sum(part.total for part in mine)
    calls = Both.sum(part.call for part in mine)
    copies = Both(0.0, copies_s)
    return DeviceGap(
        name=name,
        compute=total.minus(calls),
        calls=Both.sum((calls, copies)),
        request=request,
        waiting=length.minus(total, copies, request),
    )


def _outside(spans: Sequence[tuple[float, float]], start_s: float, end_s: float) -> float:
    """Return what lies before the first of some spans and after the last."""
    if not spans:
        return end_s - start_s
    return min(start for start, _ in spans) - start_s + end_s - max(end for _, end in spans)


def _calls(plan: Plan, tasks: Sequence[RunEvent]) -> dict[RunEvent, float]:
    """Return how long each part and copy could have run before it did.

    Args:
        tasks: By start; receives among them.
    """
    there_s = _arrivals(plan, tasks)
    inputs = {part.name: part.inputs for part in plan.parts}
    first_s = min((event.start_s for event in tasks if event.kind != "receive"), default=0.0)
    free_s: dict[str, float] = {}
    waited_s: dict[RunEvent, float] = {}
    for event in tasks:
        if event.kind == "receive":
            continue
        reads = inputs[event.subject] if event.kind == "run" else (event.subject,)
        arrived_s = (there_s.get((name, event.device), first_s) for name in reads)
        ready_s = max(first_s, free_s.get(event.device, first_s), *arrived_s)
        waited_s[event] = max(event.start_s - ready_s, 0.0)
        free_s[event.device] = event.end_s
    return waited_s


def _arrivals(plan: Plan, tasks: Sequence[RunEvent]) -> dict[tuple[str, str], float]:
    """Return when each value that was made or brought was on each device."""
    ends_s = {event.subject: event.end_s for event in tasks if event.kind == "run"}
    there_s: dict[tuple[str, str], float] = {}
    for part in plan.parts:
        for name in part.outputs if part.name in ends_s else ():
            there_s.update(((name, device.name), ends_s[part.name]) for device in plan.devices)
    home = {name: part.device for part in plan.parts for name in part.outputs}
    # A copy to the host's memory serves all devices but its source, one to a device goes before it.
    for event in sorted(tasks, key=lambda event: event.peer != HOST):
        if event.kind == "receive":
            there_s[event.subject, event.device] = event.end_s
        elif event.kind == "copy":
            targets = [device.name for device in plan.devices if device.name != home[event.subject]]
            for target in targets if event.peer == HOST else [str(event.peer)]:
                there_s[event.subject, target] = event.end_s
    return there_s
