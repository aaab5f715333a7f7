"""Whole tables, at the width they have in a pipe."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from dplace.examination import Check, DoctorReport
from dplace.plan.records import Step, StreamedWeight
from dplace.report.doctor import doctor_table
from dplace.report.model_summary import Capture, OpTypeUse
from dplace.report.model_table import model_table
from dplace.report.table import place_table, simulate_table
from tests.report.plans import device, placed, plan, simulated, summary

WIDTH = 80


def text(table: RenderableType) -> str:
    """Return a table as it stands in a file."""
    file = StringIO()
    console = Console(
        file=file, width=WIDTH, color_system=None, highlight=False, emoji=False, markup=False
    )
    console.print(table)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def test_place() -> None:
    assert (
        text(place_table(placed()))
        == """\
Predicted 10.00 ms, 1.60x as fast as one device, 25.0 % above the bound

Device  Kind  Ops  Weights  Peak memory      Busy  of the time
cpu:0   CPU     3   4.0 MB       6.5 MB  8.000 ms         80 %
cpu:1   CPU     2    900 B       6.5 MB  6.000 ms         60 %

Model       towers.onnx (optimized: native, all)
Dimensions  batch=8
Cluster     2xCPU
One device  the best takes 16.00 ms
Bound       no placement takes less than 8.000 ms, by work
Transfers   1, 4.1 kB in all
Order       tac, for fifo gives 10.50 ms, tac 10.00 ms
Parts       2
Times       25 % measured, 75 % modelled
Policy      auto after 120 evaluations; single 16.00 ms, heft 11.20 ms
Plan        out/plan
Next        dplace run out/plan"""
    )


def test_place_without_a_folder_says_how_to_get_one() -> None:
    lines = text(place_table(placed(out=None))).splitlines()
    assert lines[-1] == "Plan        not written; -o DIR writes it"


def test_place_of_a_model_that_one_device_cannot_hold() -> None:
    lines = text(place_table(placed(plan=plan(best_single_device_s=float("inf"))))).splitlines()
    assert lines[0] == "Predicted 10.00 ms, one device cannot hold it, 25.0 % above the bound"
    assert "One device  none has the memory for all" in lines


def test_place_of_a_model_without_ops() -> None:
    empty = plan(makespan_s=0.0, bound_s=0.0, best_single_device_s=0.0, dims={}, optimize="none")
    lines = text(place_table(placed(plan=empty, scores={}))).splitlines()
    assert lines[0] == "Predicted 0.000 ms, nothing to compute"
    assert "Model       towers.onnx (as it is)" in lines


def test_the_next_command_can_be_pasted() -> None:
    lines = text(place_table(placed(out=Path("my plan")))).splitlines()
    assert lines[-1] == "Next        dplace run 'my plan'"


def test_a_plan_for_other_machines_is_not_run_here() -> None:
    lines = text(place_table(placed(plan=plan(optimize="portable")))).splitlines()
    assert lines[-1] == "Next        dplace run out/plan   where the cluster is"


def test_simulate() -> None:
    assert (
        text(simulate_table(simulated()))
        == """\
Predicted 10.00 ms, 1.60x as fast as one device, 25.0 % above the bound

Device  Kind  Ops  Weights  Peak memory      Busy  of the time
cpu:0   CPU     3   4.0 MB       6.5 MB  8.000 ms         80 %
cpu:1   CPU     2    900 B       6.5 MB  6.000 ms         60 %

