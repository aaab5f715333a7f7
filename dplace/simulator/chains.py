"""What lies around a chain of ops, and the cheapest ways to cut one, compiled.

For the bounds of ``dplace/bounds/``. A *chain* is a list of ops each of which reaches the next;
ops are numbered in an order in which makers come before readers.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.simulator.compiled import kernel, merged

__all__ = ["Pieces", "Regions", "cheapest_pieces", "surround", "walk_regions"]

Int = NDArray[np.int32]
Float = NDArray[np.float64]

NONE, HOME, AWAY, HOME_PAID, AWAY_PAID = range(5)
"""Where a piece is, seen from the maker of the value that is open: nowhere, on its device, on
another; ``PAID`` if the cut behind the maker has paid for what that value shares with it."""


@kernel
def surround(makers: Int, readers: Int, after: Int, before: Int) -> None:
    """Note the last op of a chain that reaches each op, and the first that each op reaches.

    Args:
        makers: The op at the start of each edge, in order.
        readers: The op at its end.
        after: Shape ``(num_ops,)``: positions of the chain's ops in it, -1 elsewhere; is filled.
        before: The same, with the length of the chain elsewhere.
    """
    for edge in range(len(makers)):
        after[readers[edge]] = max(after[readers[edge]], after[makers[edge]])
    for edge in range(len(makers) - 1, -1, -1):
        before[makers[edge]] = min(before[makers[edge]], before[readers[edge]])


class Pieces(NamedTuple):
    """A row of units that is cut into pieces, each on an accelerator or on a host."""

    load_s: Float
    """Time of each unit on an accelerator, and what it counts for in the sum."""
    load_cost: Float
    host_load_s: Float
    host_cost: Float
    size: Float
    cut_s: Float
    """Time of what crosses on either side of a cut before each unit, and behind the last."""
    span: Int
    """For each cut: the value that is open there, or -1; one at a time."""
    first: Int
    """For each such value: the positions of the units on its two ends."""
    last: Int
    own_s: Float
    """What it takes on either side; and what of that a cut behind ``first`` pays as well."""
    near_first_s: Float
    near_last_s: Float


@merged
def _owed(piece_start: int, span: int, state: int, pieces: Pieces) -> float:
    """Return what a piece with the last unit of an open value pays for it."""
    if state != AWAY and state != AWAY_PAID:
        return 0.0
    owed = float(pieces.own_s[span])
    if state == AWAY:
        owed += pieces.near_first_s[span]
    if piece_start < pieces.last[span]:
        owed += pieces.near_last_s[span]
    return owed


@merged
def _state_behind(start: int, end: int, state: int, is_host: bool, pieces: Pieces) -> int:
    """Return the state at the end of a piece, of the value that is open there."""
    span = pieces.span[end]
    if span < 0:
        return NONE
    if start > 0 and pieces.span[start] == span:
        return state
    if is_host:
        return NONE
    return HOME_PAID if end == pieces.first[span] + 1 else HOME


@kernel
def cheapest_pieces(
    limit_s: float, room: float, cross_cost: float, pieces: Pieces, best: Float
) -> float:
    """Return the least sum of costs of a way to cut a row, ``inf`` where there is none.

    Args:
        limit_s: No piece may take longer.
        room: No piece on an accelerator may be larger.
        cross_cost: What a second of crossing counts for in the sum.
        pieces: The row.
        best: Scratch of shape ``(num_units + 1, 5)``.
    """
    num = len(pieces.load_s)
    for at in range(num + 1):
        for state in range(5):
            best[at, state] = np.inf
    best[0, NONE] = 0.0
    for end in range(1, num + 1):
        load, cost, host_load, host_cost, size = 0.0, 0.0, 0.0, 0.0, 0.0
        for start in range(end - 1, -1, -1):
            load += pieces.load_s[start]
            cost += pieces.load_cost[start]
            size += pieces.size[start]
            host_load += pieces.host_load_s[start]
            host_cost += pieces.host_cost[start]
            fits = load <= limit_s and size <= room
            fits_host = host_load <= limit_s
            if not (fits or fits_host):
                break
            crossing = pieces.cut_s[start] + pieces.cut_s[end]
            span = pieces.span[start]
            closes = span >= 0 and pieces.last[span] < end
            for before in range(5):
                so_far = best[start, before]
                if so_far == np.inf:
                    continue
                # Another device than the piece before: away from home, or perhaps back.
                away = before
                if before == HOME:
                    away = AWAY
                elif before == HOME_PAID:
                    away = AWAY_PAID
                for turn in range(2):
                    state = away
                    if turn == 1:
                        if before != AWAY and before != AWAY_PAID:
                            break
                        state = before - 1
                    owed = _owed(start, span, state, pieces) if closes else 0.0
                    if fits and load + crossing + owed <= limit_s:
                        behind = _state_behind(start, end, state, False, pieces)
                        total = so_far + cost + cross_cost * (crossing + 2.0 * owed)
                        best[end, behind] = min(best[end, behind], total)
                    if fits_host and turn == 0:
                        behind = _state_behind(start, end, state, True, pieces)
                        total = so_far + host_cost + cross_cost * owed
                        best[end, behind] = min(best[end, behind], total)
    least = np.inf
    for state in range(5):
        least = min(least, best[num, state])
    return float(least)


class Regions(NamedTuple):
    """The ops between each two stops of a chain, with the second stop; in order, by region."""

    bounds: Int
    """Where each region begins, and where the last one ends."""
    offsets: Int
    """Edges within its region into each op; compressed."""
    sources: Int
    """Place of the maker, -1 for the stop before the region."""
    away_s: Float
    """What each edge takes between two devices, at least."""
    home_s: Float
    """Shape ``(num_kinds, num_ops)``: time of each op on a device of each kind."""
    other_s: Float
    """The same on the fastest other device."""
    kinds: Int
    """Shape ``(num_devices,)``: the kind of each device."""
    heads: Float
    """Scratch of shape ``(2, num_ops)``."""
    tails: Float


@kernel
def _heads(first: int, end: int, home_s: Float, other_s: Float, regions: Regions) -> float:
    """Fill the longest paths from a region's start: first row at its device, second elsewhere.

    Return the work of the region, each op where it is fastest.
    """
    heads, tails = regions.heads, regions.tails
    work = 0.0
    for at in range(first, end):
        here, there = 0.0, 0.0
        for edge in range(regions.offsets[at], regions.offsets[at + 1]):
            source, away = regions.sources[edge], regions.away_s[edge]
            one = heads[0, source] if source >= 0 else 0.0
            other = heads[1, source] if source >= 0 else np.inf
            here = max(here, min(one, other + away))
            there = max(there, min(other, one + away))
        heads[0, at] = here + home_s[at]
        heads[1, at] = there + other_s[at]
        tails[0, at] = 0.0
        tails[1, at] = 0.0
        work += min(home_s[at], other_s[at])
    return work


@kernel
def _tails(first: int, end: int, home_s: Float, other_s: Float, regions: Regions) -> None:
    """Fill the longest paths to a region's end, which is at the device of its start."""
    tails = regions.tails
    tails[1, end - 1] = np.inf
    for at in range(end - 1, first - 1, -1):
        tails[0, at] += home_s[at]
        tails[1, at] += other_s[at]
        for edge in range(regions.offsets[at], regions.offsets[at + 1]):
            source, away = regions.sources[edge], regions.away_s[edge]
            if source >= 0:
                one, other = tails[0, at], tails[1, at]
                tails[0, source] = max(tails[0, source], min(one, other + away))
                tails[1, source] = max(tails[1, source], min(other, one + away))


