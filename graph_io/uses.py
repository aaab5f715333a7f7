"""Which outer values a node reads: its inputs, and what its subgraphs capture at any depth.

onnx_ir ties uses to value objects, so that a subgraph's own value of the same name (shadowing)
is another object and never counts.
"""

from collections.abc import Iterator

import onnx_ir as ir

__all__ = ["captured_values", "node_graphs", "read_values"]


def node_graphs(node: ir.Node) -> Iterator[ir.Graph]:
    """Yield the graphs in the attributes of ``node``, one level deep."""
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def captured_values(node: ir.Node) -> list[ir.Value]:
    """Return the values of the graph around ``node`` that its subgraphs read, each once."""
    outer = node.graph
    found: dict[ir.Value, None] = {}
    pending = list(node_graphs(node))
    while pending:
        graph = pending.pop()
        for inner in graph:
            for value in inner.inputs:
                if value is not None and value.graph is outer:
                    found[value] = None
            pending.extend(node_graphs(inner))
        for value in graph.outputs:
            if value.graph is outer:
                found[value] = None
    return list(found)


def read_values(node: ir.Node) -> list[ir.Value]:
    """Return every value that ``node`` needs before it runs, each once, captures included."""
    found = {value: None for value in node.inputs if value is not None}
    if node.attributes:
        found.update(dict.fromkeys(captured_values(node)))
    return list(found)
