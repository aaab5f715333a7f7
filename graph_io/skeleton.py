"""A model without its large weights: small enough to hand to onnxruntime, sure of every type."""

from collections.abc import Mapping

import onnx
import onnx_ir as ir

from dplace.errors import InputError
from dplace.graph_io.model import Model, tensor_size_bytes
from dplace.graph_io.weights import loaded

__all__ = ["check_dims", "dynamic_dims", "skeleton"]


def skeleton(
    model: Model, *, lift_bytes: int, dims: Mapping[str, int] | None = None
) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """Return a copy of the model in which each large initializer is an input instead.

    Args:
        lift_bytes: Initializers of this size and more are lifted.
        dims: Sizes of dynamic dimensions to write into the inputs; all others are left as they
            are. None leaves every dimension dynamic.

    Returns:
        The model, without external data, and the names of the lifted initializers.
    """
    source = model.proto
    copy = onnx.ModelProto()
    for field, content in source.ListFields():
        if field.name == "graph":
            continue
        if hasattr(content, "append"):
            getattr(copy, field.name).extend(content)
        else:
            setattr(copy, field.name, content)
    copy.ir_version = max(4, source.ir_version)
    graph, weights = copy.graph, model.ir.graph.initializers
    graph.name = source.graph.name or "graph"
    graph.node.extend(source.graph.node)
    graph.output.extend(source.graph.output)
    graph.value_info.extend(source.graph.value_info)
    lifted: list[str] = []
    for name, value in weights.items():
        tensor = value.const_value
        if tensor is None:
            continue
        if tensor_size_bytes(tensor) >= lift_bytes and name not in model.overridable:
            graph.input.append(
                onnx.helper.make_tensor_value_info(
                    name, tensor.dtype.value, [int(dim) for dim in tensor.shape.numpy()]
                )
            )
            lifted.append(name)
        else:
            graph.initializer.append(_inline(name, tensor))
    constants = set(weights) - set(model.overridable)
    graph.input.extend(value for value in source.graph.input if value.name not in constants)
    if dims is not None:
        for value in graph.input:
            _bind(value, dims)
    return copy, tuple(lifted)


def _inline(name: str, tensor: ir.TensorProtocol) -> onnx.TensorProto:
    proto = ir.serde.serialize_tensor(loaded(tensor))
    proto.name = name
    return proto


def dynamic_dims(model: Model) -> dict[str, list[tuple[str, int]]]:
    """Return each dynamic dimension of the inputs and where it stands: (input, axis).

    A dimension without a name is called ``INPUT.AXIS``.

    """
    found: dict[str, list[tuple[str, int]]] = {}
    constants = set(model.ir.graph.initializers)
    for value in model.proto.graph.input:
        if value.name in constants:
            continue
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value") or dim.dim_value < 0:
                name = dim.dim_param or f"{value.name}.{axis}"
                found.setdefault(name, []).append((value.name, axis))
    return found


def check_dims(model: Model, dims: Mapping[str, int]) -> tuple[dict[str, int], list[str]]:
    """Return a size for each dynamic dimension and the names of those taken as 1.

    Raises:
        InputError: A name that is no dynamic dimension of the model, or a size below 1.
    """
    known = dynamic_dims(model)
    for name, size in dims.items():
        if name not in known:
            listed = ", ".join(known) or "none"
            raise InputError(f"--dim {name}: the model has no such dimension; it has: {listed}")
        if size < 1:
            raise InputError(f"--dim {name}: expected a size of at least 1, got {size}")
    unbound = [name for name in known if name not in dims]
    return {name: dims.get(name, 1) for name in known}, unbound


def _bind(value: onnx.ValueInfoProto, dims: Mapping[str, int]) -> None:
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        if not dim.HasField("dim_value") or dim.dim_value < 0:
            size = dims.get(dim.dim_param or f"{value.name}.{axis}")
            if size is not None:
                dim.dim_value = size
