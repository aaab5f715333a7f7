"""A timeline in the Chrome trace format, which Perfetto and chrome://tracing open.

The format is described in "Trace Event Format" by the Chromium project. Each device is a process
with one row, in which ops lie inside their part. Transfers are one more process with a row for
each pair of devices, and for copies from the host to each device; arrows lead from the op that made
a value by way of its transfer to the first op that waits for it.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # dplace.simulator brings numba along
    from dplace.cluster import Cluster
    from dplace.op_graph import OpGraph
    from dplace.simulator.timeline import Lowered, Timeline

__all__ = ["chrome_trace"]

Event = dict[str, object]

MAIN = 1
"""Thread of a device's slices; Perfetto keeps process 0 and thread 0 for idle time."""

TICKS_PER_US = 8
"""Times are rounded to eighths of a microsecond: those stay exact in a viewer that counts whole
nanoseconds, where a slice that overlaps its neighbour by a rounding would be dropped."""


def chrome_trace(
    graph: "OpGraph",
    cluster: "Cluster",
    lowered: "Lowered",
    timeline: "Timeline",
    *,
    part_names: Sequence[str] | None = None,
) -> dict[str, object]:
    """Return the timeline as the JSON object of a trace.

    Args:
        graph: the ops and values that the timeline is about.
        cluster: the devices they were placed on.
        lowered: parts, transfers and copies from the host.
        timeline: when each of them starts and ends.
        part_names: the names of the parts in the plan, in the order of ``lowered``.
    """
    names = part_names or [f"part {part}" for part in range(lowered.num_parts)]
    events = [
        *device_names(cluster),
        *part_events(graph, lowered, timeline, names),
        *transfer_events(graph, cluster, *with_copies(lowered, timeline)),
    ]
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "model": graph.name,
            "cluster": cluster.spec,
            "makespan_s": float(timeline.makespan_s),
        },
    }


def with_copies(lowered: "Lowered", timeline: "Timeline") -> tuple["Lowered", "Timeline"]:
    """Return the same with copies from the host as transfers, behind the others, of source -1."""
    from_host = np.full(lowered.num_copies, -1, dtype=np.int32)
    return (
        replace(
            lowered,
            transfer_value=np.append(lowered.transfer_value, lowered.copy_value),
            transfer_source=np.append(lowered.transfer_source, from_host),
            transfer_target=np.append(lowered.transfer_target, lowered.copy_target),
            transfer_priority=np.append(lowered.transfer_priority, lowered.copy_priority),
        ),
        replace(
            timeline,
            transfer_start_s=np.append(timeline.transfer_start_s, timeline.copy_start_s),
            transfer_end_s=np.append(timeline.transfer_end_s, timeline.copy_end_s),
        ),
    )


def device_names(cluster: "Cluster") -> Iterator[Event]:
    """Yield the name and the place of each device's process."""
    for pid, device in enumerate(cluster.devices, start=1):
        title = f"{device.name} ({device.kind}, host {device.host})"
        yield named("process_name", pid, MAIN, title)
        yield placed_at("process_sort_index", pid, MAIN, pid)
        yield named("thread_name", pid, MAIN, "ops")


def part_events(
    graph: "OpGraph", lowered: "Lowered", timeline: "Timeline", names: Sequence[str]
) -> Iterator[Event]:
    """Yield each part, followed by its ops, which lie within it."""
    for part in range(lowered.num_parts):
        pid = int(lowered.part_device[part]) + 1
        ops = lowered.part_ops[lowered.part_offsets[part] : lowered.part_offsets[part + 1]]
        start_s = float(timeline.part_start_s[part])
        end_s = float(timeline.part_end_s[part])
        yield complete(names[part], "part", pid, MAIN, start_s, end_s, {"ops": len(ops)})
        for op in ops:
            # A viewer drops a slice that reaches beyond its parent by as little as a rounding.
            op_start_s = min(max(float(timeline.op_start_s[op]), start_s), end_s)
            op_end_s = min(max(float(timeline.op_end_s[op]), op_start_s), end_s)
            yield complete(
                graph.op_types[op],
                "op",
                pid,
                MAIN,
                op_start_s,
                op_end_s,
                {
                    "output": graph.op_names[op],
                    "flop": float(graph.op_flop[op]),
                    "bytes": float(graph.op_bytes[op]),
                },
            )


