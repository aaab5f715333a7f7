"""Queues of small whole numbers, the smallest first, as bits: no comparisons, few wrong guesses.

A queue over ``0 .. size - 1`` is three rows of words. A bit of the first row says that a number is
in the queue, a bit of the next that a word of the row before it is not zero. Several queues share
the arrays, queue ``index`` at multiples of the rows' lengths. What has been emptied can be used
again as it is.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from dplace.simulator.compiled import merged

__all__ = ["BitQueues", "make_bit_queues", "pop_bit", "push_bit"]

Words = NDArray[np.uint64]


class BitQueues(NamedTuple):
    """Some queues of equal size."""

    low: Words
    middle: Words
    high: Words
    num_low: int
    num_middle: int
    num_high: int
    """Words of one queue in each row."""


def make_bit_queues(count: int, size: int) -> BitQueues:
    """Return empty queues over the numbers below ``size``."""
    lengths = []
    for _ in range(3):
        size = max(1, -(-size // 64))
        lengths.append(size)
    low, middle, high = (np.zeros(count * length, dtype=np.uint64) for length in lengths)
    return BitQueues(low, middle, high, *lengths)


@intrinsic
def _lowest_bit(typing_context: Any, word: Any) -> Any:
    """Return the place of the lowest bit that is set: one instruction."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        true = context.get_constant(types.boolean, True)
        return builder.cttz(arguments[0], true)

    return types.int64(types.uint64), build


@merged
def push_bit(queues: BitQueues, index: int, number: int) -> None:
    """Add a number that is not in queue ``index``."""
    one, mask = np.uint64(1), 63
    queues.low[index * queues.num_low + (number >> 6)] |= one << np.uint64(number & mask)
    number >>= 6
    queues.middle[index * queues.num_middle + (number >> 6)] |= one << np.uint64(number & mask)
    number >>= 6
    queues.high[index * queues.num_high + (number >> 6)] |= one << np.uint64(number & mask)


@merged
def pop_bit(queues: BitQueues, index: int) -> int:
    """Remove the smallest number of queue ``index``, which is not empty, and return it."""
    one, zero = np.uint64(1), np.uint64(0)
    high = index * queues.num_high
    base = high
    while queues.high[high] == zero:
        high += 1
    number = ((high - base) << 6) + _lowest_bit(queues.high[high])
    middle = index * queues.num_middle + number
    number = (number << 6) + _lowest_bit(queues.middle[middle])
    low = index * queues.num_low + number
    number = (number << 6) + _lowest_bit(queues.low[low])
    queues.low[low] &= queues.low[low] - one
    if queues.low[low] == zero:
        queues.middle[middle] &= queues.middle[middle] - one
        if queues.middle[middle] == zero:
            queues.high[high] &= queues.high[high] - one
    return int(number)
