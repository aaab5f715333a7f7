"""A model in the spelling that onnx_ir and onnxruntime both read; the meaning is the same.

Sparse tensors become dense, types of maps are left out (onnxruntime finds them again), and nodes
of one graph that share a name get names of their own.
"""

from collections.abc import Iterator

import numpy as np
import onnx

from dplace.graph_io.structure import subgraphs

__all__ = ["plain_spelling"]


def plain_spelling(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model itself if nothing has to change, else a changed copy."""
    if not any(_has_rare_spelling(graph) for graph in _all_graphs(model.graph)):
        return model
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    for graph in list(_all_graphs(plain.graph)):
        for value in (*graph.output, *graph.value_info):
            if _is_map(value.type):
                value.ClearField("type")
        for sparse in graph.sparse_initializer:
            graph.initializer.append(_dense(sparse, sparse.values.name))
        del graph.sparse_initializer[:]
        for node in graph.node:
            for attribute in node.attribute:
                if node.op_type == "Constant" and attribute.name == "sparse_value":
                    dense = _dense(attribute.sparse_tensor, attribute.sparse_tensor.values.name)
                    attribute.CopyFrom(onnx.helper.make_attribute("value", dense))
        _part_equal_names(graph)
    return plain


def _all_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for subgraph in subgraphs(node):
            yield from _all_graphs(subgraph)


def _has_rare_spelling(graph: onnx.GraphProto) -> bool:
    names = [node.name for node in graph.node if node.name]
    return (
        bool(graph.sparse_initializer)
        or len(set(names)) < len(names)
        or any(_is_map(value.type) for value in (*graph.output, *graph.value_info))
        or any(
            attribute.name == "sparse_value"
            for node in graph.node
            if node.op_type == "Constant"
            for attribute in node.attribute
        )
    )


def _part_equal_names(graph: onnx.GraphProto) -> None:
    """Number the nodes that bear a name which an earlier node has: ``Conv``, ``Conv__1``."""
    taken = {node.name for node in graph.node}
    seen: dict[str, int] = {}
    for node in graph.node:
        if not node.name:
            continue
        count = seen.get(node.name, 0)
        seen[node.name] = count + 1
        if count:
            name = f"{node.name}__{count}"
            while name in taken:
                name += "_"
            taken.add(name)
            node.name = name


def _dense(sparse: onnx.SparseTensorProto, name: str) -> onnx.TensorProto:
    values = onnx.numpy_helper.to_array(sparse.values)
    indices = onnx.numpy_helper.to_array(sparse.indices)
    dense = np.zeros(tuple(sparse.dims), dtype=values.dtype)
    if indices.ndim == 2:
        dense[tuple(indices.T)] = values
    else:
        dense.reshape(-1)[indices] = values
    return onnx.numpy_helper.from_array(dense, name)


def _is_map(kind: onnx.TypeProto) -> bool:
    if kind.HasField("sequence_type"):
        return _is_map(kind.sequence_type.elem_type)
    return bool(kind.HasField("map_type"))
