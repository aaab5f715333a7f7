"""Judges placements as blocks, one for each accelerator: see ``blocks.py``."""

import numpy as np
from numpy.typing import NDArray

from dplace.errors import InputError
from dplace.problem import Problem
from dplace.rules import READY_RULES, Rule, Score
from dplace.simulator.blocks import BlockSearch, make_block_search, simulate_blocks
from dplace.simulator.engine import capacity
from dplace.simulator.memory import weight_bytes
from dplace.simulator.tables import Tables
from dplace.simulator.timeline import Lowered, Timeline

__all__ = ["BlockEngine"]

Int = NDArray[np.int32]
Bytes = NDArray[np.int64]


class BlockEngine:
    """Simulates ``dnn-partitioning`` for latency."""

    rules = READY_RULES
    compiled = (simulate_blocks,)

    def __init__(self, problem: Problem, tables: Tables) -> None:
        self._problem = problem
        self._tables = tables
        self._search = make_block_search(problem, tables)
        self.capacity = capacity(problem)
        total = int(problem.graph.weight_bytes.sum())
        self.is_memory_tight = bool((total > self.capacity).any())

    def score(self, placement: Int, rule: Rule, order: Int) -> Score:
        """Return the score of a placement; a circle of blocks takes forever."""
        makespan_s = float(simulate_blocks(self._search, placement))
        overflow = 0
        if self.is_memory_tight:
            overflow = int(np.maximum(self.peak_bound(placement) - self.capacity, 0).sum())
        return Score(overflow, makespan_s, len(np.unique(self._search.block_of)))

    def peak_bound(self, placement: Int) -> Bytes:
        """Return the bytes of the ops on each accelerator; a CPU has no limit."""
        return weight_bytes(self._tables, placement)

    def peak_bytes(self, placement: Int, rule: Rule, order: Int) -> Bytes:
        """Return what ``score`` counts as overflow where it is above the capacity."""
        return self.peak_bound(placement)

    def records(self, placement: Int, rule: Rule, order: Int) -> tuple[Lowered, Timeline]:
        """Return the blocks as parts, and the timeline.

        Raises:
            InputError: Blocks wait for each other in a circle.
        """
        makespan_s = float(simulate_blocks(self._search, placement))
        problem, search = self._problem, self._search
        graph, num = problem.graph, problem.num_devices
        if not np.isfinite(makespan_s):
            stuck = graph.op_names[int(np.flatnonzero(~np.isfinite(search.end))[0])]
            raise InputError(
                f"{graph.name}: blocks of the placement wait for each other in a circle, op "
                f"{stuck} among them; under dnn-partitioning for latency a device runs all its "
                "ops in one go"
            )
        block_of, blocks = search.block_of.copy(), search.blocks
        used, index_of_op = np.unique(block_of, return_inverse=True)
        start, end = blocks["ready"][used], blocks["ready"][used] + blocks["length"][used]
        # A topological order of blocks: by start, and a block that feeds another before it.
        by_start = self._order(used, start, index_of_op.astype(np.int32))
        rank = np.empty_like(by_start)
        rank[by_start] = np.arange(len(by_start))
        part_of_op = rank[index_of_op].astype(np.int32)
        part_ops = np.argsort(part_of_op, kind="stable").astype(np.int32)
        counts = np.bincount(part_of_op, minlength=len(used))
        op_start, op_end, transfers = self._times(placement, block_of)
        rows = np.array(transfers, dtype=np.float64).reshape(-1, 5)
        value, source, target = rows[:, :3].T.astype(np.int32)
        sent, arrived = rows[:, 3:].T
        order_of = np.argsort(sent, kind="stable")
        lowered = Lowered(
            placement=placement.copy(),
            part_device=np.array([placement[block_of == used[at]][0] for at in by_start], np.int32),
            part_offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
            part_ops=part_ops,
            part_of_op=part_of_op,
            transfer_value=value[order_of],
            transfer_source=source[order_of],
            transfer_target=target[order_of],
            transfer_priority=np.zeros(len(target), dtype=np.int32),
        )
        lengths = (end - start)[by_start]
        busy_s = np.bincount(lowered.part_device, weights=lengths, minlength=num).astype(np.float64)
        timeline = Timeline(
            makespan_s=makespan_s,
            bottleneck_s=float(busy_s.max(initial=0.0)),
            part_start_s=start[by_start],
            part_end_s=end[by_start],
            op_start_s=op_start,
            op_end_s=op_end,
            transfer_start_s=sent[order_of],
            transfer_end_s=arrived[order_of],
            busy_s=busy_s,
            weight_bytes=weight_bytes(self._tables, placement),
            peak_bytes=self.peak_bound(placement),
        )
        return lowered, timeline

    def _order(
        self,
        used: Int,
        start: NDArray[np.float64],
        part_of_op: Int,
    ) -> NDArray[np.int64]:
        """Return the blocks by start, none before one that it reads from."""
        from heapq import heappop, heappush

        graph = self._problem.graph
        followers: list[set[int]] = [set() for _ in used]
        for value, maker in enumerate(graph.value_producer.tolist()):
            if maker >= 0:
                readers = part_of_op[graph.consumers_of(value)].tolist()
                followers[part_of_op[maker]].update(readers)
        waiting = [0] * len(used)
        for index, row in enumerate(followers):
            row.discard(index)
            for follower in row:
                waiting[follower] += 1
        ready = sorted((start[at], at) for at in range(len(used)) if not waiting[at])
        order: list[int] = []
        while ready:
            _, index = heappop(ready)
            order.append(index)
            for follower in followers[index]:
                waiting[follower] -= 1
                if not waiting[follower]:
                    heappush(ready, (start[follower], follower))
        return np.array(order, dtype=np.int64)

    def _times(
        self, placement: Int, block_of: Int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], list[tuple[int, int, int, float, float]]]:
        """Lay out each block: values that enter, its ops, values that leave."""
        problem, search = self._problem, self._search
        graph, num = problem.graph, problem.num_devices
        host_s = search.host_s.reshape(graph.num_values, num)
        seconds = problem.seconds[np.arange(graph.num_ops), placement]
        at = {int(block): float(search.blocks["ready"][block]) for block in np.unique(block_of)}
        transfers: list[tuple[int, int, int, float, float]] = []
        outside: list[tuple[int, list[int]]] = []
        for value, maker in enumerate(graph.value_producer.tolist()):
            if maker < 0:
                continue
            readers = graph.consumers_of(value).tolist()
            away = [op for op in readers if block_of[op] != block_of[maker]]
            outside.append((value, away))
            for block in dict.fromkeys(int(block_of[op]) for op in away):
                if block < num:
                    end = at[block] + host_s[value, block]
                    transfers.append((value, int(placement[maker]), block, at[block], end))
                    at[block] = end
        start_s, end_s = np.zeros(graph.num_ops), np.zeros(graph.num_ops)
        for op in range(graph.num_ops):
            block = int(block_of[op])
            start_s[op] = at[block]
            at[block] = end_s[op] = at[block] + seconds[op]
        for value, away in outside:
            maker = int(graph.value_producer[value])
            block = int(block_of[maker])
            if away and block < num:
                end = at[block] + host_s[value, block]
                transfers.append((value, block, int(placement[away[0]]), at[block], end))
                at[block] = end
        return start_s, end_s, transfers

    def search_state(self, rule: Rule, order: Int) -> BlockSearch | None:
        """Return what the compiled search judges by."""
        return self._search
