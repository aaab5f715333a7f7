"""Small plan folders made by hand: parts from onnx.helper, and the Plan record that runs them."""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from dplace.plan.records import (
    Part,
    Plan,
    PlannedDevice,
    PlannedLinks,
    Step,
    StreamedWeight,
    ValueType,
)
from dplace.runtime.values import type_of_array

__all__ = ["FLOAT", "given", "graph", "make_plan", "node", "node_model", "with_times"]

FLOAT = TensorProto.FLOAT

node = helper.make_node


def given(
    name: str,
    elem_type: int | onnx.TypeProto = FLOAT,
    shape: Sequence[int | str | None] | None = None,
) -> onnx.ValueInfoProto:
    """Return an input or output; ``elem_type`` may be a whole type, as of a sequence."""
    if isinstance(elem_type, onnx.TypeProto):
        return helper.make_value_info(name, elem_type)
    return helper.make_tensor_value_info(name, elem_type, shape)


def graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: Sequence[onnx.TensorProto] = (),
    opset: int = 21,
) -> onnx.ModelProto:
    """Return a model; contrib and ML domains may be used."""
    return helper.make_model(
        helper.make_graph(nodes, "part", inputs, outputs, weights),
        opset_imports=[
            helper.make_opsetid("", opset),
            helper.make_opsetid("ai.onnx.ml", 3),
            helper.make_opsetid("com.microsoft", 1),
        ],
        ir_version=10 if opset < 23 else 12,
    )


def node_model(
    op: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    shape: Sequence[int | str | None] | None = ("N",),
    **attributes: Any,
) -> onnx.ModelProto:
    """Return a model of one node on float tensors of one shape."""
    return graph(
        [node(op, inputs, outputs, **attributes)],
        [given(name, shape=shape) for name in inputs],
        [given(name, shape=shape) for name in outputs],
    )


def make_plan(
    folder: Path,
    parts: Mapping[str, tuple[str, onnx.ModelProto]],
    programs: Mapping[str, Sequence[str]],
    *,
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    passthrough: Sequence[tuple[str, str]] = (),
    overridable: Sequence[onnx.ValueInfoProto] = (),
    provider: str = "CPUExecutionProvider",
    kind: str = "CPU",
    optimize: str = "none",
    opt_level: str = "none",
    runtime: Mapping[str, str] | None = None,
    index_limits: Mapping[str, int] | None = None,
    streamed: Mapping[str, tuple[str, NDArray[Any]]] | None = None,
    buffers: Mapping[str, int] | None = None,
) -> Plan:
    """Write the parts and return the plan that runs them.

    Args:
        parts: By name the device and the model.
        programs: By device its steps: ``run a``, ``send x cpu:1``, ``receive x cpu:0``.
        streamed: By name the home and the content of weights that are streamed.
        buffers: By device the bytes of room for them.
    """
    (folder / "parts").mkdir(parents=True, exist_ok=True)
    records: list[Part] = []
    may_override = {value.name for value in overridable}
    for name, (device, model) in parts.items():
        content = model.SerializeToString()
        (folder / "parts" / f"{name}.onnx").write_bytes(content)
        weights = {tensor.name for tensor in model.graph.initializer}
        records.append(
            Part(
                name=name,
                file=f"parts/{name}.onnx",
                device=device,
                inputs=tuple(v.name for v in model.graph.input if v.name not in weights),
                outputs=tuple(v.name for v in model.graph.output),
                overridable=tuple(sorted(weights & may_override)),
                digest="sha256:" + hashlib.sha256(content).hexdigest(),
                weights_file=None,
                weights_digest=None,
                num_ops=len(model.graph.node),
                predicted_s=0.0,
            )
        )
    devices = tuple(
        PlannedDevice(
            name=name,
            kind=kind,
            provider=provider,
            index=index,
            host=0,
            memory_bytes=2**30,
            call_overhead_s=0.0,
            num_ops=0,
            weight_bytes=0,
            peak_bytes=0,
            busy_s=0.0,
            program=tuple(_step(text) for text in program),
            buffer_bytes=(buffers or {}).get(name, 0),
        )
        for index, (name, program) in enumerate(programs.items())
    )
    zeros = tuple(tuple(0.0 for _ in devices) for _ in devices)
    crossing = {
        value.name: _record(value)
        for _, model in parts.values()
        for value in (*model.graph.input, *model.graph.output)
    }
    return Plan(
        model="model.onnx",
        model_digest="sha256:0",
        cluster=f"{len(devices)}x{kind}",
        objective="latency",
        policy="given",
        optimize=optimize,  # type: ignore[arg-type]  # tests write the literals
        opt_level=opt_level,  # type: ignore[arg-type]
        exact=optimize == "native" or opt_level == "none",
        runtime=dict(runtime or {}),
        makespan_s=0.001,
        bottleneck_s=0.001,
        bound_s=0.0,
        best_single_device_s=0.002,
        inputs=tuple(_record(value) for value in inputs),
        outputs=tuple(_record(value) for value in outputs),
        overridable=tuple(_record(value) for value in overridable),
        passthrough=tuple(passthrough),
        devices=devices,
        parts=tuple(records),
        values=tuple(crossing.values()),
        links=PlannedLinks(
            latency_s=zeros,
            bytes_per_s=zeros,
            host_latency_s=tuple(0.0 for _ in devices),
            host_bytes_per_s=tuple(0.0 for _ in devices),
            contention="none",
        ),
        dims={},
        index_limits=dict(index_limits or {}),
        streamed=_written(streamed or {}, folder),
    )


