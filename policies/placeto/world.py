"""What an episode plays in: a problem in groups, and what each placement of them comes to."""

import math
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.errors import MemoryLimitError, UsageError
from dplace.graph_io.group_graph import GroupGraph, group_graph
from dplace.lowering import Evaluator, Score
from dplace.placement import repair
from dplace.policies.grouping import group_ops
from dplace.policies.heft import heft
from dplace.policies.m_etf import m_etf
from dplace.policies.single import single
from dplace.problem import Problem
from dplace.rules import Rule
from dplace.schedule.rank import mean_seconds

__all__ = ["MAX_GROUPS", "Outcome", "World", "reach", "topological"]

Placement = NDArray[np.int32]
Float = NDArray[np.float32]

MAX_GROUPS = 64
"""Groups before they are parted by where the start has their ops: up to three times as many."""

ANY_OVERFLOW, OVERFLOW = 0.5, 2.0
"""What a placement that does not fit loses in log run time: at once, and for each mean device's
memory that is missing. The published penalty, 2 s a GB, means nothing on another graph."""

WORST = math.log(100.0)
"""Log run times end here, told in the work of all ops (published: penalised times end at 10 s)."""

REMEMBERED = 20_000
"""Outcomes kept, for late in training most episodes end where others did."""


class Outcome(NamedTuple):
    """What a placement of the groups comes to."""

    score: Score
    log_time: float
    """Log of the run time, told in the work of all ops, with the penalty above memory."""
    start: Float
    """Shape ``(num_groups,)``: when each group starts, as a share of the makespan."""
    end: Float
    """Shape ``(num_groups,)``: when each group's last op ends, as a share of the makespan."""
    length: float
    """The makespan, in the mean time of a group; 0 where nothing can run."""
    busy: Float
    """Shape ``(num_devices,)``: share of the makespan for which each device works, at most 2."""
    full: Float
    """Shape ``(num_devices,)``: peak bytes in each device's memory, at most 2."""


class World:
    """A problem in groups. Outcomes are remembered; each new one is an evaluation."""

    def __init__(
        self,
        evaluator: Evaluator,
        group: Placement | None = None,
        *,
        max_groups: int = MAX_GROUPS,
        is_listed: bool = True,
    ) -> None:
        """Group the ops, and find where episodes start.

        Args:
            evaluator: The problem and its simulator.
            group: Shape ``(num_ops,)``: the group of each op; by default ``group_ops`` makes them.
            max_groups: How many groups that makes, at most.
            is_listed: Whether episodes start from the best of one device, HEFT and m-ETF, and
                placements are judged by the rule that suits it best; groups are then parted so that
                they can be there. If not, it is one device and the first rule, as published.

        Raises:
            UsageError: There are no ops.
            InputError: Some op can go nowhere.
        """
        problem = evaluator.problem
        if problem.num_ops == 0:
            raise UsageError(f"{problem.graph.name}: there is nothing to place")
        self.evaluator = evaluator
        alone = single(evaluator, rng=np.random.default_rng(0), evaluations=1)
        first, self.rule = (_listed if is_listed else _unlisted)(evaluator, alone)
        if group is None:
            group = _parted(group_ops(evaluator, max_groups), first)
        self.group = group
        self.graph: GroupGraph = group_graph(problem, self.group)
        _, self._heads = np.unique(self.group, return_index=True)
        self._by_group = np.argsort(self.group, kind="stable")
        counts = np.bincount(self.group)
        self._begin = np.cumsum(counts) - counts
        self._work_s = float(mean_seconds(problem).sum()) or 1.0
        self._memory = np.array([device.memory_bytes for device in problem.cluster.devices])
        self._known: dict[bytes, Outcome] = {}
        self.single: Placement = self.of_groups(alone)
        """Shape ``(num_groups,)``: the best single device, what it cannot run aside."""
        self.start: Placement = self.of_groups(first)
        """Shape ``(num_groups,)``: where episodes start."""

    @property
    def problem(self) -> Problem:
        """Return what is placed."""
        return self.evaluator.problem

    @property
    def num_groups(self) -> int:
        """Return the number of groups."""
        return self.graph.num_groups

    @property
    def num_devices(self) -> int:
        """Return the number of devices."""
        return self.graph.num_devices

    def of_groups(self, placement: Placement) -> Placement:
        """Return the device of each group: that of its first op, if all of the group may go there.

        Otherwise it is the fastest that the group may go to.
        """
        devices = placement[self._heads]
        rows = np.arange(self.num_groups)
        fastest = np.where(self.graph.allowed, self.graph.run, np.inf).argmin(axis=1)
        kept = np.where(self.graph.allowed[rows, devices], devices, fastest)
        return np.asarray(kept, dtype=np.int32)

    def of_ops(self, devices: Placement) -> Placement:
        """Return the placement of the ops, shape ``(num_ops,)``, from that of the groups."""
        return repair(self.problem, devices[self.group])

    def random(self, rng: np.random.Generator) -> Placement:
        """Return a device for each group, any that it may go to."""
        draws = np.where(self.graph.allowed, rng.random(self.graph.allowed.shape), -1.0)
        return np.asarray(draws.argmax(axis=1), dtype=np.int32)

    def outcome(self, devices: Placement) -> Outcome:
        """Return what a placement of the groups comes to."""
        key = devices.tobytes()
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            found = self._known[key] = self._judge(devices[self.group])
        return found

    def log_time(self, devices: Placement) -> float:
        """Return the log run time alone, which takes half as long as ``outcome``."""
        return self._log_time(self.evaluator.score(devices[self.group], self.rule))

    def ahead(self, devices: Placement, current: int) -> Float:
        """Return how the log run time would change if one group went elsewhere, all else as it is.

        Args:
            devices: Shape ``(num_groups,)``.
            current: The group.

        Returns:
            Shape ``(num_devices,)``; 0 where it may not go.
        """
        found = np.zeros(self.num_devices, dtype=np.float32)
        now = self.outcome(devices).log_time
        moved = devices.copy()
        for device in np.flatnonzero(self.graph.allowed[current]).tolist():
            if device != devices[current]:
                moved[current] = device
                found[device] = self.log_time(moved) - now
        return found

    def _log_time(self, score: Score) -> float:
        log_time = WORST
        if score.makespan_s < math.inf:
            log_time = math.log(max(score.makespan_s, 1e-9 * self._work_s) / self._work_s)
        if score.overflow_bytes:
            lacking = score.overflow_bytes / float(self._memory.mean())
            log_time += ANY_OVERFLOW + OVERFLOW * lacking
        return min(log_time, WORST)

    def _judge(self, placement: Placement) -> Outcome:
        evaluator = self.evaluator
        score = evaluator.score(placement, self.rule)
        num_groups, num_devices = self.graph.allowed.shape
        start = np.zeros(num_groups, dtype=np.float32)
        end = np.zeros(num_groups, dtype=np.float32)
        busy = np.zeros(num_devices, dtype=np.float32)
        full = np.zeros(num_devices, dtype=np.float32)
        length = 0.0
        if 0.0 < score.makespan_s < math.inf:
            _, timeline = evaluator.run(placement, self.rule)
            length_s = timeline.makespan_s or 1.0
            # ``_by_group`` lists the ops group by group; no group is empty.
            start[:] = np.minimum.reduceat(timeline.op_start_s[self._by_group], self._begin)
            end[:] = np.maximum.reduceat(timeline.op_end_s[self._by_group], self._begin)
            start /= length_s
            end /= length_s
            length = length_s / self.graph.unit_s
            busy[:] = np.minimum(timeline.busy_s / length_s, 2.0)
            full[:] = np.minimum(timeline.peak_bytes / self._memory, 2.0)
        return Outcome(score, self._log_time(score), start, end, length, busy, full)


