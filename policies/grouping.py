"""Groups of ops: what a learned policy places in one step.

A graph of thousands of ops is merged edge by edge until a few hundred groups are left. The pair
goes first that loses least by sharing a device: the time for which the smaller of the two could run
beside something else, the less of it the longer it takes to hand the values over; nothing in a
chain. Co-located ops are one group from the start. No merge closes a circle of groups that wait
for each other; co-located ops with others between them are in one already, and what waits in a
circle is merged first.

How much is lost is measured, not believed: ``grouping_loss`` lets the same policy search with
groups and with ops.
"""

from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dplace.errors import UsageError
from dplace.lowering import Evaluator
from dplace.placement import allowed_devices, movable_units
from dplace.policies.transfer_times import mean_transfer_s
from dplace.problem import Problem
from dplace.schedule.rank import mean_seconds

if TYPE_CHECKING:
    from dplace.policies.policy import Policy

__all__ = ["MAX_GROUPS", "GroupingLoss", "group_ops", "grouped", "grouping_loss"]

Int = NDArray[np.int32]

MAX_GROUPS = 128
"""Groups that a policy gets by default: see ``benchmarks/grouping.py`` for what more would gain."""

LARGEST_SHARE = 4.0
"""No group is merged beyond this many times the mean group's work or bytes of weights, so that what
does not fit on one device still comes apart, and a stream of requests has stages."""


def group_ops(
    evaluator: Evaluator, max_groups: int = MAX_GROUPS, *, whole: Int | None = None
) -> Int:
    """Return the group of each op, shape ``(num_ops,)``, numbered by their first ops.

    Args:
        evaluator: The problem.
        max_groups: At most so many, unless ops that nothing connects or that have no device in
            common leave more.
        whole: Shape ``(num_ops,)``: groups of an earlier call, with more of them, that stay whole.

    Raises:
        InputError: Some op can go nowhere.
        UsageError: ``max_groups`` is below 1.
    """
    if max_groups < 1:
        raise UsageError(f"max_groups must be at least 1, got {max_groups}")
    problem = evaluator.problem if whole is None else grouped(evaluator.problem, whole)
    merging = _Merging(evaluator, problem, max_groups)
    merging.run()
    return merging.groups()


