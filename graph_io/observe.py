"""Types and sizes of every value, as onnxruntime itself works them out.

ONNX's shape inference does not know contrib and layout ops, and a file carries no type for what
they make. onnxruntime knows: declare every value an output, without a type, load the graph with
optimisation off, and ask. Sizes that depend on data are observed in one run.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from dplace.errors import InputError
from dplace.graph_io.model import Model
from dplace.graph_io.session import open_session
from dplace.graph_io.skeleton import skeleton
from dplace.graph_io.weights import loaded

__all__ = [
    "Observed",
    "index_limits",
    "observe",
    "tensor_bytes",
    "typed_bytes",
    "value_type_of",
]

_LIFT_BYTES = 4096
_RUN_LIMIT_BYTES = 4 * 10**9
"""Weights above this are not run just to see sizes."""

_ELEMENT_TYPES = {"float": "FLOAT", "double": "DOUBLE"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observed:
    """What is known of the values of a model's main graph, by name."""

    types: Mapping[str, str]
    """As onnxruntime writes them: ``tensor(float)``, ``seq(tensor(int64))``, ..."""
    shapes: Mapping[str, tuple[int, ...]]
    """Concrete sizes at the bound dimensions; absent where not even a run could tell."""
    unsized: tuple[str, ...]
    """Values whose size is a guess."""


def value_type_of(text: str) -> ir.TypeProtocol | None:
    """Return onnx_ir's type for onnxruntime's ``text``, None for what onnx_ir cannot say.

    >>> value_type_of("seq(tensor(float16))")
    Sequence(Tensor(FLOAT16))
    """
    match = re.fullmatch(r"(tensor|seq|optional|sparse_tensor)\((.*)\)", text)
    if match is None:
        return None
    kind, inner = match.groups()
    if kind in ("tensor", "sparse_tensor"):
        name = _ELEMENT_TYPES.get(inner, inner.upper())
        if name not in ir.DataType.__members__:
            return None
        dtype = ir.DataType[name]
        return ir.TensorType(dtype) if kind == "tensor" else ir.SparseTensorType(dtype)
    element = value_type_of(inner)
    if element is None:
        return None
    return ir.SequenceType(element) if kind == "seq" else ir.OptionalType(element)


def observe(model: Model, dims: Mapping[str, int]) -> Observed:
    """Find the type and size of every value, and write the types into ``model.ir``.

    Args:
        dims: A size for each dynamic dimension, as ``check_dims`` returns them.

    Raises:
        ModelError: onnxruntime does not take the model.
    """
    proto, lifted = skeleton(model, lift_bytes=_LIFT_BYTES, dims=dims)
    listed = {value.name for value in proto.graph.output}
    listed |= {value.name for value in proto.graph.input}
    listed |= {tensor.name for tensor in proto.graph.initializer}
    for node in proto.graph.node:
        for name in node.output:
            if name and name not in listed:
                proto.graph.output.append(onnx.ValueInfoProto(name=name))
    session = open_session(
        proto.SerializeToString(),
        label=model.name,
        level="none",
        weights_folder=model.path.parent if model.path is not None else None,
    )
    types: dict[str, str] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for value in (*session.get_inputs(), *session.get_outputs()):
        types[value.name] = value.type
        if value.type.startswith("tensor") and all(isinstance(dim, int) for dim in value.shape):
            shapes[value.name] = tuple(value.shape)
    unknown = [
        value.name
        for value in session.get_outputs()
        if value.type.startswith("tensor") and value.name not in shapes
    ]
    if unknown:
        shapes.update(_sizes_from_a_run(model, session, lifted, unknown))
    for name, initializer in model.ir.graph.initializers.items():
        if initializer.const_value is not None:
            shapes[name] = tuple(int(dim) for dim in initializer.const_value.shape.numpy())
    for node in model.ir.graph:
        for output in node.outputs:
            if output.name in types and (known := value_type_of(types[output.name])) is not None:
                output.type = known
    return Observed(
        types=types,
        shapes=shapes,
        unsized=tuple(name for name in unknown if name not in shapes),
    )


