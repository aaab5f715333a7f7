"""A line through measured costs: latency and bandwidth out of times of several sizes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Line", "fit_line"]

LEAST_SLOPE = 1e-13
"""Seconds per byte that any copy takes at least: 10 TB/s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """``intercept + slope * size``."""

    intercept: float
    """At least 0."""
    slope: float
    """Above 0."""
    relative_error: float
    """Median of the distances from the line, as fractions of what was measured."""


def fit_line(sizes: NDArray[np.float64], seconds: NDArray[np.float64]) -> Line:
    """Return the line with the least sum of relative distances.

    Least squares of relative residuals, repeated with weights ``1 / |residual|``, which ends at
    the least sum of absolute ones (iteratively reweighted least squares): a few figures that a
    busy machine has spoilt do not move the line.

    >>> line = fit_line(np.array([0.0, 1e6, 2e6]), np.array([1e-5, 2.1e-4, 4.1e-4]))
    >>> round(line.intercept * 1e6), round(1 / line.slope / 1e9)
    (10, 5)
    """
    scale = np.maximum(np.abs(seconds), 1e-9)
    design = np.stack([np.ones_like(sizes), sizes], axis=1) / scale[:, None]
    target = seconds / scale
    weights = np.ones_like(sizes)
    intercept, slope = 0.0, 0.0
    for _ in range(50):
        root = np.sqrt(weights)
        solution, *_ = np.linalg.lstsq(design * root[:, None], target * root, rcond=None)
        intercept, slope = float(solution[0]), float(solution[1])
        if intercept < 0 or slope < LEAST_SLOPE:
            break
        weights = 1 / np.maximum(np.abs(design @ solution - target), 1e-4)
    if intercept < 0:
        intercept, slope = 0.0, float(np.median(seconds / np.maximum(sizes, 1.0)))
    if slope < LEAST_SLOPE:
        intercept, slope = max(float(np.median(seconds)), 0.0), LEAST_SLOPE
    distances = np.abs(intercept + slope * sizes - seconds) / scale
    return Line(intercept=intercept, slope=slope, relative_error=float(np.median(distances)))
