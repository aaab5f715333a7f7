"""How the functions of this package are compiled.

Compiled functions create no arrays; they fill those that they are given. So they do without
numba's reference counts, which it would keep for each array at each call: one pass is six times
as fast that way, and compiling takes half as long.
"""

from pathlib import Path
from typing import Any

from numba import njit

__all__ = ["inlined", "inner", "is_compiled_cache_present", "kernel", "merged"]

kernel = njit(cache=True, error_model="numpy", _nrt=False, no_cfunc_wrapper=True, nogil=True)
"""Compile a function that Python calls; other threads of Python run meanwhile."""

_INSIDE = {
    "cache": True,
    "error_model": "numpy",
    "_nrt": False,
    "no_cfunc_wrapper": True,
    "no_cpython_wrapper": True,
}

inner = njit(**_INSIDE)
"""Compile a function that compiled code alone calls: taking its arguments from Python, all those
arrays, would be half of what there is to compile."""

inlined = njit(**_INSIDE, inline="always")
"""The same, for what is called in one place: handing over thirty arrays costs more than a part."""

merged = njit(**_INSIDE, forceinline=True)
"""The same for small functions that are called in several places: LLVM merges them, after each was
read and typed once."""


def is_compiled_cache_present(*functions: Any) -> bool:
    """Return whether this machine has compiled some functions before, so that their use is quick.

    An old version's leftovers count as well: whether they are still right, only numba can tell.
    """
    return all(
        any(Path(function.stats.cache_path).glob(f"*.{function.__name__}-*.nbi"))
        for function in functions
    )