def _sizes_from_a_run(
    model: Model, session: Any, lifted: tuple[str, ...], names: list[str]
) -> dict[str, tuple[int, ...]]:
    """Run the model once on drawn inputs and return the sizes of the values ``names``.

    A model that does not run on drawn inputs leaves them unknown.
    """
    import onnxruntime

    from dplace.runtime.inputs import draw_inputs
    from dplace.runtime.values import to_ort_value

    weights = {name: model.ir.graph.initializers[name].const_value for name in lifted}
    if sum(tensor.nbytes for tensor in weights.values() if tensor is not None) > _RUN_LIMIT_BYTES:
        return {}
    records = [_value_record(value) for value in session.get_inputs() if value.name not in weights]
    try:
        drawn = draw_inputs(
            records, rng=np.random.default_rng(0), dims={}, index_limits=index_limits(model.ir)
        )
        feeds = {record.name: to_ort_value(drawn[record.name], record.type) for record in records}
    except InputError:  # nothing is drawn for its type
        return {}
    held = [
        (name, np.ascontiguousarray(loaded(tensor).numpy()), tensor.dtype.value)
        for name, tensor in weights.items()
        if tensor is not None
    ]
    try:
        for name, array, kind in held:
            feeds[name] = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array, kind)
        outputs = session.run_with_ort_values(names, feeds)
    # onnxruntime's errors share no base below Exception. Whether the model runs at all is not
    # asked here: whoever runs it is told.
    except Exception:
        return {}
    return {
        name: tuple(output.shape())
        for name, output in zip(names, outputs, strict=True)
        if output.is_tensor()
    }


def _value_record(value: Any) -> Any:
    from dplace.plan.records import ValueType

    return ValueType(name=value.name, type=value.type, shape=tuple(value.shape))


def index_limits(model: ir.Model) -> dict[str, int]:
    """Return how many rows the smallest table has that each integer input indexes.

    Drawn inputs stay below it, so that token ids do not read past an embedding.
    """
    limits: dict[str, int] = {}
    for value in model.graph.inputs:
        if value.dtype not in (ir.DataType.INT64, ir.DataType.INT32):
            continue
        rows = _table_rows(value, depth=4)
        if rows:
            limits[value.name or ""] = min(rows)
    return limits


def _table_rows(value: ir.Value, depth: int) -> list[int]:
    rows: list[int] = []
    for node, slot in value.uses():
        if node.op_type == "Gather" and slot == 1:
            table = node.inputs[0]
            axis = node.attributes.get_int("axis", 0)
            if table is not None and table.const_value is not None and table.const_value.shape:
                rows.append(table.const_value.shape.numpy()[axis])
        elif node.op_type == "EmbedLayerNormalization" and slot < 2:
            table = node.inputs[2 if slot == 0 else 4]
            if table is not None and table.const_value is not None:
                rows.append(table.const_value.shape.numpy()[0])
        elif depth and node.op_type in ("Cast", "Reshape", "Unsqueeze", "Squeeze", "Identity"):
            rows += _table_rows(node.outputs[0], depth - 1)
    return [row for row in rows if row > 0]


def tensor_bytes(text: str, shape: tuple[int, ...]) -> int:
    """Return the bytes of a tensor of onnxruntime's type ``text``; a string counts as 16.

    >>> tensor_bytes("tensor(int4)", (3, 3))
    5
    """
    return typed_bytes(value_type_of(text), shape)


def typed_bytes(known: ir.TypeProtocol | None, shape: tuple[int, ...]) -> int:
    """Return the bytes of a tensor; one of strings or of unknown type counts 16 an element."""
    bits = 128 if known is None or known.dtype == ir.DataType.STRING else known.dtype.bitwidth
    return math.ceil(math.prod(shape) * bits / 8)
