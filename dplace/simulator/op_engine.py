"""Judges placements op by op, under the rules of ``op_tables.py``."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.problem import Problem
from dplace.rules import READY_RULES, URGENT_RULES, Rule, Score
from dplace.simulator.by_op import OpRun, make_op_run, simulate_batch, simulate_ops
from dplace.simulator.engine import capacity, holds_all_the_time
from dplace.simulator.loads import LoadSearch, largest, make_load_search, recount
from dplace.simulator.memory import Memory, weight_bytes
from dplace.simulator.op_tables import OpTables, tabulate_ops
from dplace.simulator.run import Run, make_run
from dplace.simulator.tables import Tables
from dplace.simulator.timeline import Lowered, Timeline

__all__ = ["OpEngine", "OpSearch", "value_peaks"]

Int = NDArray[np.int32]
Bytes = NDArray[np.int64]


class OpSearch(NamedTuple):
    """What the compiled search needs to judge placements op by op."""

    op_tables: OpTables
    op_run: OpRun
    order: Int
    position: Int


class OpEngine:
    """Simulates ``native`` without calls, ``placeto``, ``baechi``, ``moirai``, ``independent``."""

    compiled = (simulate_ops,)

    def __init__(self, problem: Problem, tables: Tables) -> None:
        self._problem = problem
        self._tables = tables
        self._op_tables = tabulate_ops(problem, problem.machine, tables)
        self._run = make_op_run(self._op_tables)
        self._part_run: Run | None = None
        self._loads: LoadSearch | None = None
        self.rules = URGENT_RULES if self._op_tables.is_urgent_first else READY_RULES
        self.capacity = capacity(problem)
        self._memory = Memory(problem, tables)
        self._position = np.zeros(problem.num_ops, dtype=np.int32)
        self.is_memory_tight = bool((self._most_bytes() > self.capacity).any())

    def _most_bytes(self) -> int:
        graph = self._problem.graph
        if self._problem.machine == "native":
            return self._memory.most_bytes
        total = 0
        if self._problem.machine in ("baechi", "moirai"):
            total += int(graph.weight_bytes.sum())
        if self._problem.machine in ("baechi", "placeto"):
            total += int(graph.value_bytes.sum())
        return total

    def _simulate(self, placement: Int, rule: Rule, order: Int) -> float:
        self._position[order] = np.arange(len(order), dtype=np.int32)
        tables = self._ruled(rule)
        return float(simulate_ops(tables, placement, order, self._position, self._run))

    def _ruled(self, rule: Rule) -> OpTables:
        """Return the tables for a rule: whether devices go by priority or by ready time."""
        if rule.priority != "ready":
            return self._op_tables
        return self._op_tables._replace(is_urgent_first=False)

    def score(self, placement: Int, rule: Rule, order: Int) -> Score:
        """Return the score of a placement."""
        makespan_s = self._simulate(placement, rule, order)
        overflow = 0
        if self.is_memory_tight and (self.peak_bound(placement) > self.capacity).any():
            peaks = self._peaks(placement)
            overflow = int(np.maximum(peaks - self.capacity, 0).sum())
        return Score(overflow, makespan_s, int(self._run.totals[0]))

    def makespans(self, placements: Int, order: Int) -> NDArray[np.float64]:
        """Return the makespans of several placements, shape ``(num, num_ops)``, in seconds."""
        self._position[order] = np.arange(len(order), dtype=np.int32)
        result = np.zeros(len(placements))
        simulate_batch(self._op_tables, placements, order, self._position, self._run, result)
        return result

    def peak_bound(self, placement: Int) -> Bytes:
        """Return bytes that no schedule of ``placement`` exceeds."""
        if self._problem.machine == "independent":
            return np.zeros(self._problem.num_devices, dtype=np.int64)
        if self._problem.machine == "moirai":
            return weight_bytes(self._tables, placement)
        return self._memory.bound(placement)

    def _peaks(self, placement: Int) -> Bytes:
        """Return the bytes at the worst moment on each device, in the run just made."""
        machine = self._problem.machine
        if machine in ("moirai", "independent"):
            return self.peak_bound(placement)
        if machine == "native":
            return self._memory.peaks(placement, self._as_part_run(placement))
        held = np.zeros(self._problem.num_devices, dtype=np.int64)
        if machine == "baechi":
            held = weight_bytes(self._tables, placement)
        ops = self._run.ops
        return held + value_peaks(self._problem, placement, ops["start"], ops["end"])

    def _as_part_run(self, placement: Int) -> Run:
        """Return the run with a part for each op, as ``memory.py`` reads it."""
        if self._part_run is None:
            self._part_run = make_run(self._tables)
        run, ops = self._part_run, self._run.ops
        by_start = np.argsort(ops["start"], kind="stable")
        run.ops["device"][:-1] = placement
        run.ops["start"][:-1], run.ops["end"][:-1] = ops["start"], ops["end"]
        run.ops["part"][by_start] = np.arange(len(by_start), dtype=np.int32)
        run.parts["start"][:-1] = ops["start"][by_start]
        run.parts["end"][:-1] = ops["end"][by_start]
        run.parts["device"][:-1] = placement[by_start]
        count = self._run.totals[0]
        run.totals[0], run.totals[1] = len(by_start), count
        run.transfers[:count] = self._run.transfers[:count]
        return run

    def peak_bytes(self, placement: Int, rule: Rule, order: Int) -> Bytes:
        """Return the bytes at the worst moment on each device."""
        return self.records(placement, rule, order)[1].peak_bytes

    def records(self, placement: Int, rule: Rule, order: Int) -> tuple[Lowered, Timeline]:
        """Return each op as a part of its own, and the timeline."""
        makespan_s = self._simulate(placement, rule, order)
        if self._loads is None:
            self._loads = make_load_search(self._problem, self._tables)
        recount(self._loads, placement)
        return one_by_one(
            placement,
            makespan_s=makespan_s,
            bottleneck_s=float(largest(self._loads.loads)),
            start_s=self._run.ops["start"].copy(),
            end_s=self._run.ops["end"].copy(),
            transfers=self._run.transfers[: self._run.totals[0]].copy(),
            weight_bytes=self._memory.weights(placement),
            peak_bytes=self._peaks(placement),
        )

    def search_state(self, rule: Rule, order: Int) -> OpSearch | None:
        """Return what the compiled search judges by."""
        if not holds_all_the_time(self._problem, self.is_memory_tight):
            return None
        position = np.zeros(len(order), dtype=np.int32)
        position[order] = np.arange(len(order), dtype=np.int32)
        return OpSearch(self._ruled(rule), self._run, order.copy(), position)


def one_by_one(
    placement: Int,
    *,
    makespan_s: float,
    bottleneck_s: float,
    start_s: NDArray[np.float64],
    end_s: NDArray[np.float64],
    transfers: NDArray[np.void],
    weight_bytes: Bytes,
    peak_bytes: Bytes,
) -> tuple[Lowered, Timeline]:
    """Return the records of a run in which each op is a part of its own."""
    # An op that takes no time comes before one that starts at the same moment on its device.
    by_start = np.lexsort((end_s, start_s)).astype(np.int32)
    part_of_op = np.empty_like(by_start)
    part_of_op[by_start] = np.arange(len(by_start), dtype=np.int32)
    transfers = transfers[np.argsort(transfers["start"], kind="stable")]
    lowered = Lowered(
        placement=placement.copy(),
        part_device=placement[by_start],
        part_offsets=np.arange(len(by_start) + 1, dtype=np.int32),
        part_ops=by_start,
        part_of_op=part_of_op,
        transfer_value=transfers["value"].copy(),
        transfer_source=transfers["source"].copy(),
        transfer_target=transfers["target"].copy(),
        transfer_priority=np.zeros(len(transfers), dtype=np.int32),
    )
    timeline = Timeline(
        makespan_s=makespan_s,
        bottleneck_s=bottleneck_s,
        part_start_s=start_s[by_start],
        part_end_s=end_s[by_start],
        op_start_s=start_s,
        op_end_s=end_s,
        transfer_start_s=transfers["start"].copy(),
        transfer_end_s=transfers["end"].copy(),
        busy_s=np.bincount(placement, weights=end_s - start_s, minlength=len(peak_bytes)).astype(
            np.float64
        ),
        weight_bytes=weight_bytes,
        peak_bytes=peak_bytes,
    )
    return lowered, timeline


def value_peaks(
    problem: Problem, placement: Int, start_s: NDArray[np.float64], end_s: NDArray[np.float64]
) -> Bytes:
    """Return the most bytes of values on the devices that make them, shape ``(num_devices,)``.

    A value is there from the start of its op to the end of the last op that reads it.
    """
    graph = problem.graph
    made = np.flatnonzero(graph.value_producer >= 0)
    makers = graph.value_producer[made]
    last = np.zeros(graph.num_values)
    last[made] = end_s[makers]
    readers = np.repeat(np.arange(graph.num_values), np.diff(graph.consumer_offsets))
    np.maximum.at(last, readers, end_s[graph.consumer_ops])
    kept = made[last[made] > start_s[makers]]
    makers = graph.value_producer[kept]
    times = np.concatenate([start_s[makers], last[kept]])
    sizes = np.concatenate([graph.value_bytes[kept], -graph.value_bytes[kept]])
    devices = np.concatenate([placement[makers], placement[makers]])
    is_start = np.repeat([True, False], len(kept))
    # What ends now makes room for what starts now.
    order = np.lexsort((is_start, times, devices))
    peaks = np.zeros(problem.num_devices, dtype=np.int64)
    for device in range(problem.num_devices):
        held = np.cumsum(sizes[order][devices[order] == device])
        peaks[device] = held.max(initial=0)
    return peaks
