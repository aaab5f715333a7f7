"""Binary heaps inside preallocated arrays, for compiled code.

A heap is a slice ``[base, base + size)`` of an array that several heaps share. numba's cache looks
only at the file that a compiled function is in: after a change here, delete ``__pycache__``.
"""

import numpy as np
from numpy.typing import NDArray

from dplace.simulator.compiled import inner

__all__ = ["pop_arrival", "pop_key", "push_arrival", "push_key"]


@inner
def push_key(heap: NDArray[np.int64], base: int, size: int, key: int) -> None:
    """Add ``key`` to a heap of ``size`` integers, smallest first."""
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if heap[base + parent] <= key:
            break
        heap[base + child] = heap[base + parent]
        child = parent
    heap[base + child] = key


@inner
def pop_key(heap: NDArray[np.int64], base: int, size: int) -> int:
    """Remove and return the smallest of ``size`` integers."""
    top = heap[base]
    last = size - 1
    key = heap[base + last]
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= last:
            break
        if child + 1 < last and heap[base + child + 1] < heap[base + child]:
            child += 1
        if heap[base + child] >= key:
            break
        heap[base + parent] = heap[base + child]
        parent = child
    heap[base + parent] = key
    return int(top)


@inner
def push_arrival(heap: NDArray[np.void], base: int, size: int, time_s: float, value: int) -> None:
    """Add an ARRIVAL to a heap of ``size``, earliest first, then smallest value."""
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        above = heap[base + parent]
        if above["time"] < time_s or (above["time"] == time_s and above["value"] <= value):
            break
        heap[base + child]["time"] = above["time"]
        heap[base + child]["value"] = above["value"]
        child = parent
    heap[base + child]["time"] = time_s
    heap[base + child]["value"] = value


@inner
def pop_arrival(heap: NDArray[np.void], base: int, size: int) -> int:
    """Remove the earliest of ``size`` arrivals and return its value."""
    top = heap[base]["value"]
    last = size - 1
    time_s = heap[base + last]["time"]
    value = heap[base + last]["value"]
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= last:
            break
        below = heap[base + child]
        if child + 1 < last:
            right = heap[base + child + 1]
            if right["time"] < below["time"] or (
                right["time"] == below["time"] and right["value"] < below["value"]
            ):
                child += 1
                below = right
        if below["time"] > time_s or (below["time"] == time_s and below["value"] >= value):
            break
        heap[base + parent]["time"] = below["time"]
        heap[base + parent]["value"] = below["value"]
        parent = child
    heap[base + parent]["time"] = time_s
    heap[base + parent]["value"] = value
    return int(top)
