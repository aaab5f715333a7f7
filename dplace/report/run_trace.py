"""A request as it really ran, beside its prediction, in the Chrome trace format.

Each device is a process with two rows, measured and predicted, that begin at the same moment. In
the process below them each link has rows of its own. Between CPU devices of one process a value
takes no time, so an arrow alone leads from its maker to the first part that reads it elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dplace.report.trace import (
    TICKS_PER_US,
    Event,
    arrow,
    complete,
    microseconds,
    named,
    placed_at,
    rows_apart,
)

if TYPE_CHECKING:  # dplace.runtime brings onnxruntime along
    from dplace.plan.planned_times import PlannedTimes
    from dplace.plan.records import Plan
    from dplace.runtime.events import RunEvent
    from dplace.runtime.gaps import Gaps, PartGap

__all__ = ["run_trace"]

MEASURED, PREDICTED = 1, 2
"""Threads of a device, in the order they are shown in."""


class Slice(NamedTuple):
    """A span of time on a row of a process; times in seconds from the request's start."""

    pid: int
    tid: int
    start_s: float
    end_s: float


class Crossing(NamedTuple):
    """One end of a transfer, or all of it where it is predicted."""

    value: str
    source: str
    target: str
    kind: str
    start_s: float
    end_s: float


def run_trace(
    plan: Plan,
    planned: PlannedTimes,
    gaps: Gaps,
    events: Iterable[RunEvent],
    *,
    run: int,
    start_s: float,
    end_s: float,
) -> dict[str, object]:
    """Return a request and its prediction as the JSON object of a trace.

    Args:
        gaps: How far the two are apart.
        events: What happened in the request, on all devices; times of one clock.
        run: Its number among those measured, from 0.
        start_s: When it began on that clock.
        end_s: When its outputs were there.
    """
    shifted = [
        event._replace(start_s=event.start_s - start_s, end_s=event.end_s - start_s)
        for event in events
    ]
    pids = {device.name: pid for pid, device in enumerate(plan.devices, start=1)}
    parts = {part.name: part for part in gaps.parts}
    measured = [
        Crossing(event.subject, *_ends(event), event.kind, event.start_s, event.end_s)
        for event in shifted
        if event.kind in ("send", "receive")
    ]
    predicted = [
        Crossing(one.value, one.source, one.target, "transfer", one.start_s, one.end_s)
        for one in planned.transfers
    ]
    pid = len(plan.devices) + 1
    bytes_of = {value.name: value.size_bytes for value in plan.values}
    measured_rows = _transfer_rows(measured, pid, 1)
    predicted_rows = _transfer_rows(predicted, pid, 1 + len(set(measured_rows)))
    runs = {
        event.subject: Slice(pids[event.device], MEASURED, event.start_s, event.end_s)
        for event in shifted
        if event.kind == "run"
    }
    plans = {
        part.name: Slice(pids[part.device], PREDICTED, *planned.parts[part.name])
        for part in plan.parts
    }
    trace: list[Event] = [
        *_names(plan, has_transfers=bool(measured or predicted)),
        *_parts(plan, runs, parts, "measured"),
        *_parts(plan, plans, parts, "predicted"),
        *_copies(shifted, pids, bytes_of),
        *_transfers(measured, measured_rows, bytes_of, "measured"),
        *_transfers(predicted, predicted_rows, bytes_of, "predicted"),
        *_arrows(plan, runs, measured, measured_rows, "measured"),
        *_arrows(plan, plans, predicted, predicted_rows, "predicted"),
    ]
    return {
        "traceEvents": trace,
        "displayTimeUnit": "ms",
        "otherData": {
            "model": plan.model,
            "cluster": plan.cluster,
            "run": run,
            "latency_s": end_s - start_s,
            "predicted_makespan_s": planned.makespan_s,
            **gaps.as_json(),
        },
    }


def _ends(event: RunEvent) -> tuple[str, str]:
    """Return where a value comes from and where it goes."""
    peer = event.peer or "host"
    return (event.device, peer) if event.kind == "send" else (peer, event.device)


def _names(plan: Plan, *, has_transfers: bool) -> Iterator[Event]:
    """Yield names and places of the devices' processes and rows."""
    for pid, device in enumerate(plan.devices, start=1):
        yield named("process_name", pid, MEASURED, f"{device.name} ({device.kind})")
        yield placed_at("process_sort_index", pid, MEASURED, pid)
        for tid, name in ((MEASURED, "measured"), (PREDICTED, "predicted")):
            yield named("thread_name", pid, tid, name)
            yield placed_at("thread_sort_index", pid, tid, tid)
    if has_transfers:
        pid = len(plan.devices) + 1
        yield named("process_name", pid, MEASURED, "transfers")
        yield placed_at("process_sort_index", pid, MEASURED, pid)


