"""How a call is timed: on one core, its caches warm, and what of many times is told."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

__all__ = ["SETTLE_RUNS", "SETTLE_S", "pinned", "quickest", "settle", "spread", "timed"]

SETTLE_RUNS = 4
SETTLE_S = 0.02
"""How often, or how long, a session runs before it is timed: as long as one session after another
runs, each finds the caches full of the other's weights, and a request that is repeated does not.
A model of 25 MB comes to rest after four runs, 1.6 times as quick; small and large ones differ by
2 % at most."""


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Keep this thread on a core meanwhile."""
    if core is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def settle(call: Callable[[], object]) -> int:
    """Call until the caches hold what the call needs, as far as they can, and return how often."""
    started_s = time.perf_counter()
    for number in range(1, SETTLE_RUNS + 1):
        call()
        if time.perf_counter() - started_s > SETTLE_S:
            return number
    return SETTLE_RUNS


def timed(call: Callable[[], object]) -> float:
    """Return what a call takes, in seconds."""
    start_s = time.perf_counter()
    # The result is kept until the clock has stopped: freeing it is the caller's time.
    result = call()
    seconds = time.perf_counter() - start_s
    del result
    return seconds


def quickest(seconds: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the indices of the quicker half of the runs, in order.

    >>> quickest(np.array([3.0, 1.0, 2.0, 9.0, 2.5])).tolist()
    [1, 2, 4]
    """
    kept = np.argsort(seconds, kind="stable")[: (len(seconds) + 1) // 2]
    return np.sort(kept)


def spread(seconds: NDArray[np.float64]) -> tuple[float, float]:
    """Return the median of the quicker half, and its standard error as a fraction of it.

    The deviation is taken from the half range between quartiles, which outliers do not move; a
    median's standard error is 1.25 times a mean's.
    """
    kept = seconds[quickest(seconds)]
    low, middle, high = np.quantile(kept, [0.25, 0.5, 0.75])
    error = 1.2533 * (high - low) / 1.349 / np.sqrt(len(kept))
    return float(middle), float(error / middle) if middle > 0 else 0.0
