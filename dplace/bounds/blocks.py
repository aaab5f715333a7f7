"""Latency of dnn-partitioning: what a chain of ops takes where accelerators run blocks.

The ops of a chain lie on CPUs or in blocks, and those in one block follow each other: a block that
a path leaves and comes back to waits for itself. For the same reason a block with two ops of the
chain holds whatever lies between them, and whatever is co-located with that. So the chain is cut
into blocks and CPU ops, and what it takes is at least the sum over them: a block's time for all
that it is known to hold, with a crossing on either side for each value that is known to come from
before it or to be read behind it. No block may hold more than an accelerator's memory. The cheapest
way to cut is found by dynamic programming over the chain.

Where the cheapest way uses more blocks than there are accelerators, or more memory than all of them
have, a price on each block or byte, times how many there are taken off, makes a better bound (a
Lagrangean relaxation; Fisher, Management Science 27, 1981).
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.bounds.chain import Edges, edges_of, long_chains, surroundings, thin
from dplace.bounds.units import by_unit, room_of
from dplace.problem import Problem

if TYPE_CHECKING:
    from dplace.simulator.tables import Tables

__all__ = ["blocks_bound_s"]

Int = NDArray[np.signedinteger]
Float = NDArray[np.float64]

MOST_STOPS = 400
"""Ops of a chain that are looked at; the time is quadratic in them."""

PRICES = 14
"""Prices that are tried for blocks and for bytes."""


class _World(NamedTuple):
    """What the bound needs of a problem; any accelerator is taken as the best of all."""

    edges: Edges
    unit: Int
    unit_s: Float
    """Shape ``(num_units,)``: time on an accelerator."""
    unit_bytes: Float
    unit_ops: Int
    """Shape ``(num_units,)``: how many ops each has."""
    host_op_s: Float
    """Shape ``(num_ops,)``: time on a CPU, ``inf`` where there is none."""
    fastest_s: Float
    """Shape ``(num_ops,)``."""
    cross_s: Float
    """Shape ``(num_values,)``."""
    room: float
    total_room: float
    num_accelerators: int


def blocks_bound_s(problem: Problem, tables: "Tables", allowed: NDArray[np.bool_]) -> float:
    """Return the best bound that some chains give, in seconds.

    Args:
        problem: What to place, by the rules of ``dnn-partitioning``.
        tables: Graph and costs.
        allowed: Shape ``(num_ops, num_devices)``: where each op may go.
    """
    is_cpu = problem.is_host
    if is_cpu.all():
        return 0.0
    world = _world(problem, allowed, is_cpu)
    chains = long_chains(problem, tables, allowed, world.cross_s)
    return max(_chain_bound_s(world, chain) for chain in chains)


def _world(problem: Problem, allowed: NDArray[np.bool_], is_cpu: NDArray[np.bool_]) -> _World:
    from dplace.simulator.loads import host_times

    units = by_unit(problem, allowed)
    times = np.where(allowed, problem.seconds, np.inf)
    rooms = room_of(problem)[~is_cpu]
    host_op_s = np.full(problem.num_ops, np.inf)
    if is_cpu.any():
        host_op_s = times[:, is_cpu].min(axis=1)
    return _World(
        edges=edges_of(problem),
        unit=units.of,
        unit_s=units.seconds[:, ~is_cpu].min(axis=1),
        unit_bytes=units.bytes,
        unit_ops=np.bincount(units.of).astype(np.int32),
        host_op_s=host_op_s,
        fastest_s=times.min(axis=1),
        cross_s=host_times(problem)[:, ~is_cpu].min(axis=1),
        room=float(rooms.max()),
        total_room=float(rooms.sum()),
        num_accelerators=len(rooms),
    )


def _chain_bound_s(world: _World, chain: Int) -> float:
    """Return the least time of a chain, in seconds."""
    stops = thin(chain, MOST_STOPS)
    block_s, block_bytes, behind_s = _blocks(world, chain, stops)
    host_s = world.host_op_s[stops]

    def cut(price_s: float, byte_s: float) -> tuple[float, int, float]:
        return _cheapest(block_s + (price_s + byte_s * block_bytes), block_bytes, host_s, behind_s)

    best, num_blocks, held = cut(0.0, 0.0)
    if not np.isfinite(best):
        return best
    if num_blocks > world.num_accelerators:
        for price_s in best * np.geomspace(1e-3, 1.0, PRICES):
            best = max(best, cut(price_s, 0.0)[0] - float(price_s) * world.num_accelerators)
    if held > world.total_room:
        for byte_s in best / world.total_room * np.geomspace(1e-2, 1e2, PRICES):
            best = max(best, cut(0.0, byte_s)[0] - float(byte_s) * world.total_room)
    return best


def _blocks(world: _World, chain: Int, stops: Int) -> tuple[Float, Float, Float]:
    """Return time and bytes of the block from each stop to each, and time behind each stop.

    Returns:
        Two arrays of shape ``(num_stops, num_stops)``, from row to column, ``inf`` for what no
        block can be; and what the ops between each stop and the next take where no block holds
        both, shape ``(num_stops,)``.
    """
    num = len(stops)
    beside = surroundings(world.edges, stops, len(world.unit))
    after, before, unit = beside.after, beside.before, world.unit
    num_units = len(world.unit_s)
    # The member of a unit with the narrowest place says when a block holds the unit.
    width = before - after + np.where((after < 0) | (before >= num), 2 * num, 0)
    order = np.lexsort((width, unit))
    member = order[np.unique(unit[order], return_index=True)[1]]
    inside = (after[member] >= 0) & (before[member] < num)
    row = np.where(inside, after[member], -1)  # (num_units,): held by blocks from here or before
    column = np.where(inside, before[member], num)  # ... to here or behind
    last = np.full(num_units, -1)
    np.maximum.at(last, unit, after)
    first = np.full(num_units, num)
    np.minimum.at(first, unit, before)

    held = np.flatnonzero(inside)
    fits = np.isfinite(world.unit_s)
    time_s = _held(num, row[held], column[held], np.where(fits, world.unit_s, 0.0)[held])
    size = _held(num, row[held], column[held], world.unit_bytes[held])
    strangers = _held(num, row[held], column[held], 1.0 - fits[held])
    enter_s = _entering(world, num, row, column, first)
    leave_s = _leaving(world, num, row, column, last)
    at_stop = np.full(len(unit), -1)
    at_stop[stops] = np.arange(num)
    gap_s, behind_s = _gaps(world, chain, at_stop, num)
    enter_s[1:] = np.maximum(enter_s[1:], gap_s[:-1, None])
    leave_s[:, :-1] = np.maximum(leave_s[:, :-1], gap_s[None, :-1])
    block_s = time_s + enter_s + leave_s
    block_s[_splits_a_unit(unit[stops])] = np.inf
    block_s[(size > world.room * (1 + 1e-9)) | (strangers > 0.5)] = np.inf
    block_s[np.tril_indices(num, -1)] = np.inf
    return block_s, size, behind_s


def _splits_a_unit(units_at: Int) -> NDArray[np.bool_]:
    """Return which blocks hold some stops of a unit and not all of them."""
    num = len(units_at)
    stop = np.arange(num)
    lowest, highest = np.full(units_at.max() + 1, num), np.full(units_at.max() + 1, -1)
    np.minimum.at(lowest, units_at, stop)
    np.maximum.at(highest, units_at, stop)
    row, column = stop[:, None], stop[None, :]
    first = np.where(column >= row, lowest[units_at][None, :], num)
    last = np.where(column >= row, highest[units_at][None, :], -1)
    first = np.minimum.accumulate(first, axis=1)
    last = np.maximum.accumulate(last, axis=1)
    return np.asarray((first < row) | (last > column))


def _entering(world: _World, num: int, row: Int, column: Int, first: Int) -> Float:
    """Return the time of values from before each block that it is known to read."""
    makers, readers, values = world.edges
    makers, readers = world.unit[makers], world.unit[readers]
    border = first[makers]  # what has the maker behind it may hold it, what starts behind here not
    use = (row[readers] > border) & (makers != readers)
    values, border = values[use], border[use]
    rows, columns = row[readers[use]], column[readers[use]]
    # A block reads a value if it holds any of the readers: a staircase in the grid, as rectangles.
    order = np.lexsort((columns, -rows, values))
    values, border, rows, columns = values[order], border[order], rows[order], columns[order]
    starts = np.diff(values, prepend=-1) != 0
    group = np.cumsum(starts)
    columns = np.minimum.accumulate(columns - group * (num + 2)) + group * (num + 2)
    is_last = np.append(starts[1:], True)[: len(starts)]
    below = np.where(is_last, border, np.maximum(np.append(rows[1:], 0)[: len(rows)], border))
    grid = np.zeros((num + 1, num + 1))
    np.add.at(grid, (rows, columns), world.cross_s[values])
    np.add.at(grid, (below, columns), -world.cross_s[values])
    return _spread(grid)[:num, :num]


def _leaving(world: _World, num: int, row: Int, column: Int, last: Int) -> Float:
    """Return the time of values that each block is known to make for what is behind it."""
    makers, readers, values = world.edges
    makers, readers = world.unit[makers], world.unit[readers]
    until = np.full(len(world.cross_s), -1)
    np.maximum.at(until, values, np.where(makers != readers, last[readers], -1))
    _, at = np.unique(values, return_index=True)
    makers, values = makers[at], values[at]
    until = until[values]
    use = (row[makers] >= 0) & (column[makers] < until)
    makers, values, until = makers[use], values[use], until[use]
    grid = np.zeros((num + 1, num + 1))
    np.add.at(grid, (row[makers], column[makers]), world.cross_s[values])
    np.add.at(grid, (row[makers], until), -world.cross_s[values])
    return _spread(grid)[:num, :num]


def _gaps(world: _World, chain: Int, at_stop: Int, num: int) -> tuple[Float, Float]:
    """Return the least crossing between each stop and the next, and the time of what lies there."""
    at_chain = np.full(len(world.unit), -2)
    at_chain[chain] = np.arange(len(chain))
    makers, readers, values = world.edges
    follows = at_chain[readers] == at_chain[makers] + 1
    follows &= at_chain[makers] >= 0
    pair_s = np.zeros(len(chain))
    np.maximum.at(pair_s, at_chain[makers[follows]], world.cross_s[values[follows]])
    gap = np.cumsum(at_stop[chain] >= 0) - 1  # the stop that each op of the chain is at or behind
    gap_s = np.full(num, np.inf)
    np.minimum.at(gap_s, gap, pair_s)
    # Ops that share a unit may be counted where another of them is.
    between = chain[(at_stop[chain] < 0) & (world.unit_ops[world.unit[chain]] == 1)]
    behind_s = np.zeros(num)
    np.add.at(behind_s, gap[at_chain[between]], world.fastest_s[between])
    return gap_s, behind_s


def _held(num: int, row: Int, column: Int, amount: Float) -> Float:
    """Return the sum over what the block from each row to each column holds."""
    grid = np.zeros((num + 1, num + 1))
    np.add.at(grid, (row, column), amount)
    return _spread(grid)[:num, :num]


def _spread(grid: Float) -> Float:
    """Return the sums over rows from each on and columns up to each."""
    return np.asarray(np.cumsum(np.cumsum(grid[::-1], axis=0)[::-1], axis=1))


def _cheapest(
    block_s: Float, block_bytes: Float, host_s: Float, behind_s: Float
) -> tuple[float, int, float]:
    """Return the least time of a way to cut a chain, its number of blocks and their bytes."""
    num = len(host_s)
    best = np.full(num + 1, np.inf)
    best[0] = 0.0
    blocks, held = np.zeros(num + 1, dtype=np.int64), np.zeros(num + 1)
    for end in range(num):
        times = best[: end + 1] + block_s[: end + 1, end]
        start = int(times.argmin())
        if times[start] < best[end] + host_s[end]:
            best[end + 1] = times[start]
            blocks[end + 1] = blocks[start] + 1
            held[end + 1] = held[start] + block_bytes[start, end]
        else:
            best[end + 1] = best[end] + host_s[end]
            blocks[end + 1], held[end + 1] = blocks[end], held[end]
        best[end + 1] += behind_s[end]
    return float(best[num]), int(blocks[num]), float(held[num])