def _listed(evaluator: Evaluator, alone: Placement) -> tuple[Placement, Rule]:
    """Return the best quick placement of the ops, and the rule that suits it best."""
    found = [alone]
    for policy in (heft, m_etf):
        with suppress(MemoryLimitError):
            found.append(policy(evaluator, rng=np.random.default_rng(0), evaluations=1))
    judged = [evaluator.best_rule(placement) for placement in found]
    best = min(range(len(found)), key=lambda at: judged[at][0])
    return found[best], judged[best][1]


def _unlisted(evaluator: Evaluator, alone: Placement) -> tuple[Placement, Rule]:
    return alone, evaluator.rules[0]


def _parted(group: Placement, devices: Placement) -> Placement:
    """Return groups whose ops are all on one device, numbered by their first ops."""
    pairs = group.astype(np.int64) * (int(devices.max(initial=0)) + 1) + devices
    _, heads, parts = np.unique(pairs, return_index=True, return_inverse=True)
    numbers: Placement = np.argsort(np.argsort(heads)).astype(np.int32)
    return np.asarray(numbers[parts.reshape(-1)])


def topological(graph: GroupGraph) -> NDArray[np.int64]:
    """Return the groups in a topological order, the lower number first where there is a choice.

    Groups that wait for each other in a circle come by number.
    """
    from heapq import heapify, heappop, heappush

    num = graph.num_groups
    readers: list[list[int]] = [[] for _ in range(num)]
    for source, target in graph.edges.tolist():
        readers[source].append(target)
    waiting = np.bincount(graph.edges[:, 1], minlength=num).tolist()
    ready = [index for index in range(num) if not waiting[index]]
    heapify(ready)
    order: list[int] = []
    is_placed = [False] * num
    next_left = 0
    while len(order) < num:
        if not ready:
            while is_placed[next_left]:
                next_left += 1
            ready = [next_left]
        index = heappop(ready)
        if is_placed[index]:
            continue
        is_placed[index] = True
        order.append(index)
        for reader in readers[index]:
            waiting[reader] -= 1
            if waiting[reader] == 0 and not is_placed[reader]:
                heappush(ready, reader)
    return np.array(order, dtype=np.int64)


def reach(graph: GroupGraph) -> NDArray[np.bool_]:
    """Return whether the row's group comes before the column's, shape ``(groups, groups)``.

    No group comes before itself, not even in a circle.
    """
    found = np.zeros((graph.num_groups, graph.num_groups), dtype=np.float32)
    found[graph.edges[:, 0], graph.edges[:, 1]] = 1.0
    while True:  # squared until nothing changes
        more = ((found + found @ found) > 0).astype(np.float32)
        if np.array_equal(more, found):
            break
        found = more
    np.fill_diagonal(found, 0.0)
    return found > 0
