"""Checks of a ModelProto that onnx_ir and onnxruntime leave out or report at too great a length.

Every problem of a model is gathered, so that one run shows them all.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx

__all__ = ["data_bytes", "structure_problems", "subgraphs", "walk_tensors"]

_BITS: dict[int, int] = {
    onnx.TensorProto.FLOAT: 32,
    onnx.TensorProto.INT32: 32,
    onnx.TensorProto.UINT32: 32,
    onnx.TensorProto.DOUBLE: 64,
    onnx.TensorProto.INT64: 64,
    onnx.TensorProto.UINT64: 64,
    onnx.TensorProto.COMPLEX64: 64,
    onnx.TensorProto.COMPLEX128: 128,
    onnx.TensorProto.FLOAT16: 16,
    onnx.TensorProto.BFLOAT16: 16,
    onnx.TensorProto.INT16: 16,
    onnx.TensorProto.UINT16: 16,
    onnx.TensorProto.INT4: 4,
    onnx.TensorProto.UINT4: 4,
}


def data_bytes(data_type: int, dims: Iterable[int]) -> int | None:
    """Return the bytes of a tensor with fixed-size elements, None for strings.

    >>> data_bytes(onnx.TensorProto.INT4, [3, 3])
    5
    """
    if data_type == onnx.TensorProto.STRING:
        return None
    name = onnx.TensorProto.DataType.Name(data_type)
    default = 4 if name.startswith("FLOAT4") else 2 if name in ("INT2", "UINT2") else 8
    return math.ceil(math.prod(dims) * _BITS.get(data_type, default) / 8)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs in the attributes of ``node``, one level deep."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def walk_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield every tensor of the model: initializers and attributes, at any depth."""
    pending: list[onnx.GraphProto] = [model.graph]
    nodes = [node for function in model.functions for node in function.node]
    while pending or nodes:
        if not nodes:
            graph = pending.pop()
            yield from graph.initializer
            nodes.extend(graph.node)
            continue
        node = nodes.pop()
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
        pending.extend(subgraphs(node))


def describe(node: onnx.NodeProto, position: int) -> str:
    """Return how to call a node in a message, for its name may be empty or not unique."""
    name = f' "{node.name}"' if node.name else ""
    output = next((output for output in node.output if output), "none")
    return f'{node.op_type}{name} (node {position}, output "{output}")'


def structure_problems(model: onnx.ModelProto) -> list[str]:
    """Return one line for each fault: not in SSA form, undefined values, cycles, domains."""
    problems: list[str] = []
    domains = {opset.domain for opset in model.opset_import}
    if "" in domains or "ai.onnx" in domains:
        domains |= {"", "ai.onnx"}
    domains |= {function.domain for function in model.functions}
    _check_graph(model.graph, frozenset(), domains, problems)
    for tensor in walk_tensors(model):
        problems.extend(_tensor_problems(tensor))
    return problems


def _check_graph(
    graph: onnx.GraphProto,
    outer: frozenset[str],
    domains: set[str],
    problems: list[str],
) -> None:
    made: dict[str, str] = {value.name: "a graph input" for value in graph.input}
    for value in graph.initializer:
        made.setdefault(value.name, "an initializer")
    for sparse in graph.sparse_initializer:
        made.setdefault(sparse.values.name, "a sparse initializer")
    for position, node in enumerate(graph.node):
        for output in node.output:
            if not output:
                continue
            if output in made:
                problems.append(
                    f'value "{output}" is made twice: by {made[output]} and by '
                    f"{describe(node, position)}; ONNX wants every value made once"
                )
            made[output] = describe(node, position)
    known = outer | made.keys()
    for position, node in enumerate(graph.node):
        if node.domain not in domains:
            problems.append(
                f"{describe(node, position)}: its domain {node.domain!r} is not among the model's "
                f"opset_import ({', '.join(sorted(repr(name) for name in domains))})"
            )
        for name in node.input:
            if name and name not in known:
                problems.append(
                    f'{describe(node, position)} reads "{name}", which nothing makes: not a node, '
                    "an initializer or a graph input"
                )
        for subgraph in subgraphs(node):
            _check_graph(subgraph, known, domains, problems)
    for value in graph.output:
        if value.name not in known:
            problems.append(f'graph output "{value.name}" is made by nothing')
        elif value.name not in made:
            problems.append(
                f'a subgraph returns the outer value "{value.name}" as it is, which ONNX forbids; '
                "put an Identity node between"
            )
    cycle = _find_cycle(graph.node)
    if cycle:
        names = " -> ".join(describe(graph.node[index], index) for index in cycle[:8])
        problems.append(f"the graph has a cycle: {names}")


def _captures(graph: onnx.GraphProto) -> set[str]:
    """Return the names that ``graph`` reads from the scopes around it."""
    own = {value.name for value in graph.input} | {value.name for value in graph.initializer}
    own |= {sparse.values.name for sparse in graph.sparse_initializer}
    own |= {output for node in graph.node for output in node.output}
    read = {name for node in graph.node for name in node.input}
    for node in graph.node:
        for subgraph in subgraphs(node):
            read |= _captures(subgraph)
    read |= {value.name for value in graph.output}
    return read - own - {""}


def _find_cycle(nodes: Sequence[onnx.NodeProto]) -> list[int]:
    """Return the nodes of a cycle in order, or an empty list."""
    maker = {output: index for index, node in enumerate(nodes) for output in node.output if output}
    before = [_producers(node, maker) for node in nodes]
    waiting = [len(producers) for producers in before]
    after: list[list[int]] = [[] for _ in nodes]
    for index, producers in enumerate(before):
        for producer in producers:
            after[producer].append(index)
    ready = [index for index, count in enumerate(waiting) if count == 0]
    done = 0
    while ready:
        index = ready.pop()
        done += 1
        for consumer in after[index]:
            waiting[consumer] -= 1
            if waiting[consumer] == 0:
                ready.append(consumer)
    if done == len(nodes):
        return []
    # Every node left waits for another one that is left: walk back until one comes again.
    index = next(index for index, count in enumerate(waiting) if count > 0)
    path: list[int] = []
    while index not in path:
        path.append(index)
        index = next(producer for producer in before[index] if waiting[producer] > 0)
    return list(reversed(path[path.index(index) :]))


def _producers(node: onnx.NodeProto, maker: Mapping[str, int]) -> list[int]:
    names = set(node.input)
    for subgraph in subgraphs(node):
        names |= _captures(subgraph)
    return sorted({maker[name] for name in names if name in maker})


def _tensor_problems(tensor: onnx.TensorProto) -> Iterator[str]:
    if any(dim < 0 for dim in tensor.dims):
        yield f'tensor "{tensor.name}" has negative dimensions {list(tensor.dims)}'
        return
    if tensor.data_location == onnx.TensorProto.EXTERNAL or not tensor.HasField("raw_data"):
        return
    expected = data_bytes(tensor.data_type, tensor.dims)
    if expected is not None and len(tensor.raw_data) != expected:
        yield (
            f'tensor "{tensor.name}" of shape {list(tensor.dims)} holds {len(tensor.raw_data)} '
            f"bytes, expected {expected}; the file may be truncated"
        )