def transfer_events(
    graph: "OpGraph", cluster: "Cluster", lowered: "Lowered", timeline: "Timeline"
) -> Iterator[Event]:
    """Yield each transfer on the row of its link, and the arrows to and from it."""
    pid = cluster.num_devices + 1
    tids = [row + 1 for row in transfer_rows(lowered, timeline)]
    if tids:
        yield named("process_name", pid, MAIN, "transfers")
        yield placed_at("process_sort_index", pid, MAIN, pid)
    seen: set[int] = set()
    for transfer, tid in enumerate(tids):
        home = int(lowered.transfer_source[transfer])
        source = cluster.devices[home].name if home >= 0 else "host"
        target = cluster.devices[int(lowered.transfer_target[transfer])].name
        if tid not in seen:
            seen.add(tid)
            yield named("thread_name", pid, tid, f"{source} -> {target}")
            yield placed_at("thread_sort_index", pid, tid, tid)
        value = int(lowered.transfer_value[transfer])
        start_s = float(timeline.transfer_start_s[transfer])
        end_s = float(timeline.transfer_end_s[transfer])
        arguments: Event = {
            "bytes": int(graph.value_bytes[value]),
            "from": source,
            "to": target,
        }
        yield complete(graph.value_names[value], "transfer", pid, tid, start_s, end_s, arguments)
        yield from arrows(graph, lowered, timeline, transfer, tid, pid)


def transfer_rows(lowered: "Lowered", timeline: "Timeline") -> list[int]:
    """Return the row of each transfer: one a link, and more where its transfers overlap."""
    return rows_apart(
        [
            (
                (int(lowered.transfer_source[transfer]), int(lowered.transfer_target[transfer])),
                float(timeline.transfer_start_s[transfer]),
                float(timeline.transfer_end_s[transfer]),
            )
            for transfer in range(lowered.num_transfers)
        ]
    )


def rows_apart(spans: Sequence[tuple[Hashable, float, float]]) -> list[int]:
    """Return a row for each span of time, from 0, so that those of one row do not overlap.

    Slices of one row must not overlap, but transfers do where nothing contends.

    Args:
        spans: What a row is for, the start and the end; equal ones share rows, others never do.
    """
    row_of: dict[int, int] = {}
    rows_for: dict[Hashable, list[int]] = {}
    free_at_s: list[float] = []  # by row
    for span in sorted(range(len(spans)), key=lambda index: (spans[index][1], index)):
        what, start_s, end_s = spans[span]
        known = rows_for.setdefault(what, [])
        row = next((row for row in known if free_at_s[row] <= start_s), None)
        if row is None:
            row = len(free_at_s)
            known.append(row)
            free_at_s.append(start_s)
        free_at_s[row] = end_s
        row_of[span] = row
    return [row_of[span] for span in range(len(spans))]


def arrows(
    graph: "OpGraph", lowered: "Lowered", timeline: "Timeline", transfer: int, tid: int, pid: int
) -> Iterator[Event]:
    """Yield the arrow that leads to a transfer and on to the first op that waits for it."""
    value = int(lowered.transfer_value[transfer])
    target = int(lowered.transfer_target[transfer])
    producer = int(graph.value_producer[value])
    points: list[tuple[int, int, float]] = []  # process, thread, time
    if producer >= 0:
        source = int(lowered.transfer_source[transfer])
        points.append((source + 1, MAIN, float(timeline.op_start_s[producer])))
    points.append((pid, tid, float(timeline.transfer_start_s[transfer])))
    waiting = [
        float(timeline.op_start_s[op])
        for op in graph.consumers_of(value)
        if lowered.placement[op] == target
    ]
    if waiting:
        points.append((target + 1, MAIN, min(waiting)))
    phases = "s" + "t" * (len(points) - 2) + "f" if len(points) > 1 else ""
    for phase, point in zip(phases, points, strict=False):
        yield arrow(phase, transfer, *point)


def complete(
    name: str, category: str, pid: int, tid: int, start_s: float, end_s: float, args: Event
) -> Event:
    """Return a slice, from its start to its end."""
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": pid,
        "tid": tid,
        "ts": microseconds(start_s),
        "dur": microseconds(end_s) - microseconds(start_s),
        "args": args,
    }


def arrow(phase: str, transfer: int, pid: int, tid: int, at_s: float) -> Event:
    """Return one point of an arrow; it binds to the slice that is open there."""
    return {
        "ph": phase,
        "name": "transfer",
        "cat": "transfer",
        "id": transfer,
        "pid": pid,
        "tid": tid,
        "ts": microseconds(at_s),
        "bp": "e",
    }


def named(what: str, pid: int, tid: int, name: str) -> Event:
    """Return the name of a process or a thread."""
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def placed_at(what: str, pid: int, tid: int, index: int) -> Event:
    """Return the place of a process or a thread among the others."""
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"sort_index": index}}


def microseconds(seconds: float) -> float:
    """Return a time in the format's unit, rounded to what every viewer can hold.

    >>> microseconds(0.0012345678)
    1234.625
    """
    return round(seconds * 1e6 * TICKS_PER_US) / TICKS_PER_US
