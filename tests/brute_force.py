"""A second opinion on what is best: every placement that is allowed, one after another."""

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dplace.lowering import Evaluator, Score
from dplace.placement import allowed_devices, movable_units
from dplace.problem import Problem

__all__ = ["all_placements", "best_score", "optimum_s"]


def all_placements(problem: Problem) -> Iterator[NDArray[np.int32]]:
    """Yield every placement that pins, kernels and co-location allow, shape ``(num_ops,)``."""
    unit = movable_units(problem)
    _, heads = np.unique(unit, return_index=True)
    choices = [np.flatnonzero(row).tolist() for row in allowed_devices(problem)[heads]]
    for devices in itertools.product(*choices):
        yield np.array(devices, dtype=np.int32)[unit]


def best_score(problem: Problem) -> Score:
    """Return the best score of all placements, each under the rule that suits it best."""
    evaluator = Evaluator(problem)
    return min(evaluator.best_rule(placement)[0] for placement in all_placements(problem))


def optimum_s(problem: Problem) -> float:
    """Return what the best placement that fits takes, in seconds; ``inf`` where none does."""
    score = best_score(problem)
    return float("inf") if score.overflow_bytes else score.makespan_s
