"""The trace of two ops on two devices, and what viewers ask of any trace."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dplace.cluster import Cluster, Device
from dplace.op_graph import OpGraph
from dplace.report.json_text import json_text
from dplace.report.trace import chrome_trace
from dplace.simulator.timeline import Lowered, Timeline

Event = dict[str, Any]


def ints(*values: int) -> Any:
    return np.array(values, np.int32)


def floats(*values: float) -> Any:
    return np.array(values, np.float64)


# x -> MatMul -> h -> Relu -> y: one second, half a second for h to cross, a quarter.
GRAPH = OpGraph(
    name="two",
    op_names=("h", "y"),
    op_types=("MatMul", "Relu"),
    op_flop=floats(2e6, 1e3),
    op_bytes=floats(4e6, 2e3),
    op_classes=("matmul", "elementwise"),
    op_dtypes=("float32", "float32"),
    op_launches=ints(1, 1),
    value_names=("x", "h", "y"),
    value_producer=ints(-1, 0, 1),
    value_bytes=np.array([64, 4096, 4096], np.int64),
    value_movable=np.array([True, True, True]),
    input_offsets=ints(0, 1, 2),
    input_values=ints(0, 1),
    output_offsets=ints(0, 1, 2),
    output_values=ints(1, 2),
    consumer_offsets=ints(0, 1, 2, 2),
    consumer_ops=ints(0, 1),
    graph_inputs=ints(0),
    graph_outputs=ints(2),
    weight_names=(),
    weight_bytes=np.array([], np.int64),
    weight_offsets=ints(0, 0, 0),
    op_weights=ints(),
    colocation=ints(-1, -1),
)


DEVICES = tuple(
    Device(
        name=f"cpu:{index}",
        kind="CPU",
        provider="CPUExecutionProvider",
        index=index,
        host=0,
        memory_bytes=10**9,
        call_overhead_s=0.001,
    )
    for index in range(2)
)
CLUSTER = Cluster(
    spec="2xCPU",
    devices=DEVICES,
    latency_s=np.zeros((2, 2)),
    bytes_per_s=np.array([[np.inf, 1e6], [1e6, np.inf]]),
    host_latency_s=np.zeros(2),
    host_bytes_per_s=np.full(2, np.inf),
)


LOWERED = Lowered(
    placement=ints(0, 1),
    part_device=ints(0, 1),
    part_offsets=ints(0, 1, 2),
    part_ops=ints(0, 1),
    part_of_op=ints(0, 1),
    transfer_value=ints(1),
    transfer_source=ints(0),
    transfer_target=ints(1),
    transfer_priority=ints(0),
)


TIMELINE = Timeline(
    makespan_s=1.75,
    part_start_s=floats(0.0, 1.5),
    part_end_s=floats(1.0, 1.75),
    op_start_s=floats(0.0, 1.5),
    op_end_s=floats(1.0, 1.75),
    transfer_start_s=floats(1.0),
    transfer_end_s=floats(1.5),
    busy_s=floats(1.0, 0.25),
    weight_bytes=np.array([0, 0], np.int64),
    peak_bytes=np.array([4160, 8192], np.int64),
)


def trace(
    *,
    lowered: Lowered = LOWERED,
    timeline: Timeline = TIMELINE,
    part_names: Sequence[str] | None = None,
) -> dict[str, Any]:
    return chrome_trace(GRAPH, CLUSTER, lowered, timeline, part_names=part_names)


def events(phase: str, **changes: Any) -> list[Event]:
    return [event for event in trace(**changes)["traceEvents"] if event["ph"] == phase]


def test_each_op_lies_in_its_part_and_each_transfer_on_its_link() -> None:
    slices = [
        (event["cat"], event["name"], event["pid"], event["tid"], event["ts"], event["dur"])
        for event in events("X")
    ]
    assert slices == [
        ("part", "part 0", 1, 1, 0.0, 1e6),
        ("op", "MatMul", 1, 1, 0.0, 1e6),
        ("part", "part 1", 2, 1, 1.5e6, 0.25e6),
        ("op", "Relu", 2, 1, 1.5e6, 0.25e6),
        ("transfer", "h", 3, 1, 1e6, 0.5e6),
    ]


def test_an_arrow_leads_from_the_producer_over_the_transfer_to_the_reader() -> None:
    arrows = [
        (event["ph"], event["id"], event["pid"], event["tid"], event["ts"])
        for phase in "stf"
        for event in events(phase)
    ]
    assert arrows == [("s", 0, 1, 1, 0.0), ("t", 0, 3, 1, 1e6), ("f", 0, 2, 1, 1.5e6)]


def test_processes_and_rows_have_names() -> None:
    names = [
        (event["name"], event["pid"], event["tid"], event["args"]["name"])
        for event in events("M")
        if "name" in event["args"]
    ]
    assert names == [
        ("process_name", 1, 1, "cpu:0 (CPU, host 0)"),
        ("thread_name", 1, 1, "ops"),
        ("process_name", 2, 1, "cpu:1 (CPU, host 0)"),
        ("thread_name", 2, 1, "ops"),
        ("process_name", 3, 1, "transfers"),
        ("thread_name", 3, 1, "cpu:0 -> cpu:1"),
    ]


def test_parts_can_have_the_names_of_the_plan() -> None:
    names = [
        event["name"] for event in events("X", part_names=["a", "b"]) if event["cat"] == "part"
    ]
    assert names == ["a", "b"]


def test_transfers_that_overlap_on_a_link_get_rows_of_their_own() -> None:
    three = dataclasses.replace(
        LOWERED,
        transfer_value=ints(1, 1, 1),
        transfer_source=ints(0, 0, 0),
        transfer_target=ints(1, 1, 1),
    )
    overlapping = dataclasses.replace(
        TIMELINE, transfer_start_s=floats(0.0, 0.5, 1.0), transfer_end_s=floats(1.0, 1.5, 2.0)
    )
    rows = [
        event["tid"]
        for event in events("X", lowered=three, timeline=overlapping)
        if event["cat"] == "transfer"
    ]
    assert rows == [1, 2, 1]


def test_an_op_never_reaches_beyond_its_part() -> None:
    rounded = dataclasses.replace(TIMELINE, op_end_s=floats(1.0000004, 1.7500009))
    part, op = (event for event in events("X", timeline=rounded) if event["pid"] == 2)
    assert op["ts"] + op["dur"] <= part["ts"] + part["dur"]


@pytest.mark.parametrize("seconds", [0.1, 1 / 3, 1e-7, 12.3456789])
def test_times_are_whole_nanoseconds(seconds: float) -> None:
    moved = dataclasses.replace(TIMELINE, transfer_start_s=floats(seconds))
    for event in events("X", timeline=moved):
        assert (event["ts"] * 1000).is_integer()
        assert (event["dur"] * 1000).is_integer()


def test_the_trace_is_json() -> None:
    assert json.loads(json_text(trace())) == trace()


def test_copies_from_the_host_have_rows_of_their_own_and_lead_to_their_readers() -> None:
    lowered = dataclasses.replace(
        LOWERED, copy_value=ints(0), copy_target=ints(0), copy_priority=ints(0)
    )
    timeline = dataclasses.replace(TIMELINE, copy_start_s=floats(0.0), copy_end_s=floats(0.25))
    rows = {
        event["tid"]: event["args"]["name"]
        for event in events("M", lowered=lowered, timeline=timeline)
        if event["name"] == "thread_name" and event["pid"] == 3
    }
    assert sorted(rows.values()) == ["cpu:0 -> cpu:1", "host -> cpu:0"]
    (copy,) = [
        event
        for event in events("X", lowered=lowered, timeline=timeline)
        if event["cat"] == "transfer" and event["args"]["from"] == "host"
    ]
    assert rows[copy["tid"]] == "host -> cpu:0"
    assert (copy["ts"], copy["dur"], copy["name"]) == (0.0, 250_000.0, GRAPH.value_names[0])
