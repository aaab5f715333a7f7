"""Transfers still outstanding and what waits for them: TIC's and TAC's properties, compiled.

The transfers to one device are an R of their own. What an op depends on are those of R that come
before it in the graph, on whatever way: the crossing of a value to another device and of what is
made of it back again does not hide what the value waited for. With M a transfer's time,

- ``left`` of an op is how many of its dependencies are outstanding, ``left_s`` the sum of their M,
- P of a transfer is the time of all ops, here or on other devices, of whose dependencies only it
  is outstanding,
- M+ of a transfer is the least ``left_s`` of the ops that need it and at least one more.

M+ asks few ops. Let g need r and one more. If an op before it needs r and one more as well, its
``left_s`` is no larger, and g may be left out. So g counts only if it reads r itself, or an op
right before it waits for r alone: a list for each transfer that grows by an op's successors when
the op comes to wait for one transfer alone, thus to no more entries than there are edges. Choosing
a transfer walks over the ops that depend on it: for T transfers O(T (T + edges)) in all.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.schedule.transfers import Waits
from dplace.simulator.compiled import inner, kernel

__all__ = ["Outstanding", "make_outstanding", "tac", "take_latest", "tic", "time_targets"]

Int = NDArray[np.int32]
Float = NDArray[np.float64]

WORD = 63
"""Transfers whose dependants are found in one sweep: a bit each, the sign left out."""


class Outstanding(NamedTuple):
    """The state while transfers are chosen."""

    left: Int
    """Shape ``(num_ops,)``, as the next two."""
    left_s: Float
    left_xor: Int
    """All outstanding dependencies' ids by exclusive or: where one is left, its id."""
    alone_s: Float
    """P, shape ``(num_transfers,)``."""
    is_alone: NDArray[np.bool_]
    """Whether an op waits for the transfer alone, whatever time it takes."""
    first: Int
    """Shape ``(num_transfers,)``: the first entry of its list of ops to ask for M+, or -1."""
    entry_op: Int
    entry_next: Int
    before: NDArray[np.int64]
    """Shape ``(num_ops,)``: scratch, a bit for each of some transfers that an op depends on."""
    totals: Int
    """Shape ``(2,)``: entries used, walks made."""
    walk: Int
    """Shape ``(num_ops,)``: the last walk that met the op."""
    met: Int
    """Shape ``(num_ops,)``: the ops of the last walk."""


def make_outstanding(waits: Waits, num_ops: int) -> Outstanding:
    """Return room for ``begin``."""
    num_transfers = len(waits.reader_offsets) - 1
    num_entries = len(waits.reader_ops) + len(waits.next_ops)
    return Outstanding(
        left=np.zeros(num_ops, dtype=np.int32),
        left_s=np.zeros(num_ops),
        left_xor=np.zeros(num_ops, dtype=np.int32),
        alone_s=np.zeros(num_transfers),
        is_alone=np.zeros(num_transfers, dtype=np.bool_),
        first=np.full(num_transfers, -1, dtype=np.int32),
        entry_op=np.zeros(num_entries, dtype=np.int32),
        entry_next=np.zeros(num_entries, dtype=np.int32),
        before=np.zeros(num_ops, dtype=np.int64),
        totals=np.zeros(2, dtype=np.int32),
        walk=np.zeros(num_ops, dtype=np.int32),
        met=np.zeros(num_ops, dtype=np.int32),
    )


@inner
def _list(transfer: int, op: int, state: Outstanding) -> None:
    """Put ``op`` on the list of ``transfer``."""
    entry = state.totals[0]
    state.totals[0] += 1
    state.entry_op[entry] = op
    state.entry_next[entry] = state.first[transfer]
    state.first[transfer] = entry


