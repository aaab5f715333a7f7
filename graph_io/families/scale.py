"""How the ``size`` of a family member turns into widths and depths."""

from __future__ import annotations

import math

__all__ = ["deep", "solved_width", "wide"]


def wide(width: float, size: float, *, multiple: int = 16) -> int:
    """Return ``width * size``, rounded to a multiple and at least one multiple.

    Multiples of 16 keep every member on the vectorised kernels, so that time follows work.

    >>> wide(100, 1.0), wide(100, 2.0), wide(100, 0.01)
    (96, 192, 16)
    """
    multiples: int = round(width * size / multiple)
    return max(1, multiples) * multiple


def deep(depth: int, size: float) -> int:
    """Return the depth that goes with ``size``: its fourth root, and at least 1.

    >>> deep(8, 1.0), deep(8, 16.0), deep(8, 0.0001)
    (8, 16, 1)
    """
    scaled: int = round(depth * size**0.25)
    return max(1, scaled)


def solved_width(weights: float, *, squares: float, linears: float = 0.0) -> float:
    """Return the width ``w`` for which ``squares * w**2 + linears * w`` is ``weights``.

    >>> solved_width(600, squares=2, linears=40)
    10.0
    """
    root = math.sqrt(linears**2 + 4 * squares * weights)
    return (root - linears) / (2 * squares)