class _Merging:
    """Units of co-located ops, merged along edges.

    Every unit has a ``level`` that rises along each edge but those inside a circle, so that a
    second way between two units is looked for only among the levels between.
    """

    def __init__(self, evaluator: Evaluator, problem: Problem, max_groups: int) -> None:
        self._unit = movable_units(problem)
        num = int(self._unit.max(initial=-1)) + 1
        self._max_groups = max_groups
        self._left = num
        self._work: list[float] = np.bincount(self._unit, mean_seconds(problem), num).tolist()
        self._bytes: list[float] = _weight_bytes(problem, self._unit, num).tolist()
        self._most_work: float = LARGEST_SHARE * sum(self._work) / max_groups
        self._most_bytes: float = LARGEST_SHARE * sum(self._bytes) / max_groups
        _, heads = np.unique(self._unit, return_index=True)
        # A bit for each device.
        self._allowed = [
            int.from_bytes(row.tobytes())
            for row in np.packbits(allowed_devices(problem)[heads], axis=1)
        ]
        self._after: list[set[int]] = [set() for _ in range(num)]
        self._before: list[set[int]] = [set() for _ in range(num)]
        self._transfer_s: list[dict[int, float]] = [{} for _ in range(num)]
        self._read_edges(evaluator)
        self._level, self._circle = _levels(self._after)
        self._in_circle: dict[int, set[int]] = {}
        for unit, circle in enumerate(self._circle):
            self._in_circle.setdefault(circle, set()).add(unit)
        self._parent = list(range(num))
        self._version = [0] * num

    def _read_edges(self, evaluator: Evaluator) -> None:
        """List who feeds whom, and the time that their values take between two devices."""
        graph = evaluator.problem.graph
        call_s = float(evaluator.tables.devices["overhead"].mean())
        value_s = mean_transfer_s(evaluator) + call_s
        read = np.repeat(np.arange(graph.num_values), np.diff(graph.consumer_offsets))
        made = graph.value_producer[read] >= 0
        rows = np.stack(
            [
                read[made],
                self._unit[graph.value_producer[read[made]]],
                self._unit[graph.consumer_ops[made]],
            ],
            axis=1,
        )
        for value, maker, reader in np.unique(rows, axis=0).tolist():
            if maker != reader:
                self._after[maker].add(reader)
                self._before[reader].add(maker)
                times = self._transfer_s[maker]
                times[reader] = times.get(reader, 0.0) + float(value_s[value])

    def run(self) -> None:
        """Merge until few enough are left, or nothing more can be merged."""
        for is_strict in (True, False):
            queue = [
                entry
                for source, readers in enumerate(self._after)
                for target in readers
                if (entry := self._entry(source, target)) is not None
            ]
            heapify(queue)
            while queue and self._left > self._max_groups:
                _, _, source, target, old, older = heappop(queue)
                if self._version[source] != old or self._version[target] != older:
                    continue
                if is_strict and self._is_regrettable(source, target):
                    continue
                if self._closes_circle(source, target):
                    continue
                self._merge(source, target)
                around = [(maker, source) for maker in self._before[source]]
                around += [(source, reader) for reader in self._after[source]]
                for pair in around:
                    if (entry := self._entry(*pair)) is not None:
                        heappush(queue, entry)

    def _entry(self, source: int, target: int) -> tuple[float, float, int, int, int, int] | None:
        """Return an edge with what its merge may lose, the least first; None if it may not be."""
        if not self._allowed[source] & self._allowed[target]:
            return None
        work = self._work[source], self._work[target]
        apart_s = self._transfer_s[source].get(target, 0.0)
        inside = self._circle[source] == self._circle[target]
        alone = len(self._after[source]) == 1 and len(self._before[target]) == 1
        # Inside a chain or a circle nothing runs side by side.
        loss = 0.0 if alone or inside else min(work) ** 2 / (min(work) + apart_s + 1e-30)
        return (loss, sum(work), source, target, self._version[source], self._version[target])

    def _is_regrettable(self, source: int, target: int) -> bool:
        """Return whether the two would be too large together, or have fewer devices to choose."""
        work = self._work[source] + self._work[target]
        size = self._bytes[source] + self._bytes[target]
        is_large = work > self._most_work or size > self._most_bytes
        return is_large or self._allowed[source] != self._allowed[target]

    def _closes_circle(self, source: int, target: int) -> bool:
        """Return whether another way leads from ``source`` to ``target``."""
        if self._circle[source] == self._circle[target]:
            return False
        if len(self._in_circle[self._circle[source]]) > 1:
            return True
        if len(self._in_circle[self._circle[target]]) > 1:
            return True
        if len(self._after[source]) == 1 or len(self._before[target]) == 1:
            return False
        top = self._level[target]
        seen: set[int] = set()
        stack = [unit for unit in self._after[source] if unit != target]
        while stack:
            unit = stack.pop()
            if unit == target:
                return True
            if unit not in seen and self._level[unit] < top:
                seen.add(unit)
                stack.extend(self._after[unit])
        return False

    def _merge(self, source: int, target: int) -> None:
        """Make ``target`` a part of ``source``."""
        self._left -= 1
        self._parent[target] = source
        self._allowed[source] &= self._allowed[target]
        self._work[source] += self._work[target]
        self._bytes[source] += self._bytes[target]
        self._version[source] += 1
        self._version[target] += 1
        after, before, times = self._after, self._before, self._transfer_s
        for reader in after[target]:
            before[reader].discard(target)
            if reader != source:
                before[reader].add(source)
                after[source].add(reader)
                seconds = times[target].get(reader, 0.0)
                times[source][reader] = times[source].get(reader, 0.0) + seconds
        for maker in before[target]:
            after[maker].discard(target)
            if maker != source:
                after[maker].add(source)
                before[source].add(maker)
                seconds = times[maker].pop(target, 0.0)
                times[maker][source] = times[maker].get(source, 0.0) + seconds
        after[source].discard(target)
        before[source].discard(target)
        after[target], before[target], times[target] = set(), set(), {}
        self._in_circle[self._circle[target]].discard(target)
        self._raise_to(source, max(self._level[source], self._level[target]))

    def _raise_to(self, unit: int, level: int) -> None:
        """Lift a unit to a level, and all behind it above that."""
        stack = [(unit, level)]
        while stack:
            unit, level = stack.pop()
            for member in self._in_circle[self._circle[unit]]:
                self._level[member] = max(self._level[member], level)
                stack += [
                    (reader, self._level[member] + 1)
                    for reader in self._after[member]
                    if self._circle[reader] != self._circle[member]
                    and self._level[reader] <= self._level[member]
                ]

    def groups(self) -> Int:
        """Return the group of each op."""
        heads = list(range(len(self._parent)))
        for unit in range(len(heads)):
            head = unit
            while self._parent[head] != head:
                head = self._parent[head]
            heads[unit] = head
        _, first, group = np.unique(
            np.array(heads, dtype=np.int64)[self._unit], return_index=True, return_inverse=True
        )
        rank = np.empty(len(first), dtype=np.int32)
        rank[np.argsort(first, kind="stable")] = np.arange(len(first), dtype=np.int32)
        return rank[group].astype(np.int32)