@inner
def _walk(transfer: int, waits: Waits, state: Outstanding) -> int:
    """Fill ``met`` with the ops that depend on ``transfer`` and return how many they are."""
    walk, met = state.walk, state.met
    state.totals[1] += 1
    number = state.totals[1]
    count = 0
    for slot in range(waits.reader_offsets[transfer], waits.reader_offsets[transfer + 1]):
        op = waits.reader_ops[slot]
        walk[op] = number
        met[count] = op
        count += 1
    done = 0
    while done < count:
        op = met[done]
        done += 1
        for slot in range(waits.next_offsets[op], waits.next_offsets[op + 1]):
            successor = waits.next_ops[slot]
            if walk[successor] != number:
                walk[successor] = number
                met[count] = successor
                count += 1
    return count


@inner
def _wait_for_one(op: int, op_s: Float, waits: Waits, state: Outstanding) -> None:
    """Note that only one transfer is outstanding for ``op``."""
    transfer = state.left_xor[op]
    state.alone_s[transfer] += op_s[op]
    state.is_alone[transfer] = True
    for slot in range(waits.next_offsets[op], waits.next_offsets[op + 1]):
        _list(transfer, waits.next_ops[slot], state)


@inner
def _depend(members: Int, seconds: Float, waits: Waits, state: Outstanding) -> None:
    """Count in every op those of the transfers ``members``, at most ``WORD``, before it."""
    before = state.before
    for op in range(len(before)):
        before[op] = 0
    for bit in range(len(members)):
        transfer = members[bit]
        for slot in range(waits.reader_offsets[transfer], waits.reader_offsets[transfer + 1]):
            before[waits.reader_ops[slot]] |= np.int64(1) << bit
    for op in range(len(before)):
        if before[op] == 0:
            continue
        for slot in range(waits.next_offsets[op], waits.next_offsets[op + 1]):
            before[waits.next_ops[slot]] |= before[op]
        for bit in range(len(members)):
            if (before[op] >> bit) & 1:
                transfer = members[bit]
                state.left[op] += 1
                state.left_s[op] += seconds[transfer]
                state.left_xor[op] ^= transfer


@inner
def _begin(members: Int, seconds: Float, op_s: Float, waits: Waits, state: Outstanding) -> None:
    """Let the transfers ``members``, all to one target, be outstanding and no others."""
    state.totals[0] = 0
    for op in range(len(op_s)):
        state.left[op] = 0
        state.left_s[op] = 0.0
        state.left_xor[op] = 0
    for transfer in members:
        state.alone_s[transfer] = 0.0
        state.is_alone[transfer] = False
        state.first[transfer] = -1
        for slot in range(waits.reader_offsets[transfer], waits.reader_offsets[transfer + 1]):
            _list(transfer, waits.reader_ops[slot], state)
    for start in range(0, len(members), WORD):
        _depend(members[start : start + WORD], seconds, waits, state)
    for op in range(len(op_s)):
        if state.left[op] == 1:
            _wait_for_one(op, op_s, waits, state)


@inner
def _arrive(transfer: int, second: float, op_s: Float, waits: Waits, state: Outstanding) -> None:
    """Take ``transfer`` out of those outstanding."""
    for index in range(_walk(transfer, waits, state)):
        op = state.met[index]
        state.left[op] -= 1
        state.left_s[op] -= second
        state.left_xor[op] ^= transfer
        if state.left[op] == 1:
            _wait_for_one(op, op_s, waits, state)


@inner
def _least_need(transfer: int, state: Outstanding) -> float:
    """Return M+; ``inf`` where no op needs the transfer and one more."""
    least = np.inf
    before = -1
    entry = state.first[transfer]
    while entry >= 0:
        following = state.entry_next[entry]
        op = state.entry_op[entry]
        if state.left[op] > 1:
            least = min(least, state.left_s[op])
            before = entry
        elif before >= 0:
            state.entry_next[before] = following
        else:
            state.first[transfer] = following
        entry = following
    return least


@kernel
def tic(
    bounds: Int,
    members: Int,
    seconds: Float,
    op_s: Float,
    waits: Waits,
    state: Outstanding,
    needs: Float,
) -> None:
    """Fill ``needs``, shape ``(num_transfers,)``, with each transfer's M+, all outstanding.

    The other arguments are those of ``tac``; ``members`` stays as it is.
    """
    for target in range(len(bounds) - 1):
        group = members[bounds[target] : bounds[target + 1]]
        _begin(group, seconds, op_s, waits, state)
        for transfer in group:
            needs[transfer] = _least_need(transfer, state)


