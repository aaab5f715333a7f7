"""Moves of a search, drawn in compiled code: which ops to send to which device next.

What to move: a single op; a cluster or a branch of the graph (``policies/regions.py``); ops that
hang together on one device, at a border between devices or anywhere; what an op feeds, or is fed
by, up to some distance; or a run of ops in the order of the graph. Where to: often the device of a
neighbour, for most good moves bring together what was apart; otherwise any other. Some moves swap
two devices' ops.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.simulator.compiled import inner, kernel, merged

__all__ = ["Moves", "draw_move", "next_uniform"]

Int = NDArray[np.int32]
Words = NDArray[np.uint64]


class Moves(NamedTuple):
    """What moves there are, and room to draw one. Compressed lists end with a last offset."""

    leaves: Int
    node_start: Int
    node_end: Int
    """Clusters: node ``i`` holds ``leaves[node_start[i]:node_end[i]]``; by ascending size."""
    branch_offsets: Int
    branch_ops: Int
    near_offsets: Int
    near: Int
    """Ops that feed or read each op."""
    before_offsets: Int
    before: Int
    after_offsets: Int
    after: Int
    edges: Int
    """Producer and consumer of each edge in turn."""
    unit: Int
    unit_offsets: Int
    unit_ops: Int
    """Co-located ops; a unit of one is an op that is free."""
    allowed: NDArray[np.bool_]
    """Shape ``(num_ops * num_devices,)``: where each op may go."""
    num_devices: int
    thresholds: NDArray[np.float64]
    """Cumulative chances of the kinds of moves."""
    swap_chance: float
    rng: Words
    """Shape ``(1,)``: state of the generator; not 0."""
    ops: Int
    devices: Int
    """Shape ``(num_ops,)``: the move drawn last."""
    hint: Int
    """Scratch, shape ``(1,)``: the device to move to, or -1 for any."""
    mark: Int
    """Scratch, shape ``(num_ops,)``: 0, or 1 for ops that are in the move."""


@merged
def next_uniform(rng: Words) -> float:
    """Return a number between 0 and 1: xorshift64 (Marsaglia, 2003)."""
    state = rng[0]
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    rng[0] = state
    return float(np.int64(state >> np.uint64(11))) * 2.0**-53


@merged
def _below(limit: int, rng: Words) -> int:
    return int(next_uniform(rng) * limit)


@merged
def _grow(
    start: int,
    placement: Int,
    limit: int,
    same_device: bool,
    offsets: Int,
    near: Int,
    ops: Int,
    mark: Int,
) -> int:
    """List ``start`` and up to ``limit`` ops around it, the nearest first; return how many."""
    ops[0] = start
    mark[start] = 1
    count = 1
    at = 0
    while at < count and count < limit:
        op = ops[at]
        at += 1
        for slot in range(offsets[op], offsets[op + 1]):
            other = near[slot]
            if mark[other] == 0 and not (same_device and placement[other] != placement[start]):
                mark[other] = 1
                ops[count] = other
                count += 1
                if count >= limit:
                    break
    for slot in range(count):
        mark[ops[slot]] = 0
    return count


@inner
def _list_ops(moves: Moves, placement: Int) -> int:
    """List the ops that a move is about; return how many."""
    rng, ops = moves.rng, moves.ops
    num_ops = len(moves.unit)
    draw = next_uniform(rng)
    size = num_ops ** next_uniform(rng)
    op = _below(num_ops, rng)
    if draw < moves.thresholds[0]:
        ops[0] = op
        return 1
    if draw < moves.thresholds[1]:  # a cluster; all sizes are as likely on a logarithmic scale
        low, high = 0, len(moves.node_start)
        while low < high:
            middle = (low + high) // 2
            if moves.node_end[middle] - moves.node_start[middle] < size:
                low = middle + 1
            else:
                high = middle
        first = low
        high = len(moves.node_start)
        while low < high:
            middle = (low + high) // 2
            if moves.node_end[middle] - moves.node_start[middle] <= 1.5 * size:
                low = middle + 1
            else:
                high = middle
        last = max(low, first + 1)
        node = min(first + _below(last - first, rng), len(moves.node_start) - 1)
        count = 0
        for slot in range(moves.node_start[node], moves.node_end[node]):
            ops[count] = moves.leaves[slot]
            count += 1
        return count
    if draw < moves.thresholds[2] and len(moves.edges) > 0:  # at a border
        for _ in range(16):
            edge = _below(len(moves.edges) // 2, rng)
            side = _below(2, rng)
            op, other = moves.edges[2 * edge + side], moves.edges[2 * edge + 1 - side]
            if placement[op] != placement[other]:
                moves.hint[0] = placement[other]
                break
        if next_uniform(rng) < 0.5:
            limit = int(2.0 ** (4.0 * next_uniform(rng)))
            return int(
                _grow(op, placement, limit, True, moves.near_offsets, moves.near, ops, moves.mark)
            )
        # Ops of the same device behind the border, in the order of the graph.
        step = -1 if side == 0 else 1
        count = 0
        for slot in range(int(size)):
            at = op + step * slot
            if at < 0 or at >= num_ops:
                break
            if placement[at] == placement[op]:
                ops[count] = at
                count += 1
        return count
    if draw < moves.thresholds[3]:  # what hangs together on a device
        return int(_grow(op, placement, 256, True, moves.near_offsets, moves.near, ops, moves.mark))
    if draw < moves.thresholds[4]:  # what an op feeds or is fed by
        limit = min(256, int(size) + 1)
        if next_uniform(rng) < 0.5:
            offsets, near = moves.after_offsets, moves.after
        else:
            offsets, near = moves.before_offsets, moves.before
        return int(_grow(op, placement, limit, False, offsets, near, ops, moves.mark))
    if draw < moves.thresholds[5] or len(moves.branch_offsets) < 2:  # a run of ops
        count = min(int(size), num_ops - op)
        for slot in range(count):
            ops[slot] = op + slot
        return int(count)
    branch = _below(len(moves.branch_offsets) - 1, rng)
    count = 0
    for slot in range(moves.branch_offsets[branch], moves.branch_offsets[branch + 1]):
        ops[count] = moves.branch_ops[slot]
        count += 1
    return count


@merged
def _target(moves: Moves, placement: Int, count: int, source: int) -> int:
    """Return the device to move to: that of a neighbour of a drawn op, or any other."""
    rng = moves.rng
    if moves.hint[0] >= 0:
        return int(moves.hint[0])
    if next_uniform(rng) < 0.5:
        op = moves.ops[_below(count, rng)]
        degree = moves.near_offsets[op + 1] - moves.near_offsets[op]
        if degree > 0:
            other = moves.near[moves.near_offsets[op] + _below(degree, rng)]
            if placement[other] != source:
                return int(placement[other])
    target = _below(moves.num_devices - 1, rng)
    return int(target + 1 if target >= source else target)


@inner
def _draw_swap(moves: Moves, placement: Int) -> int:
    """Draw two units of ops on different devices that change places."""
    num, rng = moves.num_devices, moves.rng
    one = _below(len(moves.unit), rng)
    for _ in range(8):
        other = _below(len(moves.unit), rng)
        if placement[other] != placement[one]:
            break
    here, there = placement[one], placement[other]
    if here == there or not (
        moves.allowed[one * num + there] and moves.allowed[other * num + here]
    ):
        return 0
    count = 0
    for op, device in ((one, there), (other, here)):
        unit = moves.unit[op]
        for member in range(moves.unit_offsets[unit], moves.unit_offsets[unit + 1]):
            moves.ops[count] = moves.unit_ops[member]
            moves.devices[count] = device
            count += 1
    return count


@kernel
def draw_move(moves: Moves, placement: Int) -> int:
    """Draw a move into ``ops`` and ``devices``; return how many ops it moves, 0 for none."""
    ops, devices, mark, rng = moves.ops, moves.devices, moves.mark, moves.rng
    num = moves.num_devices
    if next_uniform(rng) < moves.swap_chance:
        return int(_draw_swap(moves, placement))
    moves.hint[0] = -1
    listed = _list_ops(moves, placement)
    if listed == 0:
        return 0
    source = placement[ops[0]]
    target = _target(moves, placement, listed, source)
    swaps = next_uniform(rng) < 0.1
    # Ops of whole units, each once. A swap sends back what is on the target already.
    for slot in range(listed):
        op = ops[slot]
        mark[moves.unit_ops[moves.unit_offsets[moves.unit[op]]]] = 1
    count = 0
    heads = 0
    for slot in range(listed):
        head = moves.unit_ops[moves.unit_offsets[moves.unit[ops[slot]]]]
        if mark[head] == 1:
            mark[head] = 0
            devices[heads] = head
            heads += 1
    # Out of the way of what follows; from the end, for both places may overlap.
    for slot in range(heads - 1, -1, -1):
        devices[len(devices) - heads + slot] = devices[slot]
    base = len(devices) - heads
    for slot in range(heads):
        head = devices[base + slot]
        to = target
        if placement[head] == target:
            if not swaps:
                continue
            to = source
        if not moves.allowed[head * num + to] or placement[head] == to:
            continue
        unit = moves.unit[head]
        for member in range(moves.unit_offsets[unit], moves.unit_offsets[unit + 1]):
            ops[count] = moves.unit_ops[member]
            mark[ops[count]] = to + 2
            count += 1
    for slot in range(count):
        devices[slot] = mark[ops[slot]] - 2
        mark[ops[slot]] = 0
    return count
