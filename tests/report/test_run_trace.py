"""The trace of a request that was made up, and what viewers ask of any trace."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dplace.plan.planned_times import planned_times
from dplace.plan.records import Plan
from dplace.report.json_text import json_text
from dplace.report.run_trace import run_trace
from dplace.report.trace import microseconds
from dplace.runtime.events import RunEvent
from dplace.runtime.gaps import gaps
from tests.runtime.fork import EVENTS, START_S, event, fork

Event = dict[str, Any]

CROSSING = (
    event("send", "h", "cpu:0", 11.4, 11.5, "cpu:1"),
    event("receive", "h", "cpu:1", 11.4, 11.55, "cpu:0"),
    event("copy", "z", "cpu:0", 12.0, 12.5, "host"),
)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return fork(Path(tmp_path_factory.mktemp("fork")))


def drawn(plan: Plan, measured: Sequence[RunEvent] = EVENTS) -> dict[str, Any]:
    planned = planned_times(plan)
    found = gaps(plan, planned, measured, START_S, 14.1)
    return run_trace(plan, planned, found, measured, run=3, start_s=START_S, end_s=14.1)


def of_phase(trace: dict[str, Any], *phases: str) -> list[Event]:
    return [one for one in trace["traceEvents"] if one["ph"] in phases]


def slices(trace: dict[str, Any], category: str) -> list[tuple[Any, ...]]:
    return [
        (one["name"], one["pid"], one["tid"], one["ts"], one["ts"] + one["dur"])
        for one in of_phase(trace, "X")
        if one["cat"] == category
    ]


def arrows(trace: dict[str, Any]) -> list[list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = {}
    for one in of_phase(trace, "s", "t", "f"):
        found.setdefault(one["id"], []).append((one["ph"], one["pid"], one["tid"], one["ts"]))
    return [found[number] for number in sorted(found)]


def test_each_device_has_a_measured_and_a_predicted_row(plan: Plan) -> None:
    names = [
        (one["name"], one["pid"], one["tid"], one["args"]["name"])
        for one in of_phase(drawn(plan), "M")
        if "name" in one["args"]
    ]
    assert names == [
        ("process_name", 1, 1, "cpu:0 (CPU)"),
        ("thread_name", 1, 1, "measured"),
        ("thread_name", 1, 2, "predicted"),
        ("process_name", 2, 1, "cpu:1 (CPU)"),
        ("thread_name", 2, 1, "measured"),
        ("thread_name", 2, 2, "predicted"),
        ("process_name", 3, 1, "transfers"),
        ("thread_name", 3, 1, "cpu:0 -> cpu:1 predicted"),
    ]


def test_parts_are_drawn_twice_from_the_start_of_the_request(plan: Plan) -> None:
    trace = drawn(plan)
    assert slices(trace, "part,measured") == [
        ("a", 1, 1, 0.2e6, 1.4e6),
        ("b", 2, 1, 1.6e6, 4.0e6),
        ("c", 1, 1, 1.5e6, 2.0e6),
    ]
    times = planned_times(plan)
    assert slices(trace, "part,predicted") == [
        (part.name, 1 + (part.device == "cpu:1"), 2, *map(microseconds, times.parts[part.name]))
        for part in plan.parts
    ]
    assert slices(trace, "transfer,predicted") == [("h", 3, 1, 1.1e6, 1.35e6)]


def test_a_slice_says_what_was_predicted_and_measured_of_its_part(plan: Plan) -> None:
    both = [one["args"] for one in of_phase(drawn(plan), "X") if one["name"] == "b"]
    assert both[0] == both[1]
    assert both[0] == {
        "ops": 1,
        "predicted_us": pytest.approx(2.1e6),
        "measured_us": pytest.approx(2.6e6),
        "ratio": pytest.approx(2.6 / 2.1),
        "predicted_call_us": pytest.approx(0.1e6),
        "measured_call_us": pytest.approx(0.2e6),
    }


def test_within_a_process_an_arrow_leads_from_maker_to_reader(plan: Plan) -> None:
    measured, predicted = arrows(drawn(plan))
    assert measured == [("s", 1, 1, 1.4e6 - 0.125), ("f", 2, 1, 1.6e6)]
    assert predicted == [("s", 1, 2, 1.1e6 - 0.125), ("t", 3, 1, 1.1e6), ("f", 2, 2, 1.35e6)]


def test_between_processes_both_ends_of_a_transfer_are_drawn(plan: Plan) -> None:
    trace = drawn(plan, (*EVENTS, *CROSSING))
    assert slices(trace, "transfer,measured") == [
        ("h", 3, 1, 1.4e6, 1.5e6),
        ("h", 3, 2, 1.4e6, 1.55e6),
    ]
    assert slices(trace, "copy,measured") == [("z", 1, 1, 2.0e6, 2.5e6)]
    named = [one["args"].get("name") for one in of_phase(trace, "M") if one["pid"] == 3]
    rows = [name for name in named if name is not None]
    assert rows == [
        "transfers",
        "cpu:0 -> cpu:1 measured send",
        "cpu:0 -> cpu:1 measured receive",
        "cpu:0 -> cpu:1 predicted",
    ]
    assert arrows(trace)[0] == [
        ("s", 1, 1, 1.4e6 - 0.125),
        ("t", 3, 1, 1.4e6),
        ("t", 3, 2, 1.4e6),
        ("f", 2, 1, 1.6e6),
    ]


def test_a_weight_from_the_host_has_no_maker(plan: Plan) -> None:
    brought = event("receive", "w", "cpu:1", 10.0, 11.0, "host")
    trace = drawn(plan, (*EVENTS, brought))
    assert slices(trace, "transfer,measured") == [("w", 3, 1, 0.0, 1e6)]
    assert len(arrows(trace)) == 2  # of h; nothing in the plan reads w


def test_a_part_that_did_not_run_is_only_predicted(plan: Plan) -> None:
    trace = drawn(plan, EVENTS[:2])
    assert [name for name, *_ in slices(trace, "part,measured")] == ["a", "c"]
    assert [name for name, *_ in slices(trace, "part,predicted")] == ["a", "b", "c"]
    assert len(arrows(trace)) == 1


def test_it_is_what_a_viewer_takes(plan: Plan) -> None:
    trace = drawn(plan, (*EVENTS, *CROSSING))
    assert json.loads(json_text(trace)) == trace
    rows: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for one in of_phase(trace, "X"):
        assert (one["ts"] * 1000).is_integer()
        assert (one["dur"] * 1000).is_integer()
        assert one["dur"] >= 0
        rows.setdefault((one["pid"], one["tid"]), []).append((one["ts"], one["ts"] + one["dur"]))
    for spans in rows.values():
        ends = [0.0, *(end for _, end in sorted(spans))]
        assert all(start >= end for (start, _), end in zip(sorted(spans), ends, strict=False))
    for points in arrows(trace):
        assert [phase for phase, *_ in points] == ["s", *["t"] * (len(points) - 2), "f"]
        for _, pid, tid, at in points:  # each hangs on a slice
            assert any(start <= at <= end for start, end in rows[pid, tid])
    assert trace["otherData"]["run"] == 3
    assert [one["part"] for one in trace["otherData"]["furthest"]] == ["b", "a", "c"]
