"""When something that does one thing at a time is taken: a device, or a channel of transfers."""

from bisect import bisect_right

__all__ = ["Busy", "first_gap_of_both"]


GAPS = 128
"""How many of the last gaps are looked at; earlier ones count as taken, or time grows with the
square of the number of ops."""


class Busy:
    """Intervals in which something is taken, in order; those that touch are one.

    >>> device = Busy()
    >>> device.take(0.0, 2.0)
    >>> device.take(3.0, 5.0)
    >>> device.first_gap(1.0, 1.0), device.first_gap(1.0, 2.0), device.first_gap(7.0, 2.0)
    (2.0, 5.0, 7.0)
    """

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[float] = []
        self._ends: list[float] = []

    def first_gap(self, ready_s: float, length_s: float) -> float:
        """Return the first time from ``ready_s`` on at which ``length_s`` are free."""
        ends = self._ends
        if not ends or ready_s >= ends[-1]:
            return ready_s
        first = bisect_right(ends, ready_s)
        start = ready_s
        if first < len(ends) - GAPS:
            first = len(ends) - GAPS
            start = ends[first - 1]
        for at in range(first, len(ends)):
            if start + length_s <= self._starts[at]:
                return start
            start = ends[at]
        return start

    def take(self, start_s: float, end_s: float) -> None:
        """Take an interval that is free; an empty one changes nothing."""
        if end_s <= start_s:
            return
        starts, ends = self._starts, self._ends
        at = bisect_right(starts, start_s)
        touches_before = at > 0 and ends[at - 1] >= start_s
        touches_after = at < len(starts) and starts[at] <= end_s
        if touches_before and touches_after:
            ends[at - 1] = ends.pop(at)
            starts.pop(at)
        elif touches_before:
            ends[at - 1] = end_s
        elif touches_after:
            starts[at] = start_s
        else:
            starts.insert(at, start_s)
            ends.insert(at, end_s)


def first_gap_of_both(one: Busy, other: Busy, ready_s: float, length_s: float) -> float:
    """Return the first time from ``ready_s`` on at which ``length_s`` are free on both."""
    start = ready_s
    while True:
        begin = one.first_gap(start, length_s)
        start = other.first_gap(begin, length_s)
        if start == begin:
            return start
