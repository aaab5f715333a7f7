"""Everything on one device: the baseline that any other placement has to beat."""

import math

import numpy as np
from numpy.typing import NDArray

from dplace.comm_order import schedule
from dplace.errors import MemoryLimitError
from dplace.lowering import Evaluator
from dplace.placement import check_memory, repair
from dplace.policies.alike import traits
from dplace.problem import Problem

__all__ = ["best_single_device_s", "single"]


def single(
    evaluator: Evaluator, *, rng: np.random.Generator, evaluations: int
) -> NDArray[np.int32]:
    """Return the best placement on one device, pinned ops and what it cannot run aside."""
    problem = evaluator.problem
    # Nobody waits for a device that is alone, so all that can matter is when inputs arrive.
    alone = (evaluator.rules[0], evaluator.rules[-1])
    candidates = [
        repair(problem, np.full(problem.num_ops, device, dtype=np.int32))
        for device in _unlike_devices(problem)
    ]
    return min(candidates, key=lambda placement: evaluator.best_rule(placement, alone)[0])


def best_single_device_s(evaluator: Evaluator) -> float:
    """Return the makespan in seconds on the best device alone, pins left aside.

    It is ``inf`` if no device can run and hold it all.
    """
    problem = evaluator.problem
    makespans = [math.inf]
    for device in _unlike_devices(problem):
        if np.isfinite(problem.seconds[:, device]).all():
            placement = np.full(problem.num_ops, device, dtype=np.int32)
            makespans.append(_alone_s(evaluator, placement))
    return min(makespans)


def _alone_s(evaluator: Evaluator, placement: NDArray[np.int32]) -> float:
    """Return what the objective makes small, in seconds; ``inf`` where there is too little room."""
    if not len(evaluator.problem.streamed):
        score, _ = evaluator.best_rule(placement)
        return math.inf if score.overflow_bytes else score.makespan_s
    try:
        timeline = schedule(evaluator, placement).timeline
        check_memory(evaluator.problem, timeline.peak_bytes)
    except MemoryLimitError:
        return math.inf
    is_stream = evaluator.problem.objective == "throughput"
    return timeline.bottleneck_s if is_stream else timeline.makespan_s


def _unlike_devices(problem: Problem) -> list[int]:
    """Return the first of each set of devices that are alike; with pins or homes, none are."""
    if (problem.pins >= 0).any() or len(problem.streamed):
        return list(range(problem.num_devices))
    found: dict[tuple[object, ...], int] = {}
    for index in range(problem.num_devices):
        found.setdefault(traits(problem, index), index)
    return list(found.values())
