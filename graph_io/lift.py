"""Weights as values: what may be sent to where it is read, in place of lying there for good.

A lifted weight is a value that no op makes and the caller does not feed. Parts have it as an input
of its name, with its type and shape, so the same kernel reads the same bytes. What differs is that
onnxruntime cannot pack it when a session opens: see ``fed_weights.py``.

Where a cloned node reads it (``Cast`` or ``Transpose`` of a weight), the clone goes on computing
its result in each part. That result was counted as one more weight; now it is there only while the
op runs, so it becomes a value of the op that nobody reads.

Not lifted is what has to be constant when a session opens, and what others than ops read: what the
caller may override, what the model returns, and what subgraphs read.
"""

import dataclasses
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from dplace.errors import ModelError
from dplace.graph_io.build import PlaceableModel, compressed
from dplace.graph_io.fed_weights import PACKED_AT_START, nodes_of, op_type
from dplace.graph_io.session import OptLevel, open_session
from dplace.graph_io.split import part_model
from dplace.graph_io.uses import captured_values, read_values
from dplace.graph_io.weights import WeightsFile

__all__ = ["Liftable", "lift", "liftable"]

LEAST_BYTES = 64 * 1024
"""Smaller weights are not worth a transfer of their own."""


class Liftable(NamedTuple):
    """Which weights may be lifted."""

    may_be: NDArray[np.bool_]
    """Shape ``(num_weights,)``."""
    reasons: dict[int, str]
    """Why not, for those of ``LEAST_BYTES`` and more."""


def liftable(source: PlaceableModel, *, level: OptLevel) -> Liftable:
    """Return which weights may be sent to the parts that read them.

    Whether an op takes its weights as inputs, onnxruntime says: one op of each kind is opened.

    Args:
        level: The graph optimisation level that parts are opened at.
    """
    graph = source.graph
    may_be = graph.weight_bytes >= LEAST_BYTES
    reasons: dict[int, str] = {}
    readers: list[list[int]] = [[] for _ in graph.weight_names]
    for op in range(graph.num_ops):
        for weight in graph.weights_of(op).tolist():
            readers[weight].append(op)
    for weight in np.flatnonzero(may_be).tolist():
        reason = _reason_against(source, source.weights[weight], readers[weight])
        if reason:
            reasons[weight] = reason
            may_be[weight] = False
    refused = _refused_ops(source, may_be, level)
    for weight in np.flatnonzero(may_be).tolist():
        for op in readers[weight]:
            if op in refused:
                reasons[weight] = f"onnxruntime takes it as a constant only: {refused[op]}"
                may_be[weight] = False
    return Liftable(may_be, reasons)


def _reason_against(source: PlaceableModel, value: ir.Value, readers: Sequence[int]) -> str:
    """Return why a weight has to stay where it is, nothing if it need not."""
    graph, tensor = source.model.ir.graph, value.const_value
    if tensor is None or graph.initializers.get(value.name or "") is not value:
        return "it is computed from constants, or belongs to a subgraph"
    if value.name in source.model.overridable:
        return "the caller may override it"
    if value in graph.outputs:
        return "the model returns it"
    if not _is_plain(tensor.dtype):
        return f"its type is {tensor.dtype}"
    for node in (node for op in readers for node in nodes_of(source, op)):
        if value in captured_values(node):
            return "a subgraph reads it"
        if value in node.inputs and op_type(node) in PACKED_AT_START:
            return f"{node.op_type} packs it when a session opens"
    return ""


def _is_plain(dtype: ir.DataType) -> bool:
    """Return whether elements are whole bytes of a number that onnxruntime computes with."""
    if dtype in (ir.DataType.STRING, ir.DataType.COMPLEX64, ir.DataType.COMPLEX128):
        return False
    return dtype.bitwidth >= 8


def _refused_ops(
    source: PlaceableModel, chosen: NDArray[np.bool_], level: OptLevel
) -> dict[int, str]:
    """Return the ops that onnxruntime does not open with their chosen weights as inputs, and why.

    One op answers for all of the same types and lifted inputs.
    """
    graph = source.graph
    lifted = lift(source, np.flatnonzero(chosen))
    answers: dict[tuple[object, ...], str] = {}
    refused: dict[int, str] = {}
    for op in range(graph.num_ops):
        mine = {source.weights[at] for at in graph.weights_of(op).tolist() if chosen[at]}
        if not mine:
            continue
        kind = tuple(
            (op_type(node), slot, value.dtype)
            for node in nodes_of(source, op)
            for slot, value in enumerate(node.inputs)
            if value is not None and value in mine
        )
        if kind not in answers:
            answers[kind] = _refusal(lifted, op, level)
        if answers[kind]:
            refused[op] = answers[kind]
    return refused


