"""Judges placements by the parts that they are cut into: see ``online.py``."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.problem import Problem
from dplace.rules import PART_RULES, Rule, Score
from dplace.simulator import memory
from dplace.simulator.engine import capacity
from dplace.simulator.online import simulate
from dplace.simulator.run import Run, make_run
from dplace.simulator.tables import Tables, largest_station
from dplace.simulator.timeline import Lowered, Timeline

__all__ = ["PartEngine", "PartSearch"]

Int = NDArray[np.int32]
Bytes = NDArray[np.int64]


class PartSearch(NamedTuple):
    """What the compiled search needs to judge placements by parts."""

    tables: Tables
    run: Run
    order: Int
    cut_gain: float
    patience: float
    urgent_only: bool
    slice_work: float


class PartEngine:
    """Lowers and simulates in one pass, so what is predicted is what runs."""

    rules = PART_RULES
    compiled = (simulate,)

    def __init__(self, problem: Problem, tables: Tables) -> None:
        self._problem = problem
        self._tables = tables
        self._run = make_run(tables)
        self.capacity = capacity(problem)
        graph = problem.graph
        everything = int(graph.weight_bytes.sum()) + int(graph.value_bytes.sum())
        self.is_memory_tight = bool(everything > self.capacity.min())

    def _simulate(self, placement: Int, rule: Rule, order: Int) -> Run:
        """Return the run of a placement; it holds until the next one."""
        simulate(self._tables, placement, order, *rule[1:], self._run)
        return self._run

    def score(self, placement: Int, rule: Rule, order: Int) -> Score:
        """Return the score of a placement."""
        run = self._simulate(placement, rule, order)
        overflow = 0
        if self.is_memory_tight and (self.peak_bound(placement) > self.capacity).any():
            peaks = memory.peak_bytes(self._tables, placement, run)
            overflow = int(np.maximum(peaks - self.capacity, 0).sum())
        time_s = float(run.makespan[0])
        if self._problem.objective == "throughput":
            time_s = self._bottleneck_s(run)
        return Score(overflow, time_s, int(run.totals[0]))

    def _bottleneck_s(self, run: Run) -> float:
        """Return the largest load of a device or a channel."""
        parts, transfers = run.parts[: run.totals[0]], run.transfers[: run.totals[1]]
        busy_s = np.bincount(parts["device"], weights=parts["end"] - parts["start"])
        return largest_station(busy_s.astype(np.float64), transfers, self._tables.links)

    def peak_bound(self, placement: Int) -> Bytes:
        """Return bytes that no schedule of ``placement`` exceeds."""
        return memory.peak_bound(self._tables, placement)

    def search_state(self, rule: Rule, order: Int) -> PartSearch | None:
        """Return what the compiled search judges by."""
        if self.is_memory_tight or self._problem.objective == "throughput":
            return None
        return PartSearch(self._tables, self._run, order.copy(), *rule[1:])

    def peak_bytes(self, placement: Int, rule: Rule, order: Int) -> Bytes:
        """Return the bytes at the worst moment on each device."""
        return self.records(placement, rule, order)[1].peak_bytes

    def records(self, placement: Int, rule: Rule, order: Int) -> tuple[Lowered, Timeline]:
        """Return the parts and transfers of a placement, and the timeline."""
        run = self._simulate(placement, rule, order)
        num_parts, num_transfers = int(run.totals[0]), int(run.totals[1])
        parts, ops = run.parts[:num_parts], run.ops[:-1]
        transfers = run.transfers[:num_transfers]
        transfers = transfers[np.argsort(transfers["start"], kind="stable")]
        part_offsets = np.append(parts["ops"], placement.size).astype(np.int32)
        lowered = Lowered(
            placement=placement.copy(),
            part_device=parts["device"].copy(),
            part_offsets=part_offsets,
            part_ops=run.part_ops.copy(),
            part_of_op=ops["part"].copy(),
            transfer_value=transfers["value"].copy(),
            transfer_source=transfers["source"].copy(),
            transfer_target=transfers["target"].copy(),
        )
        lengths = parts["end"] - parts["start"]
        timeline = Timeline(
            makespan_s=float(run.makespan[0]),
            part_start_s=parts["start"].copy(),
            part_end_s=parts["end"].copy(),
            op_start_s=ops["start"].copy(),
            op_end_s=ops["end"].copy(),
            transfer_start_s=transfers["start"].copy(),
            transfer_end_s=transfers["end"].copy(),
            bottleneck_s=self._bottleneck_s(run),
            busy_s=np.bincount(
                parts["device"], weights=lengths, minlength=self._problem.num_devices
            ).astype(np.float64),
            weight_bytes=memory.weight_bytes(self._tables, placement),
            peak_bytes=memory.peak_bytes(self._tables, placement, run),
        )
        return lowered, timeline
