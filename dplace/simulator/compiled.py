"""How the functions of this package are compiled."""

from numba import njit

__all__ = ["allocating", "kernel"]

kernel = njit(cache=True, error_model="numpy", _nrt=False)
"""For functions that create no array. Without numba's reference counts, which it would keep for
each array at each call, one pass is six times as fast."""

allocating = njit(cache=True, error_model="numpy")
"""For functions that create arrays."""