class _HollowFile(WeightsFile):
    """Stands for a weights file whose content does not matter: every tensor is zero."""

    def place(self, tensor: ir.TensorProtocol) -> ir.TensorProtocol:
        """Return a tensor of zeros for a large one, and the small ones as they are."""
        if tensor.dtype == ir.DataType.STRING or tensor.nbytes < LEAST_BYTES:
            return super().place(tensor)
        hollow = self.path.with_suffix(f".{tensor.nbytes}")
        with hollow.open("ab") as file:
            file.truncate(tensor.nbytes)
        return ir.ExternalTensor(
            hollow.name,
            0,
            tensor.nbytes,
            tensor.dtype,
            shape=ir.Shape(tensor.shape.numpy()),
            name=tensor.name or "",
            base_dir=hollow.parent,
        )


def _refusal(lifted: PlaceableModel, op: int, level: OptLevel) -> str:
    """Return why onnxruntime does not open an op on its own, nothing if it does."""
    graph = lifted.graph
    with tempfile.TemporaryDirectory(prefix="dplace-") as scratch:
        with _HollowFile(Path(scratch) / "weights") as file:
            model = part_model(
                lifted,
                name="trial",
                ops=[op],
                inputs=graph.inputs_of(op).tolist(),
                outputs=graph.outputs_of(op).tolist(),
                weights_file=file,
            )
        try:
            open_session(
                model.proto.SerializeToString(),
                label=graph.op_types[op],
                level=level,
                weights_folder=Path(scratch),
            )
        except ModelError as error:
            return str(error)
    return ""


def lift(
    source: PlaceableModel, weights: Iterable[int], *, leave_out: bool = False
) -> PlaceableModel:
    """Return a model with the same ops in which some weights are values.

    The results of clones that read them stand behind the other values, and the lifted weights
    behind those, in the order of the first op that reads them. Whether they may be lifted is not
    asked here.

    Args:
        leave_out: Leave the lifted weights out of the graph, as if ops did without them.
    """
    graph = source.graph
    chosen = np.zeros(len(graph.weight_names), dtype=np.bool_)
    chosen[list(weights)] = True
    order = [at for at in dict.fromkeys(graph.op_weights.tolist()) if chosen[at]]
    computed = _results_of_clones(source, {source.weights[weight] for weight in order})
    results: list[tuple[int, int]] = []  # a weight that a clone computes, and the op with the clone
    outputs: list[list[int]] = []
    kept_rows: list[list[int]] = []
    for op in range(graph.num_ops):
        mine = [at for at in graph.weights_of(op).tolist() if not chosen[at]]
        kept_rows.append([at for at in mine if source.weights[at] not in computed])
        first = graph.num_values + len(results)
        results.extend((at, op) for at in mine if source.weights[at] in computed)
        added = range(first, graph.num_values + len(results))
        outputs.append([*graph.outputs_of(op).tolist(), *added])
    if leave_out:
        order = []
    value_of = {at: graph.num_values + len(results) + index for index, at in enumerate(order)}
    inputs: list[list[int]] = []
    consumers: list[list[int]] = [[] for _ in (*results, *order)]
    for op in range(graph.num_ops):
        moved = [value_of[at] for at in graph.weights_of(op).tolist() if at in value_of]
        inputs.append([*graph.inputs_of(op).tolist(), *moved])
        for value in moved:
            consumers[value - graph.num_values].append(op)
    kept = sorted({at for row in kept_rows for at in row})
    kept_id = {at: index for index, at in enumerate(kept)}
    input_rows, output_rows = compressed(inputs), compressed(outputs)
    consumer_rows = compressed(consumers)
    weight_rows = compressed([[kept_id[at] for at in row] for row in kept_rows])
    new = np.array([*(at for at, _ in results), *order], dtype=np.int64)
    return dataclasses.replace(
        source,
        graph=dataclasses.replace(
            graph,
            value_names=(
                *graph.value_names,
                *(f"{graph.weight_names[at]} in {graph.op_names[op]}" for at, op in results),
                *(graph.weight_names[at] for at in order),
            ),
            value_producer=np.concatenate(
                [graph.value_producer, [op for _, op in results], [-1] * len(order)]
            ).astype(np.int32),
            value_bytes=np.append(graph.value_bytes, graph.weight_bytes[new]),
            value_movable=np.append(graph.value_movable, np.ones(len(new), dtype=np.bool_)),
            input_offsets=input_rows[0],
            input_values=input_rows[1],
            output_offsets=output_rows[0],
            output_values=output_rows[1],
            consumer_offsets=np.append(
                graph.consumer_offsets, consumer_rows[0][1:] + graph.consumer_offsets[-1]
            ).astype(np.int32),
            consumer_ops=np.append(graph.consumer_ops, consumer_rows[1]),
            weight_names=tuple(graph.weight_names[at] for at in kept),
            weight_bytes=graph.weight_bytes[kept],
            weight_offsets=weight_rows[0],
            op_weights=weight_rows[1],
        ),
        values=(*source.values, *(source.weights[at] for at in new.tolist())),
        weights=tuple(source.weights[at] for at in kept),
    )


def _results_of_clones(source: PlaceableModel, lifted: set[ir.Value]) -> set[ir.Value]:
    """Return what cloned nodes compute from lifted weights."""
    if not lifted:
        return set()
    found = set(lifted)
    for node in sorted(source.clones, key=lambda node: source.position.get(node, -1)):
        if any(value in found for value in read_values(node)):
            found.update(node.outputs)
    return found - lifted
