"""Which nodes of the original model each node of an optimised graph stands for.

onnxruntime keeps no record of what it fused. What survives is the name of a fused node's output,
and, after a change of layout, that name within the new node's name. A node whose output is gone
went into the node that consumes it.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx_ir as ir

from dplace.graph_io.optimise import OptimisedModel, optimise
from dplace.graph_io.uses import read_values

__all__ = ["fused_groups", "members_by_node"]

_LAYOUT_NAME = re.compile(r"^(.*?)(_bn|_mul|_add)?_nchwc(_token_\d+)?$")
_TOKEN = re.compile(r"_token_\d+$")


def members_by_node(original: ir.Graph, optimised: Sequence[ir.Node]) -> dict[ir.Node, int]:
    """Map nodes of ``original`` to the position in ``optimised`` of the node they became part of.

    A node that is missing from the result left no trace: it was folded into a constant.
    """
    anchors: dict[str, int] = {}
    # A node whose outputs were all renamed can still bear its own name, if that is unique.
    first_outputs: dict[str, str | None] = {}
    for node in original:
        if node.name and node.outputs:
            first_outputs[node.name] = None if node.name in first_outputs else node.outputs[0].name
    for position, node in enumerate(optimised):
        for name in _original_names(node):
            anchors.setdefault(name, position)
        if (own := first_outputs.get(node.name or "")) is not None:
            anchors.setdefault(own, position)
    for position, node in enumerate(optimised):
        for output in node.outputs:
            if output.name:
                anchors[output.name] = position
    nodes = list(original)
    home: dict[ir.Node, int] = {}
    for node in reversed(nodes):
        kept = [anchors[out.name] for out in node.outputs if out.name in anchors]
        if kept:
            home[node] = kept[0]
            continue
        consumers = [home[user] for out in node.outputs for user, _ in out.uses() if user in home]
        if consumers:
            home[node] = min(consumers)
    for node in nodes:
        if node not in home:
            producers = [
                home[producer]
                for value in read_values(node)
                if (producer := value.producer()) is not None and producer in home
            ]
            if producers:
                home[node] = max(producers)
    return home


def _original_names(node: ir.Node) -> Iterator[str]:
    match = _LAYOUT_NAME.match(node.name or "")
    if match:
        yield match[1]
    for output in node.outputs:
        if output.name and _TOKEN.search(output.name):
            yield _TOKEN.sub("", output.name)


def fused_groups(optimised: OptimisedModel, scratch: Path) -> tuple[tuple[ir.Node, ...], ...]:
    """Return sets of nodes of a portably optimised model that would still fuse on its target.

    What onnxruntime fuses at level ``extended`` here (convolution with activation, layer
    normalisation, Gelu, attention, quantised units) is what it will fuse there: those patterns
    are written on ONNX ops and shared by the providers. Its opinion is asked, not imitated.

    Raises:
        ModelError: onnxruntime does not take the model.
    """
    if optimised.opt_level not in ("all", "extended"):
        return ()
    model = optimised.model
    folder = scratch / "fused"
    folder.mkdir()
    fused = optimise(model, mode="native", opt_level="extended", scratch=folder)
    home = members_by_node(model.ir.graph, list(fused.model.ir.graph))
    groups: dict[int, list[ir.Node]] = {}
    for node, position in home.items():
        groups.setdefault(position, []).append(node)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)
