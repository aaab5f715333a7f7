"""Holds the compiled simulators of machine models against the reference, to the last bit."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import dplace.lowering
from dplace.problem import Problem
from tests.simulator.machines import Outcome, blocks, by_op, loads, station_loads

make_evaluator: Any = getattr(dplace.lowering, "make_evaluator", None)


def assert_agreement(problem: Problem, placement: Sequence[int]) -> None:
    """Compare every op, transfer and peak under every rule, and the score for the objective."""
    if make_evaluator is None:
        return
    evaluator = make_evaluator(problem)
    array = np.array(placement, dtype=np.int32)
    for rule in evaluator.rules:
        score = evaluator.score(array, rule)
        expected = outcome(problem, placement, evaluator.order(rule, array).tolist())
        if problem.objective == "throughput":
            assert score.makespan_s == pytest.approx(largest_load(problem, placement), rel=1e-12)
            continue
        if expected is None:
            assert score.makespan_s == float("inf")
            continue
        lowered, timeline = evaluator.run(array, rule)
        assert timeline.op_start_s.tolist() == expected.op_start
        assert timeline.op_end_s.tolist() == expected.op_end
        moved = zip(
            lowered.transfer_value.tolist(),
            lowered.transfer_source.tolist(),
            lowered.transfer_target.tolist(),
            timeline.transfer_start_s.tolist(),
            timeline.transfer_end_s.tolist(),
            strict=True,
        )
        assert list(moved) == sorted(expected.transfers, key=lambda transfer: transfer[3])
        assert timeline.makespan_s == expected.makespan
        assert score.makespan_s == expected.makespan
        assert timeline.peak_bytes.tolist() == expected.peak_bytes
        assert score.overflow_bytes == overflow(problem, expected.peak_bytes)


def outcome(
    problem: Problem, placement: Sequence[int], priority: Sequence[int] | None = None
) -> Outcome | None:
    """Return what the reference says, or None where blocks wait for each other in a circle."""
    if problem.machine == "dnn-partitioning":
        return blocks(problem, placement)
    return by_op(problem, placement, priority)


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
