"""Where a model's external data lies, checked before anything reads it."""

from collections.abc import Iterator
from pathlib import Path

import onnx

from dplace.graph_io.structure import data_bytes, subgraphs, walk_tensors

__all__ = ["external_problems", "has_external_data", "inline_attributes"]


def has_external_data(model: onnx.ModelProto) -> bool:
    """Return whether any tensor of the model lies in another file."""
    return any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in walk_tensors(model))


def external_problems(model: onnx.ModelProto, folder: Path) -> list[str]:
    """Return one line for each tensor whose data is missing, short or outside ``folder``.

    ``..``, absolute paths and symbolic links that lead out of the model's folder are refused, as
    onnxruntime refuses them: a model must not read files that are not its own.
    """
    problems: list[str] = []
    sizes: dict[str, int | None] = {}
    root = folder.resolve()
    for tensor in walk_tensors(model):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        fields = {entry.key: entry.value for entry in tensor.external_data}
        location = fields.get("location", "")
        if location not in sizes:
            problem = _location_problem(location, folder, root)
            if problem:
                problems.append(problem)
            sizes[location] = None if problem else (folder / location).stat().st_size
        size = sizes[location]
        if size is not None:
            problems.extend(_range_problems(tensor, fields, location, size))
    return problems


def inline_attributes(model: onnx.ModelProto, folder: Path) -> None:
    """Load the external data of tensors in node attributes, which onnxruntime does not look for."""
    nodes = [node for function in model.functions for node in function.node]
    nodes.extend(model.graph.node)
    while nodes:
        node = nodes.pop()
        for attribute in node.attribute:
            for tensor in (attribute.t, *attribute.tensors):
                if tensor.data_location == onnx.TensorProto.EXTERNAL:
                    _load(tensor, folder)
        for subgraph in subgraphs(node):
            nodes.extend(subgraph.node)


def _load(tensor: onnx.TensorProto, folder: Path) -> None:
    """Load a tensor's external data, whose range ``external_problems`` has found to be good.

    onnx's own function refuses links that lead nowhere bad, so it is not used.
    """
    fields = {entry.key: entry.value for entry in tensor.external_data}
    with (folder / fields["location"]).open("rb") as file:
        file.seek(int(fields.get("offset", "0")))
        tensor.raw_data = file.read(data_bytes(tensor.data_type, tensor.dims))
    tensor.data_location = onnx.TensorProto.DEFAULT
    del tensor.external_data[:]


def _location_problem(location: str, folder: Path, root: Path) -> str | None:
    if not location:
        return "external data without a location"
    target = folder / location
    if Path(location).is_absolute() or not target.resolve().is_relative_to(root):
        return (
            f'external data "{location}" lies outside the model\'s folder; move the file beside '
            "the model"
        )
    if not target.is_file():
        return f'external data file "{location}" is missing; it belongs into {folder}'
    return None


def _range_problems(
    tensor: onnx.TensorProto, fields: dict[str, str], location: str, size: int
) -> Iterator[str]:
    try:
        offset = int(fields.get("offset", "0"))
        expected = data_bytes(tensor.data_type, tensor.dims)
        length = int(fields.get("length", "0")) or expected or 0
    except ValueError:
        yield f'tensor "{tensor.name}": external offset and length must be numbers'
        return
    if expected is None:
        yield f'tensor "{tensor.name}" is a string tensor with external data, which ONNX forbids'
    elif length != expected:
        yield (
            f'tensor "{tensor.name}" of shape {list(tensor.dims)} needs {expected} bytes, its '
            f'entry in "{location}" has {length}'
        )
    elif offset < 0:
        yield f'tensor "{tensor.name}": its offset in "{location}" is {offset}, expected at least 0'
    elif offset + length > size:
        yield (
            f'external data file "{location}" is too short: tensor "{tensor.name}" ends at byte '
            f"{offset + length}, the file has {size}"
        )
