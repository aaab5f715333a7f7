"""Judges placements by the parts that they are cut into: see ``online.py``."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.problem import Problem
from dplace.rules import PART_RULES, Rule, Score
from dplace.simulator.engine import capacity
from dplace.simulator.memory import Memory
from dplace.simulator.online import simulate
from dplace.simulator.run import Run, make_run
from dplace.simulator.tables import TRANSFER, Records, Tables, largest_station
from dplace.simulator.timeline import Lowered, Timeline

__all__ = ["PartEngine", "PartSearch", "run_records"]

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
        self._memory = Memory(problem, tables)
        self.is_memory_tight = bool(self._memory.most_bytes > self.capacity.min())

    def _simulate(self, placement: Int, rule: Rule, order: Int) -> Run:
        """Return the run of a placement; it holds until the next one."""
        simulate(self._tables, placement, order, *rule[1:], self._run)
        return self._run

    def score(self, placement: Int, rule: Rule, order: Int) -> Score:
        """Return the score of a placement."""
        run = self._simulate(placement, rule, order)
        overflow = 0
        if self.is_memory_tight and (self.peak_bound(placement) > self.capacity).any():
            peaks = self._memory.peaks(placement, run)
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
        return self._memory.bound(placement)

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
        transfers = run.transfers[: run.totals[1]]
        transfers = transfers[np.argsort(transfers["start"], kind="stable")]
        copies = input_copies(self._tables, run)
        return run_records(
            run,
            placement,
            transfers=transfers,
            transfer_priority=np.zeros(len(transfers), dtype=np.int32),
            copies=copies,
            copy_priority=np.zeros(len(copies), dtype=np.int32),
            bottleneck_s=self._bottleneck_s(run),
            weight_bytes=self._memory.weights(placement),
            peak_bytes=self._memory.peaks(placement, run),
        )


def run_records(
    run: Run,
    placement: Int,
    *,
    transfers: Records,
    transfer_priority: Int,
    copies: Records,
    copy_priority: Int,
    bottleneck_s: float,
    weight_bytes: Bytes,
    peak_bytes: Bytes,
) -> tuple[Lowered, Timeline]:
    """Return the records of a run: parts as ``run`` has them, and what is moved.

    Args:
        run: A pass that has come to its end.
        placement: Shape ``(num_ops,)``.
        transfers: TRANSFER between devices in the order in which they start.
        transfer_priority: Of each.
        copies: TRANSFER from the host, in the order in which they start.
        copy_priority: Of each.
        bottleneck_s: The largest load of a device or a channel.
        weight_bytes: Shape ``(num_devices,)``.
        peak_bytes: The same.
    """
    parts, ops = run.parts[: run.totals[0]], run.ops[:-1]
    lowered = Lowered(
        placement=placement.copy(),
        part_device=parts["device"].copy(),
        part_offsets=np.append(parts["ops"], placement.size).astype(np.int32),
        part_ops=run.part_ops.copy(),
        part_of_op=ops["part"].copy(),
        transfer_value=transfers["value"].copy(),
        transfer_source=transfers["source"].copy(),
        transfer_target=transfers["target"].copy(),
        transfer_priority=transfer_priority.copy(),
        copy_value=copies["value"].copy(),
        copy_target=copies["target"].copy(),
        copy_priority=copy_priority.copy(),
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
        copy_start_s=copies["start"].copy(),
        copy_end_s=copies["end"].copy(),
        bottleneck_s=bottleneck_s,
        busy_s=np.bincount(parts["device"], weights=lengths, minlength=len(peak_bytes)).astype(
            np.float64
        ),
        weight_bytes=weight_bytes,
        peak_bytes=peak_bytes,
    )
    return lowered, timeline


def input_copies(tables: Tables, run: Run) -> Records:
    """Return the copies from the host of a run as TRANSFER, in the order in which they start."""
    values, devices = tables.values, run.devices
    copied = np.zeros(len(devices))
    rows: list[tuple[float, float, int, int, int]] = []
    for value in tables.host_values.tolist():
        readers = tables.consumer_ops[values[value]["consumers"] : values[value + 1]["consumers"]]
        for target in np.unique(run.ops["device"][readers]).tolist():
            start = float(copied[target])
            seconds = devices["host_latency"] + values["bytes"][value] / devices["host_bytes_per_s"]
            copied[target] += seconds[target]
            rows.append((start, float(copied[target]), value, -1, target))
    copies: Records = np.array(rows, dtype=TRANSFER)
    return copies[np.argsort(copies["start"], kind="stable")]
