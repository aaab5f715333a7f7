"""How the functions of this package are compiled."""

from numba import njit

__all__ = ["allocating", "inlined", "kernel"]

kernel = njit(cache=True, error_model="numpy", _nrt=False)
"""For functions that create no array. Without numba's reference counts, which it would keep for
each array at each call, one pass is six times as fast."""

inlined = njit(cache=True, error_model="numpy", _nrt=False, inline="always")
"""For kernels that are called in one place: handing over twenty arrays costs more than a part."""

allocating = njit(cache=True, error_model="numpy")
"""For functions that create arrays."""