def _weight_bytes(problem: Problem, unit: Int, num_units: int) -> NDArray[np.float64]:
    """Return the bytes of the weights of each unit; one that several read is shared among them."""
    graph = problem.graph
    reader = np.repeat(np.arange(graph.num_ops), np.diff(graph.weight_offsets))
    readers = np.bincount(graph.op_weights, minlength=len(graph.weight_bytes))
    share = graph.weight_bytes / np.maximum(readers, 1)
    return np.bincount(unit[reader], share[graph.op_weights], num_units).astype(np.float64)


def _levels(after: list[set[int]]) -> tuple[list[int], list[int]]:
    """Return the level of each unit and the circle that it is in, often that of itself alone.

    Levels rise along every edge between circles and are equal inside one. No two circles share one:
    then there is mostly room to lift a unit without lifting all behind it as well.
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    num = len(after)
    pairs = np.array([(s, t) for s, readers in enumerate(after) for t in readers], np.int64)
    pairs = pairs.reshape(-1, 2)
    matrix = csr_matrix((np.ones(len(pairs), np.int8), (pairs[:, 0], pairs[:, 1])), (num, num))
    count, label = connected_components(matrix, connection="strong")
    circle = label.astype(np.int64)
    between = np.unique(circle[pairs], axis=0)
    between = between[between[:, 0] != between[:, 1]]
    readers: list[list[int]] = [[] for _ in range(count)]
    waiting = np.bincount(between[:, 1], minlength=count).tolist()
    for source, target in between.tolist():
        readers[source].append(target)
    level = [0] * count
    order = [index for index in range(count) if not waiting[index]]
    for place, index in enumerate(order):
        level[index] = place
        for reader in readers[index]:
            waiting[reader] -= 1
            if not waiting[reader]:
                order.append(reader)
    return [level[c] for c in circle.tolist()], circle.tolist()


def grouped(problem: Problem, group: Int) -> Problem:
    """Return the problem with the ops of a group tied to one device."""
    return replace(problem, graph=replace(problem.graph, colocation=np.asarray(group, np.int32)))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupingLoss:
    """What placing groups instead of ops costs."""

    num_ops: int
    num_groups: int
    evaluations: int
    """Passes of the simulator that each of the two searches had."""
    ops_s: float
    """What the search comes to that moves ops, in seconds."""
    groups_s: float
    """What the search comes to that moves groups."""

    @property
    def loss(self) -> float:
        """Return by what share groups are worse than ops; below 0 where they are better."""
        return self.groups_s / self.ops_s - 1.0 if self.ops_s else 0.0


def grouping_loss(
    problem: Problem, group: Int, policy: "Policy", *, evaluations: int, seed: int = 0
) -> GroupingLoss:
    """Return what groups lose against ops: the best that one policy finds with each.

    Args:
        problem: The graph and its costs.
        group: Shape ``(num_ops,)``, as ``group_ops`` returns it.
        policy: A search, such as ``auto``; it has to keep to co-location.
        evaluations: Passes of the simulator for each of the two searches.
        seed: Of both.

    Raises:
        MemoryLimitError: One of the two finds nothing that fits.
    """

    def found_s(asked: Problem) -> float:
        evaluator = Evaluator(asked)
        rng = np.random.default_rng(seed)
        placement = policy(evaluator, rng=rng, evaluations=evaluations)
        return evaluator.best_rule(placement)[0].makespan_s

    return GroupingLoss(
        num_ops=problem.num_ops,
        num_groups=int(group.max(initial=-1)) + 1,
        evaluations=evaluations,
        ops_s=found_s(problem),
        groups_s=found_s(grouped(problem, group)),
    )
