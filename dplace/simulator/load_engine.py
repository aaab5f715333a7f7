"""Judges placements by the largest load: how often a stream of requests gets a result."""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from dplace.problem import Problem
from dplace.rules import READY_RULES, Rule, Score
from dplace.simulator.engine import capacity, holds_all_the_time
from dplace.simulator.loads import LoadSearch, crossings, largest, make_load_search, recount
from dplace.simulator.memory import weight_bytes
from dplace.simulator.op_engine import OpEngine, one_by_one
from dplace.simulator.tables import TRANSFER, Tables
from dplace.simulator.timeline import Lowered, Timeline

__all__ = ["LoadEngine"]

Int = NDArray[np.int32]
Bytes = NDArray[np.int64]


class LoadEngine:
    """Counts loads; where requests overlap, the order of ops within one is of no matter."""

    rules = READY_RULES
    compiled = (recount,)

    def __init__(self, problem: Problem, tables: Tables) -> None:
        self._problem = problem
        self._tables = tables
        self._search = make_load_search(problem, tables)
        is_by_host = problem.machine == "dnn-partitioning"
        self._one_request = None if is_by_host else OpEngine(problem, tables)
        self.capacity = capacity(problem)
        if self._one_request is None:
            total = int(problem.graph.weight_bytes.sum())
            self.is_memory_tight = bool((total > self.capacity).any())
        else:
            self.is_memory_tight = self._one_request.is_memory_tight

    def score(self, placement: Int, rule: Rule, order: Int) -> Score:
        """Return the score of a placement."""
        recount(self._search, placement)
        overflow = 0
        if self.is_memory_tight:
            overflow = int(np.maximum(self.peak_bound(placement) - self.capacity, 0).sum())
        return Score(overflow, float(largest(self._search.loads)), int(crossings(self._search)))

    def loads(self, placement: Int) -> NDArray[np.float64]:
        """Return the load of each device and behind them of each channel, in seconds."""
        recount(self._search, placement)
        return self._search.loads.copy()

    def peak_bound(self, placement: Int) -> Bytes:
        """Return bytes that no schedule of ``placement`` exceeds."""
        if self._one_request is not None:
            return self._one_request.peak_bound(placement)
        return weight_bytes(self._tables, placement)

    def _crossing(self, placement: Int) -> tuple[Int, Int]:
        """Return the values that cross and the devices that they go to, each pair once."""
        graph, num = self._problem.graph, self._problem.num_devices
        values = np.repeat(np.arange(graph.num_values), np.diff(graph.consumer_offsets))
        makers = graph.value_producer[values]
        targets = placement[graph.consumer_ops]
        away = (makers >= 0) & (placement[makers] != targets)
        keys = np.unique(values[away].astype(np.int64) * num + targets[away])
        return (keys // num).astype(np.int32), (keys % num).astype(np.int32)

    def peak_bytes(self, placement: Int, rule: Rule, order: Int) -> Bytes:
        """Return what ``score`` counts as overflow where it is above the capacity."""
        return self.peak_bound(placement)

    def records(self, placement: Int, rule: Rule, order: Int) -> tuple[Lowered, Timeline]:
        """Return what a placement runs as; the timeline is that of one request.

        Under ``dnn-partitioning`` requests interleave, so there it is one period: every device
        does its share of the work once, values move while it lasts.
        """
        recount(self._search, placement)
        bottleneck_s = float(largest(self._search.loads))
        if self._one_request is not None:
            lowered, timeline = self._one_request.records(placement, rule, order)
            return lowered, dataclasses.replace(timeline, bottleneck_s=bottleneck_s)
        graph = self._problem.graph
        seconds = self._problem.seconds[np.arange(graph.num_ops), placement]
        end_s = np.zeros(graph.num_ops)
        for device in range(self._problem.num_devices):
            mine = placement == device
            end_s[mine] = np.cumsum(seconds[mine])
        start_s = np.where(seconds > 0, end_s - seconds, end_s)
        values, targets = self._crossing(placement)
        transfers = np.zeros(len(values), dtype=TRANSFER)
        transfers["value"], transfers["target"] = values, targets
        transfers["source"] = placement[graph.value_producer[values]]
        transfers["start"] = end_s[graph.value_producer[values]]
        host_s = self._search.host_s.reshape(graph.num_values, -1)
        transfers["end"] = transfers["start"] + host_s[values, targets]
        return one_by_one(
            placement,
            makespan_s=bottleneck_s,
            bottleneck_s=bottleneck_s,
            start_s=start_s,
            end_s=end_s,
            transfers=transfers,
            weight_bytes=weight_bytes(self._tables, placement),
            peak_bytes=self.peak_bound(placement),
        )

    def search_state(self, rule: Rule, order: Int) -> LoadSearch | None:
        """Return what the compiled search judges by."""
        return self._search if holds_all_the_time(self._problem, self.is_memory_tight) else None
