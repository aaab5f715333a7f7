"""Everything on one device: the baseline that any other placement has to beat."""

import math

import numpy as np
from numpy.typing import NDArray

from dplace.lowering import Evaluator
from dplace.placement import repair

__all__ = ["single", "single_device_s"]


def single(
    evaluator: Evaluator, *, rng: np.random.Generator, evaluations: int
) -> NDArray[np.int32]:
    """Return the best placement on one device, pinned ops and what it cannot run aside."""
    problem = evaluator.problem
    candidates = [
        repair(problem, np.full(problem.num_ops, device, dtype=np.int32))
        for device in range(problem.num_devices)
    ]
    return min(candidates, key=lambda placement: evaluator.best_rule(placement)[0])


def single_device_s(evaluator: Evaluator, device: int) -> float:
    """Return the makespan on ``device`` alone in seconds; ``inf`` if it cannot hold or run it."""
    problem = evaluator.problem
    if not np.isfinite(problem.seconds[:, device]).all():
        return math.inf
    placement = np.full(problem.num_ops, device, dtype=np.int32)
    score, _ = evaluator.best_rule(placement)
    return math.inf if score.overflow_bytes else score.makespan_s
