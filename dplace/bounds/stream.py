"""Throughput of dnn-partitioning: what the pieces of a chain cost with what crosses.

The units of co-located ops along a chain are cut into pieces, where one unit is on another device
than the one before it. A device's load is at least that of any of its pieces: its ops, and what
crosses at the two cuts. So for a load to be kept to, the chain must have a cut into pieces none of
which is above it, and the loads of all pieces and the rest of the work, at the prices of the work
bound, must not be above the load times the prices. The smallest load for which dynamic programming
over the chain finds no contradiction is the bound.

A value that is read further down the chain than by the next unit crosses as well unless the pieces
with its two ends share a device. Of such values those are counted that are not open at the same
time; the state of the dynamic program says where a piece is, seen from the maker of the one that is
open.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.bounds.chain import Edges, edges_of, long_chains
from dplace.bounds.units import Units
from dplace.bounds.work import Work
from dplace.problem import Problem

if TYPE_CHECKING:
    from dplace.simulator.tables import Tables

__all__ = ["pieces_bound_s"]

Int = NDArray[np.signedinteger]
Float = NDArray[np.float64]

MOST_UNITS = 600
"""Units of a chain that are looked at; the time is quadratic in them."""

MANY_UNITS = 350
"""From so many on, one price of a CPU's time is tried and not three."""

STEPS = 24
"""Halvings of the interval that holds the bound."""


def pieces_bound_s(
    problem: Problem,
    tables: "Tables",
    allowed: NDArray[np.bool_],
    units: Units,
    room: Float,
    work: Work,
    above_s: float,
) -> float:
    """Return the best bound that some chains give, or ``above_s`` if that is better.

    Args:
        problem: What to place, by the rules of ``dnn-partitioning``.
        tables: Graph and costs.
        allowed: Shape ``(num_ops, num_devices)``: where each op may go.
        units: Co-located ops as one.
        room: Shape ``(num_devices,)``: bytes that each device can hold.
        work: The work bound and its prices.
        above_s: A bound that is known.
    """
    from dplace.simulator.loads import host_times

    is_cpu = problem.is_host
    if is_cpu.all():
        return above_s
    cross_s = host_times(problem)[:, ~is_cpu].min(axis=1)
    edges = edges_of(problem)
    best = above_s
    for chain in long_chains(problem, tables, allowed, cross_s):
        row = _row(units.of[chain])
        for host_share in (1.0, 0.5, 2.0) if is_cpu.any() and len(row) < MANY_UNITS else (1.0,):
            cost = work.second_cost * np.where(is_cpu, host_share, 1.0)
            prices = work._replace(second_cost=cost / cost.sum())
            pieces = _Row(row, edges, units, room, prices, is_cpu, cross_s)
            best = pieces.bound_s(best)
    return best


def _row(sequence: Int) -> Int:
    """Return the units along a chain, each where it comes first."""
    _, at = np.unique(sequence, return_index=True)
    return sequence[np.sort(at)][:MOST_UNITS]


