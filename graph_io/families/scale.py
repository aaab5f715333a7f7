"""How the ``size`` of a family member turns into widths and depths."""

from __future__ import annotations

__all__ = ["deep", "wide"]


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