def _parts(
    plan: Plan, slices: dict[str, Slice], parts: dict[str, PartGap], which: str
) -> Iterator[Event]:
    """Yield each part, with how long it was predicted to take and took."""
    for part in plan.parts:
        if part.name not in slices:
            continue
        place = slices[part.name]
        arguments: Event = {"ops": part.num_ops}
        if part.name in parts:
            gap = parts[part.name]
            arguments |= {
                "predicted_us": gap.total.predicted_s * 1e6,
                "measured_us": gap.total.measured_s * 1e6,
                "ratio": gap.total.ratio,
                "predicted_call_us": gap.call.predicted_s * 1e6,
                "measured_call_us": gap.call.measured_s * 1e6,
            }
        yield complete(part.name, f"part,{which}", *place, arguments)


def _copies(
    events: Iterable[RunEvent], pids: dict[str, int], bytes_of: dict[str, int]
) -> Iterator[Event]:
    """Yield the copies between memories, on the rows of their devices."""
    for event in events:
        if event.kind == "copy":
            size = event.size_bytes or bytes_of.get(event.subject, 0)
            yield complete(
                event.subject,
                "copy,measured",
                pids[event.device],
                MEASURED,
                event.start_s,
                event.end_s,
                {"bytes": size, "to": event.peer},
            )


def _transfer_rows(crossings: Sequence[Crossing], pid: int, first: int) -> list[Slice]:
    """Return where each transfer is drawn: a row a link and end, more where they overlap."""
    rows = rows_apart([(one[1:4], one.start_s, one.end_s) for one in crossings])
    return [
        Slice(pid, first + row, one.start_s, one.end_s)
        for row, one in zip(rows, crossings, strict=True)
    ]


def _transfers(
    crossings: Sequence[Crossing], rows: Sequence[Slice], bytes_of: dict[str, int], which: str
) -> Iterator[Event]:
    """Yield each transfer, and the name of its row before the first."""
    seen: set[int] = set()
    for one, place in zip(crossings, rows, strict=True):
        if place.tid not in seen:
            seen.add(place.tid)
            word = which if one.kind == "transfer" else f"{which} {one.kind}"
            yield named("thread_name", place.pid, place.tid, f"{one.source} -> {one.target} {word}")
            yield placed_at("thread_sort_index", place.pid, place.tid, place.tid)
        arguments: Event = {
            "bytes": bytes_of.get(one.value, 0),
            "from": one.source,
            "to": one.target,
        }
        yield complete(one.value, f"transfer,{which}", *place, arguments)


def _arrows(
    plan: Plan,
    slices: dict[str, Slice],
    crossings: Sequence[Crossing],
    rows: Sequence[Slice],
    which: str,
) -> Iterator[Event]:
    """Yield an arrow for each value that crosses: maker, transfer if it is seen, first reader."""
    maker = {name: slices.get(part.name) for part in plan.parts for name in part.outputs}
    readers: dict[tuple[str, str], list[Slice]] = {}
    for part in plan.parts:
        for name in part.inputs if part.name in slices else ():
            readers.setdefault((name, part.device), []).append(slices[part.name])
    on_the_way: dict[tuple[str, str], list[Slice]] = {}
    for one, place in sorted(zip(crossings, rows, strict=True), key=lambda pair: pair[1].start_s):
        on_the_way.setdefault((one.value, one.target), []).append(place)
    home = {name: part.device for part in plan.parts for name in part.outputs}
    crossing = [
        (name, device)
        for name, device in dict.fromkeys((*readers, *on_the_way))
        if home.get(name) != device and (name in home or (name, device) in on_the_way)
    ]
    for number, (name, device) in enumerate(crossing):
        points: list[tuple[int, int, float]] = []
        made = maker.get(name)
        if made is not None:
            # An arrow hangs on the slice that is open at its point: it leaves just before the end.
            leaves_s = microseconds(made.end_s) * 1e-6 - 1e-6 / TICKS_PER_US
            points.append((made.pid, made.tid, max(leaves_s, made.start_s)))
        points += [(one.pid, one.tid, one.start_s) for one in on_the_way.get((name, device), ())]
        if (name, device) in readers:
            reader = min(readers[name, device], key=lambda one: one.start_s)
            points.append((reader.pid, reader.tid, reader.start_s))
        phases = "s" + "t" * (len(points) - 2) + "f" if len(points) > 1 else ""
        for phase, point in zip(phases, points, strict=False):
            # Numbers of measured arrows are even, so that no two arrows have one in common.
            yield arrow(phase, 2 * number + (which == "predicted"), *point)