class _Row:
    """The units along a chain with what it takes to prove that a load cannot be kept to."""

    def __init__(
        self,
        row: Int,
        edges: Edges,
        units: Units,
        room: Float,
        prices: Work,
        is_cpu: NDArray[np.bool_],
        cross_s: Float,
    ) -> None:
        from dplace.simulator.chains import Pieces

        cost = units.seconds * prices.second_cost + units.bytes[:, None] * prices.byte_cost_s
        position = np.full(len(units.bytes), -1)
        position[row] = np.arange(len(row))
        cut_s, spans = _crossings(position[units.of], edges, cross_s, len(row))
        self._pieces = Pieces(
            load_s=_least(units.seconds[row], ~is_cpu),
            load_cost=_least(cost[row], ~is_cpu),
            host_load_s=_least(units.seconds[row], is_cpu),
            host_cost=_least(cost[row], is_cpu),
            size=units.bytes[row],
            cut_s=cut_s,
            span=spans.at_cut,
            first=spans.first,
            last=spans.last,
            own_s=spans.own_s,
            near_first_s=spans.near_first_s,
            near_last_s=spans.near_last_s,
        )
        self._room = float(room[~is_cpu].max()) * (1 + 1e-9)
        self._cross_cost = float(prices.second_cost[~is_cpu].min())
        priced = prices.byte_cost_s > 0
        self._room_cost = float((prices.byte_cost_s[priced] * room[priced]).sum())
        rest = np.flatnonzero(position < 0)
        self._rest_s, self._rest_cost = units.seconds[rest], cost[rest]
        self._scratch = np.zeros((len(row) + 1, 5))

    def _is_possible(self, load_s: float) -> bool:
        """Return whether nothing says that no placement keeps to a load."""
        from dplace.simulator.chains import cheapest_pieces

        rest = np.where(self._rest_s <= load_s, self._rest_cost, np.inf).min(axis=1).sum()
        pieces = cheapest_pieces(
            load_s * (1 + 1e-12), self._room, self._cross_cost, self._pieces, self._scratch
        )
        return float(pieces + rest) <= (load_s + self._room_cost) * (1 + 1e-12)

    def bound_s(self, above_s: float) -> float:
        """Return the least load that may be possible, or ``above_s``."""
        low = above_s
        if self._is_possible(low):
            return low
        high = 2.0 * low
        while not self._is_possible(high):
            low, high = high, 2.0 * high
            if high > 1e6 * above_s:
                return low
        for _ in range(STEPS):
            middle = (low + high) / 2.0
            if self._is_possible(middle):
                high = middle
            else:
                low = middle
        return low


def _least(table: Float, devices: NDArray[np.bool_]) -> Float:
    """Return the least of some columns; ``inf`` without any, and one array of its own."""
    return np.array(table[:, devices].min(axis=1, initial=np.inf))


class _Spans(NamedTuple):
    """Values that are read further down a row, one open at a time."""

    at_cut: NDArray[np.int32]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    own_s: Float
    near_first_s: Float
    near_last_s: Float


def _crossings(position: Int, edges: Edges, cross_s: Float, num: int) -> tuple[Float, _Spans]:
    """Return the time of what crosses at each cut of a row, and what is read further down.

    Args:
        position: Shape ``(num_ops,)``: the place in the row of each op's unit, or -1.
        edges: Who reads what.
        cross_s: Shape ``(num_values,)``.
        num: Length of the row.
    """
    makers, readers = position[edges.makers], position[edges.readers]
    use = (makers >= 0) & (readers >= 0) & (makers != readers)
    makers, readers, values = makers[use], readers[use], edges.values[use]
    low, high = np.minimum(makers, readers), np.maximum(makers, readers)
    cut_s = np.zeros(num + 1)
    near = np.flatnonzero(high == low + 1)
    near = near[np.unique(values[near], return_index=True)[1]]
    np.add.at(cut_s, high[near], cross_s[values[near]])
    counted_at = np.full(len(cross_s), -1)
    counted_at[values[near]] = high[near]
    # Of the readers of a value further away, the nearest; all values between two places as one.
    far = np.flatnonzero(high > low + 1)
    far = far[np.lexsort((high[far] - low[far], values[far]))]
    far = far[np.unique(values[far], return_index=True)[1]]
    low, high, values, is_forward = low[far], high[far], values[far], (makers < readers)[far]
    at = counted_at[values]
    kinds = (at < 0, is_forward & (at == low + 1), ~is_forward & (at == high))
    pairs, pair = np.unique(low.astype(np.int64) * num + high, return_inverse=True)
    amounts = np.zeros((3, len(pairs)))
    for amount, kind in zip(amounts, kinds, strict=True):
        np.add.at(amount, pair, cross_s[values] * kind)
    first, last = pairs // num, pairs % num
    at_cut = np.full(num + 1, -1, dtype=np.int32)
    chosen: list[int] = []
    for index in np.argsort(-amounts.sum(axis=0), kind="stable").tolist():
        cuts = slice(first[index] + 1, last[index] + 1)
        if (at_cut[cuts] < 0).all():
            at_cut[cuts] = len(chosen)
            chosen.append(index)
    own_s, near_first_s, near_last_s = np.array(amounts[:, chosen])
    return cut_s, _Spans(
        at_cut=at_cut,
        first=first[chosen].astype(np.int32),
        last=last[chosen].astype(np.int32),
        own_s=own_s,
        near_first_s=near_first_s,
        near_last_s=near_last_s,
    )
