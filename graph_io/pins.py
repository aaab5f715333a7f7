"""Pins: ops that the user sends to a device by the names of the original model."""

import difflib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from dplace.cluster import Cluster
from dplace.errors import InputError
from dplace.graph_io.build import PlaceableModel
from dplace.graph_io.fusion import members_by_node
from dplace.graph_io.uses import read_values

__all__ = ["resolve_pins"]


def resolve_pins(
    pins: Sequence[tuple[str, str]],
    *,
    original: ir.Graph,
    placeable: PlaceableModel,
    cluster: Cluster,
) -> NDArray[np.int32]:
    """Return the device that each op is pinned to, or -1; shape ``(num_ops,)``.

    Args:
        pins: Pairs of a pattern (``*``, ``?``, ``[...]``) and a device name. A pattern is
            matched against node names, output names and weight names of the original model.

    Raises:
        InputError: A pattern that matches nothing, or two nodes that optimisation made one op
            pinned to different devices; both are named.
        ClusterError: An unknown device.
    """
    result = np.full(placeable.graph.num_ops, -1, dtype=np.int32)
    if not pins:
        return result
    ops_of = _ops_by_original_node(original, placeable)
    pinned_by: dict[int, tuple[str, str]] = {}
    for pattern, device in pins:
        target = cluster.device_index(device)
        matched = [
            (node, name) for node in original if (name := _matching_name(node, pattern)) is not None
        ]
        if not matched:
            hint = _hint(original, pattern)
            raise InputError(f"--pin {pattern}={device}: no op or weight {hint}")
        for node, name in matched:
            for op in ops_of.get(node, ()):
                earlier, earlier_device = pinned_by.setdefault(op, (name, device))
                if earlier_device != device:
                    raise InputError(
                        f'pins: "{earlier}" goes to {earlier_device} and "{name}" to {device}, but '
                        "they run as one op; pin both to one device"
                    )
                result[op] = target
    return result


def _ops_by_original_node(
    original: ir.Graph, placeable: PlaceableModel
) -> Mapping[ir.Node, tuple[int, ...]]:
    """Map each node of the original to the ops that hold it, or hold a clone of it."""
    ops_by_node: dict[ir.Node, list[int]] = {}
    for op, nodes in enumerate(placeable.op_nodes):
        for node in nodes:
            ops_by_node.setdefault(node, []).append(op)
    for op, nodes in enumerate(placeable.op_clones):
        for node in nodes:
            ops_by_node.setdefault(node, []).append(op)
    if placeable.model.ir.graph is original:
        return {node: tuple(ops) for node, ops in ops_by_node.items()}
    optimised = list(placeable.model.ir.graph)
    home = members_by_node(original, optimised)
    return {
        node: tuple(ops_by_node.get(optimised[position], ())) for node, position in home.items()
    }


def _names(node: ir.Node) -> list[str]:
    names = [node.name or ""]
    names += [output.name or "" for output in node.outputs]
    names += [value.name or "" for value in read_values(node) if value.is_initializer()]
    return [name for name in names if name]


def _matching_name(node: ir.Node, pattern: str) -> str | None:
    for name in _names(node):
        if name == pattern or fnmatchcase(name, pattern):
            return name
    return None


def _hint(original: ir.Graph, pattern: str) -> str:
    names = dict.fromkeys(name for node in original for name in _names(node))
    near = difflib.get_close_matches(pattern, names, n=3, cutoff=0.5)
    return f"matches it; near names: {', '.join(near)}" if near else "of the model matches it"
