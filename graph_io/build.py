"""From a model to the graph that placement sees, and back: which nodes each op stands for."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from dplace.graph_io.clones import cloned_nodes
from dplace.graph_io.model import Model, tensor_size_bytes
from dplace.graph_io.observe import Observed, tensor_bytes, typed_bytes
from dplace.graph_io.units import group_nodes
from dplace.graph_io.uses import node_graphs, read_values
from dplace.graph_io.work import Work, node_work
from dplace.op_graph import OpGraph

__all__ = ["PlaceableModel", "build_op_graph", "compressed"]

_UNSIZED_BYTES = 4096
"""Assumed for sequences and for tensors of unknown size."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlaceableModel:
    """An OpGraph and the model it was made from."""

    graph: OpGraph
    model: Model
    observed: Observed
    op_nodes: tuple[tuple[ir.Node, ...], ...]
    """Nodes of each op; none for a graph output that is an initializer."""
    op_clones: tuple[tuple[ir.Node, ...], ...]
    """Nodes that each op needs a copy of beside its own."""
    values: tuple[ir.Value, ...]
    """The model's value behind each value of the graph."""
    weights: tuple[ir.Value, ...]
    """The model's value behind each weight: an initializer, or a cloned node's result."""
    clones: dict[ir.Node, str]
    """All cloned nodes and the reason."""
    position: dict[ir.Node, int]
    """Where each live node stands in the model's topological order."""
    unknown_types: tuple[str, ...]
    """Operator types whose work is a default, not a rule."""


@dataclass(slots=True)
class _Op:
    """One op while the graph is built."""

    nodes: list[ir.Node]
    clones: list[ir.Node]
    reads: list[ir.Value]
    weights: list[ir.Value]
    writes: list[ir.Value]
    work: Work


def build_op_graph(
    model: Model, observed: Observed, fused: Iterable[Sequence[ir.Node]] = ()
) -> PlaceableModel:
    """Build the graph that placement sees.

    Args:
        fused: Sets of nodes that placement must not cut.
    """
    graph = model.ir.graph

    def shape_of(value: ir.Value) -> tuple[int, ...] | None:
        if value.graph is graph and value.name and value.name in observed.shapes:
            return observed.shapes[value.name]
        if value.shape is not None and value.shape.is_static():
            return tuple(int(dim) for dim in value.shape.numpy())
        return None

    nodes = _live_nodes(graph)
    clones = dict(cloned_nodes(graph, shape_of, frozenset(model.overridable)))
    position = {node: index for index, node in enumerate(nodes)}
    units = group_nodes(nodes, clones, fused)
    ops = [_op_of(unit, clones, position, shape_of) for unit in units]
    constants = [
        value
        for value in dict.fromkeys(graph.outputs)
        if value.is_initializer() or (value.producer() is not None and value.producer() in clones)
    ]
    ops += [
        _Op(nodes=[], clones=[], reads=[], weights=[value], writes=[value], work=_NO_WORK)
        for value in constants
    ]
    return _assemble(model, observed, ops, clones, position, shape_of)


_NO_WORK = Work(
    flop=0.0, bytes_moved=0.0, kernel_class="free", dtype="float32", launches=0, known=True
)


def _live_nodes(graph: ir.Graph) -> list[ir.Node]:
    """Return the nodes that a graph output depends on, in order."""
    needed: set[ir.Node] = set()
    pending = [value.producer() for value in graph.outputs]
    while pending:
        node = pending.pop()
        if node is None or node in needed:
            continue
        needed.add(node)
        pending.extend(value.producer() for value in read_values(node))
    return [node for node in graph if node in needed]


def _op_of(
    unit: list[ir.Node],
    clones: dict[ir.Node, str],
    position: dict[ir.Node, int],
    shape_of: Callable[[ir.Value], tuple[int, ...] | None],
) -> _Op:
    inside = set(unit)
    reads: dict[ir.Value, None] = {}
    weights: dict[ir.Value, None] = {}
    copied: dict[ir.Node, None] = {}
    pending = list(unit)
    while pending:
        node = pending.pop()
        weights.update(dict.fromkeys(_inner_weights(node)))
        for value in read_values(node):
            producer = value.producer()
            if producer is None:
                (weights if value.is_initializer() else reads)[value] = None
            elif producer in clones:
                if clones[producer] == "constant" and producer not in copied:
                    weights[value] = None
                if producer not in copied:
                    copied[producer] = None
                    pending.append(producer)
            elif producer not in inside:
                reads[value] = None
    unit = sorted(unit, key=position.__getitem__)
    writes = [output for node in unit for output in node.outputs if output.name]
    return _Op(
        nodes=unit,
        clones=sorted(copied, key=position.__getitem__),
        reads=list(reads),
        weights=list(weights),
        writes=writes,
        work=_unit_work(unit, shape_of),
    )


def _inner_weights(node: ir.Node) -> Iterator[ir.Value]:
    """Yield the initializers of the subgraphs of ``node``, at any depth."""
    for graph in node_graphs(node):
        yield from graph.initializers.values()
        for inner in graph:
            yield from _inner_weights(inner)


def _unit_work(unit: list[ir.Node], shape_of: Callable[[ir.Value], tuple[int, ...] | None]) -> Work:
    works = [node_work(node, shape_of) for node in unit]
    if len(works) == 1:
        return works[0]
    heaviest = max(works, key=lambda work: (work.flop, work.bytes_moved))
    # A fused unit keeps what passes between its nodes in registers: only its heaviest node's
    # traffic is counted, and one launch.
    return Work(
        flop=sum(work.flop for work in works),
        bytes_moved=heaviest.bytes_moved,
        kernel_class=heaviest.kernel_class,
        dtype=heaviest.dtype,
        launches=heaviest.launches,
        known=all(work.known for work in works),
    )