Model       towers.onnx (optimized: native, all)
Dimensions  batch=8
Cluster     2xCPU
One device  the best takes 16.00 ms
Bound       no placement takes less than 8.000 ms
Transfers   1, 4.1 kB in all
Order       tac
Parts       2"""
    )


def test_a_plan_for_a_stream_is_measured_by_how_often_a_result_comes() -> None:
    stream = plan(objective="throughput", bottleneck_s=0.008, bound_s=0.0064)
    for table in (place_table(placed(plan=stream)), simulate_table(simulated(plan=stream))):
        lines = text(table).splitlines()
        assert lines[0] == (
            "A result each 8.000 ms, 2.00x as often as one device, 25.0 % above the bound"
        )
        assert "cpu:0   CPU     3   4.0 MB       6.5 MB  8.000 ms        100 %" in lines
        assert "One request  takes 10.00 ms" in lines
    assert placed(plan=stream).gap_to_bound == pytest.approx(0.25)


def test_simulate_shows_when_it_predicted_something_else_before() -> None:
    lines = text(simulate_table(simulated(makespan_s=0.012))).splitlines()
    assert lines[-1] == "When made   10.00 ms predicted"


def test_inspect() -> None:
    assert (
        text(model_table(summary(), top=2))
        == """\
Model      towers.onnx
Format     IR 8 by pytorch 2.4; opset ai.onnx 17, com.microsoft 1
Optimized  not at all
Ops        6 to place, of 9 nodes
Work       8.0 MFLOP
Weights    4, 4.0 MB in all
Input      x: tensor(float)[batch, ?, 4]
Output     y: tensor(float)
Dynamic    batch=1; --dim NAME=N changes it
Functions  local:gate

Op type  Ops       Work  of all  Read and written
MatMul     3  6.0 MFLOP  75.0 %           12.0 MB
Relu       2  2.0 MFLOP  25.0 %            8.0 MB
and 1 more; --top 3 shows all

Reads outer values  Op  Values
y                   If  h, w

Cannot be cut  Because                   What it is
y              its bodies run inside it  2 bodies with 5 nodes"""
    )


def test_doctor() -> None:
    report = DoctorReport(
        python="3.11.7",
        versions={"dgl": None, "onnx": "1.23.2"},
        cores=2,
        memory_bytes=16_000_000_000,
        checks=(
            Check(status="ok", subject="onnxruntime", message="installed as onnxruntime"),
            Check(status="fault", subject="dgl", message="not installed"),
        ),
    )
    assert (
        text(doctor_table(report))
        == """\
Python 3.11.7, 2 cores, 16.0 GB of memory

Package  Version
dgl      not installed
onnx     1.23.2

Check
ok     onnxruntime  installed as onnxruntime
fault  dgl          not installed

1 fault to mend"""
    )


def test_streamed_weights_are_told_with_their_homes_and_rooms() -> None:
    receive = Step(action="receive", subject="w", peer="host")
    first = device("cpu:0", program=(receive,), buffer_bytes=2_000_000)
    weight = StreamedWeight(
        name="w",
        type="tensor(float)",
        shape=(750_000,),
        size_bytes=3_000_000,
        home="host",
        file="parts/host.streamed",
        offset=0,
        digest="sha256:00",
    )
    shown = text(
        place_table(placed(plan=plan(streamed=(weight,), devices=(first, device("cpu:1")))))
    )
    assert (
        """Streamed    3.0 MB of weights from host for each request: 3.0 MB to cpu:0
            through 2.0 MB"""
        in shown
    )
    assert "Streamed" not in text(place_table(placed()))


NAME = "[red]/model/:smile:" + "x" * 300 + "\x1b[31m\n"


@pytest.mark.parametrize(
    "table",
    [
        place_table(
            placed(
                out=Path(NAME),
                plan=plan(model=NAME, dims={NAME: 1}, devices=(device(NAME, kind=NAME),)),
                scores={NAME: 1.0},
            )
        ),
        model_table(
            summary(
                model=NAME,
                producer=NAME,
                op_types=(OpTypeUse(op_type=NAME, count=10**9, flop=1e18, size_bytes=1e18),),
                captures=(Capture(op=NAME, op_type=NAME, values=(NAME,)),),
            ),
            top=5,
        ),
    ],
)
def test_long_and_wicked_names_stay_text_within_the_width(table: RenderableType) -> None:
    shown = text(table)
    assert max(map(len, shown.splitlines())) <= WIDTH
    assert "\x1b" not in shown
    assert "[red]" in shown.replace("\n", "").replace(" ", "")
