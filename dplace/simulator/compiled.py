"""How the functions of this package are compiled."""

from pathlib import Path

from numba import njit

__all__ = ["allocating", "inlined", "is_compiled_cache_present", "kernel"]

kernel = njit(cache=True, error_model="numpy", _nrt=False)
"""For functions that create no array. Without numba's reference counts, which it would keep for
each array at each call, one pass is six times as fast."""

inlined = njit(cache=True, error_model="numpy", _nrt=False, inline="always")
"""For kernels that are called in one place: handing over twenty arrays costs more than a part."""

allocating = njit(cache=True, error_model="numpy")
"""For functions that create arrays."""


def is_compiled_cache_present() -> bool:
    """Return whether this machine has compiled the simulator before, so that its use is quick.

    An old version's leftovers count as well: whether they are still right, only numba can tell.
    """
    from dplace.simulator.online import run_online

    folder = Path(run_online.stats.cache_path)
    return any(folder.glob("online.run_online-*.nbi"))