def _assemble(
    model: Model,
    observed: Observed,
    ops: list[_Op],
    clones: dict[ir.Node, str],
    position: dict[ir.Node, int],
    shape_of: Callable[[ir.Value], tuple[int, ...] | None],
) -> PlaceableModel:
    graph = model.ir.graph
    read = {value for op in ops for value in op.reads}
    outputs = dict.fromkeys(value for value in graph.outputs)
    inputs = [value for value in graph.inputs if value in read and not value.is_initializer()]
    for op in ops:
        op.writes = [value for value in op.writes if value in read or value in outputs]
    values = inputs + [value for op in ops for value in op.writes]
    value_id = {value: index for index, value in enumerate(values)}
    weights = list(dict.fromkeys(value for op in ops for value in op.weights))
    weight_id = {value: index for index, value in enumerate(weights)}
    producer = np.full(len(values), -1, dtype=np.int32)
    consumers: list[list[int]] = [[] for _ in values]
    for index, op in enumerate(ops):
        for value in op.writes:
            producer[value_id[value]] = index
        for value in op.reads:
            consumers[value_id[value]].append(index)
    types = [observed.types.get(value.name or "", "") for value in values]
    movable = np.array([kind.startswith(("tensor(", "seq(tensor(")) for kind in types], dtype=bool)
    input_rows = compressed([[value_id[value] for value in op.reads] for op in ops])
    output_rows = compressed([[value_id[value] for value in op.writes] for op in ops])
    consumer_rows = compressed(consumers)
    weight_rows = compressed([[weight_id[value] for value in op.weights] for op in ops])
    op_graph = OpGraph(
        name=model.name,
        op_names=tuple(_op_name(op, index) for index, op in enumerate(ops)),
        op_types=tuple(_op_type(op) for op in ops),
        op_flop=np.array([op.work.flop for op in ops], dtype=np.float64),
        op_bytes=np.array([op.work.bytes_moved for op in ops], dtype=np.float64),
        op_classes=tuple(op.work.kernel_class for op in ops),
        op_dtypes=tuple(op.work.dtype for op in ops),
        op_launches=np.array([op.work.launches for op in ops], dtype=np.int32),
        value_names=tuple(value.name or "" for value in values),
        value_producer=producer,
        value_bytes=np.array(
            [
                tensor_bytes(kind, shape)
                if kind.startswith("tensor(") and (shape := shape_of(value)) is not None
                else _UNSIZED_BYTES
                for kind, value in zip(types, values, strict=True)
            ],
            dtype=np.int64,
        ),
        value_movable=movable,
        input_offsets=input_rows[0],
        input_values=input_rows[1],
        output_offsets=output_rows[0],
        output_values=output_rows[1],
        consumer_offsets=consumer_rows[0],
        consumer_ops=consumer_rows[1],
        graph_inputs=np.arange(len(inputs), dtype=np.int32),
        graph_outputs=np.array(
            [value_id[value] for value in outputs if value in value_id and value not in inputs],
            dtype=np.int32,
        ),
        weight_names=tuple(value.name or "" for value in weights),
        weight_bytes=np.array(
            [_weight_bytes(value, shape_of) for value in weights], dtype=np.int64
        ),
        weight_offsets=weight_rows[0],
        op_weights=weight_rows[1],
        colocation=_colocation(len(ops), producer, consumers, movable),
    )
    return PlaceableModel(
        graph=op_graph,
        model=model,
        observed=observed,
        op_nodes=tuple(tuple(op.nodes) for op in ops),
        op_clones=tuple(tuple(op.clones) for op in ops),
        values=tuple(values),
        weights=tuple(weights),
        clones=clones,
        position=position,
        unknown_types=tuple(sorted({_op_type(op) for op in ops if not op.work.known})),
    )


def compressed(rows: list[list[int]]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return offsets and items of rows, the form in which OpGraph has its lists."""
    offsets = np.zeros(len(rows) + 1, dtype=np.int32)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    items = np.array([item for row in rows for item in row], dtype=np.int32)
    return offsets, items


def _op_name(op: _Op, index: int) -> str:
    for node in op.nodes:
        for output in node.outputs:
            if output.name:
                return output.name
    return op.writes[0].name or f"op {index}" if op.writes else f"op {index}"


def _op_type(op: _Op) -> str:
    if not op.nodes:
        return "Constant"
    node = op.nodes[0]
    return f"{node.domain}:{node.op_type}" if node.domain else node.op_type


def _weight_bytes(value: ir.Value, shape_of: Callable[[ir.Value], tuple[int, ...] | None]) -> int:
    if value.const_value is not None:
        return tensor_size_bytes(value.const_value)
    shape = shape_of(value)
    return 0 if shape is None else typed_bytes(value.type, shape)


def _colocation(
    num_ops: int,
    producer: NDArray[np.int32],
    consumers: list[list[int]],
    movable: NDArray[np.bool_],
) -> NDArray[np.int32]:
    """Tie the producer and the consumers of each value that cannot cross together."""
    leader = list(range(num_ops))

    def find(op: int) -> int:
        while leader[op] != op:
            leader[op] = leader[leader[op]]
            op = leader[op]
        return op

    tied: set[int] = set()
    for value in np.flatnonzero(~movable).tolist():
        group = [*consumers[value], *([int(producer[value])] if producer[value] >= 0 else [])]
        for op in group[1:]:
            leader[find(op)] = find(group[0])
        if len(group) > 1:
            tied.update(group)
    return np.array([find(op) if op in tied else -1 for op in range(num_ops)], dtype=np.int32)
