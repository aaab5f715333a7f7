"""Regions of a graph: sets of ops that are worth moving together.

Moving one op of 10 us never pays for a call of 50 us, so a search has to move whole branches. Two
families of regions, computed once a graph:

- *clusters*: edges are contracted one after another, chains first, then small clusters into
  their only producer or consumer; every cluster on the way is a region;
- *branches*: an op that no edge passes by cuts the graph in two; between two such cuts, what hangs
  together is a branch.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from dplace.op_graph import OpGraph
from dplace.problem import Problem
from dplace.schedule.rank import mean_seconds

__all__ = [
    "Clusters",
    "Neighbours",
    "branches",
    "cluster",
    "cut_ops",
    "heavy_clusters",
    "neighbours",
]

Int = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Neighbours:
    """Which ops feed each other, compressed by op; each neighbour once."""

    before_offsets: Int
    before: Int
    after_offsets: Int
    after: Int

    def producers(self, op: int) -> Int:
        """Return the ops that ``op`` reads from."""
        return self.before[self.before_offsets[op] : self.before_offsets[op + 1]]

    def consumers(self, op: int) -> Int:
        """Return the ops that read from ``op``."""
        return self.after[self.after_offsets[op] : self.after_offsets[op + 1]]


def edges(graph: OpGraph) -> NDArray[np.int64]:
    """Return the pairs (producer, consumer), each once and sorted; shape ``(num_edges, 2)``."""
    read = np.repeat(np.arange(graph.num_values), np.diff(graph.consumer_offsets))
    source, target = graph.value_producer[read], graph.consumer_ops
    made = source >= 0
    keys = np.unique(source[made].astype(np.int64) * graph.num_ops + target[made])
    return np.stack([keys // max(1, graph.num_ops), keys % max(1, graph.num_ops)], axis=1)


def neighbours(graph: OpGraph) -> Neighbours:
    """Return the neighbours of every op."""
    pairs = edges(graph)
    back = pairs[np.lexsort((pairs[:, 0], pairs[:, 1]))]

    def offsets(keys: NDArray[np.int64]) -> Int:
        counts = np.bincount(keys, minlength=graph.num_ops)
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)

    return Neighbours(
        before_offsets=offsets(back[:, 1]),
        before=back[:, 0].astype(np.int32),
        after_offsets=offsets(pairs[:, 0]),
        after=pairs[:, 1].astype(np.int32),
    )


def cut_ops(graph: OpGraph) -> Int:
    """Return the ops that no edge passes by, in order: all of the graph lies before or after."""
    pairs = edges(graph)
    passing = np.zeros(graph.num_ops + 1, dtype=np.int64)
    np.add.at(passing, pairs[:, 0] + 1, 1)
    np.add.at(passing, pairs[:, 1], -1)
    return np.flatnonzero(np.cumsum(passing)[:-1] == 0).astype(np.int32)


def branches(graph: OpGraph) -> list[Int]:
    """Return the branches: between two cuts, the ops that hang together without the cuts."""
    cuts = cut_ops(graph)
    is_cut = np.zeros(graph.num_ops, dtype=np.bool_)
    is_cut[cuts] = True
    parent = list(range(graph.num_ops))

    def root(op: int) -> int:
        while parent[op] != op:
            parent[op] = parent[parent[op]]
            op = parent[op]
        return op

    for source, target in edges(graph).tolist():
        if not (is_cut[source] or is_cut[target]):
            parent[root(target)] = root(source)
    members: dict[int, list[int]] = {}
    for op in np.flatnonzero(~is_cut).tolist():
        members.setdefault(root(op), []).append(op)
    return [np.array(ops, dtype=np.int32) for ops in members.values()]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clusters:
    """A tree of clusters; leaves are ops, each merge joins two nodes."""

    leaves: Int
    """Ops in the order in which the clusters hold them, shape ``(num_ops,)``."""
    start: Int
    end: Int
    """Node ``i`` holds ``leaves[start[i]:end[i]]``; by ascending size."""

    def ops_of(self, node: int) -> Int:
        """Return the ops of a node."""
        return self.leaves[self.start[node] : self.end[node]]

    @property
    def sizes(self) -> Int:
        """Return the number of ops of each node, ascending."""
        return self.end - self.start


def cluster(problem: Problem, work_s: tuple[float, ...] = ()) -> tuple[Clusters, list[Int]]:
    """Contract the graph edge by edge, and return all clusters and some of the stages.

    An edge is contracted if its source has no other consumer or its target no other producer: then
    there is no way around it, and clusters never wait for each other in a circle. Of these,
    edges that are both come first, then those whose two clusters have the least work.

    Args:
        problem: The graph and its costs.
        work_s: Seconds, ascending: for each, the stage at which no cluster with less work can be
            contracted any more is returned.

    Returns:
        The tree of clusters, and for each of ``work_s`` the cluster of each op, shape
        ``(num_ops,)``.
    """
    num_ops = problem.num_ops
    work = mean_seconds(problem).tolist()
    after: list[set[int]] = [set() for _ in range(num_ops)]
    before: list[set[int]] = [set() for _ in range(num_ops)]
    for source, target in edges(problem.graph).tolist():
        after[source].add(target)
        before[target].add(source)
    node = list(range(num_ops))
    children: list[tuple[int, int]] = []
    version = [0] * num_ops
    queue: list[tuple[bool, float, int, int, int, int]] = []

    def entry(source: int, target: int) -> tuple[bool, float, int, int, int, int] | None:
        alone, only = len(after[source]) == 1, len(before[target]) == 1
        if not (alone or only):
            return None
        least = min(work[source], work[target])
        return (not (alone and only), least, source, target, version[source], version[target])

    for source in range(num_ops):
        queue += [e for target in after[source] if (e := entry(source, target)) is not None]
    heapify(queue)
    stages: list[Int] = []
    head = list(range(num_ops))

    def merge(source: int, target: int) -> None:
        children.append((node[source], node[target]))
        node[source] = num_ops + len(children) - 1
        head[target] = source
        work[source] += work[target]
        after[source].discard(target)
        before[target].discard(source)
        for reader in after[target]:
            before[reader].discard(target)
            before[reader].add(source)
        for maker in before[target]:
            after[maker].discard(target)
            after[maker].add(source)
        after[source] |= after[target]
        before[source] |= before[target]
        for index in (source, target):
            version[index] += 1
        # An edge that has become the only one of its other end starts or ends here as well.
        around = [(maker, source) for maker in before[source]]
        around += [(source, reader) for reader in after[source]]
        for pair in around:
            if (again := entry(*pair)) is not None:
                heappush(queue, again)

    for limit in (*work_s, np.inf):
        held_back: list[tuple[bool, float, int, int, int, int]] = []
        while queue:
            item = heappop(queue)
            is_loose, least, source, target, old, older = item
            if version[source] != old or version[target] != older or target not in after[source]:
                continue
            if is_loose and least >= limit:
                held_back.append(item)
                break
            merge(source, target)
        for item in held_back:
            heappush(queue, item)
        if limit < np.inf:
            stages.append(_stage(head))
    return _tree(num_ops, children), stages


def heavy_clusters(problem: Problem, unit: Int, transfer_s: NDArray[np.float64]) -> Clusters:
    """Return the clusters that arise as values are joined with their readers, the slowest first.

    Args:
        problem: The graph.
        unit: Shape ``(num_ops,)``: ops that go together anyway, joined before all else.
        transfer_s: Shape ``(num_values,)``: what it costs if the value crosses.
    """
    graph = problem.graph
    num_ops = graph.num_ops
    parent = list(range(num_ops))
    node = list(range(num_ops))
    children: list[tuple[int, int]] = []

    def root(op: int) -> int:
        while parent[op] != op:
            parent[op] = parent[parent[op]]
            op = parent[op]
        return op

    def merge(one: int, other: int) -> None:
        one, other = root(one), root(other)
        if one != other:
            children.append((node[one], node[other]))
            parent[other] = one
            node[one] = num_ops + len(children) - 1

    _, heads = np.unique(unit, return_index=True)
    for op, head in enumerate(heads[unit].tolist()):
        merge(head, op)
    made = np.flatnonzero(graph.value_producer >= 0)
    for value in made[np.argsort(-transfer_s[made], kind="stable")].tolist():
        for reader in graph.consumers_of(value).tolist():
            merge(int(graph.value_producer[value]), reader)
    return _tree(num_ops, children)


def _stage(head: list[int]) -> Int:
    """Return the cluster of each op, numbered by the first op."""
    found = list(range(len(head)))
    for op in range(len(head)):
        index = op
        while head[index] != index:
            index = head[index]
        found[op] = index
    _, group = np.unique(np.array(found, dtype=np.int64), return_inverse=True)
    return group.astype(np.int32)


def _tree(num_ops: int, children: list[tuple[int, int]]) -> Clusters:
    """Lay out the leaves so that each node is a slice, and sort the nodes by size."""
    num_nodes = num_ops + len(children)
    size = [1] * num_nodes
    is_child = [False] * num_nodes
    for index, (left, right) in enumerate(children):
        size[num_ops + index] = size[left] + size[right]
        is_child[left] = is_child[right] = True
    start = [0] * num_nodes
    at = 0
    for index in range(num_nodes):
        if not is_child[index]:
            start[index] = at
            at += size[index]
    leaves = [0] * num_ops
    for index in range(num_nodes - 1, -1, -1):
        if index >= num_ops:
            left, right = children[index - num_ops]
            start[left] = start[index]
            start[right] = start[index] + size[left]
        else:
            leaves[start[index]] = index
    starts = np.array(start, dtype=np.int32)
    sizes = np.array(size, dtype=np.int32)
    order = np.argsort(sizes, kind="stable")
    return Clusters(
        leaves=np.array(leaves, dtype=np.int32),
        start=starts[order],
        end=(starts + sizes)[order],
    )
