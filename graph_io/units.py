"""Groups of nodes that placement does not cut.

A few bytes about a value (Shape, Size) stay with its producer. In ``portable`` mode the parts are
optimised on the target, so what would still fuse there is kept whole: what onnxruntime fuses here
tells what it will fuse there.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir

from dplace.graph_io.clones import RIDERS
from dplace.graph_io.uses import read_values

__all__ = ["group_nodes", "placed_producers"]


def group_nodes(
    nodes: Sequence[ir.Node],
    clones: Mapping[ir.Node, str],
    fused: Iterable[Sequence[ir.Node]],
) -> list[list[ir.Node]]:
    """Return the units of the placed ``nodes`` in a topological order.

    Args:
        nodes: Live nodes in a topological order.
        clones: Nodes that are not placed.
        fused: Sets of nodes to keep whole. One that would close a cycle is given up.
    """
    position = {node: index for index, node in enumerate(nodes)}
    placed = [node for node in nodes if node not in clones]
    leader = {node: node for node in placed}
    for group in fused:
        members = [node for node in group if node in leader]
        for part in _connected(members):
            for node in part:
                leader[node] = leader[part[0]]
    for node in placed:
        if node.op_type in RIDERS and node.domain == "" and node.inputs[0] is not None:
            producer = node.inputs[0].producer()
            if producer is not None and producer in leader:
                leader[node] = leader[producer]
    units, stuck = _sorted_units(placed, leader, clones, position)
    while stuck:
        for node in stuck:
            leader[node] = node
        units, stuck = _sorted_units(placed, leader, clones, position)
    return units


def _connected(members: Sequence[ir.Node]) -> list[list[ir.Node]]:
    """Split ``members`` into sets that hang together by values."""
    remaining = dict.fromkeys(members)
    parts: list[list[ir.Node]] = []
    while remaining:
        first = next(iter(remaining))
        del remaining[first]
        part, pending = [first], [first]
        while pending:
            node = pending.pop()
            near = [value.producer() for value in node.inputs if value is not None]
            near += [user for output in node.outputs for user, _ in output.uses()]
            for other in near:
                if other is not None and other in remaining:
                    del remaining[other]
                    part.append(other)
                    pending.append(other)
        parts.append(part)
    return parts


def _sorted_units(
    placed: Sequence[ir.Node],
    leader: Mapping[ir.Node, ir.Node],
    clones: Mapping[ir.Node, str],
    position: Mapping[ir.Node, int],
) -> tuple[list[list[ir.Node]], list[ir.Node]]:
    """Return the units in order, and the members of units that lie on a cycle."""
    members: dict[ir.Node, list[ir.Node]] = {}
    for node in placed:
        members.setdefault(leader[node], []).append(node)
    waits: dict[ir.Node, set[ir.Node]] = {
        head: {
            leader[producer]
            for node in unit
            for producer in placed_producers(node, clones)
            if leader[producer] is not head
        }
        for head, unit in members.items()
    }
    followers: dict[ir.Node, list[ir.Node]] = {head: [] for head in members}
    for head, before in waits.items():
        for other in before:
            followers[other].append(head)
    open_count = {head: len(before) for head, before in waits.items()}
    ready = [(position[head], index) for index, head in enumerate(members) if not open_count[head]]
    heads = list(members)
    place = {head: index for index, head in enumerate(heads)}
    heapq.heapify(ready)
    order: list[list[ir.Node]] = []
    while ready:
        _, index = heapq.heappop(ready)
        head = heads[index]
        order.append(members[head])
        for follower in followers[head]:
            open_count[follower] -= 1
            if open_count[follower] == 0:
                heapq.heappush(ready, (position[follower], place[follower]))
    if len(order) == len(members):
        return order, []
    stuck = [
        node
        for head, unit in members.items()
        if open_count[head] > 0 and len(unit) > 1
        for node in unit
    ]
    return order, stuck


def placed_producers(node: ir.Node, clones: Mapping[ir.Node, str]) -> list[ir.Node]:
    """Return the placed nodes that ``node`` waits for, seen through cloned ones."""
    found: dict[ir.Node, None] = {}
    seen: set[ir.Node] = set()
    pending = [node]
    while pending:
        for value in read_values(pending.pop()):
            producer = value.producer()
            if producer is None or producer in seen:
                continue
            seen.add(producer)
            if producer in clones:
                pending.append(producer)
            else:
                found[producer] = None
    return list(found)