def _written(
    weights: Mapping[str, tuple[str, NDArray[Any]]], folder: Path
) -> tuple[StreamedWeight, ...]:
    """Write a file for each home and return where each weight lies in it."""
    contents: dict[str, bytes] = {}
    places: dict[str, tuple[str, int]] = {}
    for name, (home, array) in weights.items():
        file = f"parts/{home.replace(':', '-')}.streamed"
        content = contents.get(file, b"")
        content += bytes(-len(content) % 4096)
        places[name] = (file, len(content))
        contents[file] = content + array.tobytes()
    for file, content in contents.items():
        (folder / file).write_bytes(content)
    return tuple(
        StreamedWeight(
            name=name,
            type=type_of_array(array),
            shape=array.shape,
            size_bytes=array.nbytes,
            home=home,
            file=places[name][0],
            offset=places[name][1],
            digest="sha256:" + hashlib.sha256(contents[places[name][0]]).hexdigest(),
        )
        for name, (home, array) in weights.items()
    )


def with_times(
    plan: Plan, seconds: Mapping[str, float], *, overhead_s: float, latency_s: float
) -> Plan:
    """Return the plan with the predicted compute time of each part; sizes cost nothing."""
    count = len(plan.devices)
    return dataclasses.replace(
        plan,
        parts=tuple(
            dataclasses.replace(part, predicted_s=seconds[part.name]) for part in plan.parts
        ),
        devices=tuple(
            dataclasses.replace(device, call_overhead_s=overhead_s) for device in plan.devices
        ),
        links=PlannedLinks(
            latency_s=((latency_s,) * count,) * count,
            bytes_per_s=((float("inf"),) * count,) * count,
            host_latency_s=(0.0,) * count,
            host_bytes_per_s=(float("inf"),) * count,
            contention="none",
        ),
    )


def _step(text: str) -> Step:
    action, subject, *peer = text.split()
    return Step(action=action, subject=subject, peer=peer[0] if peer else None)  # type: ignore[arg-type]


def _record(value: onnx.ValueInfoProto) -> ValueType:
    """Return a value as a plan lists it, its type as onnxruntime writes it."""
    shape: tuple[int | str | None, ...] | None = None
    if value.type.HasField("tensor_type") and value.type.tensor_type.HasField("shape"):
        shape = tuple(
            dim.dim_param or None if not dim.HasField("dim_value") else dim.dim_value
            for dim in value.type.tensor_type.shape.dim
        )
    return ValueType(name=value.name, type=type_text(value.type), shape=shape)


def type_text(kind: onnx.TypeProto) -> str:
    """Return a type as onnxruntime writes it."""
    if kind.HasField("sequence_type"):
        return f"seq({type_text(kind.sequence_type.elem_type)})"
    if kind.HasField("optional_type"):
        return f"optional({type_text(kind.optional_type.elem_type)})"
    if kind.HasField("map_type"):
        key = TensorProto.DataType.Name(kind.map_type.key_type).lower()
        return f"map({key},{type_text(kind.map_type.value_type)})"
    return f"tensor({TensorProto.DataType.Name(kind.tensor_type.elem_type).lower()})"
