"""A plan made by hand, for tests of what is shown of one."""

import dataclasses
from pathlib import Path
from typing import Any

from dplace.plan.records import Part, Plan, PlannedDevice, PlannedLinks, Step, ValueType
from dplace.report.answer import PlaceAnswer, SimulateAnswer
from dplace.report.graph_answer import GraphAnswer
from dplace.report.model_summary import Capture, ModelSummary, OpTypeUse, Uncut


def device(name: str = "cpu:0", **changes: Any) -> PlannedDevice:
    """Return a device that runs 3 ops for 8 ms."""
    made = PlannedDevice(
        name=name,
        kind="CPU",
        provider="CPUExecutionProvider",
        index=0,
        host=0,
        memory_bytes=8_000_000_000,
        call_overhead_s=1e-5,
        num_ops=3,
        weight_bytes=4_000_000,
        peak_bytes=6_500_000,
        busy_s=0.008,
        program=(Step(action="run", subject="part-0"),),
    )
    return dataclasses.replace(made, **changes)


def part(name: str, device_name: str) -> Part:
    """Return a part of three ops."""
    return Part(
        name=name,
        file=f"parts/{name}.onnx",
        device=device_name,
        inputs=("x",),
        outputs=("y",),
        overridable=(),
        digest="sha256:00",
        weights_file=None,
        weights_digest=None,
        num_ops=3,
        predicted_s=0.004,
    )


def plan(**changes: Any) -> Plan:
    """Return a plan of two parts on two cores: 10 ms, where one core takes 16 ms."""
    made = Plan(
        model="towers.onnx",
        model_digest="sha256:00",
        cluster="2xCPU",
        objective="latency",
        policy="auto",
        optimize="native",
        opt_level="all",
        exact=True,
        runtime={"onnxruntime": "1.31.1"},
        makespan_s=0.010,
        bottleneck_s=0.008,
        bound_s=0.008,
        best_single_device_s=0.016,
        inputs=(ValueType(name="x", type="tensor(float)", shape=("batch", 4)),),
        outputs=(ValueType(name="y", type="tensor(float)", shape=None),),
        overridable=(),
        passthrough=(),
        devices=(device("cpu:0"), device("cpu:1", num_ops=2, busy_s=0.006, weight_bytes=900)),
        parts=(part("cpu0-000", "cpu:0"), part("cpu1-000", "cpu:1")),
        values=(),
        links=PlannedLinks(
            latency_s=((0.0, 1e-6), (1e-6, 0.0)),
            bytes_per_s=((float("inf"), 1e10), (1e10, float("inf"))),
            host_latency_s=(0.0, 0.0),
            host_bytes_per_s=(float("inf"), float("inf")),
            contention="link",
        ),
        dims={"batch": 8},
        index_limits={},
        comm_order="tac",
    )
    return dataclasses.replace(made, **changes)


def placed(**changes: Any) -> PlaceAnswer:
    """Return the answer that has this plan, written to ``out/plan``."""
    made = PlaceAnswer(
        plan=plan(),
        out=Path("out/plan"),
        transfers=1,
        transfer_bytes=4096,
        scores={"single": 0.016, "heft": 0.0112},
        order_scores={"fifo": 0.0105, "tac": 0.010},
        evaluations=120,
        bound_argument="work",
        measured_share=0.25,
        warnings=("batch is taken as 1",),
    )
    return dataclasses.replace(made, **changes)


def simulated(**changes: Any) -> SimulateAnswer:
    """Return the prediction of this plan, as it was made."""
    made = SimulateAnswer(
        folder=Path("out/plan"),
        plan=plan(),
        makespan_s=0.010,
        bottleneck_s=0.008,
        devices=plan().devices,
        transfers=1,
        transfer_bytes=4096,
    )
    return dataclasses.replace(made, **changes)


def graph_placed(**changes: Any) -> GraphAnswer:
    """Return the answer for a cost graph of five ops whose file states no unit."""
    made = GraphAnswer(
        graph="towers",
        format="moirai",
        machine="moirai",
        objective="latency",
        cluster="2 devices of the file",
        policy="auto",
        unit="file units",
        unit_s=1e-3,
        makespan_s=0.0177154,
        bound_s=0.01417232,
        best_single_device_s=0.0354308,
        placement={"1": 0, "2": 0, "3": 0, "4": 1, "5": 1},
        devices=plan().devices,
        transfers=3,
        transfer_bytes=0,
        scores={"single": 0.0354308, "heft": 0.0185},
        evaluations=120,
        bound_argument="forks",
        out=Path("out/answer"),
        warnings=("memory looks like bits",),
    )
    return dataclasses.replace(made, **changes)


def summary(**changes: Any) -> ModelSummary:
    """Return the summary of a model with an If."""
    made = ModelSummary(
        model="towers.onnx",
        ir_version=8,
        producer="pytorch 2.4",
        opset_imports={"ai.onnx": 17, "com.microsoft": 1},
        functions=("local:gate",),
        optimize="none",
        num_nodes=9,
        num_ops=6,
        num_weights=4,
        weight_bytes=4_000_900,
        inputs=(ValueType(name="x", type="tensor(float)", shape=("batch", None, 4)),),
        outputs=(ValueType(name="y", type="tensor(float)", shape=None),),
        dynamic_dims={"batch": 1},
        op_types=(
            OpTypeUse(op_type="Relu", count=2, flop=2e6, size_bytes=8e6),
            OpTypeUse(op_type="MatMul", count=3, flop=6e6, size_bytes=12e6),
            OpTypeUse(op_type="If", count=1, flop=0, size_bytes=0),
        ),
        captures=(Capture(op="y", op_type="If", values=("h", "w")),),
        uncut=(Uncut(reason="control-flow", op="y", detail="2 bodies with 5 nodes"),),
    )
    return dataclasses.replace(made, **changes)
