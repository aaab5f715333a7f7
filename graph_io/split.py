"""ONNX out: one model for each part, self-contained, its large weights in a file beside it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import onnx
import onnx_ir as ir

from dplace.graph_io.build import PlaceableModel
from dplace.graph_io.uses import node_graphs, read_values
from dplace.graph_io.weights import WeightsFile

__all__ = ["PartModel", "part_model"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartModel:
    """The ONNX model of one part and what it asks of its surroundings."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    overridable: tuple[str, ...]
    """Initializers that the caller may feed another value for."""
    proto: onnx.ModelProto


def part_model(
    source: PlaceableModel,
    *,
    name: str,
    ops: Sequence[int],
    inputs: Iterable[int],
    outputs: Iterable[int],
    weights_file: WeightsFile,
) -> PartModel:
    """Cut the model of one part out of the whole.

    Args:
        ops: The part's ops in the order they run.
        inputs: Values that come from outside, streamed weights too, as ids of the op graph.
        outputs: Values that somebody outside needs, as ids of the op graph.
        weights_file: Takes the bytes of large weights; the part refers to it by its plain name.
    """
    whole = source.model.ir
    nodes = _ordered_nodes(source, ops)
    wanted = [source.values[value] for value in outputs]
    fed = [source.values[value] for value in inputs]
    sent = {value for value in fed if value.is_initializer()}  # streamed weights
    initializers = {
        value: None
        for node in nodes
        for value in read_values(node)
        if value.is_initializer() and value not in sent
    }
    initializers.update((value, None) for value in wanted if value.is_initializer())
    overridable = [value for value in initializers if value.name in source.model.overridable]
    view = ir.GraphView(
        [*fed, *overridable],
        wanted,
        nodes=nodes,
        initializers=tuple(initializers),
        name=name,
        opset_imports=dict(whole.graph.opset_imports),
        doc_string=whole.graph.doc_string,
        metadata_props=dict(whole.graph.metadata_props),
    )
    graph = view.clone()
    given = sent.union(whole.graph.inputs)
    for value, original in zip(graph.inputs, [*fed, *overridable], strict=True):
        if original not in given:
            # Sizes were observed for one batch; only those the model declares are sure.
            value.shape = None
        if original in sent:
            value.const_value = None
    outermost = set(whole.graph.outputs)
    for value, original in zip(graph.outputs, wanted, strict=True):
        if original not in outermost and not value.is_initializer():
            value.shape = None
    for scope in (graph, *graph.subgraphs()):
        for initializer in scope.initializers.values():
            if initializer.const_value is not None:
                initializer.const_value = weights_file.place(initializer.const_value)
    model = ir.Model(
        graph,
        ir_version=whole.ir_version,
        producer_name=whole.producer_name,
        producer_version=whole.producer_version,
        domain=whole.domain,
        model_version=whole.model_version,
        doc_string=whole.doc_string,
        functions=_needed_functions(whole, nodes),
        metadata_props=dict(whole.metadata_props),
    )
    return PartModel(
        inputs=tuple(value.name or "" for value in fed),
        outputs=tuple(value.name or "" for value in wanted),
        overridable=tuple(value.name or "" for value in overridable),
        proto=ir.serde.serialize_model(model),
    )


def _ordered_nodes(source: PlaceableModel, ops: Sequence[int]) -> list[ir.Node]:
    """Return the nodes of ``ops``, each after the clones that it reads."""
    ordered: dict[ir.Node, None] = {}
    for op in ops:
        # A clone of a value made within this very op has to come after its maker.
        own = set(source.op_nodes[op])
        late = _depending(source.op_clones[op], own)
        ordered.update((node, None) for node in source.op_clones[op] if node not in late)
        merged = [*source.op_nodes[op], *late]
        if late:
            merged.sort(key=source.position.__getitem__)
        ordered.update((node, None) for node in merged)
    return list(ordered)


def _depending(clones: Sequence[ir.Node], own: set[ir.Node]) -> list[ir.Node]:
    reached = set(own)
    late: list[ir.Node] = []
    for clone in clones:
        if any(value.producer() in reached for value in read_values(clone)):
            reached.add(clone)
            late.append(clone)
    return late


def _needed_functions(whole: ir.Model, nodes: Iterable[ir.Node]) -> list[ir.Function]:
    """Return copies of the functions that ``nodes`` call, through subgraphs and functions too."""
    needed: dict[ir.OperatorIdentifier, ir.Function] = {}
    pending = list(nodes)
    while pending:
        node = pending.pop()
        identifier = node.op_identifier()
        function = whole.functions.get(identifier)
        if function is not None and identifier not in needed:
            needed[identifier] = function
            pending.extend(function)
        for graph in node_graphs(node):
            pending.extend(graph)
    return list(needed.values())
