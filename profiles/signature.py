"""What the time of an op depends on, apart from the device: its signature.

Two ops of one signature run the same kernel on tensors of the same sizes, so one measurement
serves both, in this model and in others.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import onnx_ir as ir

from dplace.graph_io.build import PlaceableModel
from dplace.graph_io.uses import node_graphs

__all__ = ["OpSignature", "op_signatures"]

DIGEST_LENGTH = 16
"""Hexadecimal digits; among a million signatures, two agree by chance once in 40 million."""

Describe = Callable[[ir.Value | None], str]
"""From a value to its type and size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpSignature:
    """Type, attributes and tensor sizes of an op; equal ones cost the same."""

    digest: str
    """Short name: equal exactly where all that follows, and what runs with the op, is equal."""
    op_type: str
    """Operator type, with ``domain:`` before it unless it is ONNX's own; ``A+B`` for a unit."""
    attributes: str
    """``name=value`` of the first node, sorted by name; an attribute that is left out is absent."""
    inputs: tuple[str, ...]
    """Type and size of each input, such as ``float[1,3,224,224]``; weights are marked."""
    outputs: tuple[str, ...]


def op_signatures(placeable: PlaceableModel) -> tuple[OpSignature, ...]:
    """Return the signature of every op, in the op graph's order, at the bound dimensions."""
    describe = _describer(placeable)
    known: dict[str, OpSignature] = {}
    found: list[OpSignature] = []
    for op, nodes in enumerate(placeable.op_nodes):
        texts = [_node_text(node, describe) for node in nodes]
        texts += _function_lines(placeable, nodes, describe)
        # Clones are run with the op, and a dequantized input is as large as the op itself.
        texts += ["with " + _node_text(node, describe) for node in placeable.op_clones[op]]
        if not nodes:
            weights = [placeable.weights[weight] for weight in placeable.graph.weights_of(op)]
            texts = ["constant " + describe(weight) for weight in weights]
        digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:DIGEST_LENGTH]
        if digest not in known:
            known[digest] = _signature(digest, nodes, describe)
        found.append(known[digest])
    return tuple(found)


def _function_lines(
    placeable: PlaceableModel, nodes: tuple[ir.Node, ...], describe: Describe
) -> Iterator[str]:
    """Yield what the model's own functions do, for another model may use the same name."""
    for node in nodes:
        function = placeable.model.ir.functions.get(node.op_identifier())
        if function is not None:
            yield from (_node_text(inner, describe) for inner in function)


def _signature(digest: str, nodes: tuple[ir.Node, ...], describe: Describe) -> OpSignature:
    if not nodes:
        return OpSignature(digest=digest, op_type="Constant", attributes="", inputs=(), outputs=())
    first, last = nodes[0], nodes[-1]
    return OpSignature(
        digest=digest,
        op_type="+".join(_type_text(node) for node in nodes),
        attributes=_attributes_text(first, describe),
        inputs=tuple(describe(value) for value in first.inputs),
        outputs=tuple(describe(value) for value in last.outputs),
    )


def _describer(placeable: PlaceableModel) -> Describe:
    """Return the function that gives a value's type and size at the bound dimensions."""
    graph = placeable.model.ir.graph
    observed, clones = placeable.observed, placeable.clones
    overridable = frozenset(placeable.model.overridable)
    known: dict[ir.Value | None, str] = {None: "absent"}

    def shape_text(value: ir.Value) -> str:
        name = value.name or ""
        if value.graph is graph and name in observed.shapes:
            shape: tuple[object, ...] | None = observed.shapes[name]
        elif value.const_value is not None:
            shape = tuple(value.const_value.shape)
        else:
            shape = None if value.shape is None else tuple(value.shape)
        if shape is None:
            return "[*]"
        return "[" + ",".join(str(d) if isinstance(d, int) else "?" for d in shape) + "]"

    def describe(value: ir.Value | None) -> str:
        text = known.get(value)
        if text is None:
            assert value is not None
            dtype = "" if value.dtype is None else value.dtype.name.lower()
            text = (dtype or observed.types.get(value.name or "", "?")) + shape_text(value)
            producer = value.producer()
            is_weight = value.is_initializer() and value.name not in overridable
            if is_weight or (producer is not None and clones.get(producer) == "constant"):
                text += " weight"
            known[value] = text
        return text

    return describe


def _type_text(node: ir.Node) -> str:
    return f"{node.domain}:{node.op_type}" if node.domain else node.op_type


def _node_text(node: ir.Node, describe: Describe) -> str:
    """Return all that a node's time depends on, in one line."""
    inputs = ", ".join(describe(value) for value in node.inputs)
    outputs = ", ".join(describe(value) for value in node.outputs)
    return f"{_type_text(node)}({inputs}) -> {outputs} {{{_attributes_text(node, describe)}}}"


def _attributes_text(node: ir.Node, describe: Describe) -> str:
    return ", ".join(
        f"{name}={_attribute_text(attribute, describe)}"
        for name, attribute in sorted(node.attributes.items())
    )


def _attribute_text(attribute: ir.Attr, describe: Describe) -> str:
    """Return an attribute's value; of tensors only type and size, for content costs no time."""
    if attribute.is_ref():
        return f"@{attribute.ref_attr_name}"
    match attribute.type:
        case ir.AttributeType.GRAPH | ir.AttributeType.GRAPHS:
            bodies = "\n".join(_graph_lines(_graphs_of(attribute), describe))
            return "graph " + hashlib.sha256(bodies.encode()).hexdigest()[:DIGEST_LENGTH]
        case ir.AttributeType.TENSOR:
            tensor = attribute.as_tensor()
            sizes = ",".join(str(size) for size in tensor.shape)
            return f"{tensor.dtype.name.lower()}[{sizes}]"
        case ir.AttributeType.FLOAT:
            return f"{attribute.as_float():.7g}"
        case ir.AttributeType.FLOATS:
            return "[" + ",".join(f"{number:.7g}" for number in attribute.as_floats()) + "]"
        case ir.AttributeType.INTS:
            return "[" + ",".join(str(number) for number in attribute.as_ints()) + "]"
        case ir.AttributeType.INT:
            return str(attribute.as_int())
        case ir.AttributeType.STRING:
            return repr(attribute.as_string())
        case _:
            return attribute.type.name.lower()


def _graphs_of(attribute: ir.Attr) -> Iterable[ir.Graph]:
    if attribute.type == ir.AttributeType.GRAPH:
        return (attribute.as_graph(),)
    return attribute.as_graphs()


def _graph_lines(graphs: Iterable[ir.Graph], describe: Describe) -> Iterator[str]:
    """Yield a line for every node of some subgraphs, those of inner subgraphs included."""
    for graph in graphs:
        yield f"body of {len(graph.inputs)} inputs"
        for node in graph:
            yield _node_text(node, describe)
            yield from _graph_lines(node_graphs(node), describe)
