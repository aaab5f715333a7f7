"""What is in a model that matters when it is placed."""

from collections import Counter
from collections.abc import Mapping

import onnx_ir as ir

from dplace.graph_io.build import PlaceableModel
from dplace.graph_io.model import Model, weight_bytes
from dplace.graph_io.uses import captured_values, node_graphs
from dplace.op_graph import OpGraph
from dplace.plan.records import ValueType
from dplace.report.model_summary import Capture, ModelSummary, OpTypeUse, Uncut

__all__ = ["interface", "summarise", "value_sizes"]


def interface(
    model: Model, types: Mapping[str, str], sizes: Mapping[str, int]
) -> tuple[tuple[ValueType, ...], tuple[ValueType, ...], tuple[ValueType, ...]]:
    """Return the inputs, outputs and overridable initializers of a model, in its order.

    Args:
        types: onnxruntime's type of each value, by name.
        sizes: Bytes of each value, by name.
    """
    inputs = [value for value in model.ir.graph.inputs if not value.is_initializer()]
    overridable = [model.ir.graph.initializers[name] for name in model.overridable]
    return (
        tuple(_value_type(value, types, sizes) for value in inputs),
        tuple(_value_type(value, types, sizes) for value in model.ir.graph.outputs),
        tuple(_value_type(value, types, sizes) for value in overridable),
    )


def value_sizes(graph: OpGraph) -> dict[str, int]:
    """Return the bytes of each value of the op graph, by name."""
    return dict(zip(graph.value_names, graph.value_bytes.tolist(), strict=True))


def _value_type(value: ir.Value, types: Mapping[str, str], sizes: Mapping[str, int]) -> ValueType:
    name = value.name or ""
    text = types.get(name)
    if text is None:
        text = f"tensor({_ort_element(value.dtype)})" if value.dtype is not None else ""
    shape = None
    if value.shape is not None:
        shape = tuple(dim if isinstance(dim, int) else dim.value for dim in value.shape)
    return ValueType(name=name, type=text, shape=shape, size_bytes=sizes.get(name, 0))


def _ort_element(dtype: ir.DataType) -> str:
    return {"FLOAT": "float", "DOUBLE": "double"}.get(dtype.name, dtype.name.lower())


def summarise(
    placeable: PlaceableModel,
    original: Model,
    *,
    label: str,
    optimize: str,
    dims: Mapping[str, int],
    warnings: tuple[str, ...],
) -> ModelSummary:
    """Return what ``inspect`` shows of a model."""
    graph, whole = placeable.graph, placeable.model.ir
    count: Counter[str] = Counter(graph.op_types)
    flop: Counter[str] = Counter()
    moved: Counter[str] = Counter()
    for op, op_type in enumerate(graph.op_types):
        flop[op_type] += float(graph.op_flop[op])  # type: ignore[assignment]
        moved[op_type] += float(graph.op_bytes[op])  # type: ignore[assignment]
    uses = [
        OpTypeUse(op_type=kind, count=number, flop=flop[kind], size_bytes=moved[kind])
        for kind, number in count.items()
    ]
    uses.sort(key=lambda use: (-use.flop, -use.size_bytes, use.op_type))
    inputs, outputs, _ = interface(original, placeable.observed.types, value_sizes(graph))
    return ModelSummary(
        model=label,
        ir_version=original.proto.ir_version,
        producer=" ".join(
            text for text in (original.ir.producer_name, original.ir.producer_version) if text
        ),
        opset_imports={
            domain or "ai.onnx": version for domain, version in original.ir.opset_imports.items()
        },
        functions=tuple(
            ":".join(text for text in identifier if text) for identifier in original.ir.functions
        ),
        optimize=optimize,  # type: ignore[arg-type]
        num_nodes=len(original.proto.graph.node),
        num_ops=graph.num_ops,
        num_weights=len(original.ir.graph.initializers),
        weight_bytes=weight_bytes(original.ir),
        inputs=inputs,
        outputs=outputs,
        dynamic_dims=dict(dims),
        op_types=tuple(uses),
        captures=tuple(
            Capture(
                op=_first_output(node),
                op_type=node.op_type,
                values=tuple(value.name or "" for value in captured_values(node)),
            )
            for node in whole.graph
            if next(node_graphs(node), None) is not None
        ),
        uncut=_uncut(placeable),
        warnings=warnings,
    )


def _first_output(node: ir.Node) -> str:
    return next((value.name for value in node.outputs if value.name), node.name or node.op_type)


def _uncut(placeable: PlaceableModel) -> tuple[Uncut, ...]:
    graph = placeable.graph
    found: list[Uncut] = []
    for op, nodes in enumerate(placeable.op_nodes):
        if len(nodes) > 1:
            names = " + ".join(node.op_type for node in nodes[:6])
            more = f" + {len(nodes) - 6} more" if len(nodes) > 6 else ""
            found.append(Uncut(reason="fused", op=graph.op_names[op], detail=names + more))
        for node in nodes:
            bodies = list(node_graphs(node))
            if bodies:
                inner = sum(len(body) for body in bodies)
                noun = "body" if len(bodies) == 1 else "bodies"
                found.append(
                    Uncut(
                        reason="control-flow",
                        op=graph.op_names[op],
                        detail=f"{node.op_type}: {len(bodies)} {noun} with {inner} nodes",
                    )
                )
    for value in range(graph.num_values):
        if not graph.value_movable[value]:
            name = graph.value_names[value]
            kind = placeable.observed.types.get(name, "unknown type")
            found.append(Uncut(reason="optional-value", op=name, detail=kind))
    return tuple(found)
