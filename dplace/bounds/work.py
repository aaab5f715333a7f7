"""Bounds by how much there is to do: the work, its largest pieces, and the room for it.

*Work.* For any prices ``y(d) >= 0`` of time on the devices that add up to 1 and ``m(d) >= 0`` of a
byte, no placement that fits takes less than the sum over units of co-located ops of
``min over d of y(d) * seconds + m(d) * bytes``, less what all the room costs. These are the duals
of spreading fractions of units over unlike devices with limited memory (Lenstra, Shmoys, Tardos,
Mathematical Programming 46, 1990; Shmoys, Tardos, Mathematical Programming 62, 1993). What does not
fit on the fast devices is thus paid at the price of the slow ones. Multiplicative updates find good
prices (Plotkin, Shmoys, Tardos, Mathematics of Operations Research 20, 1995).

*Counting.* Of the ``n`` largest units each device can take no more than so many within a time and
in its memory, counting its shortest and its smallest ones; all devices together must take ``n``
(for equal devices: Martello, Toth, Knapsack Problems, 1990, section 8.3).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.bounds.units import Units

__all__ = ["Work", "counting_bound_s", "spread_work"]

Float = NDArray[np.float64]

ROUNDS = 200
MOST_ENTRIES = 8_000_000
"""Entries of unit times that the updates look at, over all rounds."""


MOST_COUNTED = 320
"""Units that are counted, at most."""


class Work(NamedTuple):
    """A bound, and the prices that prove it."""

    seconds: float
    second_cost: Float
    """Shape ``(num_devices,)``: price of time; the sum is 1."""
    byte_cost_s: Float
    """Shape ``(num_devices,)``: price of a byte in seconds."""


def _classes(units: Units, room: Float) -> list[list[int]]:
    """Return the devices in sets of equal times and memory."""
    sets: dict[tuple[bytes, float], list[int]] = {}
    for device, size in enumerate(room.tolist()):
        sets.setdefault((units.seconds[:, device].tobytes(), size), []).append(device)
    return list(sets.values())


def spread_work(units: Units, room: Float) -> Work:
    """Return the bound that spreading the work in fractions gives.

    Args:
        units: What there is to do.
        room: Shape ``(num_devices,)``: bytes that each device can hold.
    """
    classes = _classes(units, room)
    first = [members[0] for members in classes]
    counts = np.array([len(members) for members in classes], dtype=np.float64)
    seconds, space = units.seconds[:, first], room[first]  # (num_units, num_classes)
    is_tight = np.where(np.isfinite(seconds), units.bytes[:, None], 0.0).sum(axis=0) > (
        space * counts
    )
    rounds = 1 if len(classes) == 1 else ROUNDS
    rounds = max(1, min(rounds, MOST_ENTRIES // max(1, seconds.size)))
    # Shares of the devices' time and of their memory in the price of everything: a game against
    # who places, in which what is used most becomes dearer.
    stake = np.concatenate([counts / counts.sum(), np.where(is_tight, 0.01, 0.0)])
    floor = np.concatenate([np.full(len(counts), 1e-9), np.where(is_tight, 1e-9, 0.0)])
    all_room = np.where(is_tight, space * counts, 1.0)
    guess = float(seconds.min(axis=1).sum() / counts.sum())
    best, proof = 0.0, np.append(stake, guess)
    most = float(np.where(np.isfinite(seconds), seconds, 0.0).max(axis=1).sum())
    rows = np.arange(len(seconds))
    for step in range(rounds):
        second, room_price = np.split(stake, 2)
        cost = seconds * (second / counts) + units.bytes[:, None] * (room_price * guess / all_room)
        home = cost.argmin(axis=1)
        bound = float(cost[rows, home].sum() - room_price.sum() * guess) / float(second.sum())
        if bound > best:
            best, proof = bound, np.append(stake, guess)
            guess = max(guess, best)
        if guess <= 0.0 or best > most:  # nothing to do, or no room for it
            break
        load = np.bincount(home, weights=seconds[rows, home], minlength=len(counts)) / counts
        held = np.bincount(home, weights=units.bytes, minlength=len(counts))
        use = np.concatenate([load / guess, np.where(is_tight, held / all_room, 0.0)])
        rate = 2.0 / ((1.0 + 0.1 * step) * max(1.0, use.max()))
        stake = np.maximum(stake * np.exp(rate * use), floor)
        stake /= stake.sum()
    *stakes, guess = proof
    second_cost, byte_cost_s = np.zeros_like(room), np.zeros_like(room)
    for index, members in enumerate(classes):
        second_cost[members] = stakes[index] / counts[index]
        byte_cost_s[members] = stakes[len(counts) + index] * guess / all_room[index]
    total = second_cost.sum()
    return Work(best, second_cost / total, byte_cost_s / total)


def counting_bound_s(units: Units, room: Float, above_s: float = 0.0) -> float:
    """Return the least time above ``above_s`` in which devices can take the largest units.

    Args:
        units: What there is to do.
        room: Shape ``(num_devices,)``: bytes that each device can hold.
        above_s: A bound that is known.
    """
    classes = _classes(units, room)
    order = np.argsort(-units.seconds.min(axis=1), kind="stable")
    best = max(above_s, float(units.seconds.min(axis=1).max(initial=0.0)))
    num_devices, num_units = len(room), len(order)
    numbers = list(range(num_devices + 1, min(num_units, MOST_COUNTED) + 1, num_devices))
    if num_devices < num_units <= MOST_COUNTED:
        numbers.append(num_units)
    for number in numbers:
        largest = order[:number]
        by_size = np.cumsum(np.sort(units.bytes[largest])) * (1.0 - 1e-9)
        times = [np.cumsum(np.sort(units.seconds[largest, row[0]])) for row in classes]
        most = [int(np.searchsorted(by_size, room[row[0]], "right")) for row in classes]

        def can_take(limit_s: float, times: list[Float] = times, most: list[int] = most) -> int:
            return sum(
                len(row) * min(number_fits, int(np.searchsorted(time, limit_s, "right")))
                for row, time, number_fits in zip(classes, times, most, strict=True)
            )

        if can_take(best) >= number:
            continue
        ends = np.unique(np.concatenate(times))
        ends = ends[np.isfinite(ends) & (ends > best)]
        low, high = 0, len(ends)  # the first end that is enough, in [low, high]
        while low < high:
            middle = (low + high) // 2
            if can_take(float(ends[middle])) >= number:
                high = middle
            else:
                low = middle + 1
        if low < len(ends):  # else there is no answer to bound
            best = float(ends[low])
    return best