@kernel
def tac(
    bounds: Int, members: Int, seconds: Float, op_s: Float, waits: Waits, state: Outstanding
) -> None:
    """Order the transfers of each target as TAC does.

    Args:
        bounds: Where each target's transfers begin in ``members``, and where the last end.
        members: Transfers by target; those of each are put in order.
        seconds: M, shape ``(num_transfers,)``.
        op_s: Shape ``(num_ops,)``: time of each op.
        waits: The graph.
        state: From ``make_outstanding``.
    """
    for target in range(len(bounds) - 1):
        group = members[bounds[target] : bounds[target + 1]]
        _begin(group, seconds, op_s, waits, state)
        for place in range(len(group)):
            best = place + _choose(group[place:], seconds, state)
            chosen = group[best]
            group[best] = group[place]
            group[place] = chosen
            _arrive(chosen, seconds[chosen], op_s, waits, state)


@inner
def _choose(group: Int, seconds: Float, state: Outstanding) -> int:
    """Return the place in ``group`` of the transfer that TAC takes next.

    Transfer a goes before b where ``min(P(b), M(a)) < min(P(a), M(b))``: Johnson's rule, of which
    strict precedence is transitive and ties are not. So of all transfers that no other goes before
    that of the least M+ is taken, then that of the lowest id, and no order of comparisons matters.
    b goes before a if ``P(a) < M(a)`` and ``P(a) < P(b)``, or if ``M(b) < P(b)`` and ``M(b) <
    M(a)``: the largest P, and the least M that is below its P, tell whether any b does.
    """
    largest_p = 0.0
    least_m = np.inf
    for transfer in group:
        p, m = state.alone_s[transfer], seconds[transfer]
        largest_p = max(largest_p, p)
        if m < p:
            least_m = min(least_m, m)
    best = -1
    best_need = -1.0  # not asked for while there is one candidate
    for slot in range(len(group)):
        transfer = group[slot]
        p, m = state.alone_s[transfer], seconds[transfer]
        if (p < m and p < largest_p) or least_m < m:
            continue
        if best < 0:
            best = slot
            continue
        if best_need < 0.0:
            best_need = _least_need(group[best], state)
        need = _least_need(transfer, state)
        if need < best_need or (need == best_need and transfer < group[best]):
            best = slot
            best_need = need
    return max(best, 0)


@kernel
def take_latest(writers: Int, readers: Int, latest: Int) -> None:
    """Raise ``latest`` of each op to that of every op before it.

    Args:
        writers: Shape ``(num_edges,)``, in rising order: ops that others read from.
        readers: Who reads from them.
        latest: Shape ``(num_ops,)``.
    """
    for edge in range(len(writers)):
        latest[readers[edge]] = max(latest[readers[edge]], latest[writers[edge]])


@kernel
def time_targets(
    bounds: Int, transfer_s: Float, unlocked_s: Float, rank: Float, done: Float, tail: Float
) -> None:
    """Fill in for each transfer when it ends, and the time from then to the end of the graph.

    All arrays but ``bounds`` have shape ``(num_transfers,)`` and are in the order of each target.

    Args:
        bounds: Where each target's transfers begin, and where the last end.
        transfer_s: Time of each transfer; one goes to a target at a time.
        unlocked_s: Time of the ops that can run once the transfer has ended.
        rank: The largest upward rank of these ops.
        done: Filled.
        tail: Filled; ops run in the order of the transfers that they wait for.
    """
    for target in range(len(bounds) - 1):
        after = 0.0
        for place in range(bounds[target + 1] - 1, bounds[target] - 1, -1):
            after = max(rank[place], unlocked_s[place] + after)
            tail[place] = after
        before = 0.0
        for place in range(bounds[target], bounds[target + 1]):
            before += transfer_s[place]
            done[place] = before
