"""Holds the compiled simulators of machine models against the reference, to the last bit."""

from collections.abc import Sequence

import numpy as np
import pytest

from dplace.lowering import Evaluator
from dplace.problem import Problem
from tests.simulator.machines import Outcome, blocks, by_op, loads, station_loads


def assert_agreement(problem: Problem, placement: Sequence[int]) -> None:
    """Compare every op, transfer and peak under every rule, and the score for the objective."""
    evaluator = Evaluator(problem)
    array = np.array(placement, dtype=np.int32)
    load = pytest.approx(largest_load(problem, placement), rel=1e-12, abs=0)
    for rule in evaluator.rules:
        score = evaluator.score(array, rule)
        if problem.objective == "throughput":
            same("scored load", score.makespan_s, load)
        if problem.objective == "throughput" and problem.machine == "dnn-partitioning":
            continue  # there is no such thing as one request
        expected = outcome(
            problem,
            placement,
            evaluator.order(rule, array).tolist(),
            goes_by_ready_time=rule.priority == "ready",
        )
        if expected is None:
            same("makespan of a circle", score.makespan_s, float("inf"))
            continue
        lowered, timeline = evaluator.run(array, rule)
        same("op starts", timeline.op_start_s.tolist(), expected.op_start)
        same("op ends", timeline.op_end_s.tolist(), expected.op_end)
        moved = zip(
            lowered.transfer_value.tolist(),
            lowered.transfer_source.tolist(),
            lowered.transfer_target.tolist(),
            timeline.transfer_start_s.tolist(),
            timeline.transfer_end_s.tolist(),
            strict=True,
        )
        if problem.machine == "dnn-partitioning":  # blocks that pay at a time have no order
            same("transfers", sorted(moved), sorted(expected.transfers))
        else:
            same("transfers", list(moved), sorted(expected.transfers, key=lambda it: it[3]))
        same("makespan", timeline.makespan_s, expected.makespan)
        same("load", timeline.bottleneck_s, load)
        same("peaks", timeline.peak_bytes.tolist(), expected.peak_bytes)
        if problem.objective == "latency":
            same("scored makespan", score.makespan_s, expected.makespan)
            same("overflow", score.overflow_bytes, overflow(problem, expected.peak_bytes))


def same(name: str, compiled: object, reference: object) -> None:
    assert compiled == reference, f"{name}: {compiled} compiled, {reference} by the reference"


def outcome(
    problem: Problem,
    placement: Sequence[int],
    priority: Sequence[int] | None = None,
    *,
    goes_by_ready_time: bool = False,
) -> Outcome | None:
    """Return what the reference says, or None where blocks wait for each other in a circle."""
    if problem.machine == "dnn-partitioning":
        return blocks(problem, placement)
    return by_op(problem, placement, priority, goes_by_ready_time)


def largest_load(problem: Problem, placement: Sequence[int]) -> float:
    if problem.machine == "dnn-partitioning":
        return max(loads(problem, placement))
    devices, busy = station_loads(problem, placement)
    return max([*devices, *busy.values()])


def overflow(problem: Problem, peaks: Sequence[int]) -> int:
    """Return the bytes above the devices' memory; a CPU is the host's under dnn-partitioning."""
    is_host = problem.machine == "dnn-partitioning"
    return sum(
        max(peak - device.memory_bytes, 0)
        for peak, device in zip(peaks, problem.cluster.devices, strict=True)
        if not (is_host and device.kind == "CPU")
    )
