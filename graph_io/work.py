"""How much one execution of a node computes and moves.

Device profiles turn this into seconds. The rules per op type are in work_matrix.py and
work_simple.py; this file picks one, and adds up the bodies of control flow.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import onnx_ir as ir

from dplace.graph_io.work_matrix import MATRIX_RULES
from dplace.graph_io.work_simple import SIMPLE_RULES
from dplace.graph_io.work_view import Cost, NodeView, ShapeOf, UnknownShapeError

__all__ = ["KERNEL_CLASSES", "ShapeOf", "Work", "node_work"]

KERNEL_CLASSES = (
    "conv",
    "depthwise_conv",
    "matmul",
    "gemv",
    "quantised_matmul",
    "quantised_conv",
    "recurrent",
    "attention",
    "normalisation",
    "softmax",
    "elementwise",
    "transcendental",
    "reduction",
    "pooling",
    "movement",
    "free",
    "control",
    "other",
)
"""The kinds of kernels that device profiles tell apart. ``gemv``: a product with one row, bound
by memory; ``free``: a node that only renames its input; ``control``: branches and loops whose
bodies hold no work to speak of; ``other``: everything else, the unknown included."""

DEFAULT_TRIPS = 8
"""Iterations taken for a loop whose number of trips is not a constant."""
MAX_TRIPS = 2**20
"""A larger trip count means "until the condition says so", as exporters write it."""

RULES = MATRIX_RULES | SIMPLE_RULES
_NHWC = "com.ms.internal.nhwc:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one execution of a node takes of any device."""

    flop: float
    """Floating-point (or integer) operations; a multiply-add counts as two."""
    bytes_moved: float
    """Bytes read and written, weights included."""
    kernel_class: str
    """One of ``KERNEL_CLASSES``; of control flow, that of its heaviest inner node."""
    dtype: str
    """Type it computes in: ``float32``, ``int8``, ..."""
    launches: int
    """Kernels launched; for loops those of every iteration."""
    known: bool
    """False where a default was used: the op type is not in the tables, or a shape or a trip
    count is not known."""


def node_work(node: ir.Node, shape_of: ShapeOf) -> Work:
    """Return the work of one execution of ``node``; never raises for a node it cannot judge.

    Args:
        node: A node whose values carry their types where these are known.
        shape_of: Gives the concrete shape of any value, initializers included. Values inside
            bodies fall back to their declared shapes.
    """
    view = NodeView(node, shape_of)
    if any(_graphs(attribute) for attribute in node.attributes.values()):
        return _control_work(view, shape_of)
    rule = RULES.get(_key(node))
    try:
        cost = _unknown_cost(view) if rule is None else rule(view)
    # A shape of another rank than the op's says as little as none.
    except (UnknownShapeError, IndexError):
        cost = _unknown_cost(view)
    return Work(
        flop=float(cost.flop),
        bytes_moved=float(view.all_bytes() if cost.bytes_moved is None else cost.bytes_moved),
        kernel_class=cost.kernel_class,
        dtype=cost.dtype or view.dtype,
        launches=cost.launches,
        known=cost.known,
    )


def _key(node: ir.Node) -> str:
    """Return how the tables name an op type."""
    name = f"{node.domain}:{node.op_type}" if node.domain else node.op_type
    return name.removeprefix("ai.onnx:").removeprefix(_NHWC)


def _unknown_cost(view: NodeView) -> Cost:
    """Return the default: one operation per element of what is moved."""
    bytes_moved = view.all_bytes()
    return Cost(kernel_class="other", flop=bytes_moved / 4, bytes_moved=bytes_moved, known=False)


def _graphs(attribute: ir.Attr) -> tuple[ir.Graph, ...]:
    if attribute.is_ref():
        return ()
    if attribute.type == ir.AttributeType.GRAPH:
        return (attribute.as_graph(),)
    if attribute.type == ir.AttributeType.GRAPHS:
        return tuple(attribute.as_graphs())
    return ()


def _control_work(view: NodeView, shape_of: ShapeOf) -> Work:
    """Return the work of a node with bodies: the costliest branch, or the body times its trips."""
    node = view.node
    bodies = [
        _total(node_work(inner, shape_of) for inner in graph)
        for attribute in node.attributes.values()
        for graph in _graphs(attribute)
    ]
    body = max(bodies, key=_heft)
    if _key(node) == "If":
        return _scaled(body, 1, trips_known=True)
    trips = _trips(view)
    return _scaled(body, DEFAULT_TRIPS if trips is None else trips, trips_known=trips is not None)


def _trips(view: NodeView) -> int | None:
    """Return how often a body runs, or None where that shows only at run time."""
    if _key(view.node) == "Scan":
        scanned = view.integer("num_scan_inputs")
        axis = (view.integers("scan_input_axes") or (0,))[0]
        shape = view.input_or_none(len(view.node.inputs) - scanned)
        return shape[axis] if shape and -len(shape) <= axis < len(shape) else None
    if _key(view.node) == "Loop" and (limit := view.value(0)) is not None:
        trips = _constant(limit)
        return trips if trips is not None and 0 <= trips <= MAX_TRIPS else None
    return None


def _constant(value: ir.Value) -> int | None:
    """Return the number that a value always holds, or None."""
    tensor = value.const_value
    producer = value.producer()
    if tensor is None and producer is not None and producer.op_type == "Constant":
        attributes = producer.attributes
        if (scalar := attributes.get("value_int")) is not None:
            return scalar.as_int()
        if (stored := attributes.get("value")) is not None:
            tensor = stored.as_tensor()
    if tensor is None or math.prod(tensor.shape.numpy()) != 1:
        return None
    return int(tensor.numpy().reshape(-1)[0])


def _heft(work: Work) -> float:
    """Return a device-free measure to compare work by: ten operations weigh as much as a byte."""
    return work.flop + 10 * work.bytes_moved + 1e4 * work.launches


def _total(works: Iterable[Work]) -> Work:
    """Add up the work of a body; its class is that of the heaviest node."""
    parts = list(works)
    heaviest = max(parts, key=_heft, default=None)
    is_idle = heaviest is None or heaviest.kernel_class == "free"
    return Work(
        flop=sum(work.flop for work in parts),
        bytes_moved=sum(work.bytes_moved for work in parts),
        kernel_class="control" if heaviest is None or is_idle else heaviest.kernel_class,
        dtype="float32" if heaviest is None else heaviest.dtype,
        launches=sum(work.launches for work in parts),
        known=all(work.known for work in parts),
    )


def _scaled(body: Work, trips: int, *, trips_known: bool) -> Work:
    """Return a body run so many times, and the node around it."""
    return Work(
        flop=body.flop * trips,
        bytes_moved=body.bytes_moved * trips,
        kernel_class=body.kernel_class,
        dtype=body.dtype,
        launches=1 + body.launches * trips,
        known=body.known and trips_known,
    )
