"""A device at random for each op: what a policy must beat to have learned anything."""

import numpy as np
from numpy.typing import NDArray

from dplace.lowering import Evaluator
from dplace.placement import allowed_devices, movable_units

__all__ = ["random_placement"]


def random_placement(
    evaluator: Evaluator, *, rng: np.random.Generator, evaluations: int
) -> NDArray[np.int32]:
    """Return each op on a device drawn uniformly from those it may go to."""
    problem = evaluator.problem
    unit = movable_units(problem)
    _, heads = np.unique(unit, return_index=True)
    allowed = allowed_devices(problem)[heads]  # (num_units, num_devices)
    draws = np.where(allowed, rng.random(allowed.shape), -1.0)
    return np.asarray(draws.argmax(axis=1)[unit], dtype=np.int32)