@kernel
def _same_s(
    least: float, first: int, end: int, home_s: Float, other_s: Float, regions: Regions
) -> float:
    """Return the time, at least ``least``, that a region takes if its ends share a device."""
    heads, tails = regions.heads, regions.tails
    low, high = least, 0.0
    for at in range(first, end):
        high += home_s[at]
    for step in range(40):
        # The first step asks whether the lower end can be; the upper one may be infinite.
        middle = low if step == 0 else min((low + high) / 2.0, 2.0 * low + 1e-12)
        held = 0.0
        for at in range(first, end):
            is_held = other_s[at] == np.inf
            if not is_held:
                is_held = heads[1, at] + tails[1, at] - other_s[at] > middle
            if is_held:
                held += home_s[at]
        if held <= middle:
            if step == 0:
                break
            high = middle
        else:
            low = middle
    return low


@kernel
def walk_regions(regions: Regions, ends: Float, times: Float) -> None:
    """Raise the earliest end of a chain's first stop on each device to that of its last.

    Args:
        regions: What lies between its stops.
        ends: Shape ``(num_devices,)``.
        times: Scratch of shape ``(3, num_devices)``.
    """
    num_devices = len(ends)
    for region in range(len(regions.bounds) - 1):
        first, end = regions.bounds[region], regions.bounds[region + 1]
        for kind in range(len(regions.home_s)):
            home_s, other_s = regions.home_s[kind], regions.other_s[kind]
            work = _heads(first, end, home_s, other_s, regions)
            share = work / num_devices
            times[0, kind] = max(regions.heads[0, end - 1], share)
            times[1, kind] = max(regions.heads[1, end - 1], share)
            if end - first > 1 and times[0, kind] < np.inf:
                _tails(first, end, home_s, other_s, regions)
                times[0, kind] = _same_s(times[0, kind], first, end, home_s, other_s, regions)
        for device in range(num_devices):
            times[2, device] = ends[device] + times[0, regions.kinds[device]]
        for source in range(num_devices):
            moved = ends[source] + times[1, regions.kinds[source]]
            for device in range(num_devices):
                if device != source:
                    times[2, device] = min(times[2, device], moved)
        for device in range(num_devices):
            ends[device] = times[2, device]
